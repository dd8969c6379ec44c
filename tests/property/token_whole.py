"""Whole token services in true time: the machine of every node over one network, with disks, pauses and lost disks.

Knows: how a host drives the machine, and which faults there are.  Does not know how servers agree or serve, nor what
clients want.

Invariant: what a step tells and answers leaves when its slots, and those of all steps before, are on the disk; a killed
process loses those that are not, and its connections break with all that is on its way.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from distkv.core.ground.machine import EntryChanged, ServiceInput, ServiceWoken
from distkv.core.ground.turn import EntryWritten, ServiceTurn, SlotKept
from distkv.core.ready import Answer, NodeTold, Note, ServiceAsked, ServiceContinued, ServiceTell, ServiceWithdrawn
from distkv.core.tokens.machine import IDENTITY_SLOT, TOKENS, TokenMachine
from distkv.core.tokens.state import TokenState
from distkv.core.tokens.token_settings import TokenSettings
from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.sim.tokens.turns import Turns
from distkv.wire.token_bodies import decode_identity
from distkv.wire.token_errors import UngrantedError
from distkv.wire.token_fields import read_ticket
from distkv.wire.token_requests import TokenAcquire, TokenRequest, TokenSetServers
from tests.property.token_claims import TOKENS as TOKENS_SEEN
from tests.property.token_claims import Claim, Observer
from tests.property.token_clients import (
    DRIFT,
    LEASE_MS,
    LOCK_DELAY_MS,
    REQUESTS,
    TTL_MS,
    Beliefs,
    Client,
    Clock,
    Tell,
)
from tests.service_steps import KnownEntries, ground_of

NAMES: Final = ("a", "b", "c", "d", "e")
"""Those of which it is looked at who gets them."""
AGE_S: Final = 100_000
"""So old is the network when the play begins."""
WAKES_MAX: Final = 50
"""So often a machine may want to be woken at one moment."""


@attrs.define(slots=True)
class StepKept:
    """What a step wants done when its slots are on the disk."""

    done_true: float
    claim: Claim | None
    slots: list[SlotKept]
    rest: list[ServiceTell | EntryWritten | Answer]


class Host:
    """A node: its clock, its disk, and its process."""

    def __init__(self, world: WholeFleet, name: NodeName, clock: Clock) -> None:
        self.world: Final = world
        self.name: Final = name
        self.clock = clock
        self.claim: Claim | None = None
        """What it would act on, once that is on the disk."""
        self._directory = world.new_life()
        self.disk = dict[str, bytes]()
        self.machine: TokenMachine | None = None
        self.killed_true = -1.0
        self._waiting: Final = dict[int, Tell]()
        self._told: Final = dict[int, float]()
        """When each that watches is told what it was told last."""
        self._steps: Final = deque[StepKept]()
        self._late: list[Callable[[], None]] | None = None
        """What came while the process stood still."""
        self._entries = KnownEntries()
        self._start = 0
        self._wake_true: float | None = None

    @property
    def now_ms(self) -> int:
        return self.clock.read(self.world.now)

    def own_ms(self, now_ms: float) -> int:
        """Its clock at a moment of true time."""
        return self.clock.read(now_ms)

    @property
    def life(self) -> int:
        """Of its service."""
        return decode_identity(self.disk[IDENTITY_SLOT])[0] if IDENTITY_SLOT in self.disk else 0

    @property
    def _with_life(self) -> str:
        return f"{self.name} in life {self._directory}"

    # -- faults

    def start(self) -> None:
        """The process begins."""
        self._start += 1
        settings = TokenSettings(self.world.servers, LEASE_MS, TTL_MS, LOCK_DELAY_MS, DRIFT)
        machine = self.machine = TokenMachine(settings, Random(self.world.rng.random()))
        self._entries = KnownEntries()
        ground = ground_of(self.name, self._directory, 0.0, self.disk, self._entries)
        turn = self._turn()
        machine.begin(turn, ground)
        self._kept(turn)
        for value in self.world.entries:
            self.heard(value)

    def stop(self, *, reboots: bool = False) -> None:
        """It is killed; perhaps with its system, whose clock then begins again."""
        self.machine, self.claim, self._late, self._wake_true = None, None, None, None
        self.killed_true = self.world.now
        self.world.turns.stopped(self._with_life)
        self._steps.clear()
        if reboots:
            self.clock = Clock(self.world.rng.randrange(2000) - int(self.world.now * self.clock.rate), self.clock.rate)
        for id in list(self._waiting):
            tell = self._waiting.pop(id)
            self.world.turns.ended(self.world.now, (self.name, id))
            self.world.later(50, lambda tell=tell: tell(DistkvError("the connection broke")))  # type: ignore[misc]

    def wipe(self) -> None:
        """Its disk is lost, too."""
        self.stop()
        self.disk, self._directory = {}, self.world.new_life()

    def pause(self) -> None:
        if self.machine is not None and self._late is None:
            self._late = []

    def resume(self) -> None:
        late, self._late = self._late, None
        for what in late or ():
            what()

    def do(self, what: Callable[[], None]) -> None:
        """Now, or when the process goes on; never, if it is killed before."""
        start = self._start
        if self._late is not None:
            self._late.append(lambda: self.do(what) if start == self._start else None)
        elif self.machine is not None:
            what()

    # -- clients (token_clients.ClientNode)

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    def ask(self, id: int, request: TokenRequest, tell: Tell) -> None:
        self._waiting[id] = tell
        self.do(lambda: self._take(id, request))

    def leave(self, client: int) -> list[Tell]:
        ids = [id for id in self._waiting if id // REQUESTS == client]
        for id in ids:
            self.do(lambda id=id: self._leave(id))  # type: ignore[misc]
        return [self._waiting.pop(id) for id in ids if id in self._waiting]

    def more(self, id: int) -> None:
        """Whoever watches has taken what he was told."""
        if id in self._waiting:
            self.do(lambda: self.step(ServiceContinued(TOKENS, id)))

    def _take(self, id: int, request: TokenRequest) -> None:
        if isinstance(request, TokenAcquire):
            self.world.turns.asked(self.world.now, (self.name, id), request.session, request.token, request.ticket)
        self.step(ServiceAsked(TOKENS, id, request))

    def _leave(self, id: int) -> None:
        self.step(ServiceWithdrawn(TOKENS, id))
        self.world.turns.ended(self.world.now, (self.name, id))

    # -- the machine

    def step(self, what: ServiceInput) -> None:
        """Tell the machine something."""
        if self.machine is not None:
            turn = self._turn()
            self.machine.step(turn, what)
            self._kept(turn)

    def heard(self, value: bytes) -> None:
        """The store has an entry of the service; of several the first that was heard wins here."""
        self._entries.found[""] = (*self._entries.versions(""), value)
        self.step(EntryChanged(""))

    def _turn(self) -> ServiceTurn:
        return ServiceTurn(TOKENS, self.now_ms, AGE_S + self.world.now / 1000)

    def _kept(self, turn: ServiceTurn) -> None:
        machine, slots, rest = self.machine, list[SlotKept](), list[ServiceTell | EntryWritten | Answer]()
        assert machine is not None
        for _ in range(WAKES_MAX):
            wake_ms = machine.wake_ms()
            if wake_ms is None or wake_ms > self.now_ms:
                break
            machine.step(turn, ServiceWoken())
        else:
            raise AssertionError(f"{self.name} never rests")
        self._look(machine)
        for one in turn.effects:
            match one:
                case SlotKept():
                    slots.append(one)
                case Note(id=id):
                    self.world.notes[id] = self.world.notes.get(id, 0) + 1
                case _:
                    rest.append(one)
        done_true = self.world.now + (self.world.write_ms() if slots else 0)
        if self._steps:
            done_true = max(done_true, self._steps[-1].done_true)
        self._steps.append(StepKept(done_true, _claim(machine, self.now_ms), slots, rest))
        if done_true > self.world.now:
            start = self._start
            self.world.at(done_true, lambda: self._flush() if start == self._start else None)
        else:
            self._flush()
        self._set_alarm(machine)

    def _look(self, machine: TokenMachine) -> None:
        """Whether whom it serves now is served in his turn."""
        if machine.effective is not None:
            tokens = [token for name in NAMES if (token := machine.served(name)) is not None]
            found = self.world.turns.looked(self.world.now, self._with_life, machine.effective.changed, tokens)
            assert found is None, found

    def _flush(self) -> None:
        while self._steps and self._steps[0].done_true <= self.world.now:
            done = self._steps.popleft()
            for slot in done.slots:
                if slot.value is None:
                    self.disk.pop(slot.key, None)
                else:
                    self.disk[slot.key] = slot.value
            if done.claim != self.claim:
                self.claim = done.claim
                self.world.observer.overlaps(self.world.sites.values(), self.world.now)
            for one in done.rest:
                match one:
                    case ServiceTell(name=name, body=body):
                        self.world.send(self, name, body)
                    case EntryWritten(value=value):
                        self.world.write_entry(value)
                    case Answer(id=id, result=result, is_last=is_last):
                        self._answer(id, result, is_last=is_last)

    def _answer(self, id: int, result: object, *, is_last: bool) -> None:
        ticket = result.ticket if isinstance(result, UngrantedError) else None
        self.world.turns.told(self.world.now, (self.name, id), None if ticket is None else read_ticket(ticket))
        tell = self._waiting.pop(id, None) if is_last else self._waiting.get(id)
        if tell is not None:
            killed_true = self.killed_true
            due = max(self.world.now + self.world.rng.randrange(1, 10), self._told.pop(id, 0.0))
            if not is_last:
                self._told[id] = due  # what is told of one watch keeps its order
            self.world.at(due, lambda: self._tell(tell, result, killed_true))

    def _tell(self, tell: Tell, result: object, killed_true: float) -> None:
        is_there = self.killed_true == killed_true
        tell(result if is_there else DistkvError("the connection broke"))  # type: ignore[arg-type]

    def _set_alarm(self, machine: TokenMachine) -> None:
        wake_ms = machine.wake_ms()
        if wake_ms is None:
            return
        due = max(self.clock.true(wake_ms) + 0.01, self.world.now + 1)
        if self._wake_true is None or due < self._wake_true or self._wake_true <= self.world.now:
            self._wake_true = due
            start = self._start
            self.world.at(due, lambda: self.do(self._woken) if start == self._start else None)

    def _woken(self) -> None:
        if self.machine is not None and (self.machine.wake_ms() or self.now_ms + 1) <= self.now_ms:
            self.step(ServiceWoken())
        elif self.machine is not None:
            self._set_alarm(self.machine)


def _claim(machine: TokenMachine, now_ms: int) -> Claim | None:
    consensus = machine.consensus
    if consensus is None or not consensus.is_server:
        return None
    parts = frozenset(token for token in TOKENS_SEEN if machine.serves(token, now_ms))
    return Claim(consensus.effective, consensus.leads_until_ms, consensus.grants_until_ms, has_parts=True, parts=parts)


class WholeFleet:
    """All nodes. All times are milliseconds of true time."""

    def __init__(self, seed: int, servers: int = 3, others: int = 2, kind: type[Client] = Client) -> None:
        """`kind`: of its clients."""
        self.rng: Final = Random(seed)
        self._kind: Final = kind
        self.now = 0.0
        self.servers: Final = tuple(NodeName(f"s{count}") for count in range(servers))
        names = [*self.servers, *(NodeName(f"p{count}") for count in range(others))]
        self.observer: Final = Observer()
        self.turns: Final = Turns(LOCK_DELAY_MS)
        self.notes: Final = dict[str, int]()
        self.entries: Final = list[bytes]()
        """The store's, which all nodes have."""
        self.changes = 0
        """How often somebody asked for another list of servers."""
        self.changed: Final = list[object]()
        """What they were answered."""
        self.cut: Final = set[tuple[NodeName, NodeName]]()
        """From whom to whom nothing comes."""
        self.loss = self.double = self.slow = self.slow_disk = 0.0
        self._lives = 0
        self._events: Final = list[tuple[float, int, Callable[[], None]]]()
        self._count = 0
        self.sites: Final = {name: Host(self, name, self._clock()) for name in names}
        self.believed: Final = Beliefs(self)
        for site in self.sites.values():
            site.start()

    def new_life(self) -> int:
        """Of a directory."""
        self._lives += 1
        return self._lives

    def _clock(self) -> Clock:
        return Clock(self.rng.randrange(10**6, 10**9), 1 + self.rng.choice((-1, 0, 1, self.rng.random())) * DRIFT)

    def client(self, number: int) -> Client:
        return self._kind(self, number, self._clock())

    # -- time

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, what))

    def later(self, ms: float, what: Callable[[], None]) -> None:
        self.at(self.now + ms, what)

    def run(self, ms: float) -> None:
        end = self.now + ms
        while self._events and self._events[0][0] <= end:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = end

    # -- what hosts have in common

    def write_ms(self) -> float:
        """How long a disk takes."""
        return self.rng.randrange(20, 800) if self.rng.random() < self.slow_disk else self.rng.random() * 4

    def write_entry(self, value: bytes) -> None:
        """The store brings it to all nodes."""
        self.entries.append(value)
        for site in self.sites.values():
            self.later(self.rng.randrange(1, 200), lambda site=site: site.do(lambda: site.heard(value)))  # type: ignore[misc]

    def send(self, sender: Host, name: NodeName, body: bytes) -> None:
        """A message leaves."""
        if name not in self.sites or (sender.name, name) in self.cut:
            return
        sent, life = self.now, sender.life
        for _ in range(1 + (self.rng.random() < self.double)):
            if self.rng.random() >= self.loss:
                slow_ms = self.rng.randrange(50, LOCK_DELAY_MS - 50) if self.rng.random() < self.slow else 0
                self.later(self.rng.randrange(1, 15) + slow_ms, lambda: self._arrive(sender, name, life, body, sent))

    def _arrive(self, sender: Host, name: NodeName, life: int, body: bytes, sent: float) -> None:
        if (sender.name, name) not in self.cut and sender.killed_true < sent:
            site = self.sites[name]
            site.do(lambda: site.step(NodeTold(sender.name, life, TOKENS, body)))

    # -- reading

    def end_faults(self) -> None:
        """All is well from now on."""
        self.cut.clear()
        self.loss = self.double = self.slow = self.slow_disk = 0.0
        for site in self.sites.values():
            site.resume()
        for site in self.sites.values():
            if site.machine is None:
                site.start()

    def state(self) -> TokenState | None:
        """The newest that a server knows in effect."""
        states = [site.machine.effective for site in self.sites.values() if site.machine is not None]
        return max((one for one in states if one is not None), key=lambda one: (one.term, one.version), default=None)

    def is_ready(self) -> bool:
        """Whether all servers serve, in the eyes of all, with the disks that they have."""
        newest = self.state()
        for name in () if newest is None else newest.list:
            machine = self.sites[name].machine
            state = None if machine is None else machine.effective
            if machine is None or machine.consensus is None or state is None or not machine.consensus.is_member:
                return False
            if state.next or state.names != newest.list:
                return False
            if any(server.standing is not ServerStanding.READY for server in state.servers.values()):
                return False
        return newest is not None

    def change(self, names: Sequence[NodeName], wait_s: float | None = None) -> None:
        """Somebody asks a node that runs for another list of servers."""
        up = [site for site in self.sites.values() if site.is_up]
        if up:
            self.changes += 1
            request = TokenSetServers(0, tuple(names), wait_s)
            self.rng.choice(up).ask(-self.changes, request, self.changed.append)

    def held(self) -> dict[str, tuple[str, ...]]:
        """Which sessions hold each token that somebody holds, as its server knows."""
        found, state = dict[str, tuple[str, ...]](), self.state()
        for name in NAMES:
            server = None if state is None else state.server_of(name)
            machine = None if server is None else self.sites[server].machine
            token = None if machine is None else machine.served(name)
            if token is not None and token.holders:
                found[name] = tuple(sorted(token.holders))
        return found

    def settle(self, ms: float) -> float:
        """Until all servers serve, at most so long; how long it took."""
        began = self.now
        while not self.is_ready():
            assert self.now < began + ms, f"not all serve: {self.describe()}"
            self.run(LEASE_MS / 20)
        return self.now - began

    def describe(self) -> str:
        """For people who look for the reason."""
        return f"at {self.now:.0f}: {self.state()}, cut {sorted(self.cut)}, {self.notes}"
