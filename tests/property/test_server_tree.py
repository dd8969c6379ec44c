"""Server trees of whole fleets under faults (docs/protocol, TREE-1 to TREE-13).

Knows: what must be true of the trees in the end.  Does not know how a node chooses its parent.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.server_tree.parents import DEPTH_MAX
from distkv.model.event import NodeName
from tests.profiles import examples
from tests.property.server_trees import ANNOUNCE_MS, check_frames, disturb, end_faults, grow_fleet


@examples(10)
@given(seed=st.integers(0, 2**32), count=st.sampled_from([2, 3, 5, 9, 18]), fanout=st.sampled_from([1, 2, 3, 16]))
def test_faults_leave_one_tree_in_which_all_hear_all(seed: int, count: int, fanout: int) -> None:
    count = min(count, DEPTH_MAX + 1) if fanout == 1 else count
    fleet, rng, stopped = grow_fleet(count, seed, fanout=fanout), Random(seed), set[NodeName]()
    for _ in range(12):
        disturb(fleet, rng, stopped)
        fleet.run(rng.choice((200, 1000, 4000)))
    end_faults(fleet, sorted(stopped))
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS)
    fleet.becomes_one_tree()
    for name in fleet.names:
        fleet.forest.say(name, "last")
    fleet.run(2000)
    check_frames(fleet.forest.running(), "last")
    assert all(set(fleet.names) <= site.tree.announced.keys() for site in fleet.forest.running())


@pytest.mark.parametrize("count", [3, 17, 18, 100])
def test_tree_is_whole_two_announcements_after_root_and_inner_nodes_are_killed(count: int) -> None:
    fleet = grow_fleet(count, 1)
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS, 500)
    fleet.forest.stop(fleet.forest.roots()[0])
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS
    for site in [site for site in fleet.forest.running() if site.tree.children]:
        fleet.forest.stop(site.node)
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS


def test_tree_is_whole_two_announcements_after_the_root_stands_still() -> None:
    fleet = grow_fleet(18, 2)
    fleet.becomes_one_tree()
    fleet.run(2 * ANNOUNCE_MS)
    root = fleet.forest.roots()[0]
    fleet.paused.add(root)
    fleet.run(2 * ANNOUNCE_MS)
    others = [site for site in fleet.forest.running() if site.node != root]
    assert len({site.tree.path[-1] if site.tree.path else None for site in others}) == 1
    assert all(root not in site.tree.path for site in others)
    fleet.forest.go_on()
    assert fleet.becomes_one_tree() <= 2 * ANNOUNCE_MS


def test_each_reachable_part_has_one_root() -> None:
    fleet = grow_fleet(60, 3)
    fleet.becomes_one_tree()
    names = fleet.names
    sides = [names[:10], names[10:30], names[30:]]
    fleet.network.partition(sides, names)
    fleet.run(30_000, 500)
    roots = fleet.forest.roots()
    assert [sum(root in side for root in roots) for side in sides] == [1, 1, 1]
    fleet.network.cut = set()
    fleet.becomes_one_tree()


def test_tree_of_many_nodes_is_flat_and_repairs_itself() -> None:
    fleet = grow_fleet(300, 4, is_large=True)
    fleet.becomes_one_tree(step_ms=250)
    fleet.forest.stop(fleet.forest.roots()[0])
    assert fleet.becomes_one_tree(step_ms=250) <= 2 * ANNOUNCE_MS
    for name in Random(4).sample(fleet.names, len(fleet.names) // 2):
        fleet.forest.stop(name)
    assert fleet.becomes_one_tree(step_ms=250) <= 2 * ANNOUNCE_MS
    assert max(len(site.tree.path) for site in fleet.forest.running()) <= DEPTH_MAX + 1
