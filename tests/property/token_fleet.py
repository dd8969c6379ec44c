"""Fleets of token services in virtual time: servers and other nodes, clients with clocks of their own, and faults.

Knows: how nodes, network, clients and the oracle in the place of consensus play together, and what must hold for what
clients believe.  Does not know how tokens are served.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from random import Random
from typing import Final

import attrs

from distkv.core.ready import Answer
from distkv.core.tokens.service import TokenService
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.calls import CALLS, CallMessage
from distkv.wire.declared import pack
from distkv.wire.token_requests import (
    TokenRequest,
)
from distkv.wire.token_states import TokenServer
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
from tests.taken_effects import TakenEffects


class Hand:
    """What one server has from the oracle."""

    def __init__(self, oracle: Oracle, name: NodeName, clock: Clock) -> None:
        self._oracle: Final = oracle
        self._name: Final = name
        self._clock: Final = clock
        self.effective: TokenState | None = None
        self.granted_true = -1e18
        self.led_true = -1e18
        self.elected_ms = 0
        self.wish: tuple[ServerStanding, int] | None = None

    @property
    def grants_until_ms(self) -> int:
        return self._clock.read(self.granted_true) if self.granted_true > 0 else 0

    @property
    def leads_until_ms(self) -> int:
        return self._clock.read(self.led_true) if self.led_true > 0 else 0

    def propose_open(self, ttl_ms: int, tag: str) -> None:
        self._oracle.propose(self._name, {tag: ttl_ms}, ())

    def propose_end(self, sessions: Collection[str]) -> None:
        self._oracle.propose(self._name, {}, sessions)

    def stand(self, standing: ServerStanding) -> None:
        state = self.effective
        self.wish = (standing, 0 if state is None else state.servers[self._name].since)

    def reset(self, now_ms: int, servers: Collection[NodeName] = ()) -> None:
        raise NotImplementedError


class Site:
    """A node."""

    def __init__(self, fleet: TokenFleet, name: NodeName, clock: Clock) -> None:
        self.fleet: Final = fleet
        self.name: Final = name
        self.clock: Final = clock
        self.hand: Final = Hand(fleet.oracle, name, clock)
        self.slots: Final = dict[str, bytes]()
        self.service: TokenService | None = None
        self.effects: Final = TakenEffects()
        self.boots = 0
        self.paused: list[Callable[[], None]] | None = None
        self.waiting: Final = dict[int, Tell]()
        self.alive_true = 0.0
        self._wake_true: float | None = None

    @property
    def now_ms(self) -> int:
        return self.clock.read(self.fleet.now)

    def start(self) -> None:
        self.boots += 1
        settings = ServingSettings(
            self.name, self.fleet.servers, self.boots, LEASE_MS, TTL_MS, LOCK_DELAY_MS, DRIFT
        )
        self.hand.granted_true = self.hand.led_true = -1e18
        self.hand.wish = None
        self.hand.elected_ms = self.now_ms  # a restarted leader has to be elected again
        rng = Random(self.fleet.rng.random())
        self.service = TokenService(settings, self.hand, self.effects, rng, self.now_ms)
        self.service.serving.restore(self.slots, self.now_ms)
        self.step(lambda service: service.go_on(self.now_ms, 0.0))

    def stop(self) -> None:
        self.service, self.paused = None, None
        self.fleet.killed[self.name] = self.fleet.now
        waiting = list(self.waiting.values())
        self.waiting.clear()
        for tell in waiting:
            self.fleet.later(50, lambda tell=tell: tell(DistkvError("the connection broke")))  # type: ignore[misc]

    @property
    def is_up(self) -> bool:
        return self.service is not None

    def ask(self, id: int, request: TokenRequest, tell: Tell) -> None:
        self.waiting[id] = tell
        self.do(lambda: self.step(lambda service: service.asked(id, request, self.now_ms)))

    def leave(self, client: int) -> list[Tell]:
        ids = [id for id in self.waiting if id // REQUESTS == client]
        for id in ids:
            self.do(lambda id=id: self.step(lambda service: service.gone(id, self.now_ms)))  # type: ignore[misc]
        return [self.waiting.pop(id) for id in ids]

    def do(self, what: Callable[[], None]) -> None:
        """Now, or when the process goes on."""
        if self.paused is not None:
            self.paused.append(what)
        else:
            what()

    def step(self, what: Callable[[TokenService], None]) -> None:
        service = self.service
        if service is None:
            return
        what(service)
        service.go_on(self.now_ms)
        effects = self.effects.take()
        for slot in effects.slots:
            if slot.value is None:
                self.slots.pop(slot.key, None)
            else:
                self.slots[slot.key] = slot.value
        for note in effects.notes:
            self.fleet.notes[note.id] = self.fleet.notes.get(note.id, 0) + 1
        for tell in effects.tells:
            self.fleet.send(self.name, tell.to, tell.message)
        for answer in effects.answers:
            self._answer(answer)
        self._set_alarm(service)

    def _answer(self, answer: Answer) -> None:
        tell = self.waiting.pop(answer.id, None) if answer.is_last else self.waiting.get(answer.id)
        if tell is not None:
            self.fleet.later(self.fleet.rng.randrange(1, 20), lambda: tell(answer.result))

    def _set_alarm(self, service: TokenService) -> None:
        wake_ms = service.note_due()
        if wake_ms is None:
            return
        due = max(self.clock.true(wake_ms) + 0.01, self.fleet.now + 1)
        if self._wake_true is None or due < self._wake_true or self._wake_true <= self.fleet.now:
            self._wake_true = due
            self.fleet.at(due, lambda: self.do(self._woken))

    def _woken(self) -> None:
        self.step(lambda service: service.woken(self.now_ms))


class Oracle:
    """It says who leads and who serves, as consensus would: late, but never against a lease."""

    def __init__(self, fleet: TokenFleet) -> None:
        self.fleet: Final = fleet
        self.state: TokenState | None = None
        self.proposed: Final = list[tuple[dict[str, int], Collection[str]]]()
        self.versions: Final = 1000

    def begin(self) -> None:
        names = self.fleet.servers
        servers = {name: TokenServer(ServerStanding.DOWN, 1, self.versions) for name in names}
        self.state = TokenState(1, self.versions, names[0], servers, {}, self.versions)
        self.fleet.at(0, self.look)

    def propose(self, name: NodeName, opened: dict[str, int], ended: Collection[str]) -> None:
        state, hand = self.state, self.fleet.sites[name].hand
        if state is not None and state.leader == name and self.fleet.now < hand.led_true:
            self.proposed.append((opened, tuple(ended)))

    def look(self) -> None:
        """Ten times in a lease: renew leases, and put into effect what is wanted."""
        self.fleet.at(self.fleet.now + LEASE_MS / 10, self.look)
        state = self.state
        if state is None:
            return
        state = self._lead(self._sessions(self._servers(state)))
        if state is not self.state:
            self.state = state
        fleet = self.fleet
        for name in fleet.servers:
            site = fleet.sites[name]
            if site.service is None or site.paused is not None or name in fleet.cut_off:
                continue
            site.alive_true = fleet.now
            if fleet.rng.random() < 0.6:
                self._renew(site, state)

    def _renew(self, site: Site, state: TokenState) -> None:
        hand = site.hand
        if site.name == state.leader and (hand.effective is None or hand.effective.term != state.term):
            hand.elected_ms = site.now_ms
        hand.effective = state
        hand.granted_true = self.fleet.now + LEASE_MS * (1 - 2 * DRIFT)  # also one that is down: it serves nothing
        if site.name == state.leader:
            hand.led_true = self.fleet.now + LEASE_MS * (1 - 2 * DRIFT)
        site.step(lambda service: service.go_on(site.now_ms))

    def _servers(self, state: TokenState) -> TokenState:
        servers, version = dict(state.servers), state.version
        for name, server in state.servers.items():
            site = self.fleet.sites[name]
            is_gone = self.fleet.now > site.alive_true + LEASE_MS * (1 + DRIFT) and self.fleet.now > max(
                site.hand.granted_true, site.hand.led_true
            )
            wish = site.hand.wish
            new = server.standing
            if server.standing is not ServerStanding.DOWN and is_gone:
                new = ServerStanding.DOWN
            elif site.service is not None and site.alive_true == self.fleet.now - LEASE_MS / 10 and wish is not None:
                before, wanted = server.standing, wish[0] if wish[1] == server.since else None
                if (before, wanted) == (ServerStanding.DOWN, ServerStanding.BOOTING):
                    new = ServerStanding.BOOTING
                elif (before, wanted) == (ServerStanding.BOOTING, ServerStanding.READY):
                    new = ServerStanding.READY
            if new is not server.standing:
                version += 1
                servers[name] = TokenServer(new, 1, version)
                if self.fleet.rng.random() < 0.5:
                    break
        if version == state.version:
            return state
        return attrs.evolve(state, servers=servers, version=version, changed=version)

    def _sessions(self, state: TokenState) -> TokenState:
        if not self.proposed:
            return state
        sessions, version = dict(state.sessions), state.version
        for opened, ended in self.proposed:
            for tag, ttl_ms in opened.items():
                version += 1
                sessions[f"{version}-{tag}"] = ttl_ms
            for session in ended:
                sessions.pop(session, None)
        self.proposed.clear()
        return attrs.evolve(state, sessions=sessions, version=version + 1)

    def _lead(self, state: TokenState) -> TokenState:
        leader = self.fleet.sites[state.leader]
        if self.fleet.now <= max(leader.hand.led_true, leader.alive_true + LEASE_MS * (1 + DRIFT)):
            return state
        alive = [
            name
            for name in self.fleet.servers
            if self.fleet.sites[name].service is not None
            and self.fleet.sites[name].paused is None
            and name not in self.fleet.cut_off
        ]
        if not alive:
            return state
        self.proposed.clear()
        return attrs.evolve(state, term=state.term + 1, leader=self.fleet.rng.choice(alive), version=state.version + 1)


class TokenFleet:
    """All nodes. All times are milliseconds of true time."""

    def __init__(self, seed: int, servers: int = 3, others: int = 2) -> None:
        self.rng: Final = Random(seed)
        self.now = 0.0
        self.servers: Final = tuple(NodeName(f"s{count}") for count in range(servers))
        names = [*self.servers, *(NodeName(f"p{count}") for count in range(others))]
        self.oracle: Final = Oracle(self)
        self.notes: Final = dict[str, int]()
        self.cut_off: Final = set[NodeName]()
        self.killed: Final = dict[NodeName, float]()
        """When each was killed the last time: what is under way from it gets lost, as its connections break."""
        self.loss = self.double = self.slow = 0.0
        self._events: Final = list[tuple[float, int, Callable[[], None]]]()
        self._count = 0
        self.sites: Final = {name: Site(self, name, self._clock()) for name in names}
        self.believed: Final = Beliefs(self)
        self.oracle.begin()
        for site in self.sites.values():
            site.start()

    def _clock(self) -> Clock:
        return Clock(self.rng.randrange(10**6, 10**9), 1 + self.rng.uniform(-DRIFT, DRIFT))

    def client(self, number: int) -> Client:
        return Client(self, number, self._clock())

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

    def send(self, sender: NodeName, name: NodeName, message: CallMessage) -> None:
        if name not in self.sites or sender in self.cut_off or name in self.cut_off:
            return
        sent = self.now
        for _ in range(1 + (self.rng.random() < self.double)):
            if self.rng.random() >= self.loss:
                slow_ms = self.rng.randrange(50, LOCK_DELAY_MS - 50) if self.rng.random() < self.slow else 0
                self.later(self.rng.randrange(1, 15) + slow_ms, lambda: self._arrive(sender, name, message, sent))

    def _arrive(self, sender: NodeName, name: NodeName, message: CallMessage, sent: float) -> None:
        site = self.sites[name]
        if name not in self.cut_off and self.killed.get(sender, -1) < sent:
            found = _through_wire(message)
            site.do(lambda: site.step(lambda service: service.told(sender, found, site.now_ms)))


def _through_wire(message: CallMessage) -> CallMessage:
    return CALLS.read(pack(message))
