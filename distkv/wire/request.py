"""What a client or a peer may ask of a node over its socket, as values.

Knows: the fields of every request that is served.  Does not know frames (`frames`) or who answers (services).

Invariant: a request that exists is well-formed; its value is canonical msgpack bytes (`values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from distkv.model.event import TICK_MAX, Chain, Link, NodeName
from distkv.model.hot import hot_value
from distkv.model.lean import lean_value
from distkv.model.path import NAMES_MAX, ROOT, Path
from distkv.model.tick_ranges import TickRanges

if TYPE_CHECKING:
    from distkv.wire.message import TickMap, TickMaps  # messages are long to load, and a client has none

SEQ_MAX: Final = TICK_MAX

WAIT_S_MAX: Final = 3600.0
"""How long a request may ask to be kept waiting."""

REPLICAS_MAX: Final = 1024
REPLICAS_S: Final = 10.0
"""How long a write waits for other nodes that does not say so."""


@hot_value
class GetValue:
    seq: int
    path: Path
    nchain: int = 0
    """How many links of the chain the answer shows."""


@lean_value
class GetValueAt:
    """What a path held on this node at a time."""

    seq: int
    path: Path
    at: float
    """Seconds since 1970, by this node's clock."""
    nchain: int = 0


@lean_value
class GetHistory:
    """The changes of a path that reached this node, newest first, as a long result."""

    seq: int
    path: Path
    limit: int | None = None
    """How many are shown at the most."""
    before: int | None = None
    """Only those before this position."""


@lean_value
class Backup:
    """The node's whole archive, as a long result."""

    seq: int


@lean_value
class LookForDamage:
    """A look at all that the node's archive holds, as a long result."""

    seq: int
    fast: bool = False
    """Without the pauses that leave the disk to others."""


@hot_value
class SetValue:
    """Store, or delete when `value` is None; all conditions are judged on this node."""

    seq: int
    path: Path
    value: bytes | None
    chain: Chain | None = None
    """The entry's head must be this link (one link); empty: the path must have no entry."""
    new: bool = False
    prev: bytes | None = None
    """The old value must equal this."""
    idem: bool = False
    """When the value is the same already, do nothing."""
    nchain: int = 0
    prev_value: bool = False
    """Whether the answer shows the old value."""
    ttl: float | None = None
    """After so many seconds the value goes by itself."""


@lean_value
class ReplicatedWrite:
    """A write that is answered when so many nodes hold it durably, this one included, or when its time is over."""

    write: SetValue
    replicas: int
    timeout_s: float

    @property
    def seq(self) -> int:
        return self.write.seq


@lean_value
class Batch:
    """Writes and reads in one step: all, or none when one of them is refused."""

    seq: int
    ops: tuple[GetValue | SetValue, ...]
    """Their own `seq` is 0."""


@lean_value
class GetTree:
    """The values at and below a path, as a long result."""

    seq: int
    path: Path
    min_depth: int = 0
    """How many names below `path` a value has at the least."""
    max_depth: int = NAMES_MAX
    """And at the most."""
    nchain: int = 0
    limit: int | None = None
    """How many values are shown at the most."""


@lean_value
class ListNames:
    """The names directly below a path that lead to a value."""

    seq: int
    path: Path


@lean_value
class DeleteTree:
    """Delete all values at and below a path."""

    seq: int
    path: Path


@lean_value
class Watch:
    """Be told of all changes at and below a path, as a long result that only `Stop` ends."""

    seq: int
    path: Path
    fetch: bool = False
    """Show first what is there."""
    since: bytes | None = None
    """Go on where a watch was that gave this token."""
    min_depth: int = 0
    max_depth: int = NAMES_MAX


@lean_value
class GetConflicts:
    """The open losers at and below a path; or those of one path that were closed, as far as history knows them."""

    seq: int
    path: Path = ROOT
    after: Path | None = None
    """Only those behind this path."""
    limit: int | None = None
    """How many are shown at the most; a path is shown whole."""
    closed: bool = False


@lean_value
class Restore:
    """Write a loser again."""

    seq: int
    loser: Link
    head: Link | None = None
    """Only while this is the change that won."""
    path: Path = ROOT
    """Only when it lies at or below this path."""
    nchain: int = 0
    closed: bool = False
    """Whether it may be any change that history knows."""


@lean_value
class Dismiss:
    """Close an open loser, and keep what won."""

    seq: int
    loser: Link
    head: Link | None = None
    path: Path = ROOT
    nchain: int = 0


@lean_value
class Trace:
    """Be told of every step of the node, as a long result that only `Stop` ends."""

    seq: int


@lean_value
class Stop:
    """End a watch or a trace."""

    seq: int
    task: int
    """The `seq` of the request that began it."""


@lean_value
class GetState:
    seq: int


@lean_value
class RetireNodeRequest:
    """A node is gone for good."""

    seq: int
    node: NodeName
    force: bool = False
    """Also when it is seen alive."""


@lean_value
class PingRequest:
    seq: int


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


@lean_value
class GetPages:
    """A peer compares trees: what the paths behind `after`, up to `until`, come to."""

    seq: int
    after: Path | None
    until: Path | None
    size: int
    """How many paths a page has."""


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
    GetValue
    | GetValueAt
    | GetHistory
    | Backup
    | LookForDamage
    | SetValue
    | ReplicatedWrite
    | Batch
    | GetTree
    | ListNames
    | DeleteTree
    | Watch
    | GetConflicts
    | Restore
    | Dismiss
    | Trace
    | Stop
    | GetState
    | RetireNodeRequest
    | PingRequest
    | GetEvents
    | GetPages
    | EventsWait
    | GetChanges
    | GetSnapshot
    | ExchangeRequest
)
