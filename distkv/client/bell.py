"""Wakes the threads that wait until something is so, without a lock.

Knows: who waits.  Does not know what for.

Invariant: whatever a signal handler raises in a thread that waits or rings, between whichever two steps, nobody else is
held up by it. A condition of `threading` would keep its lock then, one in some hundreds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

STEP_S: Final = 1.0
"""Nobody waits longer without a look: a system that slept may have stopped the clock by which waits end."""


class Bell:
    """Of several threads."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: Final = deque[threading.Lock]()

    def wait(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Until it is so, which it is. False: the time is over. Whoever makes it so rings afterwards."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not condition():
            left_s = STEP_S if deadline is None else min(STEP_S, deadline - time.monotonic())
            if left_s <= 0:
                return False
            self._sleep(condition, left_s)
        return True

    def ring(self) -> None:
        """Have all who wait look again."""
        while self._waiting:
            with suppress(IndexError, RuntimeError):  # another thread rings, too
                self._waiting.popleft().release()

    def _sleep(self, condition: Callable[[], bool], timeout_s: float) -> None:
        alarm = threading.Lock()
        alarm.acquire()
        self._waiting.append(alarm)
        try:
            if not condition():  # it may have become so before we could be woken
                alarm.acquire(timeout=timeout_s)
        finally:
            with suppress(ValueError):
                self._waiting.remove(alarm)
