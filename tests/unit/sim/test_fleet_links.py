"""Fleets whose nodes follow each other: what crosses links, and who follows whom while much goes wrong.

Knows: whole fleets in the simulator, and `distkv.sim.cost`.  Does not know how a parent is chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from distkv.core.client_writes import LocalSet, RetireNode
from distkv.core.ready import Input, Ready
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.sim.cost import Crossed, Crossings
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host, Process
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.rules.alike import show_the_same
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

CLOCK_MS = 5000
SMALL = 9
"""With a fan-out of 2 so many nodes follow most writers through others."""


class NoCircle(Observer):
    """Looks after every choice of whom to follow whether anybody follows himself through others."""

    def __init__(self) -> None:
        self.fleet: Fleet | None = None
        self.looks = 0

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if self.fleet is not None and ready.follows:
            self.looks += 1
            parents = _parents([host for host in self.fleet.running() if host.process is not None])
            for writer, above in parents.items():
                assert not _has_circle(above), f"{writer}: {above}"


def _parents(hosts: Sequence[Host]) -> dict[NodeName, dict[NodeName, set[NodeName]]]:
    """Per writer and node, whom the node follows for it."""
    found: dict[NodeName, dict[NodeName, set[NodeName]]] = {}
    for host in hosts:
        for name, parent in host.live.following.parents.items():
            for writer in parent.writers:
                found.setdefault(writer, {}).setdefault(host.node, set()).add(name)
    return found


def _has_circle(above: dict[NodeName, set[NodeName]]) -> bool:
    """Take away whoever follows nobody that is left, again and again: a circle is what remains."""
    left = dict(above)
    while gone := [name for name, parents in left.items() if not parents & left.keys()]:
        for name in gone:
            del left[name]
    return bool(left)


class _Grown:
    """A fleet of which all serve, and follow each other."""

    def __init__(self, count: int, **settings: int) -> None:
        self.crossings, self.no_circle = Crossings(), NoCircle()
        faults = NetworkFaults(delay_ms=(40, 200), silence_ms=10_000)
        self.fleet = Fleet(7, faults, is_large=True, observers=[self.crossings, self.no_circle])
        self.no_circle.fleet = self.fleet
        self.names = [f"n{number:03}" for number in range(count)]
        self.settings = {"follow": True, **settings}
        self.written = 0
        self.fleet.start(self.names[0], init="root", **self.settings)
        self.run_until(lambda: self.host(0).live.is_serving)
        for name in self.names[1:]:
            self.fleet.start(name, **self.settings)
            self.fleet.run(50)
        self.run_until(self.is_alike)
        self.fleet.run(4 * CLOCK_MS)

    def host(self, number: int) -> Host:
        return self.fleet.hosts[self.names[number]]

    def write(self, number: int) -> None:
        self.written += 1
        path = Path(["written", str(self.written)])
        self.fleet.step(self.names[number], LocalSet(SetValue(1, path, pack_value("x" * 98))))

    def is_alike(self) -> bool:
        return show_the_same([host.live for host in self.fleet.running()])

    def run_until(self, condition: Callable[[], bool], clocks: int = 12) -> None:
        for _ in range(clocks * 10):
            if condition():
                return
            self.fleet.run(CLOCK_MS // 10)
        raise AssertionError(f"not within {clocks} clocks")

    def write_calmly(self, count: int) -> Crossed:
        """So many writes by all in turn, and what crossed links for them."""
        crossed = self.crossings.begin()
        for number in range(count):
            self.write(number * 7 % len(self.names))
            self.fleet.run(50)
        self.run_until(self.is_alike)
        return crossed

    def depths(self) -> Iterator[int]:
        """For each writer how many steps the farthest node is away."""
        for writer, above in _parents([*self.fleet.running()]).items():
            assert len(above) == len(self.names) - 1
            yield max(_depth(above, name, writer) for name in above)


def _depth(above: dict[NodeName, set[NodeName]], name: NodeName, writer: NodeName) -> int:
    steps = 0
    while name != writer:
        (name,) = above[name]
        steps += 1
    return steps


@pytest.mark.parametrize(
    ("count", "steps", "connections"),
    [(3, 1, 2), (17, 1, 16), (18, 2, 16), (36, 2, 18), pytest.param(100, 2, 22, marks=pytest.mark.slow)],
)
def test_each_event_crosses_each_link_once_and_reaches_all_in_few_steps(
    count: int, steps: int, connections: int
) -> None:
    grown = _Grown(count)
    crossed = grown.write_calmly(20)
    assert crossed.frames <= 20 * (count - 1)
    assert crossed.events == 20 * (count - 1)
    assert crossed.again == 0
    assert crossed.in_vain <= crossed.events * 0.02
    assert max(crossed.longest) == max(grown.depths()) == steps
    assert max(map(_count, grown.fleet.running())) <= connections


def _count(host: Host) -> int:
    return sum(bool(parent.writers) for parent in host.live.following.parents.values())


@pytest.fixture
def grown() -> _Grown:
    return _Grown(SMALL, fanout=2)


def _is_well(grown: _Grown) -> None:
    """All end alike, and each that runs has each that runs by a link again; there never was a circle."""
    grown.run_until(grown.is_alike)
    grown.fleet.run(12 * CLOCK_MS)
    running = {host.node for host in grown.fleet.running()}
    found = _parents([*grown.fleet.running()])
    assert {writer: above.keys() for writer, above in found.items()} == {
        writer: running - {writer} for writer in running
    }
    assert all(len(parents) == 1 for above in found.values() for parents in above.values())
    assert grown.no_circle.looks > 0


def test_half_of_the_fleet_dead_the_others_have_each_other_by_links(grown: _Grown) -> None:
    for number in range(0, SMALL, 2):
        grown.fleet.lose_power(grown.host(number))
    for number in range(1, SMALL, 2):
        grown.write(number)
        grown.fleet.run(500)
    _is_well(grown)
    for number in range(0, SMALL, 2):
        grown.fleet.start(grown.names[number], **grown.settings)
    _is_well(grown)


def test_ways_that_are_open_in_one_direction_only_make_no_circle(grown: _Grown) -> None:
    for number in range(SMALL):
        for step in (1, 2, 4):
            grown.fleet.network.cut.add((grown.names[number], grown.names[(number + step) % SMALL]))
        grown.write(number)
        grown.fleet.run(700)
    grown.run_until(grown.is_alike)
    grown.fleet.heal()
    for number in range(SMALL):  # who did not answer counts as gone until he speaks
        grown.write(number)
        grown.fleet.run(CLOCK_MS)
    _is_well(grown)


def test_retired_and_wiped_nodes_leave_no_circle_and_all_end_alike(grown: _Grown) -> None:
    grown.fleet.end(grown.host(2))
    grown.fleet.step(grown.names[0], RetireNode(NodeName(grown.names[2]), force=True))
    grown.fleet.wipe(grown.names[5], is_copied=True)
    grown.fleet.run(CLOCK_MS)
    grown.fleet.start(grown.names[5], **grown.settings)
    grown.write(1)
    _is_well(grown)
    grown.fleet.wipe(grown.names[2], is_copied=True)
    grown.fleet.start(grown.names[2], **grown.settings)
    _is_well(grown)


def test_nodes_whose_views_differ_make_no_circle(grown: _Grown) -> None:
    names = grown.names
    for number in range(SMALL):  # each is cut off from another third of the fleet for a while
        grown.fleet.network.isolate(names[number], [names[(number + step) % SMALL] for step in (1, 4, 7)])
        grown.fleet.run(900)
        grown.write((number * 4) % SMALL)
        if number % 3 == 2:
            grown.fleet.network.rejoin(names[number - 2])
    grown.fleet.heal()
    _is_well(grown)


def test_node_that_pauses_is_left_and_counts_as_no_follower_and_all_is_well_when_it_goes_on(grown: _Grown) -> None:
    paused = grown.host(4)
    others = [host for host in grown.fleet.running() if host is not paused]
    followed = [host for host in others if paused.node in host.live.following.followers]
    assert followed
    assert any(_brings(host, paused.node) for host in others)
    paused.pause()
    grown.fleet.run(5000)  # links.silent, and a second more for each side to look
    assert not any(_brings(host, paused.node) for host in others)
    assert not any(paused.node in host.live.following.followers for host in others)
    grown.write(0)
    grown.run_until(lambda: show_the_same([host.live for host in others]))
    paused.resume()
    _is_well(grown)


def test_connections_that_one_end_forgot_are_left_at_the_other_and_all_is_well(grown: _Grown) -> None:
    forgetful = grown.host(4)
    assert forgetful.process is not None
    others = [host for host in grown.fleet.running() if host is not forgetful]
    believing = [host for host in others if _brings(host, forgetful.node)]
    followed = [host for host in others if forgetful.node in host.live.following.followers]
    assert believing
    assert followed
    before = {host.name: host.process.followers.count for host in followed if host.process is not None}
    forgetful.process.forget_connections()
    assert not forgetful.live.following.followers
    grown.fleet.run(1000)
    assert all(_brings(host, forgetful.node) for host in believing)  # nobody told them
    lost = {host.name: host.live.deliveries.links_lost for host in believing}
    grown.write(0)
    grown.write(4)
    grown.fleet.run(5000)
    assert all(host.live.deliveries.links_lost > lost[host.name] for host in believing)
    _is_well(grown)
    assert {host.name: host.process.followers.count for host in followed if host.process is not None} == before


def _brings(host: Host, name: NodeName) -> bool:
    """Whether a node has somebody by a link to this one, which answers."""
    parent = host.live.following.parents.get(name)
    return parent is not None and parent.is_up and bool(parent.writers)


def test_fleet_that_grows_does_not_begin_all_follows_anew_for_each_newcomer() -> None:
    grown = _Grown(24)
    follows = grown.crossings.crossed.follows
    assert follows.total() / len(grown.names) <= 3 * 16
    grown.crossings.begin()
    grown.fleet.run(4 * CLOCK_MS)
    assert not grown.crossings.crossed.follows


def test_nodes_that_start_at_once_follow_few_others_each() -> None:
    grown = _Grown(24)
    for host in [*grown.fleet.running()]:
        grown.fleet.end(host)
    crossed = grown.crossings.begin()
    for name in grown.names:
        grown.fleet.start(name, **grown.settings)
    grown.run_until(grown.is_alike)
    grown.fleet.run(1000)
    assert 0 < max(crossed.follows.values()) <= 3 * 16
    grown.fleet.run(4 * CLOCK_MS)
    assert max(map(_count, grown.fleet.running())) <= 17


HEALS = (11, 28, 30, 76, 93, 160)
"""Seeds of heals after which much came twice: by a pull while it was tried to follow the writer, or by two links."""


@pytest.mark.parametrize("seed", HEALS)
def test_next_to_nothing_comes_twice_after_a_heal(seed: int) -> None:
    """(docs/protocol, LINK-4, LINK-8)"""
    rng, names, each = random.Random(seed), ("a", "b", "c", "d"), 150
    gossip_ms, answer_ms = (5, rng.choice((20, 200))), (1, rng.choice((10, 100, 400)))
    fleet = Fleet(seed, NetworkFaults(delay_ms=gossip_ms, answer_ms=answer_ms, silence_ms=10_000))
    fleet.start(names[0], init="root", follow=True)
    fleet.run(10_000)
    for name in names[1:]:
        fleet.start(name, follow=True)
        fleet.run(1500)
    fleet.run(20_000)
    fleet.partition("ab", "cd")
    for number in range(each):
        for place, name in enumerate(names, 1):
            path = Path(["w", str(number * len(names) + place)])
            fleet.step(name, LocalSet(SetValue(1, path, pack_value("x" * 50))))
        fleet.run(20)
    fleet.run(rng.randrange(40_000))
    before = _came_again(fleet)
    fleet.heal()
    assert fleet.run_until(lambda: show_the_same([host.live for host in fleet.running()]), 120_000)
    fleet.run(30_000)
    assert _came_again(fleet) - before <= 0.05 * len(names) * 2 * each


def _came_again(fleet: Fleet) -> int:
    deliveries = [host.live.deliveries for host in fleet.running()]
    return sum(one.events_linked_again + one.events_pulled_again for one in deliveries)
