"""What all parts of the membership machine stand on: the beliefs of one node, what it has to tell, and how that leaves.

Knows: the table, the suspicions, the rumours and the seal, and keeps them together.  Does not know what is heard, nor
when anything is done.

Invariant: a belief changes in `believe` only, which tells the seal who is there, ends suspicions, and reports it. Only
this node raises its own generation. No datagram is longer than `DATAGRAM_BYTES_MAX`; each is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import attrs

from distkv.model.invariant import must
from distkv.swim.health import Health
from distkv.swim.inputs import Datagram, Member, MemberChanged, SwimRng, SwimSettings
from distkv.swim.members import Belief, MemberEntry, MemberTable
from distkv.swim.messages import UserMessages, pack_messages
from distkv.swim.rumours import RumourQueue
from distkv.swim.seal import Seal
from distkv.swim.suspicion import Suspicions
from distkv.swim.turn import SwimTurn, Teller
from distkv.wire.swim_frames import Frame, GossipFrame, PingFrame, PongFrame, encode_frame, room_in
from distkv.wire.swim_records import GENERATION_MAX, Address, MemberState, NodeRecord, Payload, Rumour, rumour_bytes

FORMER_MAX: Final = 4096
"""Of so many starts it is remembered that they are over."""
ANSWERS_MAX: Final = 16
"""So much a sender is told at once of what it has wrong."""
SAMPLE_BYTES: Final = 900
"""What a page of the table takes at the most; rumours find room beside it."""

_Carrier = TypeVar("_Carrier", PingFrame, PongFrame, GossipFrame)


@attrs.define(slots=True, eq=False)
class SwimCounts:
    """What happened to one node, from 0."""

    sent_datagrams: int = 0
    sent_bytes: int = 0
    heard_datagrams: int = 0
    told_suspect: int = 0
    told_dead: int = 0
    dropped: dict[str, int] = attrs.field(
        factory=lambda: dict.fromkeys(("type", "body", "size", "seal", "replay", "stranger", "group", "rate"), 0)
    )
    """By why."""


class SwimNode:
    """One node among others."""

    def __init__(self, own: NodeRecord, settings: SwimSettings, seal: Seal, rng: SwimRng) -> None:
        self.settings = settings
        self.table = MemberTable(own, 0)
        self.suspicions = Suspicions(settings.interval_ms)
        self.queue = RumourQueue()
        self.messages = UserMessages(own.node, own.start, settings.bytes_per_s)
        self.health = Health()
        self.counts = SwimCounts()
        self.seal = seal
        self.rng = rng
        self.is_leaving = False
        self.blocked = set[str]()
        """Nodes that are heard on links only."""
        self._former = dict[bytes, None]()
        self.queue.add(self.table.own.as_rumour())

    @property
    def own(self) -> NodeRecord:
        return self.table.own.record

    def interval_ms(self) -> int:
        """Between two probes, as things are."""
        return self.health.stretched_ms(self.settings.interval_ms)

    def member_of(self, teller: Teller, node: str) -> MemberEntry | None:
        """Who sent it, if that is another member, alive or gone. Without a secret the name says so, of which nobody is
        sure."""
        found = self.table.entries.get(node) if teller.start is None else self.table.by_start(teller.start)
        return None if found is self.table.own else found

    def is_former(self, start: bytes) -> bool:
        """Whether a member had this start, and has another one now."""
        return start in self._former

    # -- beliefs

    def believe(self, belief: Belief, turn: SwimTurn) -> MemberEntry:
        """What is believed of a node from now on."""
        table, name = self.table, belief.record.node
        before = table.entries.get(name)
        old = None if before is None else before.as_member()
        entry = table.put(belief, turn.now_ms)
        if old is None or old.start != entry.record.start:
            self._meet(entry.record, old)
        if entry.state is not MemberState.SUSPECT:
            self.suspicions.end(name)
        if entry.state is MemberState.ALIVE and (old is None or old.state > MemberState.SUSPECT):
            turn.found.append(name)
        member = entry.as_member()
        if member != old:
            turn.reports.append(MemberChanged(member))
        return entry

    def suspect(self, entry: MemberEntry, by: str, turn: SwimTurn) -> None:
        """Somebody thinks that it may be dead."""
        name = entry.record.node
        if entry.state is MemberState.ALIVE:
            self.believe(attrs.evolve(entry.belief, state=MemberState.SUSPECT), turn)
        if not self.suspicions.has(name, entry.generation):
            self.suspicions.begin(name, entry.generation, by, self.table.size, turn.now_ms)
            self.queue.add(entry.as_rumour(by))
        elif self.suspicions.confirm(name, by, self.table.size):
            self.queue.add(entry.as_rumour(by))

    def refute(self, generation: int, turn: SwimTurn) -> None:
        """Somebody says of this node, at this generation, what is not so: it lives."""
        own = self.own
        above = max(own.generation, generation) + 1
        if self.is_leaving or above > GENERATION_MAX:
            return
        self.become(attrs.evolve(own, generation=above), turn)
        turn.answers[own.node] = self.table.own.as_rumour()

    def become(self, own: NodeRecord, turn: SwimTurn) -> None:
        """The record of this node is another one, which all should know."""
        self.table.put(Belief(own.generation, MemberState.ALIVE, own), turn.now_ms)
        self.queue.add(self.table.own.as_rumour())
        turn.reports.append(MemberChanged(self.table.own.as_member()))

    def answer(self, entry: MemberEntry, turn: SwimTurn) -> None:
        """The sender of what is being handled has something else about this node."""
        if len(turn.answers) < ANSWERS_MAX:
            turn.answers[entry.record.node] = entry.as_rumour()

    def forget(self, name: str) -> None:
        """Nobody has seen it for long."""
        self.seal.drop(self.table.entries[name].record.start)
        self.table.forget(name)
        self.queue.remove(name)
        self.suspicions.end(name)

    def retire(self, start: bytes) -> None:
        """Whoever had this start is gone for ever."""
        self.seal.refuse(start)
        self._former[start] = None
        if len(self._former) > FORMER_MAX:
            del self._former[next(iter(self._former))]

    def _meet(self, record: NodeRecord, old: Member | None) -> None:
        """A start is new. The one before is over if it was gone, or had the same place; else it may be a namesake."""
        self._former.pop(record.start, None)
        self.seal.vouch(record.start)
        if old is not None and (old.state > MemberState.SUSPECT or {*old.addresses} & {*record.addresses}):
            self.retire(old.start)
        elif old is not None:
            self.seal.drop(old.start)

    # -- what leaves

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell to all."""
        return bool(len(self.queue)) or self.messages.is_riding

    def send(self, address: Address, start: bytes | None, frame: Frame, turn: SwimTurn) -> None:
        """A frame to whoever is there; `start`: that of the receiver, where it is known."""
        receiver = None if start is None else self.table.by_start(start)
        keys = () if receiver is None else receiver.record.keys
        data = self.seal.close(encode_frame(frame), start, keys)
        self.counts.sent_datagrams += 1
        self.counts.sent_bytes += len(data)
        turn.datagrams.append(Datagram(address, data))

    def send_messages(self, turn: SwimTurn) -> None:
        """User messages leave that go to somebody directly."""
        for name, messages in self.messages.take_leaving(turn.now_ms, self.table.live, self.rng).items():
            entry = self.table.entries[name]
            room = room_in(GossipFrame(self.own.id, Payload(table=self.table.hash)), self.seal.overhead)
            for some in pack_messages(messages, room):
                frame = GossipFrame(self.own.id, Payload(table=self.table.hash, messages=some))
                self.send(entry.address, entry.record.start, frame, turn)

    def compose(
        self,
        carrier: Callable[[Payload], _Carrier],
        now_ms: int,
        first: Iterable[Rumour] = (),
        page: int | None = None,
        sample_at: int | None = None,
    ) -> _Carrier:
        """A frame with what this node has to tell: first of all `first`, then a page of its table from a place on, then
        what all should know. `page`: which one is asked for."""
        if not first and sample_at is None and not self.has_news:
            return carrier(Payload(table=self.table.hash, page=page))
        room = room_in(carrier(Payload(table=self.table.hash)), self.seal.overhead)
        return carrier(self._filled(room, now_ms, first, page, sample_at))

    def _filled(
        self, room: int, now_ms: int, first: Iterable[Rumour], page: int | None, sample_at: int | None
    ) -> Payload:  # fmt: skip
        told, room = _fitting(first, room)
        sample = list[Rumour]()
        if sample_at is not None:
            found = [entry.as_rumour(self.own.node) for entry in self.table.after(sample_at)]
            sample, _ = _fitting(found, min(room, SAMPLE_BYTES))
            room -= sum(map(rumour_bytes, sample))
            page = sample_at + len(sample) if sample_at + len(sample) < len(self.table.names) else 0
        queued = self.queue.take(room, self.table.size)
        messages = self.messages.take_riding(now_ms, room - sum(map(rumour_bytes, queued)))
        return Payload((*told, *queued), self.table.hash, page, tuple(sample), messages)

    def check(self) -> None:
        for part in (self.table, self.suspicions, self.queue, self.messages, self.health, self.seal):
            part.check()
        entries = self.table.entries
        suspects = {name for name, entry in entries.items() if entry.state is MemberState.SUSPECT}
        must(all(self.suspicions.has(name, entries[name].generation) for name in suspects), "each suspect has its time")
        must(len(suspects) == len(self.suspicions), "only suspects have a time")
        must(self.table.own.state is MemberState.ALIVE or self.is_leaving, "a node believes that it lives")


def _fitting(rumours: Iterable[Rumour], room: int) -> tuple[list[Rumour], int]:
    """The first ones that find room, and what is left of it."""
    found = list[Rumour]()
    for rumour in rumours:
        size = rumour_bytes(rumour)
        if size > room:
            break
        found.append(rumour)
        room -= size
    return found, room
