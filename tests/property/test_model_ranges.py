"""`Ranges` against a plain set: every operation, from any sequence of operations."""

from __future__ import annotations

from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.ranges import Ranges
from tests.profiles import examples

pytestmark = pytest.mark.slow

few = examples(30)

ticks = st.integers(0, 40)
pairs = st.tuples(ticks, ticks)
"""As likely empty or backwards as not: such a pair holds nothing."""


@st.composite
def sets(draw: st.DrawFn) -> tuple[Ranges, set[int]]:
    """Ranges made by adding and removing, and the plain set of the same."""
    ranges, plain = Ranges(), set[int]()
    for adds, (begin, end) in draw(st.lists(st.tuples(st.booleans(), pairs), max_size=8)):
        if adds:
            ranges.add_range(begin, end)
            plain |= set(range(begin, end))
        else:
            ranges.discard_range(begin, end)
            plain -= set(range(begin, end))
    return ranges, plain


both = sets()


def _pairs_of(plain: set[int]) -> list[tuple[int, int]]:
    """The sorted half-open ranges of a set, by looking at each integer's neighbours."""
    begins = sorted(x for x in plain if x - 1 not in plain)
    ends = sorted(x + 1 for x in plain if x + 1 not in plain)
    return list(zip(begins, ends, strict=True))


@few
@given(both)
def test_reading_agrees_with_a_plain_set(pair: tuple[Ranges, set[int]]) -> None:
    ranges, plain = pair
    assert list(ranges) == sorted(plain)
    assert list(ranges.pairs()) == _pairs_of(plain)
    assert (len(ranges), ranges.count(), bool(ranges)) == (len(plain), len(_pairs_of(plain)), bool(plain))
    assert ranges.last() == max(plain, default=-1)
    assert [x for x in range(-1, 42) if x in ranges] == sorted(plain)


@few
@given(both, pairs)
def test_adding_a_range_agrees_with_a_plain_set(pair: tuple[Ranges, set[int]], new: tuple[int, int]) -> None:
    ranges, plain = pair
    after = plain | set(range(*new))
    assert ranges.add_range(*new) == (after != plain)
    assert list(ranges.pairs()) == _pairs_of(after)


@few
@given(both, pairs)
def test_discarding_a_range_agrees_with_a_plain_set(pair: tuple[Ranges, set[int]], old: tuple[int, int]) -> None:
    ranges, plain = pair
    after = plain - set(range(*old))
    assert ranges.discard_range(*old) == (after != plain)
    assert list(ranges.pairs()) == _pairs_of(after)


@few
@given(both, ticks)
def test_adding_and_discarding_one_tick_agree_with_a_plain_set(pair: tuple[Ranges, set[int]], tick: int) -> None:
    ranges, plain = pair
    assert ranges.copy().add(tick) == (tick not in plain)
    assert ranges.copy().discard(tick) == (tick in plain)
    assert list(ranges) == sorted(plain)


@few
@given(both, both)
def test_set_algebra_agrees_with_plain_sets(one: tuple[Ranges, set[int]], two: tuple[Ranges, set[int]]) -> None:
    (a, x), (b, y) = one, two
    assert list((a - b).pairs()) == _pairs_of(x - y)
    assert list((a & b).pairs()) == _pairs_of(x & y)
    assert list((a | b).pairs()) == _pairs_of(x | y)
    assert (a == b) == (x == y)
    assert (list(a), list(b)) == (sorted(x), sorted(y))


@few
@given(both, both)
def test_update_agrees_with_a_plain_set(one: tuple[Ranges, set[int]], two: tuple[Ranges, set[int]]) -> None:
    (a, x), (b, y) = one, two
    assert a.update(b) == bool(y - x)
    assert list(a.pairs()) == _pairs_of(x | y)


@few
@given(both, pairs)
def test_gaps_are_what_a_stretch_lacks(pair: tuple[Ranges, set[int]], stretch: tuple[int, int]) -> None:
    ranges, plain = pair
    assert list(ranges.gaps(*stretch).pairs()) == _pairs_of(set(range(*stretch)) - plain)


@few
@given(both, st.integers(0, 40))
def test_first_gap_is_the_lowest_that_lacks(pair: tuple[Ranges, set[int]], begin: int) -> None:
    ranges, plain = pair
    assert ranges.first_gap(begin) == next(tick for tick in count(begin) if tick not in plain)


@few
@given(both, pairs)
def test_a_stretch_is_there_when_nothing_of_it_lacks(pair: tuple[Ranges, set[int]], stretch: tuple[int, int]) -> None:
    ranges, plain = pair
    assert ranges.has_all(*stretch) == (set(range(*stretch)) <= plain)
    for begin, end in ranges.pairs():
        assert ranges.has_all(begin, end)
        assert not ranges.has_all(begin, end + 1)


@few
@given(both)
def test_the_form_for_messages_keeps_everything(pair: tuple[Ranges, set[int]]) -> None:
    ranges, plain = pair
    found: set[int] = set()
    for part in ranges.to_list():
        found |= {part} if isinstance(part, int) else set(range(*part))
    assert found == plain
    assert all(isinstance(part, int) or part[1] - part[0] > 1 for part in ranges.to_list())


@few
@given(both)
def test_made_again_from_pairs_or_ticks_is_equal(pair: tuple[Ranges, set[int]]) -> None:
    ranges, plain = pair
    assert Ranges.from_sorted(ranges.pairs()) == ranges == Ranges.from_ticks(plain) == Ranges(_pairs_of(plain))


@few
@given(st.lists(pairs, min_size=1, max_size=4))
def test_from_sorted_takes_exactly_rising_ranges_that_do_not_touch(given: list[tuple[int, int]]) -> None:
    flat = [number for pair in given for number in pair]
    if all(a < b for a, b in pairwise(flat)):
        assert list(Ranges.from_sorted(given).pairs()) == given
    else:
        with pytest.raises(ValueError, match=r"the range \["):
            Ranges.from_sorted(given)
