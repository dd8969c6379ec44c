"""What nodes ask each other for the requests of their clients, whatever the service: one of them, or a part of a list.

Knows: the forms of that.  Does not know what is asked: a service packs and reads that itself.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared, Node

LIMIT_MAX: Final = 10_000
"""A page has no more items than these."""
TEXT_MAX: Final = 1000

ItemName: TypeAlias = Annotated[str, Bounds(max_length=TEXT_MAX)]
Position: TypeAlias = Annotated[int, Bounds(ge=0, le=TICK_MAX)]


class AnswerAsked(Declared, array_like=True, tag=1):
    """A request is to be answered."""

    body: bytes


class PageAsked(Declared, array_like=True, tag=2):
    """The next items of a list are to be said."""

    prefix: ItemName
    """How their names begin."""
    after: ItemName
    """Behind this name; empty: from the first on."""
    limit: Annotated[int, Bounds(ge=1, le=LIMIT_MAX)]


class NewsAsked(Declared, array_like=True, tag=3):
    """What changes is to be said, as soon as something does."""

    prefix: ItemName
    position: Position
    """What changed up to there is known; 0: nothing is."""


class RoutedAnswer(Declared, array_like=True, tag=1):
    """The answer."""

    body: bytes


class AnsweredElsewhere(Declared, array_like=True, tag=2):
    """This node does not answer it."""

    node: Node | None
    """Who does, as far as this one knows."""
    may_be_done: bool = False
    """Whether this node has begun it before; else it has done nothing."""


class RoutedRefusal(Declared, array_like=True, tag=3):
    """Why there is no answer; nothing was done here, unless the code says otherwise."""

    code: str
    text: Annotated[str, Bounds(max_length=TEXT_MAX)]


class NodeItem(Declared, array_like=True):
    """An item of one node's part."""

    name: ItemName
    body: bytes | None
    """None: there is nothing by this name any more."""


NodeItems: TypeAlias = Annotated[tuple[NodeItem, ...], Bounds(max_length=LIMIT_MAX)]


class NodePage(Declared, array_like=True, tag=4):
    """What one node has of a list, in the order of names."""

    items: NodeItems
    more: bool = False
    """Whether there are further ones, behind the last name."""


class NodeNews(Declared, array_like=True, tag=5):
    """What one node tells a watch."""

    items: NodeItems
    position: Position
    """Behind which to ask on."""
    is_first: bool = False
    """Whether this begins all that the node has."""
    is_last: bool = True
    """Whether there is no more for now."""


RoutedQuestion: TypeAlias = AnswerAsked | PageAsked | NewsAsked
RoutedReply: TypeAlias = RoutedAnswer | AnsweredElsewhere | RoutedRefusal | NodePage | NodeNews

QUESTIONS: Final = BodyReader[RoutedQuestion](RoutedQuestion, "question")
REPLIES: Final = BodyReader[RoutedReply](RoutedReply, "answer")
