"""Requests to other nodes over TCP: exchanges, pulls, downloads, follows; and what services tell them.

Knows: which connections there are, and what of an answer is handed to whom.  Does not know what is asked or why, nor
how requests share a connection (`peer_line`).

Invariant: there is one connection for each address at the most, and maybe one that the node there lends, which goes
first (`loans`); it is kept as long as it is used, and a while longer. A
call ends within bounded time of the last that came for it, and every failure is one `PeerError` or the error with which
the peer refused. What is asked is dialled for at once, and once: when to ask again, and how far apart those do who lost
the same peer at the same moment, is drawn where it is decided (`core.following`, `core.recovery`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn, TypeAlias

import attrs
import trio

from distkv.config import Limits
from distkv.errors import PeerError, RequestError
from distkv.model.event import NodeName, Tick
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.transport.base import EdgeHooks, FollowHooks
from distkv.transport.loans import Loans
from distkv.transport.peer_line import CONNECT_S, IDLE_S, Connect, PeerCall, PeerLine, connected, receive
from distkv.transport.tells import Tells
from distkv.wire.codec import Payload, read_payload
from distkv.wire.edges import EdgeItem, read_edge
from distkv.wire.fields import Fields, read_ranges
from distkv.wire.following import read_item
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import PingRequest, Stop
from distkv.wire.replies import Hello, decode_reply, read_hello
from distkv.wire.request import Attach, EventsWait, Follow, HeldRequest, NodeTell, PeerRequest, Request, TreeSay

MakeRequest: TypeAlias = Callable[[int], Request]
"""Makes a request of the number that it gets."""

ANSWER_BYTES_MAX: Final = 64 << 20
"""The largest single frame of an answer: the ledger of a snapshot."""
LIMITS: Final = Limits()


async def greeting(addr: str, connect: Connect = trio.open_tcp_stream) -> Hello:
    """What the node at `addr` (HOST:PORT) says of itself when somebody connects.

    Raises:
        PeerError: nobody answers there within some seconds, or it is no node.
    """
    reader = FrameReader(ANSWER_BYTES_MAX)
    async with connected(addr, connect) as stream:
        with trio.fail_after(CONNECT_S):
            while data := await receive(stream):
                reader.feed(data)
                for frame in reader:
                    return read_hello(decode_reply(frame))
    raise PeerError(f"{addr}: closed the connection before it said who it is")


class PeerCaller:
    """Keeps one connection for each node that is asked something."""

    def __init__(
        self,
        *,
        connect: Connect = trio.open_tcp_stream,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        limits: Limits = LIMITS,
    ) -> None:
        self._connect: Final = connect
        self._answer_bytes_max: Final = answer_bytes_max
        self._lines: Final = dict[str, PeerLine]()
        self.loans: Final = Loans(self._dial, connect, answer_bytes_max)
        """Connections that other nodes lend to this one, or this one to them."""
        self._tells: Final = Tells(self._line, limits)
        self._nursery: trio.Nursery | None = None
        self.contain: Callable[[Exception, str], object] = _raise
        """Given what nobody foresaw on a connection, which is over; it raises what the node must end of."""

    def begin(self, nursery: trio.Nursery) -> None:
        """Its connections live in this nursery."""
        self._nursery = nursery

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:
        """Send `request`, whose seq does not matter, to `addr` (HOST:PORT) and hand every item of the answer to `take`.

        Raises:
            RequestError: the peer refused; it is the peer's error.
            PeerError: it cannot be reached, fell silent, or does not speak the protocol.
        """

        async def take_fields(fields: Fields) -> None:
            await take(read_payload(fields))

        await self._call(addr, lambda seq: attrs.evolve(request, seq=seq), PeerCall(take_fields))

    async def greeting(self, addr: str) -> Hello:
        """What the node at `addr` says of itself, on a connection of its own. Raises as `pull.greeting`."""
        return await greeting(addr, self._connect)

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait until the node at `addr` durably holds later events than these; none after some seconds.

        Raises:
            RequestError, PeerError: as `call`.
        """
        found: TickRanges = {}

        async def take_fields(fields: Fields) -> None:
            found.update(read_ranges(fields.get("held"), "held"))

        await self._call(addr, lambda seq: EventsWait(seq, up_to(nodes), IDLE_S / 2), PeerCall(take_fields))
        return found

    async def follow(self, addr: str, request: Follow, silent_s: float, hooks: FollowHooks) -> None:
        """Follow the node at `addr` until it ends. The node is told what is held, each time that there is something to
        tell, and all the time that it is heard.

        Raises:
            RequestError: it refuses, or ends it.
            PeerError: it cannot be reached, was silent for `silent_s`, or does not speak the protocol.
        """

        async def take_fields(fields: Fields) -> None:
            await hooks.take(read_item(fields))

        async def to_say() -> MakeRequest:
            ticks = await hooks.held()
            return lambda seq: HeldRequest(seq, call.seq, ticks, is_quiet=True)

        call = PeerCall(take_fields, silent_s, hooks.began, hooks.rested, lasts=True, node=hooks.node)
        line = self._line(addr)
        hooks.speaks(partial(_say_held, line, call))
        await self._converse(line, request, call, to_say, hooks.measured)

    async def attach(self, addr: str, request: Attach, silent_s: float, hooks: EdgeHooks) -> None:
        """Ask the node at `addr` to be the parent in the server tree; the edge lasts until it ends.

        Raises:
            RequestError, PeerError: as `follow`.
        """

        async def take_fields(fields: Fields) -> None:
            hooks.take(read_edge(fields))

        async def to_say() -> MakeRequest:
            item = await hooks.to_say()
            return lambda seq: TreeSay(seq, call.seq, item, is_quiet=True)

        call, line = PeerCall(take_fields, silent_s, lasts=True), self._line(addr)
        hooks.speaks(partial(_say_edge, line, call))
        await self._converse(line, request, call, to_say, lambda _: None)

    def tell(self, addr: str, request: NodeTell, dropped: Callable[[int], object]) -> None:
        """Tell the node at `addr` something; never waits. `dropped` is called with how many of its bodies are not sent,
        now or later. The connection is kept for `LINGER_S` after the last that was told."""
        if self._nursery is None:
            raise RuntimeError("a peer is told something before the caller has begun")
        self._tells.tell(addr, request, dropped, self._nursery)

    # -- inside

    async def _converse(
        self,
        line: PeerLine,
        request: Follow | Attach,
        call: PeerCall,
        to_say: Callable[[], Awaitable[MakeRequest]],
        measured: Callable[[float], None],
    ) -> None:
        """A long result, and what is said meanwhile by who asked."""
        try:
            async with line.asking(lambda seq: attrs.evolve(request, seq=seq), call), trio.open_nursery() as nursery:
                nursery.start_soon(_speak, line, request.silent_s, to_say, measured)
                with suppress(RequestError, PeerError):  # it is raised below, behind the nursery
                    await call.wait()
                nursery.cancel_scope.cancel()
        finally:
            if line.is_answering(call) and self._nursery is not None:
                self._nursery.start_soon(line.say, lambda seq: Stop(seq, call.seq))
        raise call.failure or PeerError(f"{line.addr}: ended what was asked")

    async def _call(self, addr: str, request: Callable[[int], Request], call: PeerCall) -> None:
        async with self._line(addr).asking(request, call):
            await call.wait()

    def _line(self, addr: str) -> PeerLine:
        """The connection to the node at an address: one that it lends, or else our own."""
        return self.loans.line(addr) or self._dial(addr)

    def _dial(self, addr: str) -> PeerLine:
        """Our own connection to an address, maybe one that is being opened."""
        line = self._lines.get(addr)
        if line is None or line.is_over:
            if self._nursery is None:
                raise RuntimeError("a peer is asked before the caller has begun")
            line = self._lines[addr] = PeerLine(addr, self._connect, self._answer_bytes_max)
            self._nursery.start_soon(self._keep, line)
        return line

    async def _keep(self, line: PeerLine) -> None:
        try:
            await line.run()
        except Exception as error:
            self.contain(error, "what a node answered")
        finally:
            if self._lines.get(line.addr) is line:
                del self._lines[line.addr]


def _raise(error: Exception, _: str) -> NoReturn:
    raise error


async def _speak(
    line: PeerLine,
    every_s: float,
    to_say: Callable[[], Awaitable[MakeRequest]],
    measured: Callable[[float], None],
) -> None:
    """Say what there is to say; and, if there is nothing, that we are here."""
    while True:
        request: MakeRequest | None = None
        with trio.move_on_after(every_s):
            request = await to_say()
        if request is None:
            await line.say(PingRequest, PeerCall(partial(_measure, measured, trio.current_time())))
        else:
            with trio.CancelScope(shield=True):  # half a request would break the connection, and all on it
                await line.say(request)


def _say_held(line: PeerLine, call: PeerCall, ticks: Mapping[NodeName, Tick]) -> bool:
    return line.say_nowait(lambda seq: HeldRequest(seq, call.seq, dict(ticks), is_quiet=True))


def _say_edge(line: PeerLine, call: PeerCall, item: EdgeItem) -> bool:
    return line.say_nowait(lambda seq: TreeSay(seq, call.seq, item, is_quiet=True))


async def _measure(measured: Callable[[float], None], said_at: float, _: Fields) -> None:
    measured(trio.current_time() - said_at)
