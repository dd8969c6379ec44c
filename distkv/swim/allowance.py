"""How many bytes of user messages may leave.

Knows: what was sent, and how fast it may be made up for.  Does not know what is in it.

Invariant: in any stretch of time no more is found to be left than what that time allows and one second's worth. What is
sent nevertheless is made up for before anything is left again.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must

SECOND_MS: Final = 1000
DEBT_S: Final = 1
"""So many seconds' worth are owed at most."""


@attrs.define
class Allowance:
    """Full at first."""

    bytes_per_s: int
    _spent: int = 0
    """What had been sent at `_at_ms` and is not made up for, in bytes."""
    _at_ms: int = 0

    def left_bytes(self, now_ms: int) -> int:
        """How much may leave now; below 0: so much too much left before."""
        return self.bytes_per_s - self._owed(now_ms)

    def wait_ms(self, now_ms: int, wanted: int) -> int:
        """How long until so many bytes may leave, or as many as ever may at once."""
        lacking = min(wanted, self.bytes_per_s) - self.left_bytes(now_ms)
        return max(0, -(-lacking * SECOND_MS // self.bytes_per_s))

    def spend(self, now_ms: int, size: int) -> None:
        """So many bytes leave."""
        self._spent = min(self._owed(now_ms) + size, self.bytes_per_s * (1 + DEBT_S))
        self._at_ms = max(now_ms, self._at_ms)

    def check(self) -> None:
        must(0 <= self._spent <= self.bytes_per_s * (1 + DEBT_S), "no more is owed than one second makes up for")

    def _owed(self, now_ms: int) -> int:
        """What is spent and not made up for by now."""
        made_up = max(0, now_ms - self._at_ms) * self.bytes_per_s // SECOND_MS
        return max(0, self._spent - made_up)
