"""A plan against a fleet that is nothing but sets: where content is, who answers, what each node has heard of."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.client.changes import Located
from distkv.model.event import COUNT_BITS, NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, count, joined, overlap, without
from distkv.spark.nodes.planning import (
    ALIVE,
    RETIRED,
    ContentQuestion,
    KnownNode,
    Plan,
    View,
    cut,
    first_of,
    held_by,
    missing_at,
    plan,
)

pytestmark = pytest.mark.slow

NODES = tuple(NodeName(name) for name in "abcd")
TICKS = (*range(1, 7), *range((2 << COUNT_BITS) + 1, (2 << COUNT_BITS) + 4))
links = st.tuples(st.sampled_from(NODES), st.sampled_from(TICKS))


@attrs.frozen
class Host:
    """A node of the fleet."""

    content: frozenset[tuple[NodeName, int]]
    heard: frozenset[tuple[NodeName, int]]
    """Held by hearsay, without content."""
    is_named: bool
    answers: bool
    is_retired: bool
    breaks: bool
    """It answers `get_state`, and nothing more."""


hosts = st.builds(
    Host, st.frozensets(links), st.frozensets(links), st.booleans(), st.booleans(), st.booleans(), st.booleans()
)
fleets = st.fixed_dictionaries(dict.fromkeys(NODES, hosts))


def ranges_of(some: set[tuple[NodeName, int]] | frozenset[tuple[NodeName, int]]) -> TickRanges:
    found: TickRanges = {}
    for node, tick in sorted(some):
        found.setdefault(node, Ranges()).add(tick)
    return found


def views_of(fleet: dict[NodeName, Host]) -> list[View]:
    members = {
        node: KnownNode(node, f"{node}:1", RETIRED if host.is_retired else ALIVE if host.answers else "away")
        for node, host in fleet.items()
    }
    return [
        View(
            f"{node}:1",
            node,
            b"net",
            ranges_of(host.content | host.heard),
            {},
            {},
            tuple(member for other, member in members.items() if other != node),
        )
        for node, host in fleet.items()
        if host.is_named and host.answers
    ]


def carry_out(fleet: dict[NodeName, Host], new: TickRanges, *, discover: bool) -> tuple[Plan, list[ContentQuestion]]:
    asked: list[ContentQuestion] = []
    planning = plan(views_of(fleet), new, discover=discover)
    answer: Located | None = None
    try:
        ask = next(planning)
        while True:
            asked.append(ask)
            host = fleet[NodeName(ask.addr[0])]
            here = common(ask.ticks, ranges_of(host.content))
            answer = None if host.breaks or not host.answers else Located(here, without(ask.ticks, here))
            ask = planning.send(answer)
    except StopIteration as end:
        found: Plan = end.value
        return found, asked


@given(fleets, st.sets(links), st.booleans())
def test_each_new_tick_is_read_where_its_content_is_or_a_gap_or_waited_for(
    fleet: dict[NodeName, Host], known: set[tuple[NodeName, int]], discover: bool
) -> None:
    views = views_of(fleet)
    if not views:
        return
    new = without(held_by(views), ranges_of(known))
    found, asked = carry_out(fleet, new, discover=discover)
    parts = [found.ticks, found.gaps, found.waiting]
    assert joined(joined(*parts[:2]), parts[2]) == new
    assert sum(map(count, parts)) == count(new)
    assert sum(len(read.ticks) for read in found.reads) == count(found.ticks)
    reached = {
        node: host
        for node, host in fleet.items()
        if host.answers and not host.breaks and (host.is_named or (discover and not host.is_retired))
    }
    for read in found.reads:
        assert not read.ticks - ranges_of(reached[NodeName(read.addrs[0][0])].content)[read.node]
        assert len(set(read.addrs)) == len(read.addrs)
    for host in reached.values():
        assert not overlap(joined(found.gaps, found.waiting), ranges_of(host.content))
    for node in found.gaps:
        assert node in reached or any(host.is_retired for name, host in fleet.items() if name == node)
    assert not set(found.waiting) & set(reached)
    assert len({(ask.addr, tuple(ask.ticks)) for ask in asked}) == len(asked)


@given(fleets, st.integers(1, 8))
def test_partitions_are_the_reads_cut_in_order(fleet: dict[NodeName, Host], size: int) -> None:
    views = views_of(fleet)
    if not views:
        return
    found, _ = carry_out(fleet, held_by(views), discover=True)
    parts = list(cut(found.reads, size))
    assert all(1 <= len(part.ticks) <= size for part in parts)
    assert sum(len(part.ticks) for part in parts) == count(found.ticks)
    assert [(part.node, tick) for part in parts for tick in part.ticks] == [
        (read.node, tick) for read in found.reads for tick in read.ticks
    ]


@given(st.sets(links), st.integers(0, 30))
def test_first_ticks_are_the_lowest_of_each_node_and_as_many_as_allowed(
    some: set[tuple[NodeName, int]], count_max: int
) -> None:
    ticks = ranges_of(some)
    found = first_of(ticks, count_max)
    assert count(found) == min(count_max, len(some))
    for node, ranges in found.items():
        assert list(ranges) == sorted(tick for name, tick in some if name == node)[: len(ranges)]


@given(fleets)
def test_what_all_miss_is_held_by_none(fleet: dict[NodeName, Host]) -> None:
    views = [attrs.evolve(view, missing=ranges_of({(n, t) for n in NODES for t in TICKS}), lost=view.held)
             for view in views_of(fleet)]  # fmt: skip
    missing, lost = missing_at(views)
    assert not overlap(missing, held_by(views))
    assert without(lost, missing) == {}
