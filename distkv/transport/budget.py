"""How often this node may gossip updates: its share of what the cluster's agents carry.

Knows: the measured rates (docs/serf.rst), who writes at present, the agent's backlog.  Does not know packets or clocks:
`now` is handed in, in seconds, and never goes back.

Invariant: in any time t no more than BURST + rate x t tokens are taken, and none while the agent's queue is at
QUEUE_STOP or above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs

BURST: Final = 4.0
"""Packets that may leave at once after a quiet time."""
WRITING_S: Final = 10.0
"""A node whose tick moved in so many seconds counts as a writer."""
QUEUE_SLOW: Final = 64
"""From this backlog of the agent on we send less than our share."""
QUEUE_STOP: Final = 96
"""At this one, nothing: the agent warns at 128, and our figure may be seconds old."""
NAMES_MAX: Final = 1024
"""Names remembered. A stranger may invent names; the longest known are forgotten first."""
_ROUNDING: Final = 1e-6
"""Of a token, so that the wait that `wait_s` tells always suffices; it is owed, not given."""


def cluster_rate(agents: int) -> float:
    """Packets per second that so many agents with the profile `lan` carry nearly without loss. Measured."""
    if agents <= 3:
        return 2.5
    return 4.0 if agents <= 9 else 2.0


@attrs.define
class Budget:
    """A token bucket whose rate follows what is heard. `packets_per_s` replaces the measured cluster rate."""

    packets_per_s: float | None = None
    agents: int = 1
    """How many agents are alive."""
    queue: int = 0
    """The agent's backlog of events when it was last asked."""
    _tokens: float = BURST
    _counted_at: float = -math.inf
    _ticks: dict[str, int] = attrs.field(factory=dict)
    _writing: dict[str, float] = attrs.field(factory=dict)  # name -> when its tick moved; the oldest first

    def note(self, now: float, node: str, tick: int, *, is_update: bool) -> None:
        """A message of `node` was heard, or is being sent."""
        before = self._ticks.pop(node, None)
        self._ticks[node] = tick if before is None else max(tick, before)
        if is_update if before is None else tick > before:
            self._writing.pop(node, None)
            self._writing[node] = now
        if len(self._ticks) > NAMES_MAX:
            oldest = next(iter(self._ticks))
            del self._ticks[oldest]
            self._writing.pop(oldest, None)

    def writers(self, now: float) -> int:
        """How many nodes write at present; at least one."""
        while self._writing:
            oldest = next(iter(self._writing))
            if self._writing[oldest] > now - WRITING_S:
                break
            del self._writing[oldest]
        return max(1, len(self._writing))

    def rate(self, now: float) -> float:
        """This node's share, in packets per second."""
        whole = cluster_rate(self.agents) if self.packets_per_s is None else self.packets_per_s
        slowed = (QUEUE_STOP - self.queue) / (QUEUE_STOP - QUEUE_SLOW)
        return whole / self.writers(now) * min(1.0, max(0.0, slowed))

    def available(self, now: float) -> int:
        """How many packets may leave now."""
        if self.queue >= QUEUE_STOP:
            return 0
        self._count(now)
        return int(self._tokens + _ROUNDING)

    def take(self, now: float, sizes: Sequence[int]) -> None:
        """So many leave, of whatever sizes. The caller has asked `available`."""
        self._count(now)
        self._tokens -= len(sizes)

    def wait_s(self, now: float) -> float:
        """How long until at least one may leave; infinite while the agent's queue is full."""
        if self.available(now) >= 1:
            return 0.0
        rate = self.rate(now)
        return max(0.001, (1 - self._tokens) / rate) if rate > 0 else math.inf

    def _count(self, now: float) -> None:
        if now > self._counted_at:
            if self._counted_at != -math.inf:
                self._tokens = min(BURST, self._tokens + self.rate(now) * (now - self._counted_at))
            self._counted_at = now
