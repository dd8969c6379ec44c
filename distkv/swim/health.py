"""How well this node itself hears: one that hears badly is slower to suspect others.

Knows: a number from 0 to 8, and what times it stretches.  Does not know probes.

Invariant: the number stays within its bounds (docs/protocol, SWIM-32). Source: as `suspicion`, section IV-A; but
answers that relays lack count only if most lack, because one or the other may be dead, too.
"""

from __future__ import annotations

from typing import Final

from distkv.model.invariant import must

HEALTH_MAX: Final = 8
"""The worst."""


class Health:
    """The local health of one node; 0 is well."""

    def __init__(self) -> None:
        self.score = 0

    def worsen(self) -> None:
        self.score = min(HEALTH_MAX, self.score + 1)

    def improve(self) -> None:
        self.score = max(0, self.score - 1)

    def stretched_ms(self, ms: int) -> int:
        """How long something lasts that takes so long when the node is well."""
        return ms * (1 + self.score)

    def check(self) -> None:
        must(0 <= self.score <= HEALTH_MAX, "health stays within its bounds")
