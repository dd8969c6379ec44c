"""What a question shows that its asker knows: a server that knows less is not to answer yet.

Knows: which versions of the common state questions speak of.  Does not know what happens to one that waits.

Invariant: an answer comes from no older knowledge than the question. Else a client that has told a survey what it holds
could be granted something by a server that does not know of the survey.
"""

from __future__ import annotations

from distkv.core.tokens.state import TokenState
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
