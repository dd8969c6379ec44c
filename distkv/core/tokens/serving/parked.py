"""Questions that a token server cannot answer yet: they wait until it knows more.

Knows: what a question shows that its asker knows, the questions that wait, since when each does, and when who waits is
refused.  Does not know the answers.

Invariant: an answer comes from no older knowledge than the question. Else a client that has told a survey what it holds
could be granted something by a server that does not know of the survey.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import CallKey
from distkv.core.tokens.state import TokenState
from distkv.model.invariant import must
from distkv.wire.token_fields import version_of
from distkv.wire.token_messages import (
    AboutToken,
    ClaimTokens,
    EndSession,
    KeepSession,
    TakeTokens,
    TokenQuestion,
    WatchTokens,
)
from distkv.wire.token_requests import TokenAcquire, TokenData, TokenRelease


def is_later_session(session: str, state: TokenState) -> bool:
    """Whether it would have been opened after this state."""
    return session not in state.sessions and version_of(session) > state.version


def is_early(question: TokenQuestion, session: str | None, state: TokenState) -> bool:
    """Whether who asks, for a session or none, knows more than a server that knows this state."""
    if session is not None and session not in state.sessions and is_later_session(session, state):
        return True
    if isinstance(question, (AboutToken, WatchTokens)):
        return question.known > state.changed
    if isinstance(question, ClaimTokens):
        return question.version > state.changed
    return isinstance(question, TakeTokens) and question.boot > state.version


def session_of(question: TokenQuestion) -> str | None:
    """For which session something is asked; None: for none."""
    if not isinstance(question, AboutToken):
        return question.session if isinstance(question, (KeepSession, EndSession, ClaimTokens)) else None
    request = question.request
    return request.session if isinstance(request, (TokenAcquire, TokenRelease, TokenData)) else None


class ParkedQuestions:
    """Never more than the limit. All times are milliseconds."""

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


class ServingPatience:
    """How long what waits at a token server does so while the server may not answer. All times are milliseconds.

    Invariant: they are refused once, a lease after it could grant last. What the leader is asked is refused a lease
    after the node led last, if that is later."""

    def __init__(self, lease_ms: int, now_ms: int) -> None:
        self._lease_ms: Final = lease_ms
        self.sure_ms = now_ms
        """When it last could grant, or when it started. May be set to a later moment at which it can still."""
        self._has_refused = False
        self._has_refused_sessions = False
        self.is_serving = False
        """Whether it could grant when it was looked at last."""
        self.due_ms: int | None = now_ms + lease_ms
        """Not after the moment when somebody has to be refused; only read."""

    def go_on(self, now_ms: int, *, may_grant: bool) -> bool:
        """Time passed, or what it may do is another thing; whether it may grant again."""
        was_serving, self.is_serving = self.is_serving, may_grant
        if may_grant:
            self.grants(now_ms)
        return may_grant and not was_serving

    def grants(self, now_ms: int) -> None:
        """It may grant now."""
        self.sure_ms, self.due_ms = now_ms, now_ms + self._lease_ms
        self._has_refused = self._has_refused_sessions = False

    def run_out(self, now_ms: int) -> bool:
        """Whether those who wait for tokens are to be refused now; that is said once."""
        is_over = not self._has_refused and now_ms >= self.sure_ms + self._lease_ms
        self._has_refused |= is_over
        if not self._has_refused:
            self.due_ms = self.sure_ms + self._lease_ms
        return is_over

    def run_out_for_sessions(self, now_ms: int, led_ms: int) -> bool:
        """Whether those who ask the leader are; the same. `led_ms`: until when this node leads, or led."""
        end_ms = max(self.sure_ms, led_ms) + self._lease_ms
        is_over = not self._has_refused_sessions and now_ms >= end_ms
        self._has_refused_sessions |= is_over
        if self._has_refused:
            self.due_ms = None if self._has_refused_sessions else end_ms
        return is_over
