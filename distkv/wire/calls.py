"""What the two ends of calls between nodes tell each other.

Knows: the form of the messages with which a service of one node asks that of another.  Does not know what is asked: a
body is bytes, which the service packs and reads.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared

NUMBERS_MAX: Final = 1000
"""A message names no more calls than these."""
BODY_BYTES_MAX: Final = 1 << 20
"""The largest body. Who asks keeps its own smaller."""

CallNumber: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]
CallNumbers: TypeAlias = Annotated[tuple[CallNumber, ...], Bounds(max_length=NUMBERS_MAX)]
CallBody: TypeAlias = Annotated[bytes, Bounds(max_length=BODY_BYTES_MAX)]


class CallAsked(Declared, array_like=True, tag=1):
    """A question."""

    boot: CallNumber
    """Which start of the asking node it is from; a later start has a larger number."""
    number: CallNumber
    """Larger for each question of that start."""
    floor: CallNumber
    """All of the node's questions to this one with lower numbers are over."""
    body: CallBody


class CallAnswered(Declared, array_like=True, tag=2):
    """The answer."""

    boot: CallNumber
    """That of the node which asked."""
    number: CallNumber
    body: CallBody


class CallsChecked(Declared, array_like=True, tag=3):
    """The asking side would know what became of these."""

    boot: CallNumber
    numbers: CallNumbers


class CallsSeen(Declared, array_like=True, tag=4):
    """The answering side says so; those that were answered it answers again instead."""

    boot: CallNumber
    pending: CallNumbers
    unknown: CallNumbers
    """Not known here: they are to be asked again."""


class CallsCancelled(Declared, array_like=True, tag=5):
    """The asking side does not want an answer any more."""

    boot: CallNumber
    numbers: CallNumbers


class CallsDropped(Declared, array_like=True, tag=6):
    """The answering side has heard that."""

    boot: CallNumber
    numbers: CallNumbers


CallMessage: TypeAlias = CallAsked | CallAnswered | CallsChecked | CallsSeen | CallsCancelled | CallsDropped

CALLS: Final = BodyReader[CallMessage](CallMessage, "call")
