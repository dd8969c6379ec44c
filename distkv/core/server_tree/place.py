"""Where a node stands in the server tree.

Knows: its phase, its way to the root, and its parent.  Does not know why any of them changes.

Invariant: it knows its way to the root exactly as a root or attached; the way begins with the node itself, then comes
its parent, and nobody is on it twice (docs/protocol, TREE-1, TREE-2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from distkv.core.server_tree.phase import TRANSITIONS, TreeCause, TreePhase
from distkv.model.event import NodeName
from distkv.model.invariant import must


@attrs.define(slots=True)
class TreeParent:
    """That of a node, on its edge."""

    edge: int
    name: NodeName
    said_height: int
    """How many levels it was told that there are below the node."""
    turn: int = 0
    """The change of its place of which it told last."""


class TreePlace:
    """That of one node."""

    def __init__(self, me: NodeName) -> None:
        self.me: Final = me
        self.phase = TreePhase.OUT
        self.path: tuple[NodeName, ...] = ()
        """From this node to the root; empty while it is not known."""
        self.tree_height = 0
        """How many levels the whole tree has below its root."""
        self.parent: TreeParent | None = None
        """None: it is a root, or has none."""

    # -- reading

    @property
    def parent_name(self) -> NodeName | None:
        """That of the parent."""
        return self.parent.name if self.parent is not None else None

    @property
    def level(self) -> int | None:
        """None: it is not known."""
        return len(self.path) - 1 if self.path else None

    def is_parent(self, edge: int) -> bool:
        """Whether the parent is at the other end."""
        return self.parent is not None and edge == self.parent.edge

    def leads_here(self, path: Sequence[NodeName]) -> bool:
        """Whether this node stands on the way from another one to a root."""
        return self.me in path

    # -- what happens

    def move(self, cause: TreeCause) -> None:
        """Something changes the phase, perhaps."""
        self.phase = TRANSITIONS.get((self.phase, cause), self.phase)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        path, has_path = self.path, self.phase in (TreePhase.ROOT, TreePhase.ATTACHED)
        must(bool(path) == has_path, f"a way is known as root or attached: {self.me} is {self.phase}, {path}")
        has_parent = self.phase in (TreePhase.ATTACHED, TreePhase.PENDING)
        must((self.parent is not None) == has_parent, f"{self.phase} and a parent fit: {self.me} has {self.parent}")
        must(len(set(path)) == len(path), f"nobody is on a way twice: {path}")
        must(path[:1] in ((), (self.me,)), f"the way of {self.me} begins with it: {path}")
        if path and has_parent:
            must(path[1:2] == (self.parent_name,), f"the parent of {self.me} comes next: {path}, {self.parent_name}")
