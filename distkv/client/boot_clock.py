"""The clock by which a session lives.

Knows: which clock of the system goes on while the machine sleeps.  Does not know what is timed.

Invariant: it never goes back.
"""

from __future__ import annotations

import time
from typing import Final

CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock of Linux stands still while the machine sleeps, and a machine that wakes would still hold."""

STEP_S: Final = 1.0
"""Nobody waits longer at once: the clock by which a system ends waits may have stood still."""


def boot_ms() -> int:
    """Milliseconds, the same in all processes of this machine."""
    return time.clock_gettime_ns(CLOCK) // 1_000_000
