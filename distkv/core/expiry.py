"""When which value goes by itself.

Knows: the values with a ttl, by when their time is over, counted from when they came to this node.  Does not know
whose turn it is to say so, nor whether a value is still there: who asks for what is due looks.

Invariant: a value is due no earlier than its ttl after it came. What was replaced is left out now and then, so that
renewals do not pile up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from distkv.model.event import Event
from distkv.model.invariant import must
from distkv.model.tree import Tree

DUE_MAX: Final = 64
"""So many at once; the others follow in the next step."""
ROOM: Final = 1024
"""So many that were replaced are kept at any time."""


class Expiry:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0  # between equal times the one that came first
        self._compact_at = ROOM

    def came(self, event: Event, after_s: float, tree: Tree, now_ms: int) -> None:
        """A value whose time is over after so many seconds."""
        self.put_off(event, now_ms + int(after_s * 1000))
        if len(self._heap) >= self._compact_at:
            self._heap = [one for one in self._heap if tree.head(one[2].path) is one[2]]
            heapq.heapify(self._heap)
            self._compact_at = 2 * len(self._heap) + ROOM

    def put_off(self, event: Event, until_ms: int) -> None:
        """Look at it then."""
        self._count += 1
        heapq.heappush(self._heap, (until_ms, self._count, event))

    @property
    def count(self) -> int:
        """How many are kept, some of which may have been replaced."""
        return len(self._heap)

    def wake_ms(self) -> int | None:
        """When `due` has something to look at."""
        return self._heap[0][0] if self._heap else None

    def due(self, tree: Tree, now_ms: int) -> Iterable[Event]:
        """Some of the values whose time is over and that are still here, the oldest first."""
        for _ in range(DUE_MAX):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            event = heapq.heappop(self._heap)[2]
            if tree.head(event.path) is event:
                yield event

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        due = [ms for ms, _, _ in self._heap]
        must(all(due[(at - 1) // 2] <= due[at] for at in range(1, len(due))), "the next one is the first")
        must(len(due) <= self._compact_at, "what was replaced does not pile up")
