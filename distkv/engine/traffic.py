"""What went over the links between this node and another one, for people to see.

Knows: how much went, and how long answers took.  Does not know who follows whom, nor why.

Invariant: nothing is decided by these figures.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

import attrs

ROUND_TRIPS: Final = 5
"""The median of so many is shown: one answer that had to wait behind others says little."""


@attrs.define
class LinkTraffic:
    """With one other node, since the server was started."""

    events_in: int = 0
    """What came, also what was here already."""
    events_out: int = 0
    """What was sent to it as a follower."""
    _round_trips_s: Final[deque[float]] = attrs.field(init=False, factory=lambda: deque[float](maxlen=ROUND_TRIPS))

    def connect(self) -> None:
        """A new connection begins, whose way may be another one."""
        self._round_trips_s.clear()

    def answered(self, round_trip_s: float) -> None:
        """A request on the connection was answered after so long."""
        self._round_trips_s.append(round_trip_s)

    @property
    def rtt_ms(self) -> float | None:
        """A round trip on the connection that there is; None: none was measured yet."""
        return 1000 * median(self._round_trips_s) if self._round_trips_s else None
