"""What the activity services of nodes tell and ask each other.

Knows: the fields of that, and their bounds.  Does not know who tells it when.

Invariant: as in `declared`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.activity_lines import ACTIVITY_BYTES_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared, Node

START_CHARS: Final = 12
"""Of what tells the starts of the service of a node apart: hexadecimal digits."""
ORIGINS_MAX: Final = 1000
"""Maps of origins have no more of them."""
ASKED_MAX: Final = 100
"""About so many origins a node is asked at once."""
SENDER_BYTES: Final = 16
EPOCH_MAX: Final = 2**31 - 1
NAMED_MAX: Final = 16
"""So many nodes at the most are named to confirm an activity."""
SAID_MAX: Final = 256
"""So many activities at the most are said in one go."""
PAGE_BYTES: Final = 192 << 10
"""A page of activities ends with the one that reaches this."""
PAGE_MAX: Final = 4096

Start: TypeAlias = Annotated[str, Bounds(pattern=rf"\A[0-9a-f]{{{START_CHARS}}}\Z")]
_ORIGIN: Final = rf"\A[0-9A-Za-z._-]{{1,63}}\.[0-9a-f]{{{START_CHARS}}}\Z"
OriginName: TypeAlias = Annotated[str, Bounds(pattern=_ORIGIN)]
ActivityNumber: TypeAlias = Annotated[int, Bounds(ge=1, le=TICK_MAX)]
Reached: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]
OriginNumbers: TypeAlias = Annotated[Mapping[OriginName, Reached], Bounds(max_length=ORIGINS_MAX)]
ActivityBytes: TypeAlias = Annotated[bytes, Bounds(max_length=ACTIVITY_BYTES_MAX)]


class SenderMark(Declared, array_like=True, frozen=True):
    """Which client that resumes sent something, and in which of its epochs."""

    hash: Annotated[bytes, Bounds(min_length=SENDER_BYTES, max_length=SENDER_BYTES)]
    epoch: Annotated[int, Bounds(ge=1, le=EPOCH_MAX)]


class SaidActivity(Declared, array_like=True, frozen=True):
    """One of the activities of a word."""

    activity: ActivityBytes
    sender: SenderMark | None = None
    after: OriginNumbers | None = None
    """It comes after these of other origins: the first one that its sender sent there."""


class ActivitySaid(Declared, array_like=True, tag=1):
    """Activities of the node that says them: as a frame to all, or to one node."""

    start: Start
    number: ActivityNumber
    """Of the first one; the others have the next numbers."""
    items: Annotated[tuple[SaidActivity, ...], Bounds(min_length=1, max_length=SAID_MAX)]
    confirm: Annotated[tuple[Node, ...], Bounds(max_length=NAMED_MAX)] = ()
    """These nodes say which of them they have."""


class ActivityConfirmed(Declared, array_like=True, tag=2):
    """The node has these activities of the start of the one that it tells."""

    start: Start
    numbers: Annotated[tuple[ActivityNumber, ...], Bounds(min_length=1, max_length=PAGE_MAX)]


class OriginsKnown(Declared, array_like=True, tag=3):
    """Up to which number the node knows origins that are new to the other one, or changed lately."""

    numbers: OriginNumbers


class ClientSent(Declared, array_like=True, tag=4):
    """The node has sent clients to the other one that cannot say from where they come."""

    count: Annotated[int, Bounds(ge=1, le=PAGE_MAX)] = 1


ActivityWord: TypeAlias = ActivitySaid | ActivityConfirmed | OriginsKnown | ClientSent


class HoleAsked(Declared, array_like=True, tag=11):
    """Which of these of an origin does the node have?"""

    origin: OriginName
    first: ActivityNumber
    last: ActivityNumber


class WindowAsked(Declared, array_like=True, tag=12):
    """What was given out behind this place?"""

    start: str = ""
    """The start of the asked node that has this place; empty: from the beginning."""
    place: Reached = 0


class OriginsAsked(Declared, array_like=True, tag=13):
    """How far is the node with these origins? It answers with `OriginsKnown`."""

    names: Annotated[tuple[OriginName, ...], Bounds(min_length=1, max_length=ASKED_MAX)]


class ClientOffered(Declared, array_like=True, tag=14):
    """May a client come that will not be able to say from where it comes? The answer is a `ClientWelcome`."""


ActivityQuestion: TypeAlias = HoleAsked | WindowAsked | OriginsAsked | ClientOffered


class KeptActivity(Declared, array_like=True):
    """An activity, as a node has it."""

    origin: OriginName
    number: ActivityNumber
    activity: ActivityBytes
    sender: SenderMark | None = None
    after: OriginNumbers | None = None
    is_late: bool = False
    """Whether it was not given out, because its sender had a later epoch."""


KeptPage: TypeAlias = Annotated[tuple[KeptActivity, ...], Bounds(max_length=PAGE_MAX)]


class HoleAnswer(Declared, array_like=True):
    """All that the node has, from the first that was asked up to a number, in order."""

    items: KeptPage
    until: Reached


class WindowPage(Declared, array_like=True):
    """Some of what the node gave out, in its order."""

    items: KeptPage
    start: Start
    place: Reached
    """Behind the last of them."""
    numbers: OriginNumbers | None = None
    """How far the node is; said with the last page."""
    is_whole: bool = True
    """False: the node itself began a moment ago."""


class ClientWelcome(Declared, array_like=True):
    """The answer to `ClientOffered`."""

    is_expected: bool
    """False: it is to stay where it is."""


WORDS: Final = BodyReader[ActivityWord](ActivityWord, "word")
ACTIVITY_QUESTIONS: Final = BodyReader[ActivityQuestion](ActivityQuestion, "question")
HOLE_ANSWERS: Final = BodyReader[HoleAnswer](HoleAnswer, "answer")
WINDOW_PAGES: Final = BodyReader[WindowPage](WindowPage, "page")
ORIGIN_ANSWERS: Final = BodyReader[OriginsKnown](OriginsKnown, "answer")
WELCOMES: Final = BodyReader[ClientWelcome](ClientWelcome, "answer")


def is_origin_name(text: str) -> bool:
    """Whether a node and a start of it can be called so."""
    return re.match(_ORIGIN, text) is not None
