"""Consensus of the token servers under faults: what is promised holds at every moment, and after the faults it works.

Knows: which faults a network of servers must bear.  Does not know how the machine bears them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from distkv.errors import BusyError, NotReadyError
from distkv.model.event import NodeName
from tests.agreeing import AgreeingServer
from tests.profiles import seeds
from tests.property.token_servers import Site, TokenFleet

SEEDS = seeds(60)
EACH = 15
SETTLED_LEASES = 14


class TokenPlay:
    """A fleet, and somebody who disturbs it."""

    def __init__(self, count: int, seed: int, spares: int = 0) -> None:
        self.fleet = TokenFleet(count, seed, is_encoding=seed % 10 == 0, spares=spares)
        self.wanted = tuple(self.fleet.names)
        """The list that is asked for, where it changes."""
        self.rng = Random(seed + 1)
        self.opened = 0
        self.stopped: list[NodeName] = []

    def disturb(self) -> None:
        """Something goes wrong, or a little better; or a client does something."""
        fleet, rng = self.fleet, self.rng
        name = rng.choice(list(fleet.sites))
        site = fleet.sites[name]
        what = rng.randrange(21)
        if what < 3 and site.machine is not None:
            fleet.kill(name)
            self.stopped.append(name)
        elif what < 6 and self.stopped:
            fleet.start(self.stopped.pop(rng.randrange(len(self.stopped))), is_reboot=rng.random() < 0.3)
        elif what == 6 and site.machine is not None:
            leases = rng.choice((4 * rng.random(), 1 + 0.3 * rng.random()))  # often just long enough to be missed
            site.paused_ms = fleet.now_ms + int(leases * fleet.lease_ms)
        elif what == 7 and self._may_wipe(name):
            self._change_disk(name)
        elif what in (8, 9):
            self._cut(name)
        elif what == 10:
            fleet.cut.clear()
        elif what == 11:
            fleet.loss = rng.choice((0, 0, 0.1, 0.4))
        elif what == 12:
            fleet.slow = rng.choice((0, 0.02, 0.1, 0.3))
        elif what in (13, 14):
            self._deafen()
        elif what in (15, 16) and site.machine is not None:
            fleet.kill(name)
            fleet.start(name, is_reboot=rng.random() < 0.2)
        elif what == 17:
            self._part()
        else:
            self.client()

    def _part(self) -> None:
        """Two sides do not hear each other; the leader is on the smaller one, mostly."""
        names = self.rng.sample(list(self.fleet.sites), len(self.fleet.sites))
        leader = self.fleet.leader()
        if leader is not None and self.rng.random() < 0.7:
            names.remove(leader.name)
            names.insert(0, leader.name)
        side = names[: len(names) // 2]
        self.fleet.cut = {(a, b) for a in names for b in names if (a in side) != (b in side)}

    def _deafen(self) -> None:
        """One server does not hear the leader any more, that hears it and the others hear both."""
        leader = self.fleet.leader()
        if leader is not None and len(self.fleet.sites) > 1:
            others = [one for one in self.fleet.sites if one != leader.name]
            self.fleet.cut.add((leader.name, self.rng.choice(others)))

    def _change_disk(self, name: NodeName) -> None:
        """It comes back with another disk, at once or later."""
        if self.fleet.sites[name].drawer and self.rng.random() < 0.5:
            self.fleet.put_back(name)
        else:
            self.fleet.wipe(name)
        if name not in self.stopped:
            self.stopped.append(name)
        if self.rng.random() < 0.5:
            self.stopped.remove(name)
            self.fleet.start(name)

    def _may_wipe(self, name: NodeName) -> bool:
        """A majority of the disks that count is left; nothing can be promised otherwise."""
        if not self.fleet.observer.foundings:
            return True
        is_asked_for = len(self.fleet.sites) > len(self.fleet.names) and name in self.wanted
        return self.fleet.may_lose(name) and not is_asked_for  # that list may be proposed at this moment

    def _cut(self, name: NodeName) -> None:
        others = [one for one in self.fleet.sites if one != name]
        some = self.rng.sample(others, self.rng.randint(0, len(others)))
        way = self.rng.randrange(3)
        self.fleet.cut |= {(name, one) for one in some if way != 1} | {(one, name) for one in some if way != 2}

    def client(self) -> str | None:
        """Open some sessions, or end one, at whoever leads. The tag of one that was opened."""
        site = self.fleet.leader()
        if site is None or site.machine is None or site.paused_ms > self.fleet.now_ms:
            return None
        if len(self.fleet.sites) > len(self.fleet.names) and self.rng.random() < 0.5:
            self.change(site)
            return None
        state = site.machine.effective
        if state is not None and state.sessions and self.rng.random() < 0.3:
            one = self.rng.choice(sorted(state.sessions))
            self.fleet.observer.ended.add(one)
            self._step(site, lambda machine: machine.propose_end([one]))
            return None
        tags = [f"t{self.opened + at}" for at in range(self.rng.randint(1, 3))]
        self.opened += len(tags)
        for tag in tags:
            self._step(site, partial(AgreeingServer.propose_open, ttl_ms=15_000, tag=tag))
        return tags[-1]

    def change(self, site: Site) -> None:
        """Ask the leader for a list of servers: for another one, for the same again, or to go back."""
        if self.rng.random() < 0.4:
            count = self.rng.choice([size for size in (1, 3, 5) if size <= len(self.fleet.sites)])
            self.wanted = tuple(self.rng.sample(list(self.fleet.sites), count))
        with suppress(BusyError):
            self._step(site, lambda machine: machine.propose_servers(self.wanted))

    def _step(self, site: Site, act: Callable[[AgreeingServer], None]) -> None:
        def told(machine: AgreeingServer, _own_ms: int) -> None:
            with suppress(NotReadyError):  # its last step made it a follower, and is not on its disk yet
                act(machine)

        self.fleet.step(site, told)

    def begin(self) -> None:
        """All start, one after the other."""
        for name in self.fleet.sites:
            self.fleet.start(name)
            self.fleet.run(self.rng.randrange(200))

    def trouble(self, count: int) -> None:
        """So many disturbances."""
        for _ in range(count):
            self.disturb()
            self.fleet.run(int(self.fleet.lease_ms * self.rng.choice((0.02, 0.2, 1, 3))))

    def heal(self) -> None:
        """All faults end."""
        self.fleet.cut.clear()
        self.fleet.loss = self.fleet.slow = 0
        for name in self.stopped:
            self.fleet.start(name)
        self.stopped.clear()
        for site in self.fleet.sites.values():
            site.paused_ms = 0


def play(seed: int, spares: int = 0) -> TokenPlay:
    """One seed; with spare hosts the list of servers changes."""
    rng = Random(seed)
    one = TokenPlay(rng.choice((1, 3, 3, 3, 5, 5)), seed, spares)
    one.begin()
    if rng.random() < 0.8:
        one.fleet.settle(SETTLED_LEASES)
    one.trouble(rng.choice((5, 15, 30)))
    one.heal()
    one.fleet.run(5 * one.fleet.lease_ms)
    one.fleet.settle(SETTLED_LEASES if not spares else 3 * SETTLED_LEASES)
    foundings = [site.machine.founding for site in one.fleet.listed() if site.machine is not None]
    found = {None if founding is None else founding.generation for founding in foundings}
    assert found == {1}, "there are two foundings"
    tag = None
    while tag is None:  # a client ends a session, now and then
        tag = one.client()
    one.fleet.run(one.fleet.lease_ms)
    one.fleet.run(3 * one.fleet.lease_ms if spares else 0)
    assert all(tag in _tags(site) for site in one.fleet.listed())
    return one


@pytest.mark.parametrize("first", SEEDS[::EACH])
def test_faults_break_no_promise_and_leave_servers_that_serve(first: int) -> None:
    for seed in range(first, first + EACH):
        play(seed)


@pytest.mark.parametrize("first", SEEDS[::EACH])
def test_changes_of_the_list_under_faults_break_no_promise(first: int) -> None:
    """(docs/protocol, QUORUM-14)"""
    for seed in range(first, first + EACH):
        play(seed, spares=1 + seed % 3)


# -- one thing at a time


def _fleet(count: int, seed: int = 1) -> TokenFleet:
    """All started, and serving."""
    fleet = TokenFleet(count, seed)
    for name in fleet.names:
        fleet.start(name)
    fleet.settle(4)
    return fleet


def _leader(fleet: TokenFleet) -> Site:
    site = fleet.leader()
    assert site is not None
    return site


def _followers(fleet: TokenFleet) -> list[NodeName]:
    leader = _leader(fleet).name
    return [name for name in fleet.names if name != leader]


def _open(fleet: TokenFleet, tags: list[str]) -> None:
    def told(machine: AgreeingServer, _own_ms: int) -> None:
        for tag in tags:
            machine.propose_open(15_000, tag)

    fleet.step(_leader(fleet), told)


def _tags(site: Site) -> set[str]:
    state = site.claim.effective if site.claim is not None else None
    return set() if state is None else {one.partition("-")[2] for one in state.sessions}


def test_single_server_leads_within_a_second_of_its_founding() -> None:
    fleet = TokenFleet(1, 1, lease_ms=5000)
    fleet.start(fleet.names[0])
    fleet.run(1000)
    assert fleet.is_settled()


@pytest.mark.parametrize("count", [3, 5, 7])
def test_founding_takes_no_longer_than_two_leases(count: int) -> None:
    for seed in seeds(10):
        fleet = TokenFleet(count, seed)
        for name in fleet.names:
            fleet.start(name)
        assert fleet.settle(4) <= 2 * fleet.lease_ms


def test_nothing_is_founded_while_one_server_of_the_list_is_missing() -> None:
    fleet = TokenFleet(3, 1)
    for name in fleet.names[:2]:
        fleet.start(name)
    fleet.run(20 * fleet.lease_ms)
    assert not fleet.observer.foundings
    fleet.start(fleet.names[2])
    fleet.settle(4)


def test_majority_is_enough_once_it_is_founded() -> None:
    fleet = _fleet(5)
    for name in _followers(fleet)[:2]:
        fleet.kill(name)
    fleet.run(3 * fleet.lease_ms)
    _open(fleet, ["late"])
    fleet.run(500)
    assert _tags(_leader(fleet)) == {"late"}


def test_new_leader_is_there_within_two_and_a_half_leases() -> None:
    for seed in seeds(20):
        fleet = _fleet(3, seed)
        fleet.kill(_leader(fleet).name)
        began_ms = fleet.now_ms
        while fleet.leader() is None:
            fleet.run(20)
            assert fleet.now_ms <= began_ms + 2.5 * fleet.lease_ms


def test_server_that_returns_unseats_no_leader() -> None:
    fleet = _fleet(3)
    leader, other = _leader(fleet), _followers(fleet)[0]
    fleet.cut = {(leader.name, other)}
    fleet.run(5 * fleet.lease_ms)
    fleet.cut.clear()
    fleet.settle(5)
    assert _leader(fleet) is leader
    assert {state.term for state in fleet.observer.states.values()} == {1}


def test_voter_that_restarts_does_not_forget_what_it_promised() -> None:
    for seed in seeds(40):
        fleet = _fleet(3, seed)
        leader = _leader(fleet)
        deaf, voter = _followers(fleet)
        fleet.cut = {(leader.name, deaf)}
        fleet.run(fleet.lease_ms - 20)  # the deaf one is about to ask for votes, and not declared down yet
        fleet.cut |= {(leader.name, voter), (voter, leader.name), (deaf, leader.name)}
        fleet.kill(voter)
        fleet.start(voter)
        fleet.run(2 * fleet.lease_ms)


def test_leader_that_hears_nobody_gives_up_so_that_others_can_be_elected() -> None:
    fleet = _fleet(3)
    leader = _leader(fleet)
    fleet.cut = {(name, leader.name) for name in fleet.names}
    fleet.run(6 * fleet.lease_ms)
    assert _leader(fleet) is not leader


def test_wiped_majority_neither_founds_nor_elects() -> None:
    fleet = _fleet(3)
    for name in _followers(fleet):
        fleet.wipe(name)
    fleet.kill(_leader(fleet).name)
    for name in fleet.names:
        fleet.start(name)
    fleet.run(30 * fleet.lease_ms)
    assert fleet.leader() is None
    assert len(fleet.observer.foundings) == 1


def test_wiped_server_serves_again_in_its_new_life() -> None:
    fleet = _fleet(3)
    name = _followers(fleet)[0]
    fleet.wipe(name)
    fleet.start(name)
    fleet.run(fleet.lease_ms)
    fleet.settle(3)
    assert fleet.sites[name].machine is not None
    assert name in fleet.members()


def test_restart_of_all_keeps_sessions_and_standings() -> None:
    fleet = _fleet(3)
    _open(fleet, ["one", "two"])
    fleet.run(500)
    version = max(fleet.observer.states)
    for name in fleet.names:
        fleet.kill(name)
        fleet.start(name, is_reboot=True)
    fleet.settle(4)
    assert [_tags(site) for site in fleet.sites.values()] == [{"one", "two"}] * 3
    assert max(fleet.observer.states) == version + 1
    assert fleet.observer.states[version + 1].changed < version


def test_server_that_was_away_gets_thousands_of_sessions() -> None:
    fleet = _fleet(3)
    name = _followers(fleet)[0]
    fleet.kill(name)
    for at in range(5):
        _open(fleet, [f"t{at}x{one}" for one in range(1000)])
        fleet.run(200)
    fleet.start(name)
    fleet.settle(4)
    assert len(_tags(fleet.sites[name])) == 5000


def test_follower_at_rest_wakes_only_when_it_is_told_something() -> None:
    fleet = _fleet(3)
    site = fleet.sites[_followers(fleet)[0]]
    steps = 0

    def counting(_machine: AgreeingServer, _own_ms: int) -> None:
        nonlocal steps
        steps += 1

    own_ms = site.own_ms(fleet.now_ms)
    assert site.machine is not None
    wake_ms = site.machine.wake_ms()
    assert wake_ms is not None
    assert wake_ms >= own_ms + fleet.lease_ms // 2
    fleet.step(site, counting)
    assert steps == 1


# -- reset


def _reset(fleet: TokenFleet, name: NodeName, servers: Collection[NodeName] = ()) -> None:
    fleet.step(fleet.sites[name], lambda machine, own_ms: machine.reset(machine.turn(own_ms), servers))


def test_reset_with_a_shorter_list_founds_anew_above_all_versions() -> None:
    fleet = _fleet(5)
    _open(fleet, ["old"])
    fleet.run(500)
    version = max(fleet.observer.states)
    for name in fleet.names:
        fleet.kill(name)
    fleet.names = fleet.names[:3]
    fleet.sites = {name: fleet.sites[name] for name in fleet.names}
    for name in fleet.names[:2]:  # no majority of the list in force
        fleet.start(name)
    fleet.run(10 * fleet.lease_ms)
    assert fleet.leader() is None
    fleet.observer.states.clear()  # what was agreed is void
    _reset(fleet, fleet.names[1], fleet.names)
    fleet.start(fleet.names[2])
    fleet.settle(8)
    assert min(fleet.observer.states) > version
    assert not _tags(_leader(fleet))
    foundings = [site.machine.founding for site in fleet.sites.values() if site.machine is not None]
    assert foundings == [foundings[0]] * 3


def test_reset_while_all_live_voids_all_that_was_granted_before() -> None:
    for seed in seeds(10):
        fleet = _fleet(3, seed)
        fleet.observer.states.clear()
        _reset(fleet, fleet.names[0])
        fleet.run(fleet.lease_ms // 2)
        assert not any(site.claim is not None and site.claim.grants_until_ms for site in fleet.sites.values())
        fleet.settle(6)


def test_server_that_missed_a_reset_is_told_when_it_comes_back() -> None:
    fleet = _fleet(3)
    away = fleet.names[2]
    fleet.kill(away)
    fleet.observer.states.clear()
    _reset(fleet, fleet.names[0])
    fleet.run(4 * fleet.lease_ms)
    fleet.sites[away].founding = None
    fleet.start(away)
    fleet.run(fleet.lease_ms)
    fleet.settle(6)
    machine = fleet.sites[away].machine
    assert machine is not None
    assert machine.founding is not None
    assert machine.founding.generation == 2
