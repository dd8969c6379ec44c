"""Who is below a node in the server tree.

Knows: who asked to be a child and who was taken, how high their subtrees are, which of them know of which change of
this node's place, and how long they are waited for.  Does not know whether a child may be taken, nor where the node
stands.

Invariant: a name has one edge at the most on which it is a child.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from distkv.core.edges import TreeTurn
from distkv.core.server_tree.parents import DEPTH_MAX
from distkv.core.server_tree.search import INQUIRY_MS
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.edges import ParentRefusal, ServerInfo

TELL_MS: Final = 1500
"""How long each level below may take to say that it knows."""
WAITING_MS: Final = 2 * INQUIRY_MS + TELL_MS * DEPTH_MAX
"""How long a node that asked may take to join."""


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
        self.turn = 0
        """Counts the changes of this node's place."""
        self.tell_ms = 0
        """Until when all below are waited for."""

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
    def height(self) -> int:
        """How many levels there are below this node."""
        return max((child.height + 1 for _, child in self._taken()), default=0)

    def waiting(self, edge: int) -> Child | None:
        """Who asked on this edge, and was not taken yet."""
        child = self._by_edge.get(edge)
        return None if child is None or child.is_taken else child

    def overdue(self, now_ms: int) -> list[int]:
        """The edges of those that asked long ago, and did not join."""
        found = self._by_edge.items()
        return [edge for edge, child in found if not child.is_taken and child.asked_ms <= now_ms - WAITING_MS]

    def count_beside(self, name: NodeName) -> int:
        """How many were taken, besides the one of this name."""
        return sum(child.name != name for _, child in self._taken())

    @property
    def unaware(self) -> list[int]:
        """The edges below which some may not know of the last change."""
        return [edge for edge, child in self._taken() if child.knows_turn < self.turn]

    # -- what happens

    def asked(self, edge: int, name: NodeName, now_ms: int) -> None:
        """A node would be a child."""
        self._by_edge[edge] = Child(name, now_ms)

    def tell(self, turn: TreeTurn, path: tuple[NodeName, ...], tree_height: int) -> None:
        """The node stands somewhere else now. When it does not know where, whoever only asked is refused."""
        self.turn += 1
        for edge, child in self._by_edge.items():
            if child.is_taken:
                turn.say(edge, ServerInfo(path, tree_height, self.turn))
            elif not path:
                turn.say(edge, ParentRefusal("detached"))

    def wait(self, now_ms: int) -> None:
        """All below are to say that they know."""
        self.tell_ms = now_ms + TELL_MS * (1 + self.height)

    def take(self, edge: int, height: int) -> list[int]:
        """Whoever waits on this edge is a child from now on; the edges on which it was one before: it lost those
        connections, which was not noticed here."""
        taken = self._by_edge[edge]
        older = [other for other, child in self._taken() if child.name == taken.name]
        taken.is_taken, taken.height, taken.knows_turn = True, height, self.turn
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
        child.knows_turn = max(child.knows_turn, min(turn, self.turn))
        return True

    def gone(self, edge: int) -> bool:
        """The edge is over; whether it was one of these."""
        return self._by_edge.pop(edge, None) is not None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(set(self.names)) == len(self.names), f"a name is a child once: {self.names}")
        must(all(child.knows_turn <= self.turn for _, child in self._taken()), "nobody knows a change to come")

    # -- inside

    def _taken(self) -> Iterator[tuple[int, Child]]:
        return ((edge, child) for edge, child in self._by_edge.items() if child.is_taken)
