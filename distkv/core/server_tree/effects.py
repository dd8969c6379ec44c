"""What the server tree wants to be done.

Knows: the effects and their order.  Does not know who does them: sockets in a server, virtual connections in the
simulator.

Invariant: an edge has a number of this node's own; nothing is said on it before `Dial` or the question of a child, nor
after `Close`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.model.event import NodeName
from distkv.wire.edges import EdgeItem, TreeFrame


@attrs.frozen
class Dial:
    """Ask a node to be the parent, on a new edge."""

    edge: int
    name: NodeName
    addr: str


@attrs.frozen
class Say:
    """Tell the other end of an edge."""

    edge: int
    item: EdgeItem


@attrs.frozen
class Close:
    """An edge is over, from this side."""

    edge: int


@attrs.frozen
class Deliver:
    """A frame is here for its service."""

    frame: TreeFrame


TreeEffect: TypeAlias = Dial | Say | Close | Deliver


class Effects:
    """Those that are not taken yet, in their order."""

    def __init__(self) -> None:
        self._found: Final[list[TreeEffect]] = []
        self._edges = 0

    def new_edge(self) -> int:
        """The number of another edge."""
        self._edges += 1
        return self._edges

    def dial(self, edge: int, name: NodeName, addr: str) -> None:
        self._found.append(Dial(edge, name, addr))

    def say(self, edge: int, item: EdgeItem) -> None:
        self._found.append(Say(edge, item))

    def close(self, edge: int) -> None:
        self._found.append(Close(edge))

    def deliver(self, frame: TreeFrame) -> None:
        self._found.append(Deliver(frame))

    def take(self) -> list[TreeEffect]:
        """All; none is left."""
        found = self._found[:]
        self._found.clear()
        return found
