"""The clocks of one host: both run as they like, and neither is the simulator's.

Knows: how virtual time looks on this host.  Does not know what is timed.

Invariant: the monotonic clock never goes back, also when its rate changes; `when` gives the first moment at which it
shows what was asked for.
"""

from __future__ import annotations

from typing import Final

import attrs

WALL: Final = 1_700_000_000.0
"""What a true wall clock shows at virtual time 0, in seconds since 1970."""


@attrs.define
class HostClock:
    """A monotonic clock with a rate, and a wall clock that is off."""

    rate: float = 1.0
    """Milliseconds of this clock per true one."""
    wall_off_s: float = 0.0
    _since_ms: int = 0
    _shown_ms: int = 0

    def monotonic_ms(self, now_ms: int) -> int:
        if self.rate == 1.0:
            return self._shown_ms + now_ms - self._since_ms
        return self._shown_ms + int((now_ms - self._since_ms) * self.rate)

    def wall(self, now_ms: int) -> float:
        return WALL + now_ms / 1000 + self.wall_off_s

    def when(self, shown_ms: int, now_ms: int) -> int:
        """The true time, not before now, at which the monotonic clock shows `shown_ms` or more."""
        at_ms = max(now_ms, self._since_ms + int((shown_ms - self._shown_ms) / self.rate))
        while self.monotonic_ms(at_ms) < shown_ms:
            at_ms += 1
        return at_ms

    def drift(self, rate: float, now_ms: int) -> None:
        """Run at another rate from now on."""
        self._shown_ms, self._since_ms = self.monotonic_ms(now_ms), now_ms
        self.rate = rate
