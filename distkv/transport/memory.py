"""A network within one process, for tests: lossy, slow, torn apart and healed at will.

Knows: who can reach whom, and what a message goes through on its way.  Does not know what messages mean, nor real time:
it uses trio's clock, so a `MockClock` drives it.

Invariant: the same `rng` seed and the same calls give every link the same losses, delays and copies; each link draws
from its own generator, so that the order in which trio runs nodes changes nothing.  Every message is encoded and
decoded on its way.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, TypeAlias

import attrs
import trio

from distkv.model.event import NodeName
from distkv.transport.base import Announce, Down, GossipHeard, Members, Report, Up
from distkv.transport.diversion import Diversion, divert
from distkv.wire.gossip import GossipKind, decode_message, encode_to_fit, kind_of
from distkv.wire.message import Message, Update

WAITING_MAX: Final = 4096
"""Messages on their way to one node; more are lost, and counted."""

Reporter: TypeAlias = Callable[[Report], None]


@attrs.frozen
class MessageFaults:
    """What happens to messages between two nodes. A spread of delays reorders them."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: tuple[float, float] = (0.01, 0.1)
    event_bytes: int = 1300
    """A larger update is not carried but announced; a larger message of another kind is shortened, or lost."""


class MemoryNetwork:
    """Makes transports, and is told what goes wrong. `faults` may be replaced at any time."""

    def __init__(self, rng: random.Random, faults: MessageFaults | None = None) -> None:
        self.faults = MessageFaults() if faults is None else faults
        self._rng = rng
        self._nodes: dict[NodeName, MemoryTransport] = {}
        self._links: dict[tuple[NodeName, NodeName], random.Random] = {}
        self._cuts: set[tuple[NodeName, NodeName]] = set()
        self.diversions: list[Diversion] = []
        """What a script does to single messages, besides."""

    def transport(self, node: NodeName, addr: str) -> MemoryTransport:
        """A node's end of the network. A second one for a name takes the place of the first: a restart."""
        fresh = MemoryTransport(self, node, addr)
        if node not in self._nodes:
            for other in [*self._nodes, node]:
                for link in dict.fromkeys([(node, other), (other, node)]):
                    self._links[link] = random.Random(self._rng.getrandbits(64))
        self._nodes[node] = fresh
        return fresh

    def cut(self, sender: NodeName, receiver: NodeName) -> None:
        """Nothing goes this way any more; the other way is not touched."""
        self._cuts.add((sender, receiver))
        self._tell_members()

    def partition(self, *groups: Iterable[NodeName]) -> None:
        """Only nodes of one group reach each other from now on; those not named are a group of their own.

        Nodes that are named may come later.
        """
        named = {node: number for number, group in enumerate(groups) for node in group}
        sides = {node: named.get(node, -1) for node in [*self._nodes, *named]}
        self._cuts = {(a, b) for a in sides for b in sides if sides[a] != sides[b]}
        self._tell_members()

    def heal(self) -> None:
        """Everybody reaches everybody."""
        self._cuts.clear()
        self._tell_members()

    def reaches(self, sender: NodeName, receiver: NodeName) -> bool:
        return (sender, receiver) not in self._cuts

    def carry(self, sender: NodeName, kind: GossipKind, payload: bytes) -> None:
        """For transports: send to all, the sender included, whose own message always comes back at once."""
        now = trio.current_time()
        for receiver, transport in self._nodes.items():
            if receiver == sender:
                transport.put(now, kind, payload)
                continue
            late_ms = divert(self.diversions, kind, sender, receiver)
            if late_ms is None:
                continue
            rng = self._links[sender, receiver]
            for _ in range(2 if rng.random() < self.faults.duplication else 1):
                delay_s, is_lost = rng.uniform(*self.faults.delay_s), rng.random() < self.faults.loss
                if not is_lost and self.reaches(sender, receiver):
                    transport.put(now + late_ms / 1000 + delay_s, kind, payload)

    def addresses(self, receiver: NodeName) -> dict[str, str]:
        """For transports: who is there, as `receiver` sees it."""
        found = self._nodes.items()
        return {node: other.addr for node, other in found if other.is_up and self.reaches(node, receiver)}

    def _tell_members(self) -> None:
        for transport in self._nodes.values():
            transport.tell_members()

    def members_changed(self) -> None:
        """For transports: one came or went."""
        self._tell_members()


class MemoryTransport:
    """The `Transport` of one node; `pause`, `resume`, `disconnect` and `reconnect` do to it what befalls an agent."""

    def __init__(self, network: MemoryNetwork, node: NodeName, addr: str) -> None:
        self.addr = addr
        self.node = node
        self._network = network
        self._report: Reporter | None = None
        self._waiting: list[tuple[float, int, GossipKind, bytes]] = []
        self._numbers = count()
        self._state = _EndState()
        self._counts: dict[str, int] = {}

    async def run(self, report: Reporter, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Transport.run`."""
        self._report = report
        try:
            if self._state.is_connected:
                report(Up(self._network.faults.event_bytes))
            else:
                report(Down("the network was disconnected"))
            self._network.members_changed()
            task_status.started()
            while True:
                with trio.move_on_at(self._next_at()):
                    await self._state.news.wait()
                self._state.news = trio.Event()
                self._deliver(report)
        finally:
            self._report = None
            self._network.members_changed()

    def appear(self) -> None:
        """See `Transport.appear`: here all are known by their names."""

    def noticed(self, name: str, *, is_well: bool) -> None:
        """See `Transport.noticed`: here nobody has to find out."""

    def members(self) -> None:
        """See `Transport.members`."""
        return

    def key_desk(self) -> None:
        """See `Transport.key_desk`."""
        return

    def broadcast(self, message: Message) -> None:
        """See `Transport.broadcast`."""
        kind = kind_of(message)
        if not self.is_up:
            self._drop(kind, "down", message)
            return
        payload = encode_to_fit(message, self._network.faults.event_bytes)
        if payload is None:
            self._drop(kind, "size", message)
            return
        self._count(f"sent_{kind}")
        if self._state.is_paused:
            self._state.held.append((kind, payload))
            del self._state.held[:-WAITING_MAX]
        else:
            self._network.carry(self.node, kind, payload)

    def statistics(self) -> dict[str, int | float | str | bool]:
        """See `Transport.statistics`."""
        return {"connected": self.is_up, "queue": len(self._waiting), **dict(sorted(self._counts.items()))}

    @property
    def is_up(self) -> bool:
        """Whether it runs and is connected."""
        return self._report is not None and self._state.is_connected

    def pause(self) -> None:
        """Like a frozen process: what arrives and what is sent waits for `resume`, and nobody is told."""
        self._state.is_paused = True

    def resume(self) -> None:
        self._state.is_paused = False
        held, self._state.held = self._state.held, []
        for kind, payload in held:
            self._network.carry(self.node, kind, payload)
        self._state.news.set()

    def disconnect(self, reason: str = "the network was disconnected") -> None:
        """Like an agent that stopped: what is under way to this node is lost."""
        if self._state.is_connected:
            self._state.is_connected = False
            self._state.members = None
            self._waiting.clear()
            if self._report is not None:
                self._report(Down(reason))
            self._network.members_changed()

    def reconnect(self) -> None:
        if not self._state.is_connected:
            self._state.is_connected = True
            if self._report is not None:
                self._report(Up(self._network.faults.event_bytes))
            self._network.members_changed()
            self._state.news.set()

    def put(self, due_at: float, kind: GossipKind, payload: bytes) -> None:
        """For the network: a message is under way to us."""
        if not self.is_up:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._count("lost_queue")
            return
        heapq.heappush(self._waiting, (due_at, next(self._numbers), kind, payload))
        self._state.news.set()

    def tell_members(self) -> None:
        """For the network: report who is there, if that changed."""
        if self.is_up and self._report is not None:
            found = self._network.addresses(self.node)
            if found != self._state.members:
                self._state.members = found
                self._report(Members(found))

    def _next_at(self) -> float:
        if self._state.is_paused:
            return math.inf
        due_at = self._waiting[0][0] if self._waiting else math.inf
        return trio.current_time() if self._state.unannounced and self.is_up else due_at

    def _deliver(self, report: Reporter) -> None:
        if self._state.is_paused:
            return
        if self._state.unannounced and self.is_up:
            self._state.unannounced = 0
            report(Announce())
        now = trio.current_time()
        while self._waiting and self._waiting[0][0] <= now and not self._state.is_paused:
            _, _, kind, payload = heapq.heappop(self._waiting)
            self._count(f"heard_{kind}")
            report(GossipHeard(decode_message(kind, payload)))

    def _drop(self, kind: GossipKind, reason: str, message: Message) -> None:
        self._count(f"dropped_{kind}_{reason}")
        if isinstance(message, Update):
            self._state.unannounced += len(message.events)
            self._state.news.set()

    def _count(self, what: str) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1


@attrs.define
class _EndState:
    is_connected: bool = True
    is_paused: bool = False
    unannounced: int = 0
    members: dict[str, str] | None = None
    held: list[tuple[GossipKind, bytes]] = attrs.field(factory=list)
    news: trio.Event = attrs.field(factory=trio.Event)
