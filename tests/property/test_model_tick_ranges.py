"""Sets of ticks of many nodes against plain sets of (node, tick)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from distkv.model.event import Link, NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import (
    TickRanges,
    common,
    count,
    first_of,
    is_within,
    joined,
    overlap,
    ranges_of,
    without,
)

few = settings(max_examples=120, deadline=None)

nodes = st.sampled_from([NodeName("c"), NodeName("a"), NodeName("b")])
links = st.sets(st.tuples(nodes, st.integers(1, 8).map(Tick)))


def _links(ticks: TickRanges) -> set[Link]:
    assert all(ticks.values()), "a name that nothing is left of is not in the result"
    return {(node, Tick(tick)) for node, ranges in ticks.items() for tick in ranges}


@few
@given(links, links)
def test_algebra_agrees_with_plain_sets(some: set[Link], others: set[Link]) -> None:
    mine, theirs = ranges_of(some), ranges_of(others)
    assert _links(common(mine, theirs)) == some & others
    assert _links(without(mine, theirs)) == some - others
    assert _links(joined(mine, theirs)) == some | others
    assert overlap(mine, theirs) == bool(some & others)
    assert is_within(mine, theirs) == (some <= others)
    assert count(mine) == len(some)
    assert (_links(mine), _links(theirs)) == (some, others)


@few
@given(links, st.integers(0, 12))
def test_first_of_many_are_by_name_and_tick(some: set[Link], at_most: int) -> None:
    assert _links(first_of(ranges_of(some), at_most)) == set(sorted(some)[:at_most])


def test_result_shares_nothing_with_what_it_was_made_of() -> None:
    a = NodeName("a")
    mine: TickRanges = {a: Ranges([(1, 5)])}
    for made in (common(mine, mine), without(mine, {}), joined(mine, {}), first_of(mine, 9)):
        made[a].add(9)
    assert mine == {a: Ranges([(1, 5)])}
