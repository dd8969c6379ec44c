"""Which clients that do not resume were sent here by another node.

Knows: when each came, and how many others say that they have sent.  Does not know where one goes that was not.

A client that does not resume cannot say from where it comes: the node that sends it says so. Its word may come after
the client, so that it is decided a moment later (docs/protocol, ACTIVITY-15).

Invariant: of each client it is decided once, and each client that was sent counts for one of them.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from distkv.model.invariant import must

DECIDE_MS: Final = 250
EXPECT_MS: Final = 5000
WAITING_MAX: Final = 4096


class SentHere:
    """Those of one node."""

    def __init__(self) -> None:
        self._undecided: Final = deque[tuple[int, int]]()
        """When it is decided, and of which client."""
        self._expected: Final = deque[int]()
        """Until when each one that was sent here counts."""

    def came(self, id: int, now_ms: int) -> None:
        """A client is here. Where too many wait, it stays."""
        if len(self._undecided) < WAITING_MAX:
            self._undecided.append((now_ms + DECIDE_MS, id))

    def expect(self, count: int, now_ms: int) -> None:
        """Another node has sent so many."""
        self._expected.extend([now_ms + EXPECT_MS] * min(count, WAITING_MAX - len(self._expected)))

    def take_due(self, now_ms: int) -> int | None:
        """The next client of which it is to be decided now; None: there is none."""
        return self._undecided.popleft()[1] if self._undecided and self._undecided[0][0] <= now_ms else None

    def take_expected(self, now_ms: int) -> bool:
        """Whether one was sent here that did not come yet; now it has."""
        while self._expected and self._expected[0] <= now_ms:
            self._expected.popleft()
        return bool(self._expected) and self._expected.popleft() > now_ms

    def wake_ms(self) -> int | None:
        """When `take_due` has one."""
        return self._undecided[0][0] if self._undecided else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(max(len(self._expected), len(self._undecided)) <= WAITING_MAX, "few clients wait")
