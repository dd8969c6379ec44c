"""All that a client or a peer may ask of a node over its socket, as values.

Knows: what clients ask, from the modules where each request stands with its row (`value_requests`, `subtrees`,
`decisions`, `node_requests`), and the fields of what peers ask, without its rows: those are long to load (`peering`).
Does not know frames (`frames`) or who answers (services).

Invariant: a request that exists is well-formed; its value is canonical msgpack bytes (`values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from distkv.model.event import NodeName, Tick
from distkv.model.lean import lean_value
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges
from distkv.wire.decisions import ConflictRequest
from distkv.wire.node_requests import NodeRequest
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.services import ServiceRequest
from distkv.wire.subtrees import TreeRequest
from distkv.wire.value_requests import ValueRequest

if TYPE_CHECKING:
    from distkv.wire.edges import EdgeItem
    from distkv.wire.message import TickMap, TickMaps  # messages are long to load, and a client has none

SILENT_S: Final = 1.0
"""How often a follower that does not say otherwise gets a sign of life."""


@lean_value
class GetEvents:
    """A peer pulls events; of `doubted`, which it has, it asks only whether they are superseded."""

    seq: int
    nodes: TickRanges
    doubted: TickRanges = attrs.field(factory=dict)
    ticks: TickMap | None = None
    """What it has heard of: it holds all of that but `nodes`, and wants all else. None: it wants `nodes` only."""
    limit: int | None = None
    """How many events it takes at the most."""
    network: bytes | None = None
    """A node of another network refuses; None: whichever it is."""


@lean_value
class GetPages:
    """A peer compares trees: what the paths behind `after`, up to `until`, come to."""

    seq: int
    size: int
    """How many paths a page has."""
    after: Path | None = None
    until: Path | None = None
    network: bytes | None = None
    """As that of `GetEvents`."""


@lean_value
class EventsWait:
    """A peer, or who follows events, waits until some come that it does not know of: a long poll."""

    seq: int
    nodes: TickRanges
    """Whose events, and which ticks are no news; `tick_ranges.up_to` says it by a tick."""
    timeout_s: float
    """After so long it is told that there are none."""
    others: bool = False
    """Whether events of nodes that are not named are news, too, all of them."""


@lean_value
class Follow:
    """A peer, or who follows events, is told of what these nodes made, as it comes to be held here: a long result that
    only `Stop` ends."""

    seq: int
    nodes: dict[NodeName, Tick]
    """Whose events, and the tick above which each is told."""
    silent_s: float = SILENT_S
    """After so long without another item there is a sign of life."""
    node: NodeName | None = None
    """The node that asks, if it is one; and its life."""
    life: int = 0
    network: bytes | None = None
    """A node of another network refuses; None: whichever it is."""


@lean_value
class HeldRequest:
    """A follower durably holds all that these nodes made in the lives of these ticks, up to them."""

    seq: int
    task: int
    """The `seq` of its follow."""
    nodes: dict[NodeName, Tick]
    is_quiet: bool = False
    """Whether it wants no answer."""


@lean_value
class Attach:
    """A node asks whether this one would be its parent in the server tree: a long result that is an edge of the tree
    from then on, until `Stop` or either end ends it."""

    seq: int
    node: NodeName
    """The node that asks, and its life."""
    life: int
    silent_s: float = SILENT_S
    """After so long without another item there is a sign of life."""


@lean_value
class TreeSay:
    """The node that attached tells the other end of the edge something."""

    seq: int
    task: int
    """The `seq` of its `Attach`."""
    item: EdgeItem
    is_quiet: bool = False
    """Whether no answer is wanted."""


@lean_value
class Lend:
    """A node that the asked one cannot dial wants to be asked by it on this connection from now on: the first request
    on it, and the last."""

    seq: int
    node: NodeName
    """The node that asks, its life, and its network."""
    life: int
    network: bytes


@lean_value
class NodeTell:
    """A service of a node tells the service of the same name on this one something."""

    seq: int
    service: str
    node: NodeName
    """The node that says it, and its life."""
    life: int
    bodies: tuple[bytes, ...]
    """Each by itself, in the order in which they were said."""
    network: bytes | None = None
    """A node of another network refuses; None: whichever it is."""
    is_quiet: bool = False
    """Whether no answer is wanted when it is taken."""


@lean_value
class GetChanges:
    """The content of ticks, as it is logged, as a long result."""

    seq: int
    nodes: TickRanges
    path: Path = ROOT
    """Only what happened at and below it."""
    content: bool = True
    """Else only which of the ticks have their content here."""


@lean_value
class GetSnapshot:
    """A joiner asks for a download; the sponsor registers it first."""

    seq: int
    node: str
    created: float
    """When the joiner's directory was made, seconds since 1970 by its clock."""
    addr: str


@lean_value
class ExchangeRequest:
    """A peer's tick maps; the answer holds ours."""

    seq: int
    maps: TickMaps


PeerRequest: TypeAlias = ExchangeRequest | GetEvents | GetPages | GetSnapshot
"""What nodes ask of one another."""

Request: TypeAlias = (
    ValueRequest | ReplicatedWrite | TreeRequest | ConflictRequest | NodeRequest | PeerRequest | EventsWait | Follow
    | HeldRequest | Attach | TreeSay | Lend | NodeTell | GetChanges | ServiceRequest
)
"""What a frame may hold; `services.session` answers all of it."""
