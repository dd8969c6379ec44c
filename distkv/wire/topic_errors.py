"""What the topic service refuses with, besides the errors that all know.

Knows: the code of each, and what it means.  Does not know who refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from distkv.errors import RequestError


class NoReplicasError(RequestError):
    """The topic wants more copies (`min_replicas`) than there are nodes for now. It may have happened, and to ask again
    is safe."""

    code = "no_replicas"


class AwayError(RequestError):
    """The nodes that keep what was asked for are not reached; the message names them."""

    code = "away"


class BacklogError(RequestError):
    """A subscriber has left too much waiting; the message names it."""

    code = "backlog"


class StaleOpError(RequestError):
    """The subscription was changed by an operation with a higher number."""

    code = "stale_op"
    details: ClassVar[Mapping[str, type]] = {**RequestError.details, "known_op": int}
    known_op: int | None = None
    """The number of that operation."""

    def with_known_op(self, known_op: int | None) -> Self:
        """The same, with that number."""
        found = type(self)(str(self))
        found.known_op = known_op
        return found


class TakenError(RequestError):
    """Another message has this producer and this counter: the producer's state was copied, or is an old one."""

    code = "taken"


ERRORS: Final = (NoReplicasError, AwayError, BacklogError, StaleOpError, TakenError)
