"""The server tree of one node at work: the clock and connections on one side, the machine on the other.

Knows: where each effect of the machine goes, and when it wants to be woken.  Decides nothing; the store does not depend
on it.

Invariant: what is to be said on an edge waits in a bounded queue; an edge whose other end does not take it in is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, assert_never

import attrs
import trio

from distkv.config import TreeConfig
from distkv.core.ready import Rng
from distkv.core.replica import Replica
from distkv.core.server_tree.effects import Close, Deliver, Dial, Say
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import TreePeer
from distkv.core.server_tree.settings import TreeSettings
from distkv.engine.traffic import LinkTraffic
from distkv.errors import PeerError, RequestError
from distkv.model.event import NodeName
from distkv.transport.base import EdgeHooks
from distkv.wire.edges import EdgeItem, TreeFrame
from distkv.wire.request import Attach

QUEUE_ITEMS: Final = 256
"""So many items may wait on an edge: frames wait for acknowledgements before, so there are few others."""
LOOK_S: Final = 1.0
"""How often it is seen who is alive."""

Listener: TypeAlias = Callable[[TreeFrame], None]


class Attacher(Protocol):
    """How an edge reaches the parent: `transport.pull.PeerCaller`, or a fake."""

    async def attach(self, addr: str, request: Attach, silent_s: float, hooks: EdgeHooks) -> None:
        """Ask the node at `addr` to be the parent; returns never, raises at the end.

        Raises:
            DistkvError: it refuses, cannot be reached, or fell silent.
        """


class Edge:
    """What is to be said on one edge. Nothing is, when it has ended."""

    def __init__(self, scope: trio.CancelScope | None = None) -> None:
        """`scope` has the task with the connection, at the child's end; at the parent's end there is none."""
        self._scope: Final = scope
        self._push, self._pull = trio.open_memory_channel[EdgeItem](QUEUE_ITEMS)

    def say(self, item: EdgeItem) -> bool:
        """Whether there was room.

        Raises:
            trio.ClosedResourceError: it has ended; `TreeEdges` forgets an edge before it ends it.
        """
        try:
            self._push.send_nowait(item)
        except trio.WouldBlock:
            return False
        return True

    async def next(self) -> EdgeItem:
        """What is to be said next.

        Raises:
            trio.EndOfChannel: nothing any more.
        """
        return await self._pull.receive()

    def end(self) -> None:
        """At the parent's end, what was said before may still leave."""
        if self._scope is None:
            self._push.close()
        else:
            self._scope.cancel()


class TreeEdges:
    """The edges of one node."""

    def __init__(
        self,
        replica: Replica,
        attacher: Attacher,
        config: TreeConfig,
        silent_s: float,
        rng: Rng,
        traffic: Callable[[NodeName], LinkTraffic],
        counters: Counter[str],
        load: Callable[[], int],
    ) -> None:
        """`load` says how many clients are connected: every node is told."""
        self._replica: Final = replica
        self._attacher: Final = attacher
        self._silent_s: Final = silent_s
        self._traffic: Final = traffic
        self._counters: Final = counters
        self._load: Final = load
        self.listeners: Final = dict[str, Listener]()
        """Who takes the frames of each service."""
        settings = TreeSettings(replica.name, replica.settings.addr, config.fanout, round(config.announce_s * 1000))
        self.tree: Final = ServerTree(settings, rng, lambda name: name in replica.registry.nodes)
        self._edges: Final = dict[int, Edge]()
        self._nursery: trio.Nursery | None = None
        self._changed = trio.Event()

    # -- work

    async def run(self, wait_ready: Callable[[], Awaitable[None]]) -> None:
        """Take part in the tree as soon as clients are served, until cancelled."""
        await wait_ready()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._see()
            self.tree.begin(_now_ms(), round(self._replica.settings.start.time * 1000))
            while True:
                self._see()
                self.tree.woken(_now_ms())
                self._carry_out()
                wake_ms = self.tree.wake_ms()
                due = trio.current_time() + LOOK_S
                self._changed = trio.Event()
                with trio.move_on_at(due if wake_ms is None else min(due, wake_ms / 1000)):
                    await self._changed.wait()
                await trio.lowlevel.checkpoint()

    def say(self, service: str, body: bytes) -> None:
        """Say something to all nodes: it reaches each one that is connected once, in the order of the calls.

        Raises:
            ValueError: it is too large (`wire.edges.FRAME_BYTES_MAX`).
        """
        self.tree.give(service, body, _now_ms())
        self._carry_out()

    def apart(self) -> list[NodeName]:
        """The nodes that seem alive, and of which nothing comes by the tree."""
        return self.tree.apart()

    def counts(self) -> dict[str, int]:
        """What happened since the start."""
        broadcast = self.tree.broadcast
        counts = {**attrs.asdict(self.tree.counts), **attrs.asdict(broadcast.flood.counts)}
        return {**counts, "bad_announcements": broadcast.voices.bad_count}

    # -- the parent's end of an edge

    def asked(self, name: NodeName) -> tuple[int, Edge]:
        """A node asks whether this one would be its parent."""
        number, edge = self.tree.asked(name, _now_ms()), Edge()
        self._edges[number] = edge
        self._carry_out()
        return number, edge

    def told(self, number: int, item: EdgeItem) -> bool:
        """The other end of an edge said something; whether there is such an edge."""
        if number not in self._edges:
            return False
        self.tree.told(number, item, _now_ms())
        self._carry_out()
        return True

    def ended(self, number: int) -> None:
        """The other end of an edge is gone."""
        edge = self._edges.pop(number, None)
        if edge is not None:
            edge.end()
            self.tree.ended(number, _now_ms())
            self._carry_out()

    # -- inside

    def _see(self) -> None:
        """Who seems alive, and how far away each one is."""
        replica, now_ms = self._replica, _now_ms()
        registered, parents = replica.registry.nodes, replica.following.parents
        found = dict[NodeName, TreePeer]()
        for name, (addr, is_alive) in replica.peers(now_ms).items():
            if is_alive and addr and name in registered and name != replica.name:
                is_up = name in parents and parents[name].is_up
                found[name] = TreePeer(addr, (self._traffic(name).rtt_ms or 0.0) if is_up else None)
        self.tree.see(found)
        self.tree.load = self._load()

    def _carry_out(self) -> None:
        overrun = list[int]()
        for effect in self.tree.take():
            match effect:
                case Dial(edge=number, addr=addr):
                    scope = trio.CancelScope()
                    edge = self._edges[number] = Edge(scope)
                    if self._nursery is not None:
                        self._nursery.start_soon(self._attach, number, edge, scope, addr)
                case Say(edge=number, item=item):
                    said = self._edges.get(number)
                    if said is not None and not said.say(item):
                        overrun.append(number)
                case Close(edge=number):
                    closed = self._edges.pop(number, None)
                    if closed is not None:
                        closed.end()
                case Deliver(frame=frame):
                    self._deliver(frame)
                case _:
                    assert_never(effect)
        self._changed.set()
        for number in overrun:
            self._counters["edge_overrun"] += 1
            self.ended(number)

    def _deliver(self, frame: TreeFrame) -> None:
        listener = self.listeners.get(frame.service)
        if listener is None:
            self._counters["frames_unwanted"] += 1
        else:
            listener(frame)

    async def _attach(self, number: int, edge: Edge, scope: trio.CancelScope, addr: str) -> None:
        """Have an edge to a node that is asked to be the parent, until it ends."""
        replica = self._replica
        request = Attach(1, replica.name, replica.life or 0, self._silent_s / 3)
        with scope:
            try:
                hooks = EdgeHooks(partial(self.told, number), edge.next)
                await self._attacher.attach(addr, request, self._silent_s, hooks)
            except (PeerError, RequestError):
                self._counters["edges_failed"] += 1
        self.ended(number)


def _now_ms() -> int:
    return round(trio.current_time() * 1000)
