"""The rounds of one leader: which of them a majority acknowledged, and until when it leads by that.

Knows: the number and the begin of each.  Does not know what a round says, nor who acknowledged it.

Invariant: a majority acknowledges no round that was not begun; the leader counts `short_ms` from the begin of the last
one that it did, never from when it heard of that.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.model.invariant import must

ROUNDS_MAX: Final = 64
"""So many rounds wait for a majority; the oldest is forgotten first."""
LOST_LEASES: Final = 2
"""A leader that no majority acknowledges for so many leases gives up: others may hear it, and wait in vain."""


class Rounds:
    """Those since the election."""

    def __init__(self, settings: ConsensusSettings, now_ms: int) -> None:
        self.number = 0
        """Of the last one that was begun."""
        self.acked = 0
        """The highest that a majority acknowledged."""
        self.next_ms = now_ms
        """When the next one is due."""
        self._settings: Final = settings
        self._acked_ms = now_ms
        """When that one began, or the leader was elected."""
        self._waiting: Final = deque[tuple[int, int]]()
        """The number and the begin of those after it."""

    @property
    def leads_until_ms(self) -> int:
        """Until when no other leader can be there: the rule of leases, with its own time at the begin of a round."""
        return self._acked_ms + self._settings.short_ms if self.acked else 0

    def is_lost(self, now_ms: int) -> bool:
        """Whether the leader should give up."""
        return now_ms >= self._acked_ms + LOST_LEASES * self._settings.long_ms

    def begin(self, now_ms: int) -> None:
        """The next one."""
        self.number += 1
        self._waiting.append((self.number, now_ms))
        if len(self._waiting) > ROUNDS_MAX:
            self._waiting.popleft()
        self.next_ms = now_ms + self._settings.round_ms

    def acknowledge(self, number: int) -> None:
        """A majority did, up to this one."""
        self.acked = max(self.acked, min(number, self.number))
        while self._waiting and self._waiting[0][0] <= self.acked:
            self._acked_ms = self._waiting.popleft()[1]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        waiting = [number for number, _ in self._waiting]
        must(self.acked <= self.number, "no round is acknowledged that was not begun")
        must(waiting == sorted(waiting) and all(self.acked < one <= self.number for one in waiting),
             "the rounds that wait for a majority are after the last acknowledged one, in their order")  # fmt: skip
        must(len(waiting) <= ROUNDS_MAX, "few rounds wait for a majority")
