"""What others show of a disk that is marked stale: whether it is as good as theirs again, or older indeed.

Knows: who held just what it holds, and for how long a good node did not.  Does not know how a disk is marked, nor what
follows from it.

Invariant: one good node, or all others together, may say that it is good; that it is old one says for half a clock at
least (docs/protocol, LIFE-10, LIFE-15 to LIFE-17).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.tree import Sums

MET_CLOCKS: Final = 8
"""So long it is compared with one whose ticks are always others."""
RESTARTS_MAX: Final = 8
"""Past so many the patience grows no more."""


@attrs.define(slots=True)
class OldDisk:
    """The machine. All times are monotonic milliseconds."""

    clock_ms: int
    restarts: int = 0
    """How often the node has begun anew because of it: each time it waits twice as long, in case that cannot help."""
    _sums: Sums | None = None
    _agree: dict[NodeName, None] = attrs.field(factory=dict)
    """Which of the others hold just that."""
    _differs_ms: int | None = None
    _met_ms: int | None = None

    def agreed(self, name: NodeName, sums: Sums, others: Collection[NodeName], *, is_good: bool) -> bool:
        """A node holds what we hold, whose `sums` these are. Whether our disk is as good as any other now.

        `is_good`: the node serves, and its own disk is no old one. `others` are all that are registered.
        """
        self._differs_ms = self._met_ms = None
        if sums != self._sums:
            self._sums, self._agree = sums, {}
        if name in others:
            self._agree[name] = None
        return is_good or all(other in self._agree for other in others)

    def differed(self, now_ms: int, *, has_same_ticks: bool) -> bool:
        """A good node does not hold what we hold, or has other ticks just now. Whether that lasts: then ours is old.

        With the same ticks half a clock is enough; where all write all the time, nobody has the same ticks for long.
        """
        if self._met_ms is None:
            self._met_ms = now_ms
        if has_same_ticks and self._differs_ms is None:
            self._differs_ms = now_ms
        factor = 1 << min(self.restarts, RESTARTS_MAX)
        if self._differs_ms is not None and has_same_ticks and now_ms - self._differs_ms >= factor * self.clock_ms // 2:
            return True
        return now_ms - self._met_ms >= factor * MET_CLOCKS * self.clock_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._differs_ms is None or self._met_ms is not None, "who differs was met")
        must(self._differs_ms is None or self._met_ms is None or self._met_ms <= self._differs_ms, "it was met first")
