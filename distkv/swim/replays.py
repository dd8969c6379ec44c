"""Which datagrams of one sender were here before.

Knows: the counters that a sender gave its datagrams.  Does not know seals, nor what the datagrams say.

Invariant: each counter is taken once. One that is too far behind the highest is not taken, because nobody remembers it.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must

WINDOW: Final = 1024


@attrs.define
class CounterWindow:
    """The last `WINDOW` counters up to the highest one."""

    _highest: int = -1
    _taken: int = 0
    """A bit for each of them: bit 0 is the highest one."""

    def take(self, counter: int) -> bool:
        """Whether this counter was not taken yet; now it is."""
        ahead = counter - self._highest
        if ahead > 0:
            self._taken = (self._taken << min(ahead, WINDOW) | 1) & _ALL
            self._highest = counter
            return True
        if -ahead >= WINDOW or self._taken >> -ahead & 1:
            return False
        self._taken |= 1 << -ahead
        return True

    def check(self) -> None:
        must(0 <= self._taken <= _ALL, "a window remembers no more than it is wide")
        must((self._highest < 0) == (self._taken == 0), "what was taken is remembered")
        must(self._highest < 0 or self._taken & 1 == 1, "the highest counter was taken")


_ALL: Final = (1 << WINDOW) - 1
