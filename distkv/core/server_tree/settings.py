"""What a node of the server tree is told at its start, and what it counts.

Knows: the values.  Does not know what becomes of them.

Invariant: settings never change while a node runs.
"""

from __future__ import annotations

import attrs

from distkv.model.event import NodeName


@attrs.define(slots=True)
class TreeCounts:
    """What happened since the start."""

    parents: int = 0
    """How often it got a parent."""
    parents_lost: int = 0
    parents_refused: int = 0
    """How often a node that was asked did not take it."""


@attrs.frozen
class TreeSettings:
    """What a node is told."""

    me: NodeName
    addr: str
    """As it announces it; empty: nobody can connect to it."""
    fanout: int
    """How many children it takes."""
    announce_ms: int
