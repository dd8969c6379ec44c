"""Virtual time: what is still to happen, and when.

Knows: the time that it is, and what was planned for later.  Does not know what is done then, nor by whom.

Invariant: time never goes back; what is planned for one moment happens in the order in which it was planned.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Agenda:
    """Begins at 0 ms."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0

    def later(self, delay_ms: int, do: Callable[[], object]) -> None:
        """Plan something for so many milliseconds from now."""
        self.at(self.now_ms + delay_ms, do)

    def at(self, at_ms: int, do: Callable[[], object]) -> None:
        """Plan something; what is planned for the past happens next."""
        self._count += 1
        heapq.heappush(self._queue, (at_ms, self._count, do))

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        end_ms, queue = self.now_ms + for_ms, self._queue
        while queue and queue[0][0] <= end_ms:
            self._advance()
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Let time pass until `condition` holds; False when it does not within the time."""
        end_ms, queue = self.now_ms + within_ms, self._queue
        while not condition():
            if not queue or queue[0][0] > end_ms:
                self.now_ms = end_ms
                return condition()
            self._advance()
        return True

    def _advance(self) -> None:
        at_ms, _, do = heapq.heappop(self._queue)
        self.now_ms = max(self.now_ms, at_ms)
        do()
