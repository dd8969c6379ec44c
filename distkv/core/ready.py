"""The vocabulary of the core: what it is told, and what it wants done.

Knows: every input and every output of `Replica.step`.  Does not know what is decided, nor who carries it out.

Invariant: a `Ready` is carried out in the order of its fields, and what Ready k emits leaves only after the records of
all Readies up to k are durable (docs/architecture, 'Ready').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.core.client_writes import AwaitedInput, ClientWrite, CoreInput, WriteReply
from distkv.core.edges import EdgeEffect, EdgeInput
from distkv.errors import DistkvError
from distkv.model.event import Event, Link, NodeName, Tick
from distkv.model.pages import Page
from distkv.model.path import Path
from distkv.model.tick_ranges import TickRanges
from distkv.model.unchecked import unchecked_value
from distkv.wire.message import EventBatch, Message, PullEnd, Record, SnapshotHead, Start, TickMap, TickMaps, Tombstone
from distkv.wire.services import ServiceReply, ServiceRequest

AGEING_BYTES: Final = 64 << 10
"""About what one step writes at the most because time passed."""


class Rng(Protocol):
    """The randomness that is handed in."""

    def random(self) -> float: ...


# -- what the core is told ----------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class SetAside(CoreInput):
    """Changes that this node leaves out from now on (`aside`): it lacks them."""

    links: tuple[Link, ...]


@attrs.frozen(slots=True)
class HeardMessage(CoreInput):
    """A gossip message arrived; it may be our own."""

    message: Message


@attrs.frozen(slots=True)
class TransportUp(CoreInput):
    """Messages flow (again)."""


@attrs.frozen(slots=True)
class TransportDown(CoreInput):
    """Nothing is sent or heard."""


@attrs.frozen(slots=True)
class TransportGap(CoreInput):
    """Some messages were lost on their way to us."""


@attrs.frozen(slots=True)
class AnnounceDue(CoreInput):
    """Updates were not sent for want of room: say that they exist."""


@attrs.frozen(slots=True)
class MembersSeen(CoreInput):
    """Who the transport believes alive: name -> HOST:PORT."""

    alive: Mapping[str, str]


@attrs.frozen(slots=True)
class PeerAnswered(CoreInput):
    """Part of the answer to an `Ask`."""

    ask: int
    answer: TickMaps | EventBatch | PullEnd | SnapshotHead | Page


@attrs.frozen(slots=True)
class PeerDone(CoreInput):
    """The answer to an `Ask` is complete, or (`error`) will not come."""

    ask: int
    error: DistkvError | None = None


@attrs.frozen(slots=True)
class FollowBegan(CoreInput):
    """A peer that is followed answers."""

    follow: int


@unchecked_value
class FollowTold(AwaitedInput):
    """An item of what a peer that is followed tells; both are empty in a sign of life."""

    follow: int
    events: tuple[Event, ...]
    known: TickRanges


@attrs.frozen(slots=True)
class FollowEnded(CoreInput):
    """A peer is followed no more: it refused, broke off, or fell silent."""

    follow: int
    error: DistkvError


@attrs.frozen(slots=True)
class FollowersSeen(CoreInput):
    """Who gets what this node makes by a link from it, and says so all the time."""

    names: frozenset[NodeName]


@attrs.frozen(slots=True)
class LendEnded(CoreInput):
    """A connection that was to be lent to a node has ended, or was not taken."""

    name: NodeName
    was_used: bool
    """Whether the node asked anything on it."""
    error: DistkvError | None = None
    """Why it was not taken, or what broke it."""


@attrs.frozen(slots=True)
class LineLent(CoreInput):
    """A node that cannot be dialled lends a connection, on which it can be asked."""

    name: NodeName


@attrs.frozen(slots=True)
class PeerOffered(CoreInput):
    """A peer started an exchange with us; the reply is our own maps."""

    maps: TickMaps


@attrs.frozen(slots=True)
class JoinerAsked(CoreInput):
    """An empty node asks us to sponsor it: register it, then hand over a snapshot."""

    node: NodeName
    created: float
    addr: str


@attrs.frozen(slots=True)
class Wake(CoreInput):
    """The time in `wake_ms` came."""

    has_room: bool = True
    """Whether the disk has room for `AGEING_BYTES` of what a node does by itself."""


ServiceQuestion: TypeAlias = ServiceRequest | Mapping[str, object]
"""What a service is asked: a request of its own, or fields."""
ServiceResult: TypeAlias = DistkvError | ServiceReply | Mapping[str, object]
"""What a service answers: why it refuses, a reply of its own, or the fields of one."""


@attrs.frozen(slots=True)
class ServiceAsked(AwaitedInput):
    """A client asks a service of this node something; it is answered by an `Answer`, in this step or a later one."""

    service: str
    id: int
    """The number of the request on this start of the node."""
    request: ServiceQuestion
    asker: int = 0
    """Who asks, where that counts: see `asker_of`."""


def is_of_client(id: int) -> bool:
    """Whether a request of this number came from outside of the services of the node."""
    return id > 0


@attrs.frozen(slots=True)
class ServiceContinued(AwaitedInput):
    """Whoever waits for the answers to a request has taken the last one, and can take more."""

    service: str
    id: int


@attrs.frozen(slots=True)
class ServiceWithdrawn(AwaitedInput):
    """Nobody waits for the answer to a request any more."""

    service: str
    id: int


@attrs.frozen(slots=True)
class NodeTold(AwaitedInput):
    """A node tells the service of the same name on this node something, as a `ServiceTell` there. It may come never,
    late, or twice, but for one connection in the order in which it was said."""

    name: NodeName
    life: int
    """The life in which that node said it."""
    service: str
    body: bytes


@attrs.frozen(slots=True)
class WorkDone(CoreInput):
    """A `Work` is over."""

    service: str
    id: int
    result: object
    """What it returned, or why there is none (`DistkvError`)."""


ForServices: TypeAlias = ServiceAsked | ServiceContinued | ServiceWithdrawn | NodeTold | WorkDone
FOR_SERVICES: Final = (ServiceAsked, ServiceContinued, ServiceWithdrawn, NodeTold, WorkDone)
"""The same, for `isinstance`."""
StoreInput: TypeAlias = (
    ClientWrite | SetAside
    | HeardMessage | TransportUp | TransportDown | TransportGap | AnnounceDue | MembersSeen
    | PeerAnswered | PeerDone | PeerOffered | JoinerAsked
    | FollowBegan | FollowTold | FollowEnded | FollowersSeen | LendEnded | LineLent
    | EdgeInput
    | Wake
)
Input: TypeAlias = StoreInput | ForServices


# -- what the core wants done -------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class AskMaps:
    """Start a tick-map exchange: send ours (made when it leaves), bring theirs."""

    tombstones: tuple[Tombstone, ...] = ()
    """What we want to forget, and ask for on the way."""
    behind: int | None = None
    """The life in which the peer lacks what it told us before."""
    short_for: NodeName | None = None
    """The peer, if it may hold just what we hold: then a hash is sent, and is the answer, instead of ranges."""


@attrs.frozen(slots=True)
class AskEvents:
    """Pull events."""

    ranges: TickRanges
    doubted: TickRanges = attrs.field(factory=dict)
    """Open losers that are here: only whether they are superseded is asked."""
    ticks: TickMap | None = None
    """What we have heard of: all of it but `ranges` is held here, and all else is wanted, too (PULL-1). None: only
    `ranges` is wanted."""
    limit: int | None = None
    """How many events the answer may bring."""


@attrs.frozen(slots=True)
class AskSnapshot:
    """Ask for a download."""


@attrs.frozen(slots=True)
class AskPages:
    """Ask what the paths behind `after`, up to `until`, come to, in pages of `size`."""

    after: Path | None
    until: Path | None
    size: int


Question: TypeAlias = AskMaps | AskEvents | AskSnapshot | AskPages


@attrs.frozen(slots=True)
class Ask:
    """A request to a peer over TCP; answers come back as `PeerAnswered`, then `PeerDone`."""

    id: int
    addr: str
    what: Question


@attrs.frozen(slots=True)
class FollowFrom:
    """Follow a peer for these nodes from now on, and for no others as before; for none: not any more."""

    follow: int
    name: NodeName
    addr: str
    nodes: Mapping[NodeName, Tick]
    """The tick of each up to which all is held here."""


@attrs.frozen(slots=True)
class LendTo:
    """Lend a connection to a node, which seems unable to dial this one. It ends with one `LendEnded`."""

    name: NodeName
    addr: str


@attrs.frozen(slots=True)
class CoreLimits:
    """How much is taken, or kept, at the most."""

    tock_jump: int = 1 << 32
    """How far ahead of ours a tock may be."""
    pull_events_max: int = 20_000
    data_bytes_max: int = 1 << 30
    """Of the rows that services keep as data."""


@attrs.frozen(slots=True)
class Beginning:
    """What is said of one start only."""

    init_value: bytes | None = None
    """`--init`: the root's value, packed; None: join, or go on."""
    restored: bool = False
    """`--restored`: the disk is older than it was, or shall be: the daemon cuts a damaged log."""
    restarts: int = 0
    """How often the node has started anew by itself before, because of its old disk."""
    network_id: bytes = b""
    """Random; used when this node founds a network."""


@attrs.frozen(slots=True)
class CoreSettings:
    """What the machine is told once."""

    node: NodeName
    addr: str
    """HOST:PORT at which peers reach this node; empty when they cannot."""
    start: Start
    clock_ms: int = 5000
    ping_length: int = 4
    chain_length_max: int = 5
    delete_retention_ms: int = 86_400_000
    """How old a tombstone is at least before it is purged."""
    alone: bool = False
    """Whether there is no transport (solo)."""
    follow: bool = False
    """Whether other nodes are followed."""
    fanout: int = 16
    """How many follow a writer itself; in a larger network the others follow through these."""
    limits: CoreLimits = attrs.field(factory=CoreLimits)
    beginning: Beginning = attrs.field(factory=Beginning)


Reply: TypeAlias = WriteReply | TickMaps | SnapshotHead | DistkvError


@unchecked_value
class PathChange:
    """A path has another winner, or its conflicts changed: what watchers and history are told."""

    event: Event
    won: bool
    closed: tuple[Event, ...]


@attrs.frozen(slots=True)
class Note:
    """Something worth counting: a stable id and what belongs to it. The core never logs."""

    id: str
    fields: Mapping[str, object]


@attrs.frozen(slots=True)
class ServiceTell:
    """Something for a service of another node, which is not told whether it came."""

    name: NodeName
    service: str
    body: bytes
    waits: bool = True
    """As that of `Answer`."""


@attrs.frozen(slots=True)
class Work:
    """Something slow for a thread. It changes nothing, and reads nothing that changes; it ends with one `WorkDone`."""

    id: int
    service: str
    job: Callable[[], object]


@attrs.frozen(slots=True)
class Answer:
    """The answer to a request that a service was asked in this step or an earlier one."""

    id: int
    result: ServiceResult
    is_last: bool = True
    """False: there will be more."""
    waits: bool = True
    """False: it may leave at once. Should a crash undo what it says, that will be noticed and done again."""


@attrs.define(slots=True)
class Ready:
    """What one step wants done, in this order; `engine.executor` does it."""

    records: list[Record] = attrs.field(factory=list)
    """What the disk must have before anything else of this step leaves. They are appended at once, behind those of the
    steps before."""
    messages: list[Message | Ask] = attrs.field(factory=list)
    """Leave in their order, each when the records of this step and of all before are durable. A message may be dropped,
    and is announced then; an ask never is, and the request that comes of it waits for what it shows."""
    tells: list[ServiceTell] = attrs.field(factory=list)
    """Leave as messages do, each to one node, and behind the messages of this step; one that does not wait for the disk
    leaves at once. One that finds the outbox full is dropped: who wants to be heard says it again."""
    follows: list[FollowFrom] = attrs.field(factory=list)
    """Begun at once, and tried once: what they name is the peers' own, or others', and a start names it anew."""
    lends: list[LendTo] = attrs.field(factory=list)
    """Begun at once: they say no more than the name of the node."""
    works: list[Work] = attrs.field(factory=list)
    """Begun at once: nobody outside hears of them."""
    edges: list[EdgeEffect] = attrs.field(factory=list)
    """Done at once: what is told on an edge, a crash may undo."""
    reply: Reply | None = None
    """The answer to the input, when it asked something. It leaves when the records of this step are durable."""
    answers: list[Answer] = attrs.field(factory=list)
    """To requests of this step and of earlier ones. Each leaves in its order, when the records of this step and of all
    before are durable; one that does not wait for that leaves at once."""
    changes: list[PathChange] = attrs.field(factory=list)
    """What watchers are told; each hears of one when the records of this step are durable."""
    fatal: DistkvError | None = None
    """The node must end, and this says why: at once, or, when the disk turned out to be an old one, when the records of
    this step are durable, among which is the mark that tells the next start."""
    notes: list[Note] = attrs.field(factory=list)
    """Counted and logged at once: only the owner of the node hears of them."""

    def note(self, id: str, **fields: object) -> None:
        self.notes.append(Note(id, fields))
