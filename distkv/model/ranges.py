"""Sets of ticks as sorted half-open ranges.

Knows: set algebra on integers that come mostly in runs.  Does not know what the numbers mean.

Invariant: `_starts` and `_ends` are equally long, strictly rising, and ranges neither overlap nor touch.  The cost of a
change is a binary search plus the shift of a list, so it follows the number of gaps, not the number of ticks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """A mutable set of integers. `add` and `discard` say whether they changed anything."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for begin, end in ranges:
            self.add_range(begin, end)

    # -- reading

    def __contains__(self, tick: int) -> bool:
        i = bisect_right(self._starts, tick) - 1
        return i >= 0 and tick < self._ends[i]

    def has_all(self, begin: int, end: int) -> bool:
        """Whether each of [begin, end) is in it."""
        i = bisect_right(self._starts, begin) - 1
        return begin >= end or (i >= 0 and end <= self._ends[i])

    def first_gap(self, begin: int) -> int:
        """The lowest integer from `begin` on that is not in it."""
        i = bisect_right(self._starts, begin) - 1
        return self._ends[i] if i >= 0 and begin < self._ends[i] else begin

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        """How many integers, not how many ranges."""
        return sum(self._ends) - sum(self._starts)

    def __iter__(self) -> Iterator[int]:
        for begin, end in self.pairs():
            yield from range(begin, end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Ranges({list(self.pairs())})"

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The ranges, rising, as (begin, end) with `end` outside."""
        return zip(self._starts, self._ends, strict=True)

    def count(self) -> int:
        """How many ranges."""
        return len(self._starts)

    def last(self) -> int:
        """The highest integer held, or -1 when empty."""
        return self._ends[-1] - 1 if self._ends else -1

    def copy(self) -> Ranges:
        new = Ranges()
        new._starts, new._ends = self._starts[:], self._ends[:]
        return new

    # -- changing

    def add(self, tick: int) -> bool:
        return self.add_range(tick, tick + 1)

    def add_range(self, begin: int, end: int) -> bool:
        """Add [begin, end). True when something was new."""
        if begin >= end:
            return False
        starts, ends = self._starts, self._ends
        if ends and begin == ends[-1]:  # the common case: the next tick of a run
            ends[-1] = end
            return True
        low = bisect_left(ends, begin)  # the first range that touches or follows `begin`
        high = bisect_right(starts, end)  # behind the last range that touches or precedes `end`
        if low == high:
            starts.insert(low, begin)
            ends.insert(low, end)
            return True
        if high - low == 1 and starts[low] <= begin and end <= ends[low]:
            return False
        starts[low:high] = [min(begin, starts[low])]
        ends[low:high] = [max(end, ends[high - 1])]
        return True

    def update(self, other: Ranges) -> bool:
        """Add everything in `other`. True when something was new."""
        if not self._starts:
            self._starts, self._ends = other._starts[:], other._ends[:]
            return bool(self._starts)
        changed = False
        for begin, end in other.pairs():
            changed |= self.add_range(begin, end)
        return changed

    def discard(self, tick: int) -> bool:
        return self.discard_range(tick, tick + 1)

    def discard_range(self, begin: int, end: int) -> bool:
        """Remove [begin, end). True when something went."""
        starts, ends = self._starts, self._ends
        low = bisect_right(ends, begin)  # the first range that ends behind `begin`
        high = bisect_left(starts, end)  # behind the last range that begins before `end`
        if begin >= end or low >= high:
            return False
        left = (starts[low], begin) if starts[low] < begin else None
        right = (end, ends[high - 1]) if end < ends[high - 1] else None
        rest = [part for part in (left, right) if part is not None]
        starts[low:high] = [part[0] for part in rest]
        ends[low:high] = [part[1] for part in rest]
        return True

    # -- algebra, by merging

    def __sub__(self, other: Ranges) -> Ranges:
        if not self._starts or not other._starts:
            return self.copy()
        new = Ranges()
        theirs = list(other.pairs())
        at = 0
        for begin, end in self.pairs():
            while at < len(theirs) and theirs[at][1] <= begin:
                at += 1
            look = at
            while look < len(theirs) and theirs[look][0] < end:
                cut_begin, cut_end = theirs[look]
                new._append(begin, cut_begin)
                begin = max(begin, cut_end)
                look += 1
            new._append(begin, end)
        return new

    def __and__(self, other: Ranges) -> Ranges:
        new = Ranges()
        if not self._starts or not other._starts:
            return new
        mine, theirs = list(self.pairs()), list(other.pairs())
        i = j = 0
        while i < len(mine) and j < len(theirs):
            new._append(max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1]))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return new

    def __or__(self, other: Ranges) -> Ranges:
        new = self.copy()
        new.update(other)
        return new

    def _append(self, begin: int, end: int) -> None:
        """Add a range that lies behind all others; an empty one is ignored."""
        if begin < end:
            self._starts.append(begin)
            self._ends.append(end)

    # -- the form for messages and for people

    def to_list(self) -> list[int | list[int]]:
        """Rising; a lone tick as itself, a longer range as [begin, end)."""
        return [begin if end == begin + 1 else [begin, end] for begin, end in self.pairs()]

    @classmethod
    def from_sorted(cls, pairs: Iterable[tuple[int, int]]) -> Ranges:
        """From rising pairs that neither overlap nor touch, as `pairs` gives them.

        Raises:
            ValueError: when they are not that.
        """
        new = cls()
        for begin, end in pairs:
            if begin >= end or (new._ends and begin <= new._ends[-1]):
                raise ValueError(f"the range [{begin}, {end}) is empty or not behind the one before")
            new._append(begin, end)
        return new

    @classmethod
    def from_ticks(cls, ticks: Iterable[int]) -> Ranges:
        """From single ticks; cheap when they rise."""
        new = cls()
        for tick in ticks:
            new.add_range(tick, tick + 1)
        return new

    def gaps(self, begin: int, end: int) -> Ranges:
        """What [begin, end) lacks here."""
        new = Ranges()
        at = bisect_right(self._ends, begin)  # the first range that ends behind `begin`
        while at < len(self._starts) and self._starts[at] < end:
            new._append(begin, self._starts[at])
            begin = self._ends[at]
            at += 1
        new._append(begin, end)
        return new

