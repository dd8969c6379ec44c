"""The edges of one node in the server tree: what is said on them waits here, and what comes on them goes to the
replica.

Knows: where each effect of the machine goes.  Decides nothing; the store does not depend on it.

Invariant: nothing is said on an edge that is over; the replica is told of each edge's end, unless it ended it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import trio

from distkv.core.edges import (
    TAKEN_ITEMS,
    Close,
    Dial,
    EdgeAsked,
    EdgeEnded,
    EdgeTaken,
    EdgeTold,
    NodeMeasured,
    Say,
)
from distkv.core.ready import Input
from distkv.core.replica import Replica
from distkv.engine.faults import Faults
from distkv.engine.traffic import LinkTraffic
from distkv.errors import PeerError, RequestError
from distkv.model.event import NodeName
from distkv.transport.base import EdgeHooks
from distkv.wire.edges import EdgeItem, ServiceFrames
from distkv.wire.request import Attach

MEASURE_S: Final = 1.0
"""How often the replica is told how long the ways are."""

class Attacher(Protocol):
    """How an edge reaches the parent: `transport.pull.PeerCaller`, or a fake."""

    async def attach(self, addr: str, request: Attach, silent_s: float, hooks: EdgeHooks) -> None:
        """Ask the node at `addr` to be the parent; returns never, raises at the end.

        Raises:
            DistkvError: it refuses, cannot be reached, or fell silent.
        """


class EdgesNode(Protocol):
    """What the edges need of their node."""

    replica: Replica
    counters: Counter[str]
    faults: Faults
    silent_s: float
    clients: int

    def step(self, what: Input) -> object:
        """Have the replica take an input."""

    def traffic(self, name: NodeName) -> LinkTraffic:
        """What went between the two."""


class Edge:
    """What is to be said on one edge; the replica bounds it. Frames of services come behind all else, and services take
    turns. What comes while its task has nothing to do leaves without it, if that is possible: to wake it up costs more
    than to write."""

    def __init__(self, taken: Callable[[], object], scope: trio.CancelScope | None = None) -> None:
        """`taken` is called when `TAKEN_ITEMS` have left, besides frames of services. `scope` has the task with the
        connection, at the child's end; at the parent's end there is none."""
        self.push: Callable[[EdgeItem], bool] = _never
        """Says something at once, whole, or does nothing and returns False."""
        self._taken: Final = taken
        self._scope: Final = scope
        self._items: Final = deque[EdgeItem]()
        self._frames: Final = dict[str, deque[ServiceFrames]]()
        """By service; the first one is next."""
        self._lot: Final = trio.lowlevel.ParkingLot()
        self._is_over = False
        self._is_at_rest = False
        """Whether its task waits for something to say."""
        self._taken_count = 0

    def say(self, item: EdgeItem) -> None:
        """To be said behind all of its kind that waits."""
        if self._is_at_rest and not self._items and not self._frames and self._say_now(item):
            return
        if isinstance(item, ServiceFrames):
            self._frames.setdefault(item.service, deque()).append(item)
        else:
            self._items.append(item)
        self._lot.unpark()

    async def next(self) -> EdgeItem:
        """What is to be said next. If it is cancelled, nothing is taken.

        Raises:
            trio.EndOfChannel: nothing any more.
        """
        await trio.lowlevel.checkpoint()
        while not self._items and not self._frames:
            if self._is_over:
                raise trio.EndOfChannel
            self._is_at_rest = True
            try:
                await self._lot.park()
            finally:
                self._is_at_rest = False
        if not self._items:
            service = next(iter(self._frames))
            frames = self._frames.pop(service)
            found = frames.popleft()
            if frames:
                self._frames[service] = frames
            return found
        item = self._items.popleft()
        self._taken_count += 1
        if self._taken_count % TAKEN_ITEMS == 0:
            self._taken()
        return item

    def end(self) -> None:
        """At the parent's end, what was said before may still leave."""
        if self._scope is None:
            self._is_over = True
            self._lot.unpark()
        else:
            self._scope.cancel()

    def _say_now(self, item: EdgeItem) -> bool:
        if isinstance(item, ServiceFrames):
            return self.push(item)
        is_counted = (self._taken_count + 1) % TAKEN_ITEMS == 0  # what follows is no part of the step that says this
        if is_counted or not self.push(item):
            return False
        self._taken_count += 1
        return True


def _never(_: EdgeItem) -> bool:
    return False


class TreeEdges:
    """Those of one node; as an `EdgeOutlets` they carry out what its machine wants."""

    def __init__(self, node: EdgesNode) -> None:
        self.attacher: Attacher | None = None
        """None: no parent is reached."""
        self._node: Final = node
        self._edges: Final = dict[int, Edge]()
        self._asked = 0
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Reach parents, and measure ways, until cancelled."""
        node = self._node
        async with trio.open_nursery() as self._nursery:
            while True:
                await trio.sleep(MEASURE_S)
                parents = node.replica.following.parents
                rtts = {name: node.traffic(name).rtt_ms for name, parent in parents.items() if parent.is_up}
                found = {name: rtt_ms for name, rtt_ms in rtts.items() if rtt_ms is not None}
                node.step(NodeMeasured(node.clients, found))

    # -- the parent's end of an edge, and what comes on any

    def asked(self, name: NodeName, life: int) -> tuple[int, Edge]:
        """A node asks whether this one would be its parent."""
        self._asked += 1
        number = self._asked
        edge = self._edges[number] = Edge(partial(self._took, number))
        self._node.step(EdgeAsked(number, name, life))
        return number, edge

    def told(self, number: int, item: EdgeItem) -> bool:
        """The other end of an edge said something; whether there is such an edge."""
        if number not in self._edges:
            return False
        self._node.step(EdgeTold(number, item))
        return True

    def ended(self, number: int) -> None:
        """The other end of an edge is gone."""
        edge = self._edges.pop(number, None)
        if edge is not None:
            edge.end()
            self._node.step(EdgeEnded(number))

    # -- what the machine wants

    def dial(self, what: Dial) -> None:
        """Ask a node to be the parent."""
        if self._nursery is not None and self.attacher is not None:
            scope = trio.CancelScope()
            edge = self._edges[what.edge] = Edge(partial(self._took, what.edge), scope)
            self._nursery.start_soon(self._attach, self.attacher, what, edge, scope)

    def say(self, what: Say) -> None:
        """Tell the other end of an edge, if it is open."""
        edge = self._edges.get(what.edge)
        if edge is not None:
            edge.say(what.item)

    def close(self, what: Close) -> None:
        """End an edge, if it is open."""
        edge = self._edges.pop(what.edge, None)
        if edge is not None:
            edge.end()

    # -- inside

    def _took(self, number: int) -> None:
        if number in self._edges:
            self._node.step(EdgeTaken(number, TAKEN_ITEMS))

    async def _attach(self, attacher: Attacher, dial: Dial, edge: Edge, scope: trio.CancelScope) -> None:
        """Have an edge to a node that is asked to be the parent, until it ends."""
        node, number = self._node, dial.edge
        request = Attach(1, node.replica.name, node.replica.life or 0, node.silent_s / 3)
        with scope:
            try:
                hooks = EdgeHooks(partial(self.told, number), edge.next, partial(setattr, edge, "push"))
                await attacher.attach(dial.addr, request, node.silent_s, hooks)
            except (PeerError, RequestError):
                node.counters["edges_failed"] += 1
            except Exception as error:
                node.faults.contain(error, "an edge of the tree")
        self.ended(number)
