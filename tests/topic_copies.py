"""Nodes that keep copies of topics, with a network that loses, repeats and delays, and disks that come late.

Knows: the parts of the topics machine that copy, compare and lease, and calls between nodes.  Does not know messages,
subscribers, nor the store: a copy is a set of rows, and what entries say is one value that all nodes see, or that comes
to each of them after a while.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, NodeCalls
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, AskWithdrawn, DataKept, ServiceTurn, SlotKept
from distkv.core.ready import Note, ServiceTell
from distkv.core.topics.compare_answers import ExchangeTarget
from distkv.core.topics.compared_copy import ComparedCopy, NoCopy, SentRows
from distkv.core.topics.comparing import Comparing
from distkv.core.topics.copying import Copying
from distkv.core.topics.leases import Leases
from distkv.core.topics.settings import TopicSettings
from distkv.errors import NoSpaceError, NotFoundError
from distkv.model.event import NodeName
from distkv.wire.topic_messages import BUCKETS, CopyBatch, LeaseAsked, LeaseProbe
from distkv.wire.topic_questions import NODE_QUESTIONS

SERVICE = "topics"
ID = "00" * 8
A, B, C = map(NodeName, "abc")
SETTINGS = TopicSettings(lease_ms=2000)


@attrs.define
class RowsCopy:
    """A copy: rows that are joined by their keys."""

    ids: frozenset[str] = frozenset({ID})
    rows: dict[str, bytes] = attrs.field(factory=dict)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(b"".join(self.buckets())).digest()

    def buckets(self) -> list[bytes]:
        found = [0] * BUCKETS
        for key, value in self.rows.items():
            found[_bucket(key)] ^= zlib.crc32(value, zlib.crc32(key.encode()))
        return [b"%d" % one for one in found]

    def rows_of(self, bucket: int, after: str = "") -> Iterator[tuple[str, bytes]]:
        return ((key, value) for key, value in sorted(self.rows.items()) if _bucket(key) == bucket and key > after)

    def join(self, rows: SentRows) -> dict[str, bytes | None]:
        """What changed."""
        changes = dict[str, bytes | None]()
        for key, value in rows:
            old = self.rows.get(key)
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value if old is None else min(old, value)
            if self.rows.get(key) != old:
                changes[key] = self.rows.get(key)
        return changes


def _bucket(key: str) -> int:
    return zlib.crc32(key.encode()) % BUCKETS


@attrs.frozen
class Named:
    """What the entry of a topic says."""

    owner: NodeName
    followers: frozenset[NodeName] = frozenset()
    namings: Mapping[NodeName, int] = attrs.field(factory=dict)
    """Of the followers."""
    lacking: frozenset[NodeName] = frozenset()


@attrs.frozen
class Said:
    """It is said that something is copied."""

    target: object
    copies: int


@attrs.define
class Fleet:
    """All nodes, the network between them, and the time."""

    chance: random.Random
    loss: float = 0.0
    delay_ms: int = 5
    disk_ms: int = 0
    """A disk has what it is given after so long at the most."""
    now_ms: int = 0
    entries: dict[str, Named] = attrs.field(factory=dict)
    nodes: dict[NodeName, CopyNode] = attrs.field(factory=dict)
    cut: set[tuple[NodeName, NodeName]] = attrs.field(factory=set)
    """From whom to whom nothing comes."""
    under_way: list[tuple[int, int, NodeName, NodeName, bytes]] = attrs.field(factory=list)
    """When, a number that tells them apart, from whom, to whom, and what."""
    lost_last: set[tuple[NodeName, NodeName]] = attrs.field(factory=set)
    count: int = 0

    def add(self, me: NodeName, settings: TopicSettings = SETTINGS, rate: float = 1.0) -> CopyNode:
        self.nodes[me] = node = CopyNode(self, me, settings, rate=rate, offset_ms=self.chance.randrange(10_000))
        node.start()
        return node

    def send(self, sender: NodeName, receiver: NodeName, body: bytes) -> None:
        """A word between nodes. No two in a row are lost of one to another."""
        way = sender, receiver
        if way in self.cut:
            return
        if self.loss and way not in self.lost_last and self.chance.random() < self.loss:
            self.lost_last.add(way)
            return
        self.lost_last.discard(way)
        for _ in range(2 if self.loss and self.chance.random() < self.loss / 2 else 1):
            self.count += 1
            at_ms = self.now_ms + self.chance.randint(1, self.delay_ms)
            self.under_way.append((at_ms, self.count, sender, receiver, body))

    def name(self, name: str, owner: NodeName, *followers: NodeName, lacking: Collection[NodeName] = ()) -> None:
        """The entry of a topic is this, and all nodes see it."""
        before = self.entries.get(name)
        self.count += 1
        namings = dict.fromkeys(followers, self.count)
        if before is not None:
            namings |= {node: number for node, number in before.namings.items() if node in followers}
        self.entries[name] = Named(owner, frozenset(followers), namings, frozenset(lacking))
        for node in self.nodes.values():
            if node.is_up and not node.is_paused:
                node.look(name)

    def pass_time(self, ms: int, see: Callable[[], None] | None = None) -> None:
        """Carry out what is due in so long, and look after each step."""
        end_ms = self.now_ms + ms
        while (due := self._next()) is not None and due[0] <= end_ms:
            self.now_ms = max(self.now_ms, due[0])
            due[1]()
            if see is not None:
                see()
        self.now_ms = end_ms

    def _next(self) -> tuple[int, Callable[[], None]] | None:
        """What comes next, and when."""
        found = list[tuple[int, int, Callable[[], None]]]()
        awake = [node for node in self.nodes.values() if node.is_up and not node.is_paused]
        names = {node.me for node in awake}
        first = min((one for one in self.under_way if one[3] in names), default=None)
        if first is not None:
            found.append((first[0], 0, lambda: self._deliver(first)))
        for node in awake:
            if (ms := node.due_ms()) is not None:
                found.append((ms, 1, node.wake))
            if node.pending:
                found.append((node.pending[0][0], 2, node.sync))
        if not found:
            return None
        ms, _, do = min(found, key=lambda one: one[:2])
        return ms, do

    def _deliver(self, one: tuple[int, int, NodeName, NodeName, bytes]) -> None:
        self.under_way.remove(one)
        self.nodes[one[3]].told(one[2], one[4])


@attrs.define(eq=False)
class CopyNode:
    """One of them, as host of its parts."""

    fleet: Fleet
    me: NodeName
    settings: TopicSettings
    rate: float = 1.0
    offset_ms: int = 0
    is_up: bool = False
    is_paused: bool = False
    starts: int = 0
    rows_max: int = 1 << 30
    copies_max: int = 1 << 30
    """So many rows a copy may have here."""
    dropped: set[str] = attrs.field(factory=set)
    """Topics of which this node keeps no copy."""
    disk: dict[str, bytes | None] = attrs.field(factory=dict)
    slots: dict[str, bytes | None] = attrs.field(factory=dict)
    pending: deque[tuple[int, list[object]]] = attrs.field(factory=deque)
    """What waits for the disk: when it has it, and what that is, in order."""
    copies: dict[str, RowsCopy] = attrs.field(factory=dict)
    changed: dict[str, dict[str, bytes | None]] = attrs.field(factory=dict)
    said: list[Said] = attrs.field(factory=list)
    """In this step."""
    found: list[Said] = attrs.field(factory=list)
    """All that was found to be copied, before this node's disk had the step."""
    done: list[tuple[object, int]] = attrs.field(factory=list)
    """What was said to be copied, and on how many, when the disk had the step."""
    joins: list[tuple[str, NodeName, tuple[int, ...]]] = attrs.field(factory=list)
    replaced: list[tuple[str, NodeName]] = attrs.field(factory=list)
    """Followers that another one is to take the place of."""
    notes: list[Note] = attrs.field(factory=list)
    data: ServiceRows = attrs.field(factory=ServiceRows)
    calls: NodeCalls = attrs.field(init=False)
    copying: Copying = attrs.field(init=False)
    comparing: Comparing = attrs.field(init=False)
    leases: Leases = attrs.field(init=False)

    # -- the node

    @property
    def boot_ms(self) -> int:
        return self.offset_ms + int(self.fleet.now_ms * self.rate)

    def start(self) -> None:
        """With what the disk has."""
        self.is_up, self.starts = True, self.starts + 1
        self.data, self.copies, self.changed = ServiceRows(), {}, {}
        for key, value in sorted(self.disk.items()):
            if value is not None:
                self.data.put(key, value)
                if key.startswith("m\x1f"):
                    _, name, row = key.split("\x1f")
                    self.copies.setdefault(name, RowsCopy()).rows[row] = value
        first = self.fleet.chance.randrange(1 << 20)
        self.calls = NodeCalls(self.me, 1, self.slots.get("\0boot"), lambda: first)
        self.copying = Copying(self)
        self.leases = Leases(self.settings, self, self.data, self.boot_ms)
        self.comparing = Comparing(self, self.copying, self.me, self.starts)
        turn = self.turn()
        self.leases.begin(turn)
        self.comparing.begin(turn, self.data)
        self._end(turn)

    def crash(self) -> None:
        """What the disk has not yet is lost."""
        self.is_up, self.is_paused = False, False
        self.pending.clear()
        self.fleet.under_way = [one for one in self.fleet.under_way if one[3] != self.me]

    def look(self, name: str) -> None:
        """An entry changed."""
        turn = self.turn()
        self.leases.look(turn)
        if self.is_mine(name):
            self.copying.look(turn, name)
        else:
            self.copying.release(name)
        self.comparing.look(turn, name)
        self._end(turn)

    def put(self, name: str, key: str, value: bytes | None, target: object = None) -> None:
        """The owner changes a row; the target waits until it is copied."""
        turn = self.turn()
        copy = self.copies.setdefault(name, RowsCopy())
        self.changed.setdefault(name, {}).update(copy.join([(key, value)]))
        self._end(turn)
        turn = self.turn()
        if target is not None:
            self.copying.wait(turn, self.copying.last_op(name), name, target)
        self._end(turn)

    def met(self, name: str, owner: CopyNode) -> None:
        """An owner asks this node something."""
        turn = self.turn()
        self.comparing.met(turn, owner.me, owner.comparing.start, (name,))
        self._end(turn)

    def receive(self, name: str, rows: SentRows, sender: NodeName) -> None:
        """Another node sent rows."""
        turn = self.turn()
        self.take_copy(turn, name, (ID,), rows, sender)
        self._end(turn)

    def turn(self) -> ServiceTurn:
        return ServiceTurn(SERVICE, self.boot_ms, 1.7e9 + self.fleet.now_ms / 1000)

    def told(self, sender: NodeName, body: bytes) -> None:
        turn = self.turn()
        self._take(turn, self.calls.told(sender, body, turn))

    def wake(self) -> None:
        turn = self.turn()
        self._take(turn, [*self.calls.woken(turn), ServiceWoken()])

    def due_ms(self) -> int | None:
        """When, by the clock of the fleet."""
        found = [self.calls.wake_ms(), self.leases.wake_ms(), self.comparing.wake_ms(), self.copying.wake_ms()]
        ms = min((ms for ms in found if ms is not None), default=None)
        return None if ms is None else max(self.fleet.now_ms, int((ms - self.offset_ms) / self.rate) + 1)

    def sync(self) -> None:
        """The disk has what it was given first."""
        _, effects = self.pending.popleft()
        for effect in effects:
            if isinstance(effect, DataKept):
                self.disk[effect.key] = effect.value
            elif isinstance(effect, SlotKept):
                self.slots[effect.key] = effect.value
            elif isinstance(effect, ServiceTell):
                self.fleet.send(self.me, effect.name, effect.body)
            elif isinstance(effect, Said):
                self.done.append((effect.target, effect.copies))

    def on_disk(self, name: str, key: str) -> bytes | None:
        return self.disk.get(f"m\x1f{name}\x1f{key}")

    # -- inside

    def _take(self, turn: ServiceTurn, inputs: Collection[ServiceInput]) -> None:
        for what in inputs:
            self._step(turn, what)
        self._end(turn)

    def _step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, NodeAsked):
            self._asked(turn, what.call, what.body)
            return
        for part in (self.copying, self.leases, self.comparing):
            if part.step(turn, what):
                break

    def _asked(self, turn: ServiceTurn, call: CallKey, body: bytes) -> None:
        question = NODE_QUESTIONS.read(body)
        if isinstance(question, CopyBatch):
            self.copying.asked(turn, call, question)
        elif isinstance(question, LeaseAsked | LeaseProbe):
            self.leases.asked(turn, call, question)
        else:
            self.comparing.asked(turn, call, question)

    def _end(self, turn: ServiceTurn) -> None:
        """A step ends: rows are kept and copied, and what it wants is done."""
        self._keep(turn)
        self.copying.check()
        self.leases.check()
        self.comparing.check()
        outer = ServiceTurn(SERVICE, turn.boot_ms, turn.wall)
        for effect in turn.effects:
            if isinstance(effect, AskedOfNode | AnsweredNode):
                self.calls.take(effect, outer)
            elif isinstance(effect, AskWithdrawn):
                self.calls.withdraw(effect.purpose, outer)
            else:
                outer.effects.append(effect)
        self._carry_out(outer)

    def _keep(self, turn: ServiceTurn) -> None:
        changed, self.changed = self.changed, {}
        for name, rows in changed.items():
            for key, value in rows.items():
                turn.keep_data(f"m\x1f{name}\x1f{key}", value)
            if self.is_mine(name):
                self.copying.send(turn, name, (ID,), rows, self.followers_of(name))
        self.comparing.park(turn)

    def _carry_out(self, turn: ServiceTurn) -> None:
        waits = list[object]()
        for effect in turn.effects:
            if isinstance(effect, DataKept):
                self.data.put(effect.key, effect.value)
            if isinstance(effect, Note):
                self.notes.append(effect)
            elif isinstance(effect, ServiceTell) and not effect.waits:
                self.fleet.send(self.me, effect.name, effect.body)
            else:
                waits.append(effect)
        waits += self.said
        self.said = []
        if waits:
            last_ms = self.pending[-1][0] if self.pending else self.fleet.now_ms
            late_ms = self.fleet.chance.randint(0, self.fleet.disk_ms)
            self.pending.append((max(last_ms, self.fleet.now_ms + late_ms), waits))
            if not self.fleet.disk_ms:
                self.sync()

    # -- what the parts ask of their host

    def entry(self, name: str) -> Named | None:
        return self.fleet.entries.get(name)

    def is_mine(self, name: str) -> bool:
        return self.owner_of(name) == self.me

    def followers_of(self, name: str) -> frozenset[NodeName]:
        entry = self.entry(name)
        return frozenset() if entry is None or entry.owner != self.me else entry.followers

    def copied(self, turn: ServiceTurn, target: object, copies: int) -> None:
        if isinstance(target, ExchangeTarget):
            self.comparing.copied(turn, target)
        else:
            self.said.append(Said(target, copies))
            self.found.append(Said(target, copies))

    def take_copy(
        self, turn: ServiceTurn, name: str, ids: Collection[str], rows: SentRows, sender: NodeName  # noqa: ARG002
    ) -> None:
        if name in self.dropped:
            raise NotFoundError(f"the topic {name} was dropped")
        is_new = name not in self.copies
        copy = self.copies.setdefault(name, RowsCopy())
        if len(copy.rows) + len(rows) > self.rows_max:
            raise NoSpaceError("this disk is full")
        self.changed.setdefault(name, {}).update(copy.join(rows))
        self.comparing.came(name, sender, rows)
        if is_new:
            self.comparing.look(turn, name)

    def names(self) -> Collection[str]:
        entries = self.fleet.entries.items()
        return self.copies.keys() | {name for name, entry in entries if self.me in entry.followers | entry.lacking}

    def is_lacking(self, name: str) -> bool:
        entry = self.entry(name)
        return entry is not None and self.me in entry.lacking

    def owner_of(self, name: str) -> NodeName | None:
        entry = self.entry(name)
        return None if entry is None else entry.owner

    def is_alive(self, node: NodeName) -> bool:
        return self.fleet.nodes[node].is_up

    def naming_of(self, name: str) -> int | None:
        entry = self.entry(name)
        return None if entry is None else entry.namings.get(self.me)

    def copy_of(self, name: str) -> ComparedCopy | None:
        is_none = name not in self.copies and (self.is_lacking(name) or self.naming_of(name) is not None)
        return NoCopy(frozenset({ID})) if is_none else self.copies.get(name)

    def begin_copy(self, turn: ServiceTurn, name: str) -> bool:  # noqa: ARG002
        if len(self.copies) < self.copies_max:
            self.copies[name] = RowsCopy()
        return name in self.copies

    def owned_copy(self, name: str, ids: Collection[str]) -> RowsCopy | None:
        return self.copies.setdefault(name, RowsCopy()) if self.is_mine(name) and ID in ids else None

    def let_go(self, turn: ServiceTurn, name: str) -> None:  # noqa: ARG002
        copy = self.copies.get(name, RowsCopy())
        self.changed.setdefault(name, {}).update(copy.join([(key, None) for key in copy.rows]))

    def given(self, name: str) -> None:
        """The entry is the same."""

    def joined(self, turn: ServiceTurn, name: str, node: NodeName, had: Collection[int]) -> None:  # noqa: ARG002
        self.joins.append((name, node, tuple(sorted(had))))

    def naming_for(self, name: str, node: NodeName) -> int | None:
        entry = self.entry(name)
        return None if entry is None else entry.namings.get(node)

    def slept(self, turn: ServiceTurn) -> None:
        self.comparing.slept(turn)

    def replace_follower(self, name: str, node: NodeName) -> None:
        self.replaced.append((name, node))

    def missed(self, turn: ServiceTurn, name: str) -> None:
        self.comparing.missed(turn, name)

    def needed(self) -> Collection[NodeName]:
        return {node for name in self.fleet.entries for node in self.followers_of(name)}

    def peers(self) -> Collection[NodeName]:
        return self.fleet.nodes.keys() - {self.me} if any(map(self.is_mine, self.fleet.entries)) else ()

    def suspects(self) -> Collection[NodeName]:
        followed = [entry for entry in self.fleet.entries.values() if self.me in entry.followers]
        return {entry.owner for entry in followed if not self.is_alive(entry.owner)}

    def knows_taken(self, name: str, node: NodeName) -> bool:  # noqa: ARG002
        return not self.is_mine(name)

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        return self.owner_of(name) == node
