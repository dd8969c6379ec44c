"""What a service hears over the server tree: frames to all, and what other nodes announce of it.

Knows: which numbers of each origin the service was told.  Does not know how a frame came, nor what it says.

Invariant: since the service began, it is told each number of an origin once, from 1 on, in order: as `Heard`, or within
one `Lacked` (docs/protocol, TREE-19).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

import attrs

from distkv.model.event import NodeName


class Origin(NamedTuple):
    """Who says frames."""

    node: NodeName
    start: int
    """Which start of its process it is; a later one has a larger number."""


@attrs.frozen(slots=True)
class Heard:
    """The same service of another node says something to all."""

    origin: Origin
    number: int
    """The first one of an origin is 1."""
    body: bytes


@attrs.frozen(slots=True)
class Lacked:
    """These frames of an origin do not come: the way was too slow for them, or they were said before this service
    began. It goes on with the next ones."""

    origin: Origin
    first: int
    last: int


@attrs.frozen(slots=True)
class Announced:
    """What another node announces of this service may be something else, or that node is gone; look it up
    (`ServiceGround.announced`)."""

    node: NodeName


FrameInput: TypeAlias = Heard | Lacked | Announced


class AnnouncedFields(Protocol):
    """What the nodes announce of a service, always as it came last."""

    def of(self, node: NodeName) -> Mapping[str, object] | None:
        """The fields of one node; None: it announces none, or is not heard of."""

    def nodes(self) -> list[NodeName]:
        """Those that announce some, by name."""


class HeardNumbers:
    """Of one service since it began."""

    def __init__(self) -> None:
        self._last: Final = dict[NodeName, tuple[int, int]]()

    def came(self, node: NodeName, start: int, number: int, body: bytes) -> Iterator[FrameInput]:
        """A frame is here; the service is told this."""
        yield from self.gone(node, start, number - 1)
        self._last[node] = start, number
        yield Heard(Origin(node, start), number, body)

    def gone(self, node: NodeName, start: int, number: int) -> Iterator[FrameInput]:
        """Nothing of an origin comes any more up to a number; the service is told this."""
        known, last = self._last.get(node, (0, 0))
        if start != known:
            last = 0
        if number > last:
            self._last[node] = start, number
            yield Lacked(Origin(node, start), last + 1, number)
