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
from distkv.wire.edges import EdgeItem, TreeFrame

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
class NodeMeasured(CoreInput):
    """How many connections the node serves, which it announces, and how long the ways to other nodes are."""

    load: int
    rtt_ms: Mapping[NodeName, float]


EdgeInput: TypeAlias = EdgeAsked | EdgeTold | EdgeTaken | EdgeEnded | NodeMeasured


@attrs.frozen(slots=True)
class FramesGiven:
    """A service of this node says something to all others: it reaches each one once, in this order."""

    service: str
    bodies: list[bytes]


@attrs.frozen(slots=True)
class FieldsGiven:
    """What this node announces of a service is this from now on; None: nothing."""

    service: str
    fields: Mapping[str, object] | None


TreeInput: TypeAlias = EdgeInput | FramesGiven | FieldsGiven


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


EdgeEffect: TypeAlias = Dial | Say | Close

# -- what services hear by it


@attrs.frozen(slots=True)
class FramesGone:
    """Of what an origin says as a service nothing up to this number comes any more."""

    origin: NodeName
    start: int
    number: int
    service: str


@attrs.frozen(slots=True)
class FieldsChanged:
    """What a node announces of a service is another, or it is gone."""

    node: NodeName
    service: str


HeardByTree: TypeAlias = TreeFrame | FramesGone | FieldsChanged


@attrs.define(slots=True)
class TreeTurn:
    """One step of the machine: the time, and what it wants done, in this order."""

    now_ms: int
    """Monotonic."""
    effects: list[EdgeEffect] = attrs.field(factory=list)
    heard: list[HeardByTree] = attrs.field(factory=list)
    """What services hear, in this order."""

    def dial(self, edge: int, name: NodeName, addr: str) -> None:
        self.effects.append(Dial(edge, name, addr))

    def say(self, edge: int, item: EdgeItem) -> None:
        self.effects.append(Say(edge, item))

    def close(self, edge: int) -> None:
        self.effects.append(Close(edge))
