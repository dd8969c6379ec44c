"""The words between a node's machine in the server tree and whoever has its connections.

Knows: what the machine is told of its edges, and what it wants done with them.  Does not know why (`server_tree`), nor
who does it: sockets in a server, virtual connections in the simulator.

Invariant: an edge has a number of this node's own, which is used once: above zero where another node asked on it (who
has the connections counts them), below zero where this node did. Nothing is said on it before `Dial` or `EdgeAsked`,
nor after `Close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from distkv.core.client_writes import CoreInput
from distkv.model.event import NodeName
from distkv.wire.edges import FRAME_BYTES_MAX, EdgeItem, TreeFrame

TAKEN_ITEMS: Final = 64
"""So many items leave before the machine is told."""

# -- what the machine is told


@attrs.frozen(slots=True)
class EdgeAsked(CoreInput):
    """A node asks whether this one would be its parent, on a new edge."""

    edge: int
    name: NodeName
    life: int
    """The life in which it asks."""


@attrs.frozen(slots=True)
class EdgeTold(CoreInput):
    """The other end of an edge said something."""

    edge: int
    item: EdgeItem


@attrs.frozen(slots=True)
class EdgeTaken(CoreInput):
    """Of what was said on an edge so many more items have left; told at the latest after `TAKEN_ITEMS`."""

    edge: int
    count: int


@attrs.frozen(slots=True)
class EdgeEnded(CoreInput):
    """An edge is over, from the other side, or because the connection is."""

    edge: int


@attrs.frozen(slots=True)
class FrameGiven(CoreInput):
    """A service says something to all nodes: it reaches each one once, in the order in which it was given.

    Raises:
        ValueError: it is too large.
    """

    service: str
    body: bytes = attrs.field(validator=attrs.validators.max_len(FRAME_BYTES_MAX))


@attrs.frozen(slots=True)
class NodeMeasured(CoreInput):
    """How many connections the node serves, which it announces, and how long the ways to other nodes are."""

    load: int
    rtt_ms: Mapping[NodeName, float]


EdgeInput: TypeAlias = EdgeAsked | EdgeTold | EdgeTaken | EdgeEnded | FrameGiven | NodeMeasured


# -- what it wants done


@attrs.frozen(slots=True)
class Dial:
    """Ask a node to be the parent, on a new edge."""

    edge: int
    name: NodeName
    addr: str


@attrs.frozen(slots=True)
class Say:
    """Tell the other end of an edge."""

    edge: int
    item: EdgeItem


@attrs.frozen(slots=True)
class Close:
    """An edge is over, from this side."""

    edge: int


@attrs.frozen(slots=True)
class Deliver:
    """A frame is here for its service."""

    frame: TreeFrame


EdgeEffect: TypeAlias = Dial | Say | Close | Deliver


@attrs.define(slots=True)
class TreeTurn:
    """One step of the machine: the time, and what it wants done, in this order."""

    now_ms: int
    """Monotonic."""
    effects: list[EdgeEffect] = attrs.field(factory=list)

    def dial(self, edge: int, name: NodeName, addr: str) -> None:
        self.effects.append(Dial(edge, name, addr))

    def say(self, edge: int, item: EdgeItem) -> None:
        self.effects.append(Say(edge, item))

    def close(self, edge: int) -> None:
        self.effects.append(Close(edge))

    def deliver(self, frame: TreeFrame) -> None:
        self.effects.append(Deliver(frame))
