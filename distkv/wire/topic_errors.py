"""What the topic service refuses with, besides the errors that all know.

Knows: the code of each, and what it means.  Does not know who refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from distkv.errors import RequestError
from distkv.wire.topic_fields import OP_MAX


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


class TakenError(RequestError):
    """Another message has this producer and this counter: the producer's state was copied, or is an old one."""

    code = "taken"


def stale_op(known_op: int) -> StaleOpError:
    """The refusal of an operation on a subscription that is not above the known one."""
    found = StaleOpError(
        f"the subscription was changed with op {known_op} before, and this op is not above it: {_what_to_do(known_op)}"
    )
    found.known_op = known_op
    return found


def _what_to_do(known_op: int) -> str:
    if known_op < OP_MAX:
        return "the client's state is an old one, or is used twice; give a higher op, or none"
    return (
        "no client may give a higher one; leave op out, or drop the subscriber with"
        " 'distkv client topic drop TOPIC --subscriber NAME'"
    )


ERRORS: Final = (NoReplicasError, AwayError, BacklogError, StaleOpError, TakenError)
