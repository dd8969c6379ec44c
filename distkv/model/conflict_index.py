"""The entries that have open losers, in order, so that conflicts are found without a look at all the others.

Knows: which entries, and the order of their paths, which is that of a walk.  Does not know what a conflict is.

Invariant: there are few of them as a rule; finding those below a path costs what is found, and their number is known.
Whatever changes the losers of an entry, or its winner, puts it here again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from distkv.model.entry import Entry
from distkv.model.index import Place, place_of
from distkv.model.path import Path, PathKey


class ConflictIndex:
    """Filled and emptied by the tree."""

    def __init__(self) -> None:
        self.conflict_count = 0
        """How many losers people are told of, those of the system's own paths aside."""
        self._entries: dict[PathKey, Entry] = {}
        self._counts: dict[PathKey, int] = {}
        self._places: list[tuple[Place, PathKey]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> None:
        """It has open losers, perhaps other ones than before."""
        key = entry.head.path.key
        if key not in self._entries:
            insort(self._places, (place_of(key), key))
        self._entries[key] = entry
        self._count(key, 0 if entry.head.path.is_reserved else len(entry.conflicts()))

    def drop(self, path: Path) -> None:
        """It has none, perhaps since long."""
        if self._entries.pop(path.key, None) is not None:
            del self._places[bisect_left(self._places, (place_of(path.key), path.key))]
            self._count(path.key, 0)

    def below(self, path: Path, after: Path | None = None) -> Iterator[Entry]:
        """Those at and below a path, of those behind the path `after`; not while the tree changes."""
        top = place_of(path.key)
        begin = bisect_left(self._places, (top,))
        if after is not None:
            begin = max(begin, bisect_right(self._places, (place_of(after.key), after.key)))
        for place, key in islice(self._places, begin, None):
            if place[: len(top)] != top:
                return
            yield self._entries[key]

    def _count(self, key: PathKey, count: int) -> None:
        self.conflict_count += count - self._counts.pop(key, 0)
        if count:
            self._counts[key] = count
