"""The activities that this node gave out lately, in its order: for holes of other nodes, and for clients that resume.

Knows: what was given out, when, and how much of it is kept.  Does not know who asks, nor who sent what in which epoch.

Invariant: those of one origin are in the order of their numbers. No more is kept than may be: above a bound, and after
their time, the oldest go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Final

import attrs

from distkv.core.activity.origins import size_of
from distkv.model.invariant import must
from distkv.wire.activity_bodies import KeptActivity


@attrs.frozen(slots=True)
class Placed:
    """An activity, and where it stands."""

    place: int
    """In the order in which the node gave out; the first has 1."""
    activity: KeptActivity
    at_ms: int


class KeptActivities:
    """Those of one node."""

    def __init__(self, keep_ms: int, count_max: int, bytes_max: int) -> None:
        self._keep_ms: Final = keep_ms
        self._count_max: Final = count_max
        self._bytes_max: Final = bytes_max
        self._all: Final = deque[Placed]()
        self._of: Final = dict[str, deque[Placed]]()
        """The same by origin."""
        self.size = 0
        """In bytes."""
        self.place = 0
        """Of the last one."""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, activity: KeptActivity, now_ms: int) -> None:
        """It is given out now, or was not, because it is late (`KeptActivity.is_late`)."""
        self.place += 1
        placed = Placed(self.place, activity, now_ms)
        self._all.append(placed)
        self._of.setdefault(activity.origin, deque()).append(placed)
        self.size += size_of(activity)
        self.trim(now_ms)

    def trim(self, now_ms: int) -> None:
        """Let go what is too old, or too much."""
        while self._all and (
            self._all[0].at_ms + self._keep_ms < now_ms
            or len(self._all) > self._count_max
            or self.size > self._bytes_max
        ):
            gone = self._all.popleft().activity
            self.size -= size_of(gone)
            of = self._of[gone.origin]
            of.popleft()
            if not of:
                del self._of[gone.origin]

    def behind(self, origin: str, number: int) -> list[Placed]:
        """What is kept of an origin behind a number, in order."""
        found = list[Placed]()
        for placed in reversed(self._of.get(origin, ())):
            if placed.activity.number <= number:
                break
            found.append(placed)
        return found[::-1]

    def between(self, origin: str, first: int, last: int) -> list[KeptActivity]:
        """What is kept of an origin between two numbers, both included, in order."""
        return [one.activity for one in self.behind(origin, first - 1) if one.activity.number <= last]

    def missing(self, have: Mapping[str, int], reached: Mapping[str, int]) -> list[Placed]:
        """What somebody lacks who has this of each origin, in the order in which it was given out."""
        found = list[Placed]()
        for origin, number in reached.items():
            if number > have.get(origin, 0):
                found += self.behind(origin, have.get(origin, 0))
        return sorted(found, key=lambda placed: placed.place)

    def count_missing(self, have: Mapping[str, int], reached: Mapping[str, int]) -> int:
        """How much that is, at the most."""
        lacking = ((origin, number - have.get(origin, 0)) for origin, number in reached.items())
        return sum(max(0, min(count, len(self._of.get(origin, ())))) for origin, count in lacking)

    def from_place(self, place: int) -> Iterator[Placed]:
        """All behind a place, in order."""
        if not self._all:
            return iter(())
        return islice(self._all, max(0, place + 1 - self._all[0].place), None)

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._all) <= self._count_max, "no more is kept than may be")
        must(self.size <= self._bytes_max, "no more bytes are kept than may be")
        if not is_whole:
            return
        must(self.size == sum(size_of(placed.activity) for placed in self._all), "its bytes are counted")
        must(sum(map(len, self._of.values())) == len(self._all), "each is there by its origin")
        for of in self._of.values():
            numbers = [placed.activity.number for placed in of]
            must(all(one < other for one, other in pairwise(numbers)), "numbers rise")
