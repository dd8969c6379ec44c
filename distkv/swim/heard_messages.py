"""Which user messages of one start of a node were heard, and which ones are missing.

Knows: their sequence numbers, and since when one is missing.  Does not know what they say.

Invariant: each number is taken once. A number that is missing is told once, `HOLE_MS` after one behind it came, unless
it came meanwhile (docs/protocol, SWIM-41).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.replays import CounterWindow

HOLE_MS: Final = 2000
"""A message that takes another way comes so much later, at most."""


@attrs.define
class HeardMessages:
    """Of one start of one node. What it said before it was first heard is not missing."""

    window: CounterWindow = attrs.field(factory=CounterWindow)
    _whole: int = 0
    """Up to here nothing is missing, or was told."""
    _highest: int = 0
    _beyond: int = 0
    """How many were heard above `_whole`."""
    since_ms: int | None = None
    """Since when something is missing."""

    def take(self, now_ms: int, sequence: int) -> bool:
        """Whether this one is new; now it is heard."""
        if not self.window.take(sequence):
            return False
        if self._highest == 0:
            self._whole = self._highest = sequence
        elif sequence > self._whole:
            self._highest = max(self._highest, sequence)
            self._beyond += 1
            self._look(now_ms)
        return True

    def tell(self) -> None:
        """What is missing was told."""
        self._whole, self._beyond, self.since_ms = self._highest, 0, None

    def check(self) -> None:
        must(self._whole + self._beyond <= self._highest, "no more was heard than was said")
        must((self.since_ms is None) == (self._whole == self._highest), "it is known since when something is missing")
        self.window.check()

    def _look(self, now_ms: int) -> None:
        if self._whole + self._beyond == self._highest:
            self.tell()
        elif self.since_ms is None:
            self.since_ms = now_ms
