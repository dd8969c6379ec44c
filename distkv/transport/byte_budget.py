"""How much this node may say to all, in bytes of all copies that it sends.

Knows: that each packet leaves once for each node that gets it from us.  Does not know packets or clocks: `now` is
handed in, in seconds, and never goes back.

Invariant: in any time t no more than BURST_S x rate + rate x t bytes are taken, but for one packet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BURST_S: Final = 0.25
"""What would leave in so long may leave at once after a quiet time."""
PACKET_BYTES: Final = 1232


class ByteBudget:
    """A token bucket: the `SendBudget` of a messenger that sends each copy itself."""

    def __init__(self, bytes_per_s: float) -> None:
        self.copies = 1
        """To how many nodes a packet leaves."""
        self._rate: Final = bytes_per_s
        self._burst: Final = max(BURST_S * bytes_per_s, PACKET_BYTES)
        self._bytes = self._burst
        self._counted_at = -math.inf

    def note(self, now: float, node: str, tick: int, *, is_update: bool) -> None:
        """See `SendBudget.note`: here it does not matter who else writes."""

    def available(self, now: float) -> int:
        """See `SendBudget.available`."""
        self._count(now)
        return max(0, int(self._bytes // self._packet))

    def take(self, now: float, sizes: Sequence[int]) -> None:
        """See `SendBudget.take`."""
        self._count(now)
        self._bytes -= sum(sizes) * self.copies

    def wait_s(self, now: float) -> float:
        """See `SendBudget.wait_s`."""
        self._count(now)
        return 0.0 if self._bytes >= self._packet else max(0.001, (self._packet - self._bytes) / self._rate)

    @property
    def _packet(self) -> float:
        """What the largest packet takes; no more than there can be, else nothing would ever leave."""
        return min(PACKET_BYTES * self.copies, self._burst)

    def _count(self, now: float) -> None:
        if now > self._counted_at:
            if self._counted_at != -math.inf:
                self._bytes = min(self._burst, self._bytes + self._rate * (now - self._counted_at))
            self._counted_at = now
