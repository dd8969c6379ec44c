"""The process of a client of topics, which ends at any wait and comes back with what is left of its state.

Knows: when it runs, what it has written, and what becomes of that.  Does not know what it writes, nor what it asks.

Invariant: what is written and what the process was told of that are two moments: a crash may come between them. What
belongs to an earlier process does not happen any more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Generic, TypeVar

from distkv.sim.fleet import Fleet
from distkv.sim.topics.actions import StateLeft

S = TypeVar("S")

WRITE_MS: Final = (0, 4)
"""So long a client's own disk takes, and so long until the process knows."""


class ClientLife(Generic[S]):
    """Of one client, over all its processes. `S`: a state, which is a value."""

    def __init__(
        self, fleet: Fleet, rng: Random, state: S, empty: S, begin: Callable[[], object], end: Callable[[], object]
    ) -> None:
        """`begin` and `end`: of a process."""
        self._fleet: Final = fleet
        self._rng: Final = rng
        self._begin: Final = begin
        self._end: Final = end
        self.state = state
        self._empty: Final = empty
        self.saved = state
        self._process = 0
        self._crash: tuple[int, int, StateLeft] | None = None
        """After how many further waits it crashes, for how long, and what is left then."""
        self.is_running = False

    def begin(self) -> None:
        """Its process begins, unless it runs."""
        if not self.is_running:
            self.is_running = True
            self._process += 1
            self._begin()

    def stop(self) -> None:
        """Its process ends, until somebody lets it begin."""
        if self.is_running:
            self.is_running, self._crash = False, None
            self._end()

    def crash(self, for_ms: int, left: StateLeft, waits: int) -> None:
        """Let it end after so many waits."""
        if self.is_running:
            self._crash = waits, for_ms, left
            self._waited(0)

    def spare(self) -> None:
        """It does not crash any more."""
        self._crash = None

    def save(self) -> None:
        """Make a copy of its state."""
        self.saved = self.state

    def later(self, delay_ms: int, do: Callable[[], object]) -> None:
        """Do something after a wait, if this process still runs then."""
        process = self._process

        def go_on() -> None:
            if self.is_running and process == self._process and self._waited(1):
                do()

        self._fleet.later(delay_ms, go_on)

    def write(self, change: Callable[[S], S], told: Callable[[], object]) -> None:
        """Change the state, and then let the process know."""

        def written() -> None:
            self.state = change(self.state)
            self.later(self._rng.randint(*WRITE_MS), told)

        self.later(self._rng.randint(*WRITE_MS), written)

    # -- inside

    def _waited(self, times: int) -> bool:
        """Whether it goes on after that."""
        if self._crash is None:
            return True
        waits, for_ms, left = self._crash
        self._crash = waits - times, for_ms, left
        if waits - times > 0:
            return True
        self.stop()
        if left is not StateLeft.KEPT:
            self.state = self.saved if left is StateLeft.OLD else self._empty
        self._fleet.later(for_ms, self.begin)
        return False
