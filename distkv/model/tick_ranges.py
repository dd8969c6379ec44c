"""Sets of ticks of many nodes: what is held, missing, lost or wanted, by the name of the node that made the changes.

Knows: set algebra, name by name.  Does not know why a tick is in a set.

Invariant: nothing here changes what it is given; a name that nothing is left of is not in the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from distkv.model.event import COUNT_BITS, Link, NodeName, Tick, first_tick, life_of
from distkv.model.ranges import Ranges

TickRanges: TypeAlias = dict[NodeName, Ranges]
"""Per node name; a name's lives do not overlap, so one set of ranges serves them all."""

_NONE: Final = Ranges()


def ranges_of(links: Iterable[Link]) -> TickRanges:
    """These ticks."""
    found: TickRanges = {}
    for node, tick in links:
        found.setdefault(node, Ranges()).add(tick)
    return found


def through(lasts: Mapping[NodeName, Sequence[Tick]]) -> TickRanges:
    """All ticks of the lives of which `lasts` names one, up to that one."""
    return {
        node: Ranges.from_sorted([(first_tick(life_of(last)), last + 1) for last in ticks])
        for node, ticks in lasts.items()
    }


def up_to(ticks: Mapping[NodeName, int]) -> TickRanges:
    """Of each of these names all that there can be up to a tick, whatever its life; 0: nothing, but the name."""
    return {node: Ranges([(0, tick + 1)]) for node, tick in ticks.items()}


def common(ticks: TickRanges, others: TickRanges) -> TickRanges:
    """What is in both."""
    return {node: both for node, ranges in ticks.items() if (both := ranges & others.get(node, _NONE))}


def without(ticks: TickRanges, others: TickRanges) -> TickRanges:
    """What is in the first only."""
    return {node: rest for node, ranges in ticks.items() if (rest := ranges - others.get(node, _NONE))}


def joined(ticks: TickRanges, others: TickRanges) -> TickRanges:
    """What is in one of them."""
    names = {**ticks, **others}
    return {node: both for node in names if (both := ticks.get(node, _NONE) | others.get(node, _NONE))}


def overlap(ticks: TickRanges, others: TickRanges) -> bool:
    """Whether anything is in both; ends at the first."""
    return any(ranges & others[node] for node, ranges in ticks.items() if node in others)


def is_within(ticks: TickRanges, others: TickRanges) -> bool:
    """Whether all of the first are in the second; ends at the first that is not."""
    return not any(ranges - others.get(node, _NONE) for node, ranges in ticks.items())


def count(ticks: TickRanges) -> int:
    """How many ticks there are."""
    return sum(map(len, ticks.values()))


def count_by_node(ticks: TickRanges) -> dict[NodeName, int]:
    """How many ticks there are of each name."""
    return {node: len(ranges) for node, ranges in ticks.items() if ranges}


def lives(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The ranges cut where a life ends, so that each piece belongs to one writer."""
    for begin, end in ranges.pairs():
        while begin >> COUNT_BITS < (end - 1) >> COUNT_BITS:
            cut = ((begin >> COUNT_BITS) + 1) << COUNT_BITS
            yield begin, cut
            begin = cut
        yield begin, end
