"""How fast each user may send: who is too fast is not read for a while.

Knows: when the next activity of each user may be read.  Does not know what was sent.

Invariant: of `BURST_MS` a user may send as much as he can, but no more than his rate in the long run. Nobody is
remembered for longer than that matters.
"""

from __future__ import annotations

from typing import Final

from distkv.model.invariant import must

BURST_MS: Final = 1000
USERS_MAX: Final = 10_000


class Rates:
    """Those of one node."""

    def __init__(self, rate: int) -> None:
        self._each_ms: Final = 1000 / rate
        self._full_ms: Final = dict[str, float]()
        """When a user may send as much as he can again."""

    def sent(self, user: str, now_ms: int) -> int:
        """A user sent something; when his next one may be read."""
        full_ms = max(self._full_ms.pop(user, 0.0), float(now_ms)) + self._each_ms
        self._full_ms[user] = full_ms
        if len(self._full_ms) > USERS_MAX:
            del self._full_ms[next(iter(self._full_ms))]
        return max(now_ms, int(full_ms - BURST_MS))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._full_ms) <= USERS_MAX, "no more users are remembered than may be")
