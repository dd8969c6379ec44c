"""What nodes say to each other, as values.

Knows: the fields of every message between nodes.  Does not know how they become bytes (`codec`), nor what a node does
on hearing one (core).

Invariant: a message that exists is well-formed: names, ticks, chains, ranges and states were checked where it was made
or decoded.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.model.event import Event, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State as State  # part of many messages
from distkv.model.tick_ranges import TickRanges
from distkv.model.unchecked import unchecked_value

TickMap: TypeAlias = dict[NodeName, list[Tick]]
"""Per name the highest tick heard of in each life, rising. On the wire a single one is a plain integer."""


@attrs.frozen(slots=True)
class Start:
    """One start of one server process: tells two servers of one name apart."""

    time: float
    """When it started, seconds since 1970 by its own clock."""
    id: int
    """Random, 63 bits; decides between equal times."""


@unchecked_value
class Header:
    """What every message carries."""

    node: NodeName
    """The sender."""
    tick: Tick
    """The sender's last tick; durable when the message leaves. 0 while it has no life of its own."""
    tock: Tock
    life: int
    """The sender's incarnation."""
    network: bytes | None
    """The network id, 8 bytes; None while the sender has no data."""
    start: Start | None
    """None in updates, to save bytes."""


@attrs.frozen(slots=True)
class PingLink:
    """One link of a ping chain. A tick of 0 or None: the node had no data yet."""

    node: NodeName
    tick: Tick | None
    tock: Tock


PingChain: TypeAlias = tuple[PingLink, ...]
"""Newest first. A node may appear more than once."""


@unchecked_value
class Update:
    """Events of the sender (or, in recovery, of anybody), oldest first."""

    header: Header
    events: tuple[Event, ...]


@attrs.frozen(slots=True)
class Ping:
    """'I am alive', and the basis of the next round. The first link is the sender's own."""

    header: Header
    chain: PingChain
    addr: str
    """HOST:PORT at which the sender answers peers; empty when it has none."""
    state: State
    digest: int
    """The state digest, 64 bits."""
    ticks_hash: bytes
    """The hash of the tick ranges held, 8 bytes."""


@attrs.frozen(slots=True)
class Info:
    """Generic information. What is None was not sent."""

    header: Header
    addr: str
    state: State
    ticks: TickMap | None = None
    """What the sender has heard of; the whole map, or the part that changed."""
    ticks_hash: bytes | None = None
    known: TickRanges | None = None
    missing: TickRanges | None = None
    lost: TickRanges | None = None
    reason: PingChain | None = None
    """The losing side's ping chain, when the sender tells the winning side that there was a split."""
    ping: PingChain | None = None
    """The ping which this answers."""


Message: TypeAlias = Update | Ping | Info


# -- between two nodes over TCP -----------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class Tombstone:
    """A deletion, the winner of its path, of which a node wants to know whether it may be forgotten."""

    path: Path
    links: tuple[Link, ...]
    """Itself, then the deletions that lost to it."""
    tock: Tock
    expired: bool = False


@attrs.frozen(slots=True)
class TickMaps:
    """One consistent snapshot of a ledger: both sides of a tick-map exchange send this."""

    header: Header
    addr: str
    state: State
    ticks: TickMap
    held: TickRanges
    lost: TickRanges
    digest: int
    tombstones: tuple[Tombstone, ...] = ()
    """What the sender wants to forget."""
    outlived: tuple[Link, ...] = ()
    """Of the tombstones that the other side asked for those which nothing here stands against, as of this snapshot."""
    behind: int | None = None
    """The life in which the hearer lacks ticks that it reported before: its disk was set back."""
    is_stale: bool = False
    """Whether the sender's own disk was set back, or retired, and it could not download since."""
    ticks_hash: bytes | None = None
    """The short form: the hash of the ticks held, instead of them. `held` and `lost` are empty then, and `ticks` is
    only what the sender heard of the hearer's life."""


@attrs.frozen(slots=True)
class EventBatch:
    """Part of the answer to a pull, or of the entries of a snapshot."""

    events: tuple[Event, ...]


@attrs.frozen(slots=True)
class PullEnd:
    """The end of the answer to a pull: of what was asked, this is superseded, and this the answerer lacks."""

    known: TickRanges
    lacks: TickRanges


@attrs.frozen(slots=True)
class SnapshotHead:
    """The start of a download: the ledger at one instant; the entries of it follow, with their open losers."""

    header: Header
    life: int
    """The life which the sponsor gave the joiner and wrote into the registry."""
    ticks: TickMap
    superseded: TickRanges
    entry_count: int
    """About how many entries follow; for progress."""
    is_stale: bool = False
    """Whether others may have forgotten what the sponsor has, and so what it sends."""


# -- what a log record holds --------------------------------------------------------------------------------------


@unchecked_value
class EventRecord:
    """An event was applied, or was a duplicate that closed something."""

    event: Event
    arrived: float
    """This node's wall clock."""


@attrs.frozen(slots=True)
class KnownRecord:
    """Ticks were learned to be superseded: all of them open losers that are closed now, or none.

    Others were never the winner nor an open loser here. A chain that names such ticks holds them, too; then this record
    follows that of the event, and says nothing but that their own events had not come.
    """

    ranges: TickRanges


@attrs.frozen(slots=True)
class LostRecord:
    """Missing ticks were marked lost."""

    ranges: TickRanges


@attrs.frozen(slots=True)
class LifeRecord:
    """The directory writes under this name and life from here on."""

    node: NodeName
    life: int


@attrs.frozen(slots=True)
class ReleaseRecord:
    """These ticks are as if they had never been here; their events follow, and count whatever the ledger said."""

    ranges: TickRanges


@attrs.frozen(slots=True)
class StaleRecord:
    """Whether others know more of what is here than this disk does itself, until a reset."""

    is_stale: bool


@attrs.frozen(slots=True)
class ResetRecord:
    """Everything before is void: a download begins, or begins anew."""


@attrs.frozen(slots=True)
class CeilingRecord:
    """No tock above this was used; a restart continues there."""

    tock: Tock


@attrs.frozen(slots=True)
class PurgeRecord:
    """A tombstone was forgotten, and the deletions that lost to it; their ticks are superseded."""

    path: Path
    links: tuple[Link, ...]


@attrs.frozen(slots=True)
class SlotRecord:
    """A service keeps a value: what its machine has promised, and must know again after a crash."""

    machine: str
    """The name of the service."""
    key: str
    value: bytes | None
    """None: it is not kept any more."""


@attrs.frozen(slots=True)
class DataRecord:
    """A service keeps a row of data, which is no promise: it stays when the disk turns out to be an old one."""

    machine: str
    """The name of the service."""
    key: str
    value: bytes | None
    """None: it is not kept any more."""


Record: TypeAlias = (
    EventRecord
    | KnownRecord
    | LostRecord
    | LifeRecord
    | ResetRecord
    | CeilingRecord
    | PurgeRecord
    | ReleaseRecord
    | StaleRecord
    | SlotRecord
    | DataRecord
)
