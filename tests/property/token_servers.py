"""A virtual network of token servers: clocks drift, disks are slow, processes stop, messages get lost.

Knows: how a host drives the machine, and a stand-in for serving that hands parts over.  Does not know who leads.

Invariant: whatever leaves a server leaves after the slots of its step, and of all steps before, are on its disk; a
killed process loses the slots that are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from random import Random

import attrs

from distkv.core.ground.turn import SlotKept
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.state import TokenState, has_majority, state_of
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.declared import pack
from distkv.wire.token_states import Founding, StateMessage, decode_head, read_state_message
from tests.agreeing import AgreeingServer
from tests.property.token_claims import Claim, Observer
from tests.taken_effects import Taken

LEASE_MS = 1000
DRIFT = 0.05
MACHINE = AgreeingServer
"""Tests of the tests put a broken one here."""


@attrs.frozen(slots=True)
class PartAsked:
    """The stand-in of serving: who boots asks those that serve for its part."""

    since: int


@attrs.frozen(slots=True)
class PartGiven:
    """It serves nothing of that part from now on."""

    since: int


Said = StateMessage | PartAsked | PartGiven


@attrs.define(slots=True)
class StepDone:
    """What a step of a machine wants done when its slots are on the disk."""

    ms: int
    effects: Taken
    said: list[tuple[NodeName, Said]]
    claim: Claim


class Site:
    """One host."""

    def __init__(self, name: NodeName, life: int, rate: float, offset: float) -> None:
        self.name = name
        self.life = life
        self.rate = rate
        self.offset = offset
        self.disk: dict[str, bytes] = {}
        self.founding: Founding | None = None
        """The entry in the store."""
        self.drawer: list[tuple[int, dict[str, bytes], Founding | None]] = []
        """Its other disks, with their lives."""
        self.machine: AgreeingServer | None = None
        self.claim: Claim | None = None
        self.steps: deque[StepDone] = deque()
        self.paused_ms = 0
        self.wake_at: int | None = None
        self.collected: set[NodeName] = set()
        self.collecting = 0
        self.parts = 0
        """In the standing since which version it got all its parts; 0: it has none."""
        self.parts_written = 0

    def own_ms(self, now_ms: float) -> int:
        """Its clock."""
        return int(self.offset + self.rate * now_ms)

    def true_ms(self, own_ms: int) -> int:
        """When its clock shows that."""
        return ceil((own_ms - self.offset) / self.rate)

    def heads(self) -> list[bytes]:
        """What it accepted last, also what is on its way to the disk."""
        slots = [slot for step in self.steps for slot in step.effects.slots if slot.key == "state"]
        return [data for data in (self.disk.get("state"), *(slot.value for slot in slots)) if data is not None]

    def server_asks(self, state: TokenState) -> list[NodeName]:
        """Whom it has to ask for its part."""
        return [
            name for name, server in state.servers.items()
            if server.standing is ServerStanding.READY and name != self.name and name not in self.collected
        ]


class TokenFleet:
    """All servers, and true time."""

    def __init__(
        self, count: int, seed: int, *, is_encoding: bool = False, lease_ms: int = LEASE_MS, spares: int = 0
    ) -> None:
        """`spares`: so many hosts more, which are in no list yet."""
        self.rng = Random(seed)
        self.now_ms = 0
        self.names = [NodeName(f"n{at}") for at in range(count)]
        self.lease_ms = lease_ms
        self.observer = Observer()
        self.loss = 0.0
        self.slow = 0.0
        """How many messages and writes take long."""
        self.cut: set[tuple[NodeName, NodeName]] = set()
        self.lives = 0
        self.max_steps = 0
        self._is_encoding = is_encoding
        self._events: list[tuple[int, int, NodeName, Callable[[Site], None]]] = []
        self._count = 0
        self.sites = {
            name: Site(name, self.new_life(), self.rng.choice((1 - DRIFT, 1, 1 + DRIFT)), self.rng.randrange(10**7))
            for name in [*self.names, *(NodeName(f"s{at}") for at in range(spares))]
        }

    # -- faults

    def new_life(self) -> int:
        """Of a directory."""
        self.lives += 1
        return self.lives

    def start(self, name: NodeName, *, is_reboot: bool = False) -> None:
        """The process starts; after a reboot of the host its clock begins again."""
        site = self.sites[name]
        if is_reboot:
            site.offset = self.rng.randrange(3000) - site.rate * self.now_ms
        settings = ConsensusSettings(name, tuple(self.names), self.lease_ms, DRIFT)
        site.machine = MACHINE(settings, site.life, self.rng)
        site.machine.restore(site.machine.turn(site.own_ms(self.now_ms)), dict(site.disk))
        site.collected, site.collecting = set(), 0
        site.parts = site.parts_written = int(site.disk.get("parts", b"0"))
        site.paused_ms = 0
        if site.founding is not None:
            site.machine.read_entry(site.founding, site.own_ms(self.now_ms))
        self.step(site, lambda machine, own_ms: machine.begin(machine.turn(own_ms), 100))
        self._at(self.now_ms + self.lease_ms // 8, name, self._ask_parts)

    def kill(self, name: NodeName) -> None:
        """The process is gone, with all that is not on the disk."""
        site = self.sites[name]
        site.machine = site.claim = site.wake_at = None
        site.steps.clear()

    def wipe(self, name: NodeName) -> None:
        """The disk is lost; the next start has a new one."""
        self.kill(name)
        site = self.sites[name]
        site.drawer.append((site.life, site.disk, site.founding))
        site.disk, site.life = {}, self.new_life()
        foundings = [one.founding for one in self.sites.values() if one.founding is not None]
        is_one_alone = len(self.names) == 1 < len(self.sites)  # it would ask nobody: but the store that it gets knows
        site.founding = max(foundings, key=lambda one: one.version, default=None) if is_one_alone else None

    def put_back(self, name: NodeName) -> None:
        """An old disk, which was thought lost, takes the place of the one that is there."""
        self.kill(name)
        site = self.sites[name]
        old = site.drawer.pop(0)
        site.drawer.append((site.life, site.disk, site.founding))
        site.life, site.disk, site.founding = old

    def members(self) -> list[NodeName]:
        """Whose disks count."""
        heads = [decode_head(data) for site in self.sites.values() for data in site.heads()]
        if heads:
            lives = {name: line.life for name, line in max(heads, key=lambda head: head.id).servers.items()}
        else:
            lives = dict(self.observer.foundings[0].servers) if self.observer.foundings else {}
        return [name for name, site in self.sites.items() if "admitted" in site.disk and lives.get(name) == site.life]

    def may_lose(self, name: NodeName) -> bool:
        """Whether a majority of the disks that count is left without this one, of each list that may be in force."""
        left, newest = [one for one in self.members() if one != name], max(self.observer.states, default=0)
        heads = [decode_head(data) for site in self.sites.values() for data in site.heads()]
        lists = [one for head in heads if head.id.version >= newest for one in state_of(head, {}).lists]
        return has_majority(lists or [self.names], left)

    def listed(self) -> list[Site]:
        """Those of the newest list in force."""
        states = self.observer.states
        return [self.sites[name] for name in (states[max(states)].list if states else self.names)]

    # -- time

    def run(self, ms: int) -> None:
        """Let so much true time pass."""
        end_ms = self.now_ms + ms
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, name, act = heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            site = self.sites.get(name)
            if site is None or site.machine is None:
                continue
            if site.paused_ms > self.now_ms:
                self._at(site.paused_ms, name, act)
            else:
                act(site)
        self.now_ms = end_ms

    def step(self, site: Site, act: Callable[[AgreeingServer, int], None]) -> None:
        """The machine is told something; then everything that follows from it at once."""
        machine, own_ms = site.machine, site.own_ms(self.now_ms)
        assert machine is not None
        act(machine, own_ms)
        said = list[tuple[NodeName, Said]]()
        self._serve(site, machine)
        for _ in range(50):
            wake_ms = machine.wake_ms()
            if wake_ms is None or wake_ms > own_ms:
                break
            machine.woken(own_ms)
            self._serve(site, machine)
        else:
            raise AssertionError(f"{site.name} never rests")
        machine.check()
        self._take(site, machine, said)

    def _take(self, site: Site, machine: AgreeingServer, said: list[tuple[NodeName, Said]]) -> None:
        effects = machine.effects.take()
        if site.parts != site.parts_written:
            site.parts_written = site.parts
            effects.slots.append(SlotKept("parts", b"%d" % site.parts))
        said += [(tell.to, tell.message) for tell in effects.tells]
        servers = {} if machine.effective is None else machine.effective.servers
        awaits = any(one.standing is ServerStanding.LEAVING for one in servers.values())  # what that hands over
        has_parts = bool(site.parts) and not awaits
        claim = Claim(machine.effective, machine.leads_until_ms, machine.grants_until_ms, has_parts)
        done_ms = self.now_ms + (self._delay() if effects.slots else 0)
        if site.steps:
            done_ms = max(done_ms, site.steps[-1].ms)
        site.steps.append(StepDone(done_ms, effects, said, claim))
        if done_ms <= self.now_ms:
            self._flush(site)
        else:
            self._at(done_ms, site.name, self._flush)
        wake_ms = machine.wake_ms()
        site.wake_at = None if wake_ms is None else max(self.now_ms + 1, site.true_ms(wake_ms))
        if site.wake_at is not None:
            self._at(site.wake_at, site.name, self._wake)

    def _wake(self, site: Site) -> None:
        if site.wake_at is not None and site.wake_at <= self.now_ms:
            self.step(site, lambda machine, own_ms: machine.woken(own_ms))

    def _flush(self, site: Site) -> None:
        """Slots are on the disk: what waited for them may leave."""
        while site.steps and site.steps[0].ms <= self.now_ms:
            done = site.steps.popleft()
            for slot in done.effects.slots:
                if slot.value is None:
                    site.disk.pop(slot.key, None)
                else:
                    site.disk[slot.key] = slot.value
            if done.effects.founding is not None:
                site.founding = done.effects.founding
                self.observer.founds(site.founding)
            if done.claim != site.claim:
                site.claim = done.claim
                self.observer.look(site, self.sites.values(), self.now_ms)
            for to, message in done.said:
                self._send(site, to, message)

    # -- messages

    def _delay(self) -> int:
        if self.rng.random() >= self.slow:
            return 1 + int(self.rng.random() * 20)
        return int(self.rng.random() * self.lease_ms * self.rng.choice((0.5, 0.5, 1, 4)))

    def _send(self, site: Site, to: NodeName, message: Said) -> None:
        if not isinstance(message, PartAsked | PartGiven):
            self.observer.says(site.name, site.life, message)
            if self._is_encoding:
                message = read_state_message(pack(message))
        if (site.name, to) in self.cut or self.rng.random() < self.loss:
            return
        sender, life = site.name, site.life
        for _ in range(2 if self.rng.random() < self.slow else 1):
            self._at(self.now_ms + self._delay(), to, lambda other: self._arrive(other, sender, life, message))

    def _arrive(self, site: Site, sender: NodeName, life: int, message: Said) -> None:
        match message:
            case PartAsked(since=since):
                self._give_part(site, sender, since)
            case PartGiven(since=since):
                if since == site.collecting:
                    site.collected.add(sender)
                    self.step(site, lambda _machine, _own_ms: None)
            case _:
                self.step(site, lambda machine, own_ms: machine.told(sender, life, message, own_ms))

    def _at(self, ms: int, name: NodeName, act: Callable[[Site], None]) -> None:
        self._count += 1
        heappush(self._events, (ms, self._count, name, act))

    # -- the stand-in for serving

    def _serve(self, site: Site, machine: AgreeingServer) -> None:
        """What serving does with the state in effect."""
        state = machine.effective
        mine = None if state is None else state.servers.get(site.name)
        if state is not None and mine is None:
            site.collected, site.collecting, site.parts = set(), 0, 0
        if state is None or mine is None or (mine.life == site.life and mine.standing is ServerStanding.READY):
            machine.stand(ServerStanding.READY if site.parts else ServerStanding.BOOTING)
            return
        if mine.life != site.life or mine.standing in (ServerStanding.DOWN, ServerStanding.LEAVING):
            site.collected, site.collecting, site.parts = set(), 0, 0
        elif mine.since not in (site.collecting, site.parts):
            site.collected, site.collecting, site.parts = set(), mine.since, 0
        elif not site.server_asks(state):
            site.parts = mine.since
        machine.stand(ServerStanding.READY if site.parts else ServerStanding.BOOTING)

    def _ask_parts(self, site: Site) -> None:
        self._at(self.now_ms + self.lease_ms // 8, site.name, self._ask_parts)
        state = None if site.machine is None else site.machine.effective
        if state is None or not site.collecting or site.parts:
            return
        asked: list[tuple[NodeName, Said]] = [(name, PartAsked(site.collecting)) for name in site.server_asks(state)]
        assert site.machine is not None
        self._take(site, site.machine, asked)

    def _give_part(self, site: Site, to: NodeName, since: int) -> None:
        machine = site.machine
        if machine is not None and machine.effective is not None and machine.effective.version >= since:
            self._take(site, machine, [(to, PartGiven(since))])

    # -- reading

    def leader(self) -> Site | None:
        """Who may act as the leader now."""
        for site in self.sites.values():
            if site.claim is not None and site.own_ms(self.now_ms) < site.claim.leads_until_ms:
                return site
        return None

    def is_settled(self) -> bool:
        """Whether one leads, all serve, and all know it."""
        if self.leader() is None:
            return False
        for site in self.listed():
            claim = site.claim
            if claim is None or claim.effective is None or site.own_ms(self.now_ms) >= claim.grants_until_ms:
                return False
            if claim.effective.next or len(claim.effective.servers) > len(claim.effective.list):
                return False
            if any(server.standing is not ServerStanding.READY for server in claim.effective.servers.values()):
                return False
        return True

    def settle(self, leases: int) -> int:
        """Run until it is; after how many milliseconds. It must be within so many leases."""
        began_ms = self.now_ms
        while not self.is_settled():
            assert self.now_ms < began_ms + leases * self.lease_ms, f"not settled: {self.describe()}"
            self.run(self.lease_ms // 20)
        return self.now_ms - began_ms

    def describe(self) -> str:
        """For people who look for the reason."""
        found = [f"at {self.now_ms}, founded {len(self.observer.foundings)} times, cut {sorted(self.cut)}"]
        for site in self.sites.values():
            machine = site.machine
            found.append(
                f"{site.name} life {site.life}: stopped" if machine is None else
                f"{site.name} life {site.life} member {machine.is_member} term {machine.term} leader {machine.leader} "
                f"parts {site.parts} collecting {site.collecting} {machine.effective}"
            )
        return "\n".join(found)
