"""What the topic service refuses with, besides the errors that all know.

Knows: the code of each, and what it means.  Does not know who refuses.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import OutdatedError, RequestError


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


class StaleOpError(OutdatedError):
    """The subscription was changed by an operation with a higher number, which is `known_op`."""

    code = "stale_op"


class TakenError(RequestError):
    """Another message has this producer and this counter: the producer's state was copied, or is an old one."""

    code = "taken"


ERRORS: Final = (NoReplicasError, AwayError, BacklogError, StaleOpError, TakenError)
