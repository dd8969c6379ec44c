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


def is_of_later_session(question: TokenQuestion, state: TokenState) -> bool:
    """Whether it is about a session that would have been opened after this state."""
    if isinstance(question, AboutToken):
        session = session_of(question)
    else:
        session = question.session if isinstance(question, (KeepSession, EndSession, ClaimTokens)) else None
    return session is not None and session not in state.sessions and version_of(session) > state.version


def is_early(question: TokenQuestion, state: TokenState) -> bool:
    """Whether who asks knows more than a server that knows this state."""
    if is_of_later_session(question, state):
        return True
    if isinstance(question, (AboutToken, WatchTokens)):
        return question.known > state.changed
    if isinstance(question, ClaimTokens):
        return question.version > state.changed
    return isinstance(question, TakeTokens) and question.boot > state.version


def session_of(question: AboutToken) -> str | None:
    """For which session something is asked; None: for none."""
    request = question.request
    return request.session if isinstance(request, (TokenAcquire, TokenRelease, TokenData)) else None
