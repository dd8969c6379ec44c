"""Virtual time: what is still to happen, and when.

Knows: the time that it is, and what was planned for later.  Does not know what is done then, nor by whom.

Invariant: time never goes back; what is planned for one moment happens in the order in which it was planned.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable


class Agenda:
    """Begins at 0 ms."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._moments: list[int] = []
        """A heap of the moments for which something is planned: far fewer than plans, in a large fleet."""
        self._plans: dict[int, deque[Callable[[], object]]] = {}
        """What is planned for each."""

    def later(self, delay_ms: int, do: Callable[[], object]) -> None:
        """Plan something for so many milliseconds from now."""
        self.at(self.now_ms + delay_ms, do)

    def at(self, at_ms: int, do: Callable[[], object]) -> None:
        """Plan something; what is planned for the past happens next."""
        plans = self._plans.get(at_ms)
        if plans is None:
            plans = self._plans[at_ms] = deque()
            heapq.heappush(self._moments, at_ms)
        plans.append(do)

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        end_ms, moments = self.now_ms + for_ms, self._moments
        while moments and moments[0] <= end_ms:
            self._advance()
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Let time pass until `condition` holds; False when it does not within the time."""
        end_ms, moments = self.now_ms + within_ms, self._moments
        while not condition():
            if not moments or moments[0] > end_ms:
                self.now_ms = end_ms
                return condition()
            self._advance()
        return True

    def _advance(self) -> None:
        at_ms = self._moments[0]
        plans = self._plans[at_ms]
        do = plans.popleft()
        if not plans:
            del self._plans[at_ms]
            heapq.heappop(self._moments)
        self.now_ms = max(self.now_ms, at_ms)
        do()
