"""The parent's ends of edges of the server tree: `attach`, and what a child says on it.

Knows: which edges a connection has, and how one waits for the machine, the stream and silence.  Does not know who may
be a child (`core.server_tree`).

Invariant: an edge ends on both sides when the child stops it, falls silent, or loses the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from distkv.engine.driver import Driver
from distkv.engine.tree_edges import Edge, TreeEdges
from distkv.errors import BusyError
from distkv.services.follow import SIGNS
from distkv.services.telling import SendNowait
from distkv.wire.edges import EdgeItem, SignOfLife, encode_edge
from distkv.wire.replies import encode_end, encode_start
from distkv.wire.request import Attach

EDGES_MAX: Final = 16
"""Of one connection: a node asks once, and again before the end of the last one may have been noticed."""

SendAll: TypeAlias = Callable[[bytes], Awaitable[None]]


class ConnectionEdges:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: SendAll, send_nowait: SendNowait, heard: Callable[[], int]) -> None:
        """`heard` gives the last `seq` that came on the connection."""
        self._send_nowait: Final = send_nowait
        self._driver: Final = driver
        self._send: Final = send
        self._heard: Final = heard
        self._open: Final = dict[int, ParentEnd]()

    def begin(self, request: Attach) -> ParentEnd:
        """A node asks; what is returned is to be `run`.

        Raises:
            BusyError: this connection has too many already.
        """
        if len(self._open) >= EDGES_MAX:
            raise BusyError(f"this connection has {len(self._open)} edges already: stop one")
        tree_edges = self._driver.tree_edges
        found = self._open[request.seq] = ParentEnd(
            tree_edges, request, self._send, self._send_nowait, self._heard, self._forget
        )
        return found

    def stop(self, seq: int) -> bool:
        """End the edge that this request began; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.stop()
        return found is not None

    def told(self, seq: int, item: EdgeItem) -> bool:
        """The child says something; whether there is such an edge."""
        found = self._open.get(seq)
        return found is not None and found.told(item)

    def _forget(self, seq: int) -> None:
        del self._open[seq]


class ParentEnd:
    """One edge."""

    def __init__(
        self,
        tree_edges: TreeEdges,
        request: Attach,
        send: SendAll,
        send_nowait: SendNowait,
        heard: Callable[[], int],
        ended: Callable[[int], None],
    ) -> None:
        self._tree_edges: Final = tree_edges
        self._request: Final = request
        self._send: Final = send
        self._send_nowait: Final = send_nowait
        self._heard: Final = heard
        self._ended: Final = ended
        self._number: int | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Let it come to its end. The tree hears of it at once: it may have something to say before `run` goes on."""
        self._is_stopped = True
        if self._number is not None:
            self._tree_edges.ended(self._number)

    def told(self, item: EdgeItem) -> bool:
        """The child says something; whether the edge has begun, and is not over."""
        return self._number is not None and self._tree_edges.told(self._number, item)

    async def run(self) -> None:
        """Until it is stopped or cancelled, or the machine closes it."""
        seq = self._request.seq
        try:
            await self._send(encode_start(seq))
            if not self._is_stopped:
                await self._be_edge(self._tree_edges)
            await self._send(encode_end(seq))
        finally:
            self._ended(seq)

    async def _be_edge(self, tree_edges: TreeEdges) -> None:
        number, edge = tree_edges.asked(self._request.node, self._request.life)
        self._number = number
        edge.push = lambda item: self._send_nowait(encode_edge(item, self._request.seq))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._see_child, tree_edges, number)
                await self._tell(edge)
                nursery.cancel_scope.cancel()
        finally:
            tree_edges.ended(number)

    async def _tell(self, edge: Edge) -> None:
        """All that is to be said, up to the end of the edge."""
        while True:
            item: EdgeItem = SignOfLife()
            with trio.move_on_after(self._request.silent_s):
                try:
                    item = await edge.next()
                except trio.EndOfChannel:
                    return
            await self._send(encode_edge(item, self._request.seq))

    async def _see_child(self, tree_edges: TreeEdges, number: int) -> None:
        """A child of which nothing is heard is gone."""
        heard = -1
        while True:
            await trio.sleep(SIGNS * self._request.silent_s)
            before, heard = heard, self._heard()
            if heard == before:
                tree_edges.ended(number)
                return
