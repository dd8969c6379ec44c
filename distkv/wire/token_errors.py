"""What the token service refuses with, besides the errors that all know.

Knows: the code of each, and what it means.  Does not know who refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from distkv.errors import DistkvError, RequestError


class UngrantedError(RequestError):
    """A token was not granted. Raised as one of the classes below, each of which has a code of its own."""

    details: ClassVar[Mapping[str, type]] = {**RequestError.details, "ticket": str}
    ticket: str | None = None
    """The place in the queue, for the next request."""

    def with_ticket(self, ticket: str | None) -> Self:
        """The same, with the place in the queue."""
        found = type(self)(str(self))
        found.ticket = ticket
        return found


class NoQuorumError(UngrantedError):
    """No majority of the token servers was heard lately: nothing can be granted or confirmed."""

    code = "no_quorum"


class SessionExpiredError(RequestError):
    """The session ended, or never was: whatever it held may be held by others."""

    code = "session_expired"


class HeldError(UngrantedError):
    """Somebody else holds the token."""

    code = "held"


class NotHeldError(RequestError):
    """The session does not hold the token."""

    code = "not_held"


class TokenLostError(DistkvError):
    """A token that was held is lost while somebody worked under it: others may have it now."""

    code = "not_held"


class TimedOutError(UngrantedError):
    """The time that the request would wait is over."""

    code = "timeout"


ERRORS: Final = (NoQuorumError, SessionExpiredError, HeldError, NotHeldError, TimedOutError)
"""What is a reply; `TokenLostError` is what a client finds by itself."""
