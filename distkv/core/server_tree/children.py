"""Who is below a node in the server tree.

Knows: who asked to be a child and who was taken, how high their subtrees are, and which of them know of which change
of this node's place.  Does not know whether a child may be taken, nor what it is told.

Invariant: a name has one edge at the most on which it is a child.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from distkv.model.event import NodeName


@attrs.define(slots=True)
class Child:
    """A node that asked."""

    name: NodeName
    asked_ms: int
    is_taken: bool = False
    height: int = 0
    """How many levels there are below it."""
    knows_turn: int = 0
    """All below it know of this node's changes of place up to this one."""


class Children:
    """All of them, by the numbers of their edges."""

    def __init__(self) -> None:
        self._by_edge: Final = dict[int, Child]()

    # -- reading

    @property
    def names(self) -> list[NodeName]:
        """Those that were taken."""
        return sorted(child.name for _, child in self._taken())

    @property
    def edges(self) -> list[int]:
        """Theirs."""
        return [edge for edge, _ in self._taken()]

    @property
    def all_edges(self) -> list[int]:
        """Also of those that only asked."""
        return list(self._by_edge)

    @property
    def height(self) -> int:
        """How many levels there are below this node."""
        return max((child.height + 1 for _, child in self._taken()), default=0)

    def waiting(self, edge: int) -> Child | None:
        """Who asked on this edge, and was not taken yet."""
        child = self._by_edge.get(edge)
        return None if child is None or child.is_taken else child

    def waiting_edges(self) -> list[int]:
        """Of those that were not taken yet."""
        return [edge for edge, child in self._by_edge.items() if not child.is_taken]

    def overdue(self, before_ms: int) -> list[int]:
        """Of those that were not taken yet, and asked before that moment."""
        return [edge for edge in self.waiting_edges() if self._by_edge[edge].asked_ms <= before_ms]

    def count_beside(self, name: NodeName) -> int:
        """How many were taken, besides the one of this name."""
        return sum(child.name != name for _, child in self._taken())

    def unaware(self, turn: int) -> list[int]:
        """The edges below which some may not know of the change."""
        return [edge for edge, child in self._taken() if child.knows_turn < turn]

    # -- what happens

    def asked(self, edge: int, name: NodeName, now_ms: int) -> None:
        """A node would be a child."""
        self._by_edge[edge] = Child(name, now_ms)

    def take(self, edge: int, height: int, turn: int) -> list[int]:
        """Whoever waits on this edge is a child from now on; the edges on which it was one before: it lost those
        connections, which was not noticed here."""
        taken = self._by_edge[edge]
        older = [other for other, child in self._taken() if child.name == taken.name]
        taken.is_taken, taken.height, taken.knows_turn = True, height, turn
        return older

    def has_height(self, edge: int, height: int) -> bool:
        """A child says how many levels there are below it; whether it is one."""
        child = self._by_edge.get(edge)
        if child is None or not child.is_taken:
            return False
        child.height = height
        return True

    def knows(self, edge: int, turn: int) -> bool:
        """All below a child know; whether it is one."""
        child = self._by_edge.get(edge)
        if child is None or not child.is_taken:
            return False
        child.knows_turn = max(child.knows_turn, turn)
        return True

    def gone(self, edge: int) -> bool:
        """The edge is over; whether it was one of these."""
        return self._by_edge.pop(edge, None) is not None

    # -- inside

    def _taken(self) -> Iterator[tuple[int, Child]]:
        return ((edge, child) for edge, child in self._by_edge.items() if child.is_taken)
