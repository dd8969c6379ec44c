"""Which messages a copy of a topic has, in the order in which they came here, and by producer and counter.

Knows: producers' names, counters, sizes.  Does not know values, nor who is owed what.

Each message that comes gets the next arrival number. It is local: two copies number the same messages differently.

Invariant: a message is there once; `bytes` is the sum of all sizes; arrivals rise.  A message costs some ten bytes for
each of a few numbers; nothing is kept of one that went, but for at most as many as there are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.model.ranges import Ranges

SLACK: Final = 64
"""So many that went are never swept away."""


@attrs.define(slots=True)
class _OfProducer:
    """The messages of one producer, by counter."""

    counters: array[int] = attrs.field(factory=lambda: array("q"))
    arrivals: array[int] = attrs.field(factory=lambda: array("q"))

    def add(self, counter: int, arrival: int) -> None:
        at = len(self.counters)
        if at and counter < self.counters[-1]:
            at = bisect_left(self.counters, counter)
        self.counters.insert(at, counter)
        self.arrivals.insert(at, arrival)

    def cut(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Remove the counters in [begin, end): each, and its arrival."""
        low, high = bisect_left(self.counters, begin), bisect_left(self.counters, end)
        found = [*zip(self.counters[low:high], self.arrivals[low:high], strict=True)]
        del self.counters[low:high], self.arrivals[low:high]
        return found


_NONE: Final[array[int]] = array("q")


class Messages:
    """Those of one copy."""

    def __init__(self) -> None:
        self.last = 0
        """The arrival of the last one that came."""
        self.bytes = 0
        self._arrivals: Final = array("q")
        self._counters: Final = array("q")
        self._ends: Final = array("q")
        """The sum of the sizes up to this one."""
        self._producers: Final = list[str | None]()
        """None: it went."""
        self._gone = 0
        self._of: Final = dict[str, _OfProducer]()

    def __len__(self) -> int:
        return len(self._arrivals) - self._gone

    def add(self, producer: str, counter: int, size: int) -> int:
        """One that is not there; its arrival."""
        self.last = arrival = self.last + 1
        self._arrivals.append(arrival)
        self._counters.append(counter)
        self._ends.append((self._ends[-1] if self._ends else 0) + size)
        self._producers.append(producer)
        self.bytes += size
        of = self._of.get(producer)
        if of is None:
            of = self._of[producer] = _OfProducer()
        of.add(counter, arrival)
        return arrival

    def resize(self, arrival: int, size: int) -> None:
        """One that is there has another size; this is rare, and slow."""
        first = bisect_left(self._arrivals, arrival)
        more = size - self._size(first)
        if more:
            self._ends[first:] = array("q", [end + more for end in self._ends[first:]])
            self.bytes += more

    def remove(self, producer: str, begin: int, end: int) -> list[tuple[int, int]]:
        """Those of a producer with counters in [begin, end) go: the counter of each, and its arrival."""
        of = self._of.get(producer)
        if of is None:
            return []
        found = of.cut(begin, end)
        if not of.counters:
            del self._of[producer]
        for _, arrival in found:
            at = bisect_left(self._arrivals, arrival)
            self._producers[at] = None
            self.bytes -= self._size(at)
        self._gone += len(found)
        if self._gone > SLACK and self._gone * 2 > len(self._arrivals):
            self._sweep()
        return found

    def arrival_of(self, producer: str, counter: int) -> int | None:
        """None: it is not there."""
        of = self._of.get(producer)
        if of is None:
            return None
        at = bisect_left(of.counters, counter)
        return of.arrivals[at] if at < len(of.counters) and of.counters[at] == counter else None

    def counters(self, producer: str) -> array[int]:
        """Those of a producer, rising; not to be changed."""
        of = self._of.get(producer)
        return _NONE if of is None else of.counters

    def producers(self) -> list[str]:
        """Those of whom there is a message."""
        return [*self._of]

    def arrivals(self, producer: str, begin: int, end: int) -> array[int]:
        """Those of a producer's messages with counters in [begin, end), by counter."""
        of = self._of.get(producer)
        if of is None:
            return _NONE
        return of.arrivals[bisect_left(of.counters, begin) : bisect_left(of.counters, end)]

    def among(self, arrivals: Ranges) -> Iterator[tuple[int, str, int]]:
        """Those with these arrivals, in their order: arrival, producer, counter. Nothing may change meanwhile."""
        for begin, end in arrivals.pairs():
            yield from self.between(begin, end)

    def between(self, begin: int, end: int) -> Iterator[tuple[int, str, int]]:
        """Those with arrivals in [begin, end)."""
        numbers, producers, counters = self._arrivals, self._producers, self._counters
        for at in range(bisect_left(numbers, begin), bisect_left(numbers, end)):
            producer = producers[at]
            if producer is not None:
                yield numbers[at], producer, counters[at]

    def size_of(self, arrival: int) -> int:
        """That of one that is there."""
        return self._size(bisect_left(self._arrivals, arrival))

    def bytes_of(self, arrivals: Ranges) -> int:
        """Of those with these arrivals, all of which are there."""
        return sum(
            self._end(bisect_left(self._arrivals, end)) - self._end(bisect_left(self._arrivals, begin))
            for begin, end in arrivals.pairs()
        )

    def _end(self, at: int) -> int:
        """The sum of the sizes before the one at this place."""
        return self._ends[at - 1] if at else 0

    def _size(self, at: int) -> int:
        return self._ends[at] - self._end(at)

    def _sweep(self) -> None:
        left = [at for at, producer in enumerate(self._producers) if producer is not None]
        sizes = [self._size(at) for at in left]
        for numbers in (self._arrivals, self._counters):
            numbers[:] = array("q", [numbers[at] for at in left])
        self._producers[:] = [self._producers[at] for at in left]
        del self._ends[:]
        end = 0
        for size in sizes:
            end += size
            self._ends.append(end)
        self._gone = 0

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        found = [*self.between(0, self.last + 1)]
        must(len(found) == len(self), "as many are there as are counted")
        must(all(low < high for low, high in pairwise(self._arrivals)), "arrivals rise")
        must(self.bytes == sum(self.size_of(arrival) for arrival, _, _ in found), "bytes is the sum of all sizes")
        by_counter = sorted((producer, counter, arrival) for arrival, producer, counter in found)
        other = [
            (producer, *pair)
            for producer, of in sorted(self._of.items())
            for pair in zip(of.counters, of.arrivals, strict=True)
        ]
        must(by_counter == other, "each message is found by producer and counter")
        must(len({one[:2] for one in other}) == len(other), "a message is there once")
        must(self._gone <= max(SLACK, len(self)), "what went is swept away")
