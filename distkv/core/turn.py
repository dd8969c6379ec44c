"""One step of a node: the times it was given, and what it wants done.

Knows: what each part of a replica is handed while one input is taken.  Does not know which input that is.
"""

from __future__ import annotations

import attrs

from distkv.core.ready import Ready
from distkv.model.unchecked import unchecked_value


@unchecked_value
class Turn:
    """One step: the times it was given, and what it wants done."""

    now_ms: int
    """Monotonic."""
    wall: float
    """Seconds since 1970; only ever stored."""
    boot_ms: int
    """As the first, but of a clock that goes on while the machine sleeps."""
    ready: Ready = attrs.field(factory=Ready)
