"""Sets of ticks of many nodes against plain sets of (node, tick)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import COUNT_BITS, Link, NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import (
    TickRanges,
    common,
    count,
    is_within,
    joined,
    overlap,
    ranges_of,
    through,
    without,
)
from tests.profiles import examples

few = examples(30)

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
@given(st.dictionaries(nodes, st.dictionaries(st.integers(0, 3), st.integers(1, 8), min_size=1)))
def test_what_was_heard_of_is_all_up_to_the_last_tick_of_each_life(lasts: dict[NodeName, dict[int, int]]) -> None:
    heard = {name: [Tick((life << COUNT_BITS) + some[life]) for life in sorted(some)] for name, some in lasts.items()}
    expected = {
        (name, Tick((life << COUNT_BITS) + number))
        for name, some in lasts.items()
        for life, last in some.items()
        for number in range(1, last + 1)
    }
    assert _links(through(heard)) == expected


def test_result_shares_nothing_with_what_it_was_made_of() -> None:
    a = NodeName("a")
    mine: TickRanges = {a: Ranges([(1, 5)])}
    for made in (common(mine, mine), without(mine, {}), joined(mine, {})):
        made[a].add(9)
    assert mine == {a: Ranges([(1, 5)])}
