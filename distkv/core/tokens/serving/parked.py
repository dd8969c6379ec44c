"""Questions that a token server cannot answer yet: they wait until it knows more.

Knows: the questions, and since when each waits.  Does not know why.

Invariant: there are never more of them than the limit.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import CallKey
from distkv.model.invariant import must
from distkv.wire.token_messages import TokenQuestion


class ParkedQuestions:
    """All times are milliseconds."""

    def __init__(self, limit: int, wait_ms: int) -> None:
        self._limit: Final = limit
        self._wait_ms: Final = wait_ms
        self._found = dict[CallKey, tuple[TokenQuestion, int]]()
        self.due_ms: int | None = None
        """Not after the first moment at which one has waited long enough; only read."""

    def put(self, call: CallKey, question: TokenQuestion, since_ms: int) -> bool:
        """Let one wait; whether there is room."""
        if len(self._found) >= self._limit:
            return False
        self._found[call] = question, since_ms
        self.due_ms = earliest(self.due_ms, since_ms + self._wait_ms)
        return True

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self._found.pop(call, None)

    def take(self) -> list[tuple[CallKey, TokenQuestion, int]]:
        """All, with the time since which each waits; none is left."""
        found, self._found, self.due_ms = self._found, {}, None
        return [(call, question, since_ms) for call, (question, since_ms) in found.items()]

    def take_late(self, now_ms: int) -> list[tuple[CallKey, TokenQuestion]]:
        """Those that have waited long enough."""
        if self.due_ms is None or self.due_ms > now_ms:
            return []
        ms = now_ms - self._wait_ms
        found = [(call, question) for call, (question, since_ms) in self._found.items() if since_ms <= ms]
        for call, _ in found:
            del self._found[call]
        self.due_ms = self._first_ms()
        return found

    def _first_ms(self) -> int | None:
        return min([since_ms + self._wait_ms for _, since_ms in self._found.values()], default=None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._found) <= self._limit, "not too many wait")
        first_ms = self._first_ms()
        must(first_ms is None or (self.due_ms is not None and self.due_ms <= first_ms), "the first is not forgotten")
