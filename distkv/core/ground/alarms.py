"""What is due when: moments with a key each, of which the next is found at once.

Knows: the moments.  Does not know the time, nor what happens then.

Invariant: a key has one moment at the most: the one that was set last. The first of all is kept, not looked for when
somebody asks: that is after every input.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from distkv.model.invariant import must

Key = TypeVar("Key")

SPARE: Final = 64


def earliest(*moments: int | None) -> int | None:
    """The first of those that there are. Asked for after every input: a list for `min` costs twice as much."""
    first = None
    for ms in moments:
        if ms is not None and (first is None or ms < first):
            first = ms
    return first


class Alarms(Generic[Key]):
    """All times are milliseconds."""

    def __init__(self) -> None:
        self.first_ms: int | None = None
        """The first moment; only read."""
        self._moments: Final = dict[Key, tuple[int, int]]()
        """Of each key its moment, and the number of the setting."""
        self._heap = list[tuple[int, int, Key]]()
        self._count = 0

    def __contains__(self, key: object) -> bool:
        return key in self._moments

    def __iter__(self) -> Iterator[Key]:
        return iter(self._moments)

    def put(self, key: Key, ms: int) -> None:
        """From now on this is the key's moment."""
        old, self._count = self._moments.get(key), self._count + 1
        self._moments[key] = ms, self._count
        heappush(self._heap, (ms, self._count, key))
        if len(self._heap) > 2 * len(self._moments) + SPARE:
            self._heap = [(ms, count, key) for key, (ms, count) in self._moments.items()]
            heapify(self._heap)
        if self.first_ms is None or ms <= self.first_ms:
            self.first_ms = ms
        elif old is not None and old[0] == self.first_ms:
            self._find_first()

    def drop(self, key: Key) -> None:
        """It has none."""
        old = self._moments.pop(key, None)
        if old is not None and old[0] == self.first_ms:
            self._find_first()

    def clear(self) -> None:
        self._moments.clear()
        self._heap.clear()
        self.first_ms = None

    def take_due(self, now_ms: int) -> list[Key]:
        """Those whose moment has come, in the order of the moments; they have none any more."""
        found = list[Key]()
        while self.first_ms is not None and self.first_ms <= now_ms:
            key = heappop(self._heap)[2]
            del self._moments[key]
            found.append(key)
            self._find_first()
        return found

    def _find_first(self) -> None:
        """What was set anew, or dropped, goes from the front of the heap."""
        while self._heap:
            ms, count, key = self._heap[0]
            if self._moments.get(key) == (ms, count):
                self.first_ms = ms
                return
            heappop(self._heap)
        self.first_ms = None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        here = {(ms, count, key) for ms, count, key in self._heap}
        must(all((ms, count, key) in here for key, (ms, count) in self._moments.items()), "no moment is missed")
        first_ms = min((ms for ms, _ in self._moments.values()), default=None)
        must(self.first_ms == first_ms, "the first moment is known")
