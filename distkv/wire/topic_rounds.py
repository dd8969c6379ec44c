"""What a node asks all that keep topics before it forgets something, and what they say.

Knows: the forms of that.  Does not know what follows from it.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.declared import BodyReader, Bounds, Declared, Hash
from distkv.wire.topic_bodies import Name, check_names

NAMES_MAX: Final = 4000
"""A question names no more topics than these."""

IDS_MAX: Final = 1000
"""Of one topic."""

TopicId: TypeAlias = Annotated[str, Bounds(pattern=r"\A[0-9a-f]{16}\Z")]
Names: TypeAlias = Annotated[tuple[Name, ...], Bounds(max_length=NAMES_MAX)]


class NamedCopy(Declared, array_like=True):
    """A topic with these ids."""

    name: Name
    ids: Annotated[tuple[TopicId, ...], Bounds(min_length=1, max_length=IDS_MAX)]

    def __post_init__(self) -> None:
        check_names(self.name)


NamedCopies: TypeAlias = Annotated[tuple[NamedCopy, ...], Bounds(max_length=NAMES_MAX)]


class RoundAsked(Declared, array_like=True, tag=31):
    """Whether something may be forgotten."""

    start: Annotated[int, Bounds(ge=0, le=TICK_MAX)]
    """In which start the asking node is."""
    servers: Hash
    """Of the nodes that keep topics, as the asking one knows them."""
    names: Names = ()
    """Topics of which the asking node is the owner: does the asked one hold something that it lacks?"""
    dropped: NamedCopies = ()
    """Did the asked node throw these away?"""
    unnamed: NamedCopies = ()
    """Copies that no entry names where it is asked: does one at the asked node?"""

    def __post_init__(self) -> None:
        check_names(*self.names)


class RoundSaid(Declared, array_like=True, tag=1):
    """What the asked node says to that."""

    servers: Hash
    """As in the question, as the asked node knows them."""
    unclean: Names = ()
    """Of `names` those of which it holds something that the asking node may lack."""
    thrown: Names = ()
    """Of `dropped` those that it knows to be dropped, and has no copy of."""
    known: Names = ()
    """Of `unnamed` those that one of its entries names."""

    def __post_init__(self) -> None:
        check_names(*self.unclean, *self.thrown, *self.known)


SAID: Final = BodyReader[RoundSaid](RoundSaid, "answer")
