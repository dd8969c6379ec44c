"""What one session of a client asks, and what its user is told of it.

Knows: the forms of both.  Does not know when they arise (`holding`).

Invariant: all are values.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.errors import DistkvError
from distkv.model.fence import Fence
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData, TokenKeep, TokenOpen, TokenRelease

SessionRequest: TypeAlias = TokenOpen | TokenKeep | TokenAcquire | TokenRelease | TokenData | TokenClose


@attrs.frozen(slots=True)
class SessionQuestion:
    """A request to be sent on the connection that there is."""

    id: int
    """Its answer is told with this."""
    request: SessionRequest


@attrs.frozen(slots=True)
class SessionLives:
    """The session is open."""

    session: str
    ttl_ms: int


@attrs.frozen(slots=True)
class TokenObtained:
    """The session holds the token."""

    token: str
    fence: Fence


@attrs.frozen(slots=True)
class TokenRefused:
    """The session does not get the token."""

    token: str
    error: DistkvError


@attrs.frozen(slots=True)
class TokenTaken:
    """The session does not hold the token any more. Whoever works under it is to stop, and then to `let_go`."""

    token: str
    why: str


@attrs.frozen(slots=True)
class TokenReleased:
    """A release was answered: others can get the token."""

    token: str


@attrs.frozen(slots=True)
class DataAnswered:
    """Data was stored, or not."""

    number: int
    """What `set_data` returned."""
    error: DistkvError | None


@attrs.frozen(slots=True)
class SessionEnded:
    """The session is over: nothing more will be asked or told."""

    error: DistkvError | None
    """None: it was closed."""


SessionNews: TypeAlias = (
    SessionLives | TokenObtained | TokenRefused | TokenTaken | TokenReleased | DataAnswered | SessionEnded
)
