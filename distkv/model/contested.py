"""The entries that have open losers, in order, so that conflicts are listed without a look at all the others.

Knows: which entries, and the order of their paths, which is that of a walk.  Does not know what a conflict is.

Invariant: there are few of them as a rule, and one costs a place in a dict and in an ordered list; finding those below
a path costs what is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from distkv.model.entry import Entry
from distkv.model.index import Place, place_of
from distkv.model.path import Path, PathKey


class Contested:
    """Filled and emptied by the tree."""

    def __init__(self) -> None:
        self._entries: dict[PathKey, Entry] = {}
        self._places: list[tuple[Place, PathKey]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> None:
        """It has open losers."""
        key = entry.head.path.key
        if key not in self._entries:
            insort(self._places, (place_of(key), key))
        self._entries[key] = entry

    def drop(self, path: Path) -> None:
        """It has none, perhaps since long."""
        if self._entries.pop(path.key, None) is not None:
            del self._places[bisect_left(self._places, (place_of(path.key), path.key))]

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
