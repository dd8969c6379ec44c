"""A small deterministic fleet of replicas in virtual time: no event loop, no sockets, no disk.

Knows: how a `Ready` is carried out (records at once and for ever, messages with delay, loss, duplication and cuts, asks
answered by the target as it is at that moment) and when each replica wants to be woken.
Does not know what is right: the tests do, but for four things that it checks after every step.

Invariant: the same seed and the same calls give the same run; no tick ever has two contents, `ready` is never left, a
crash changes nothing of the state, and no replica asks to be woken again and again without progress.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from distkv.core.ready import (
    Ask,
    AskEvents,
    AskMaps,
    CoreSettings,
    HeardMessage,
    Input,
    JoinerAsked,
    LocalSet,
    MembersSeen,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    Ready,
    TransportDown,
    TransportUp,
    Wake,
)
from distkv.core.replica import Replica
from distkv.errors import DistkvError, PeerError
from distkv.model.event import Event, Link, NodeName
from distkv.model.path import Path
from distkv.wire.message import (
    EventBatch,
    EventRecord,
    Header,
    Info,
    Message,
    Ping,
    Record,
    SnapshotHead,
    Start,
    State,
    TickMaps,
)
from distkv.wire.request import SetValue
from distkv.wire.values import pack_value

WALL = 1_700_000_000.0
"""The wall clock at virtual time 0."""
BATCH = 100
"""How many events go into one `EventBatch`."""
WAKES_MAX = 50
"""How many wakes in one virtual millisecond are a busy loop."""


@attrs.define
class Faults:
    """What the network does to messages (gossip) and connections (asks)."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: tuple[int, int] = (1, 20)
    answer_ms: tuple[int, int] = (1, 10)
    """One way of a request, and the time of each batch."""
    breaks: float = 0.0
    """The chance that a connection breaks, at each batch."""
    update_loss: float = 0.0
    """More loss, for updates only: Serf drops those first."""


@attrs.define(eq=False)
class Member:
    """One node: its disk, and its process while it runs."""

    name: NodeName
    addr: str
    created: float
    records: list[Record] = attrs.field(factory=list)
    replica: Replica | None = None
    is_up: bool = False
    was_serving: bool = False
    fatal: DistkvError | None = None
    wake_ms: int | None = None
    wakes: int = 0
    seen_members: dict[str, str] | None = None

    @property
    def live(self) -> Replica:
        assert self.replica is not None, f"{self.name} does not run"
        return self.replica


class Fleet:
    """All members and what is between them."""

    def __init__(self, seed: int = 0, faults: Faults | None = None, *, members_seen: bool = True) -> None:
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.now_ms = 0
        self.members: dict[str, Member] = {}
        self.cut: set[tuple[str, str]] = set()
        """(from, to): nothing passes that way; a connection needs both ways."""
        self.notes: Counter[str] = Counter()
        self.sent: list[tuple[int, str, Message]] = []
        self.asked: list[tuple[int, str, Ask]] = []
        self.events: dict[Link, tuple[object, ...]] = {}
        self._members_seen = members_seen
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    # -- processes

    def start(self, name: str, *, init: object = None, up: bool = True, addr: str | None = None, **more: Any) -> Member:
        """Start a process on the member's disk; `init` makes it found a network."""
        wall = WALL + self.now_ms / 1000
        member = self.members.setdefault(name, Member(NodeName(name), addr or f"{name}:1", wall))
        if not member.records:
            member.created = wall
        member.addr = addr or member.addr
        settings = CoreSettings(
            node=member.name,
            addr=member.addr,
            start=Start(wall, self.rng.getrandbits(60)),
            init_value=None if init is None else pack_value(init),
            network_id=self.rng.randbytes(8),
            **more,
        )
        member.replica = self._rebuilt(settings, member.records)
        member.was_serving, member.fatal, member.seen_members = False, None, None
        self._carry_out(member, member.live.begin(self.now_ms, wall))
        if up and member.replica is not None:
            member.is_up = True
            self.step(name, TransportUp())
        if self._members_seen:
            self._members_seen = False  # one such clock is enough
            self.later(300, self._tell_members)
        return member

    def crash(self, name: str) -> None:
        """End the process; its disk has all that was recorded, and says the same as the process did."""
        member = self.members[name]
        replica = member.live
        copy = self._rebuilt(CoreSettings(member.name, member.addr, Start(0.0, 0)), member.records)
        if copy.life is not None:
            assert (copy.tree.digest, copy.tick) == (replica.tree.digest, replica.tick), f"{name} lost something"
            assert copy.tree.ledger.held() == replica.tree.ledger.held(), f"{name} lost something"
        self._end(member)

    def wipe(self, name: str) -> None:
        """End the process if it runs, and lose its disk."""
        self._end(self.members[name])
        self.members[name].records = []

    def transport(self, name: str, *, up: bool) -> None:
        self.members[name].is_up = up
        self.step(name, TransportUp() if up else TransportDown())

    def running(self) -> Iterator[Member]:
        yield from (member for member in self.members.values() if member.replica is not None)

    def __getitem__(self, name: str) -> Replica:
        return self.members[name].live

    # -- the network

    def partition(self, *sides: Iterable[str]) -> None:
        """Cut every way between two sides; who is on none hears nobody."""
        side_of = {name: number for number, side in enumerate(sides) for name in side}
        names = list(self.members)
        self.cut = {(a, b) for a in names for b in names if a != b and side_of.get(a, a) != side_of.get(b, b)}

    def heal(self) -> None:
        self.cut = set()

    # -- time

    def step(self, name: str, what: Input) -> Ready:
        member = self.members[name]
        ready = member.live.step(self.now_ms, WALL + self.now_ms / 1000, what)
        self._carry_out(member, ready)
        return ready

    def set(self, name: str, path: str, value: object) -> Ready:
        raw = None if value is None else pack_value(value)
        return self.step(name, LocalSet(SetValue(1, Path(path.split(".")), raw)))

    def later(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, what))

    def run(self, for_ms: int) -> None:
        """Let virtual time pass."""
        self.run_until(lambda: False, for_ms)

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Let time pass until `condition` holds; False when it does not within the time."""
        end_ms = self.now_ms + within_ms
        while not condition():
            wakes = [(m.wake_ms, number) for number, m in enumerate(self.running()) if m.wake_ms is not None]
            wake_ms, number = min(wakes, default=(end_ms + 1, 0))
            next_ms = min(wake_ms, self._queue[0][0] if self._queue else wake_ms)
            if next_ms > end_ms:
                self.now_ms = end_ms
                return condition()
            if next_ms > self.now_ms:
                self.now_ms = next_ms
                for member in self.members.values():
                    member.wakes = 0
            if self._queue and self._queue[0][0] <= next_ms:
                heapq.heappop(self._queue)[2]()
            else:
                member = list(self.running())[number]
                member.wakes += 1
                assert member.wakes <= WAKES_MAX, f"{member.name} ({member.live.state}) is in a busy loop"
                self.step(member.name, Wake())
        return True

    # -- what tests ask

    def all_ready(self) -> bool:
        return all(member.live.is_serving for member in self.running())

    def is_converged(self) -> bool:
        """Every running node is ready, misses nothing but what is lost, and holds the same."""
        states = [_state(member.live) for member in self.running()]
        return self.all_ready() and all(state == states[0] and state[2] == {} for state in states)

    def pings(self, *, since_ms: int = 0) -> list[tuple[int, str, Ping]]:
        """The pings of nodes with data."""
        return [
            (at, name, m)
            for at, name, m in self.sent
            if at >= since_ms and isinstance(m, Ping) and m.chain[0].tick is not None
        ]

    # -- inside

    def _rebuilt(self, settings: CoreSettings, records: list[Record]) -> Replica:
        replica = Replica(settings, random.Random(self.rng.random()))
        for record in records:
            replica.replay(record)
        return replica

    def _end(self, member: Member) -> None:
        member.replica, member.is_up, member.wake_ms = None, False, None

    def _carry_out(self, member: Member, ready: Ready) -> None:
        member.records += ready.records
        for note in ready.notes:
            self.notes[note.id] += 1
        for record in ready.records:
            if isinstance(record, EventRecord):
                self._check_content(record.event)
        if ready.fatal is not None:
            member.fatal = ready.fatal
            self._end(member)
            return
        for message in ready.messages:
            if isinstance(message, Ask):
                self._ask(member, message)
            elif member.is_up:
                self._gossip(member, message)
        assert member.live.is_serving or not member.was_serving, f"{member.name} is not ready any more"
        member.was_serving = member.live.is_serving
        member.wake_ms = member.live.wake_ms()

    def _check_content(self, event: Event) -> None:
        content = (event.path, event.kind, event.value, event.chain, event.tock)
        assert self.events.setdefault(event.link, content) == content, f"{event.link} has two contents"

    def _gossip(self, member: Member, message: Message) -> None:
        faults = self.faults
        self.sent.append((self.now_ms, member.name, message))
        loss = faults.loss if isinstance(message, Ping) else max(faults.loss, faults.update_loss)
        for name in (name for name in self.members if (member.name, name) not in self.cut):
            copies = 1 + (self.rng.random() < faults.duplication)
            for _ in range(copies if name == member.name or self.rng.random() >= loss else 0):
                self.later(self.rng.randint(*faults.delay_ms), lambda n=name: self._hear(member.name, n, message))

    def _hear(self, sender: str, name: str, message: Message) -> None:
        member = self.members[name]
        if member.replica is not None and member.is_up and (sender, name) not in self.cut:
            self.step(name, HeardMessage(message))

    def _tell_members(self) -> None:
        for member in list(self.running()):
            alive = {m.name: m.addr for m in self.running() if m.is_up and self._connects(member.name, m.name)}
            if member.is_up and alive != member.seen_members:
                member.seen_members = alive
                self.step(member.name, MembersSeen(alive))
        self.later(1000, self._tell_members)

    def _connects(self, one: str, other: str) -> bool:
        return not {(one, other), (other, one)} & self.cut

    def _ask(self, member: Member, ask: Ask) -> None:
        self.asked.append((self.now_ms, member.name, ask))
        process, answers = member.live, self._serve(member, ask, member.live.maps())
        self.later(self.rng.randint(*self.faults.answer_ms), lambda: self._answer(member, process, ask, answers))

    def _answer(self, member: Member, process: Replica, ask: Ask, answers: Iterator[Any]) -> None:
        """Deliver one part of an answer, and plan the next."""
        if member.replica is not process:
            return
        target = next((m.name for m in self.running() if m.addr == ask.addr), None)
        if target is None or not self._connects(member.name, target) or self.rng.random() < self.faults.breaks:
            self.step(member.name, PeerDone(ask.id, PeerError(f"{ask.addr} does not answer")))
            return
        part = next(answers, None)
        if part is None or isinstance(part, DistkvError):
            self.step(member.name, PeerDone(ask.id, part))
            return
        self.step(member.name, PeerAnswered(ask.id, part))
        self.later(self.rng.randint(*self.faults.answer_ms), lambda: self._answer(member, process, ask, answers))

    def _serve(self, member: Member, ask: Ask, maps: TickMaps) -> Iterator[Any]:
        """The parts of the answer, each made when it is taken; `maps` were made when the request left."""
        target = next(m for m in self.running() if m.addr == ask.addr)
        replica = target.live
        if isinstance(ask.what, AskMaps):
            yield self.step(target.name, PeerOffered(maps)).reply
        elif isinstance(ask.what, AskEvents):
            yield from _batches(replica.tree.present(ask.what.ranges))
            yield replica.pull_end(ask.what.ranges)
        else:
            reply = self.step(target.name, JoinerAsked(member.name, member.created, member.addr)).reply
            yield reply
            if isinstance(reply, SnapshotHead):
                yield from _batches(e for entry in list(replica.tree.entries()) for e in (entry.head, *entry.losers))


def _batches(events: Iterable[Event]) -> Iterator[EventBatch]:
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) == BATCH:
            yield EventBatch(tuple(batch))
            batch = []
    if batch:
        yield EventBatch(tuple(batch))


def _state(replica: Replica) -> tuple[object, ...]:
    ledger = replica.tree.ledger
    losers = {loser.link for entry in replica.tree.entries() for loser in entry.conflicts()}
    return replica.tree.digest, ledger.held(), ledger.missing(but_lost=True), losers, replica.registry


def meet_namesake(fleet: Fleet, name: str, header: Header) -> Ready:
    """Gossip says that `name` is at another address too; asked there, somebody answers with `header`."""
    told = fleet.step(name, HeardMessage(Info(header, "other:1", State.READY)))
    (ask,) = [message for message in told.messages if isinstance(message, Ask)]
    return fleet.step(name, PeerAnswered(ask.id, TickMaps(header, ask.addr, State.READY, {}, {}, {}, 0)))


def grown(*names: str, seed: int = 0, faults: Faults | None = None, members_seen: bool = True) -> Fleet:
    """A fleet whose nodes are all ready and hold the same; the first founded the network."""
    fleet = Fleet(seed, members_seen=members_seen)
    fleet.start(names[0], init="root")
    fleet.run(5100)
    for name in names[1:]:
        fleet.start(name)
    assert fleet.run_until(fleet.is_converged, 20_000), "the fleet does not come up"
    fleet.faults = faults or fleet.faults
    return fleet
