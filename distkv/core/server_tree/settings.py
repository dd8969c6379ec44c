"""What a node of the server tree is told at its start, what it looks up, and what it counts.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from distkv.core.server_tree.parents import TreePeer
from distkv.model.event import NodeName


@attrs.define(slots=True)
class TreeCounts:
    """What happened since the start."""

    parents: int = 0
    """How often it got a parent."""
    parents_lost: int = 0
    parents_refused: int = 0
    """How often a node that was asked did not take it."""
    edge_overrun: int = 0
    """How often an edge ended because its other end did not take what was said."""


@attrs.frozen
class TreeSettings:
    """What a node is told."""

    me: NodeName
    addr: str
    """As it announces it; empty: nobody can connect to it."""
    fanout: int
    """How many children it takes."""
    announce_ms: int


class TreeGround(Protocol):
    """What a node in the tree looks up."""

    def is_registered(self, name: NodeName, life: int | None = None) -> bool:
        """Whether a node belongs to the network, in this life."""

    def peers(self, now_ms: int) -> Mapping[NodeName, TreePeer]:
        """The other registered nodes that seem alive."""
