"""Server trees of whole fleets under faults (docs/protocol, TREE-1 to TREE-13).

Knows: what must be true of the trees at each moment, and in the end.  Does not know how a node chooses its parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distkv.core.server_tree.parents import DEPTH_MAX
from distkv.model.event import NodeName
from distkv.sim.agenda import Agenda
from distkv.sim.forest import Forest, Site
from distkv.sim.network import Network, NetworkFaults

ANNOUNCE_MS = 5000
STEP_MS = 50
"""So often the trees are looked at."""
WITHIN_MS = 60_000


@attrs.define
class Fleet:
    """Some nodes, and what has been seen of their trees."""

    forest: Forest
    network: Network
    agenda: Agenda
    paused: set[NodeName] = attrs.field(factory=set)

    @property
    def names(self) -> list[NodeName]:
        return [site.name for site in self.forest.running()]

    def run(self, for_ms: int, step_ms: int = STEP_MS) -> None:
        """Let time pass, and look at the trees."""
        for _ in range(0, for_ms, step_ms):
            self.agenda.run(step_ms)
            self.check()

    def check(self) -> None:
        """No circle, and no level that is too high."""
        parents = {site.name: site.tree.parent for site in self.forest.running()}
        known = set[NodeName]()
        for name in parents:
            way, at = set[NodeName](), name
            while at not in known:
                assert at not in way, f"{sorted(way)} are a circle"
                way.add(at)
                above = parents.get(at)
                if above is None or above not in parents:
                    break
                at = above
            known |= way
        assert all(len(site.tree.path) <= DEPTH_MAX + 1 for site in self.forest.running())

    def is_one_tree(self) -> bool:
        roots = {site.tree.path[-1] if site.tree.path else None for site in self.forest.running()}
        return len(roots) == 1 and None not in roots and not self.paused

    def becomes_one_tree(self, within_ms: int = WITHIN_MS, step_ms: int = STEP_MS) -> int:
        """How long it took."""
        began_ms = self.agenda.now_ms
        while not self.is_one_tree():
            self.run(step_ms, step_ms)
            assert self.agenda.now_ms - began_ms <= within_ms, list(self.forest.lines())
        return self.agenda.now_ms - began_ms


def _fleet(count: int, seed: int, *, fanout: int = 16, is_large: bool = False, announce_ms: int = ANNOUNCE_MS) -> Fleet:
    agenda, network, paused = Agenda(), Network(seed, NetworkFaults(), is_large=True), set[NodeName]()
    forest = Forest(
        agenda, network, seed, fanout=fanout, announce_ms=announce_ms, is_paused=paused.__contains__, is_large=is_large
    )
    for number in range(count):
        forest.start(NodeName(f"n{number:04}"))
    return Fleet(forest, network, agenda, paused)


def _disturb(fleet: Fleet, rng: Random, stopped: set[NodeName]) -> None:
    """One fault, or its end."""
    forest, names = fleet.forest, fleet.names
    match rng.choice(("stop", "stop", "start", "pause", "resume", "split", "one-way", "heal", "say", "say")):
        case "stop" if len(names) > 1:
            name = rng.choice(names)
            stopped.add(name)
            fleet.paused.discard(name)
            forest.stop(name)
        case "start" if stopped:
            name = rng.choice(sorted(stopped))
            stopped.discard(name)
            forest.start(name)
        case "pause":
            fleet.paused.add(rng.choice(names))
        case "resume":
            fleet.paused.clear()
        case "split":
            side = rng.sample(names, len(names) // 2)
            fleet.network.partition([side, [name for name in names if name not in side]], names)
        case "one-way":
            fleet.network.cut |= {(rng.choice(names), rng.choice(names)) for _ in range(3)}
        case "heal":
            fleet.network.cut = set()
        case "say":
            forest.say(rng.choice(names), "meanwhile")
        case _:
            pass


def _all_well(fleet: Fleet, stopped: Iterable[NodeName]) -> None:
    fleet.network.cut = set()
    fleet.paused.clear()
    for name in stopped:
        fleet.forest.start(name)


def _check_frames(sites: Iterable[Site], last: str) -> None:
    """Each node heard each other node's last word, and nothing twice or out of order."""
    sites = list(sites)
    for site in sites:
        numbers = defaultdict[NodeName, list[tuple[int, int]]](list)
        for frame in site.heard:
            numbers[frame.origin].append((frame.start, frame.number))
        for origin, found in numbers.items():
            assert found == sorted(set(found)), f"{site.name} heard {origin} twice, or out of order"
        heard = {frame.origin for frame in site.heard if frame.body.decode() == last}
        assert heard == {other.name for other in sites} - {site.name}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.sampled_from([2, 3, 5, 9, 18]), fanout=st.sampled_from([1, 2, 3, 16]))
def test_faults_leave_one_tree_in_which_all_hear_all(seed: int, count: int, fanout: int) -> None:
    count = min(count, DEPTH_MAX + 1) if fanout == 1 else count
    fleet, rng, stopped = _fleet(count, seed, fanout=fanout), Random(seed), set[NodeName]()
    for _ in range(12):
        _disturb(fleet, rng, stopped)
        fleet.run(rng.choice((200, 1000, 4000)))
    _all_well(fleet, sorted(stopped))
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS)
    fleet.becomes_one_tree()
    for name in fleet.names:
        fleet.forest.say(name, "last")
    fleet.run(2000)
    _check_frames(fleet.forest.running(), "last")
    assert all(set(fleet.names) <= site.tree.announced.keys() for site in fleet.forest.running())


@pytest.mark.parametrize("count", [3, 17, 18, 100])
def test_tree_is_whole_two_announcements_after_root_and_inner_nodes_are_killed(count: int) -> None:
    fleet = _fleet(count, 1)
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS, 500)
    fleet.forest.stop(fleet.forest.roots()[0])
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS
    for site in [site for site in fleet.forest.running() if site.tree.children]:
        fleet.forest.stop(site.name)
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS


def test_tree_is_whole_two_announcements_after_the_root_stands_still() -> None:
    fleet = _fleet(18, 2)
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS)
    root = fleet.forest.roots()[0]
    fleet.paused.add(root)
    fleet.run(2 * ANNOUNCE_MS)
    others = [site for site in fleet.forest.running() if site.name != root]
    assert len({site.tree.path[-1] if site.tree.path else None for site in others}) == 1
    assert all(root not in site.tree.path for site in others)
    fleet.paused.clear()
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS


def test_each_reachable_part_has_one_root() -> None:
    fleet = _fleet(60, 3)
    fleet.becomes_one_tree()
    names = fleet.names
    sides = [names[:10], names[10:30], names[30:]]
    fleet.network.partition(sides, names)
    fleet.run(30_000, 500)
    roots = fleet.forest.roots()
    assert [sum(root in side for root in roots) for side in sides] == [1, 1, 1]
    fleet.network.cut = set()
    fleet.becomes_one_tree()
