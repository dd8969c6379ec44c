"""Local and remote updates: the one place that decides what a write or an arriving event does.

Knows: the tree with its ledger, who this node writes as (`identity`), the registry of nodes, and the tock.
Does not know: messages, timers, other nodes' addresses, or whether the node may serve.

Invariant: a tick is used once; the tock is above every tock seen or used; every change of state has a record, and
replaying the records in order gives the same state again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, assert_never

from distkv.core.archived import ArchivedState
from distkv.core.conditions import check_conditions, decided_fence, has_condition, next_fence
from distkv.core.ground.data import Data
from distkv.core.ground.slots import Slots
from distkv.core.identity import Identity
from distkv.core.losses import Losses
from distkv.core.registry import (
    NETWORK_PATH,
    NetworkIdentity,
    Registration,
    Registry,
    is_node_path,
    network_of,
    node_path,
    registration_of,
    retired_path,
)
from distkv.errors import LogDamagedError
from distkv.model.entry import Entry
from distkv.model.event import (
    Event,
    Kind,
    Link,
    NodeName,
    Tick,
    Tock,
    is_above,
    life_of,
    new_event,
    next_chain,
    same,
)
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.invariant import must
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.sameness import same_value
from distkv.model.tick_ranges import TickRanges, lives, ranges_of
from distkv.model.tree import Applied, Tree
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    StaleRecord,
)
from distkv.wire.states import Meta
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

TOCK_AHEAD: Final = 1 << 20
"""How far the durable ceiling runs ahead of the tock, so that the tock itself needs no fsync."""

TOCK_MARGIN: Final = 4096
"""More tocks than messages leave between two steps."""


class Store:
    """The replicated state of this node and its own writing hand."""

    def __init__(self, me: NodeName, chain_length_max: int) -> None:
        self.me: Final = me
        self.own = Identity(me)
        """Who we write as."""
        self.tree = Tree()
        self.registry = Registry(self.tree)
        self.kept: Final = Slots()
        """What the services of this node have promised."""
        self.data: Final = Data()
        """What they keep row by row."""
        self.losses: Final = Losses()
        """Paths whose values this disk lost."""
        self.tock = Tock(0)
        self.pending_expiry: list[Event] = []
        """New winners that something will happen to later: tombstones will be purged, values with a ttl will expire.
        `Ageing` takes them from here."""
        self.is_damaged = False
        """Whether some of what the disk had could not be read at this start."""
        self._ceiling = Tock(0)
        self._chain_length_max = chain_length_max

    # -- reading

    @property
    def has_data(self) -> bool:
        """Whether this directory belongs to a network and has a life in it."""
        return self.registry.network is not None and self.own.life is not None

    @property
    def slots(self) -> Mapping[str, Mapping[str, bytes]]:
        """What the services of this node keep, by their names and keys; not to be changed."""
        return self.kept.all

    def missing(self) -> TickRanges:
        """What is missing and not marked lost."""
        return self.tree.ledger.missing(but_lost=True)

    def others(self) -> list[NodeName]:
        """The other registered nodes; whose life was retired is not among them."""
        return [name for name in self.registry.nodes if name != self.me]

    def live(self, path: Path) -> Event | None:
        """The event that gives a path its value; None when it has none."""
        entry = self.tree.get(path)
        return entry.head if entry is not None and entry.is_live else None

    def check_here(self, path: Path) -> None:
        """
        Raises:
            DamagedError: nothing stands at the path, and something may be lost there.
        """
        if self.losses.are_any and self.tree.head(path) is None:
            self.losses.refuse(path)

    # -- a client's write

    def local_set(self, request: SetValue, wall: float) -> tuple[Applied | None, Event | None]:
        """Check and carry out a write: (what it did, or None when nothing was to do; the winner before it).

        Raises:
            RequestError: a condition does not hold, or nobody can say here whether it does; nothing changed.
        """
        entry = self.tree.get(request.path)
        head = entry.head if entry is not None else None
        before = head if head is not None and head.kind is Kind.SET else None
        fence, here = next_fence(request, head), NO_FENCE if head is None else head.fence
        if has_condition(request):
            self.check_here(request.path)
            check_conditions(request, before)
        if request.value is None:
            is_lost = head is None and self.losses.may_hold(request.path)
            if before is None and not is_lost and (fence == here or not (here.holds or fence.holds)):
                return None, None  # deleting nothing burns no tick, unless it leaves a fence, or lifts one
            return self.write(request.path, Kind.DELETE, b"", wall, entry, fence=fence), before
        if request.idem and before is not None and fence == here and _is_there(request, before):
            return None, before
        return self.write(request.path, Kind.SET, request.value, wall, entry, request.ttl, fence=fence), before

    def decide(
        self, entry: Entry, loser: Event, request: Restore | Dismiss, wall: float
    ) -> tuple[Applied, Event | None]:
        """Write the loser again, or what won over it: (what that did; the winner before it).

        The chain names both, so that the loser is closed wherever the write comes; other losers stay open. Where a
        token holds the path, what won keeps its fence, and the loser lifts it: people decide above tokens.

        Raises:
            FencedError: the fence cannot be lifted any more; nothing changed.
        """
        before, fence = entry.head if entry.is_live else None, decided_fence(request, entry.head)
        kept = loser if isinstance(request, Restore) else entry.head
        kind = Kind.SET if kept.kind is Kind.SET else Kind.DELETE
        return self.write(loser.path, kind, kept.value, wall, entry, kept.ttl, (loser,), fence), before

    def replace(self, path: Path, link: Link, tock: Tock, wall: float) -> Applied:
        """Write again what is here at a path, or that nothing is, above a change that is not here."""
        self.tock = max(self.tock, tock)
        entry, lacked = self.tree.get(path), Event(path, Kind.DELETE, b"", (link,), tock, wall)
        head = entry.head if entry is not None else lacked
        kind = Kind.SET if head.kind is Kind.SET else Kind.DELETE
        return self.write(path, kind, head.value, wall, entry, head.ttl, fence=head.fence, lacked=lacked)

    def write(
        self,
        path: Path,
        kind: Kind,
        value: bytes,
        wall: float,
        entry: Entry | None = None,
        ttl: float | None = None,
        decided: Collection[Event] = (),
        fence: Fence = NO_FENCE,
        lacked: Event | None = None,
    ) -> Applied:
        """Make the next own event. `entry` is the path's, when the caller has it already; `decided` are the open
        losers that it closes; `lacked` is one that is not here, and is superseded by it."""
        if entry is None:
            entry = self.tree.get(path)
        if entry is not None:
            path = entry.head.path  # an equal one; so a path is kept once, however often it is written
        tick = self.own.tick = Tick(self.own.tick + 1)
        self.tock = Tock(self.tock + 1)
        sources = entry.sources(decided) if entry is not None else []
        if lacked is not None:
            sources = [*sources, lacked]
        chain, truncated = next_chain((self.me, tick), sources, self._chain_length_max)
        tock = self.tock
        if kind is Kind.EXPIRE and entry is not None:
            tock, fence = Tock(entry.head.tock + 1), entry.head.fence  # so that any renewal beats it
        if ttl is None and fence is NO_FENCE:
            event = Event(path, kind, value, chain, tock, wall, truncated)
        else:
            event = new_event(path, kind, value, chain, tock, wall, truncated, ttl, fence)
        applied = self.tree.apply(event, entry)
        if self.losses.are_any:
            self.losses.found(path)
        if kind is not Kind.SET or ttl is not None:
            self.pending_expiry.append(event)
        if path.is_reserved:
            self.registry.changed(path)
        return applied

    def expire(self, event: Event, wall: float) -> Applied:
        """The time of a value is over; it is the winner of its path still."""
        return self.write(event.path, Kind.EXPIRE, b"", wall)

    # -- what others say

    def remote(self, event: Event) -> Applied:
        """Take in an event from anywhere."""
        self.tock = max(self.tock, event.tock)
        own = self.own
        if event.node == self.me and life_of(event.tick) == own.life:
            own.tick = max(own.tick, event.tick)  # our own, from the log, or back from others
        applied = self.tree.apply(event)
        if self.losses.are_any:
            self.losses.found(event.path)
            self._see_whether_whole()
        if applied.changed:
            if applied.won and (event.kind is not Kind.SET or event.ttl is not None):
                self.pending_expiry.append(event)
            if event.path.is_reserved:
                self.registry.changed(event.path)
        return applied

    def is_void(self, event: Event) -> bool:
        """Whether an event may not stand at its path, one of the system's own: it would take from this node what
        network it belongs to, or from a node that it is registered (docs/protocol, NET-3, REG-8)."""
        known, path = self.registry.network, event.path
        if path == NETWORK_PATH:
            return known is not None and (event.ttl is not None or network_of(event) != known)
        return is_node_path(path) and (event.ttl is not None or registration_of(event) is None)

    def release(self, event: Event, teller: NodeName) -> list[Record]:
        """Have an event that `teller` holds count again, whatever the ledger says; none when it would not win, or
        change nothing.

        A deletion wins over something only: where nothing is, it may have been purged.
        """
        here = self.tree.event(event.link)
        if here is not None:
            if not self._gives_way(here, event, teller):
                return []
        else:
            head = self.tree.head(event.path)
            would_win = event.kind is Kind.SET if head is None else is_above(event, head)
            if not would_win or self.tree.is_settled(event):
                return []
        ranges = {event.node: Ranges([(event.tick, event.tick + 1)])}
        self.tree.release(ranges)
        return [ReleaseRecord(ranges)]

    def _gives_way(self, here: Event, event: Event, teller: NodeName) -> bool:
        """Whether of two contents of one tick the one that is here gives way to the one that `teller` holds.

        What the writer holds counts. While it belongs to the network nobody else decides, so nothing that it holds
        gives way to anything else; the hash decides where nobody can tell any more (ORDER-4, SYNC-6).
        """
        if same(here, event) or here.path != event.path or event.node == self.me:
            return False
        if event.node == teller:
            return True
        return event.node not in self.registry.nodes and is_above(event, here)

    def learn_known(self, ranges: TickRanges) -> tuple[list[Record], tuple[Event, ...]]:
        """Ticks are superseded, says somebody who has what superseded them."""
        new, closed = self.tree.close(ranges)
        self._see_whether_whole()
        for event in closed:
            if event.path.is_reserved:
                self.registry.changed(event.path)
        told = ranges_of(event.link for event in closed)
        return [KnownRecord(ranges) for ranges in (new, told) if ranges], closed

    def hear_ticks(self, ticks: Iterable[tuple[NodeName, Iterable[Tick]]]) -> bool:
        """Ticks exist. True when one is higher than any heard before."""
        heard = [self.tree.ledger.hear((node, tick)) for node, lasts in ticks for tick in lasts]
        return any(heard)

    def purge(self, path: Path) -> list[Record]:
        """Forget a tombstone; whoever asks knows that it may be."""
        gone = self.tree.purge(path)
        return [PurgeRecord(path, tuple(event.link for event in gone))] if gone else []

    def mark_lost(self, ranges: TickRanges) -> list[Record]:
        """Give up what is missing of these: nobody has it."""
        marked = self.tree.ledger.mark_lost(ranges)
        return [LostRecord(self.tree.ledger.spans(marked))] if marked else []

    # -- the network, and our place in it

    def found_network(self, id: bytes, value: bytes, wall: float) -> list[Applied]:
        """`--init`: the root's value and the network's identity, in life 0."""
        return [
            self.write(NETWORK_PATH, Kind.SET, NetworkIdentity(id, wall).packed(), wall),
            self.write(ROOT, Kind.SET, value, wall),
        ]

    def register(self, name: NodeName, life: int, addr: str, wall: float) -> Applied:
        """Write a node's registry entry."""
        return self.write(node_path(name), Kind.SET, Registration(life, addr, wall).packed(), wall)

    def retire(self, name: NodeName, life: int, wall: float) -> Applied:
        """Write that a life of a node is over for good."""
        return self.write(retired_path(name, life), Kind.SET, pack_value({"since": wall}), wall)

    def reset(self) -> list[Record]:
        """Forget everything, to download as if empty. The tock stays: it is about what was said, not what is held. What
        services keep row by row stays: nobody else has it."""
        self.tree = Tree()
        self.own.reset()
        self.registry.reset(self.tree)
        self.kept.reset()
        self.pending_expiry = []
        self.is_damaged = False
        return [ResetRecord()]

    # -- the disk

    def replay(self, record: Record) -> list[Path]:
        """Repeat one record of the log. Records are our own words, checked by CRC and decoder.

        Returns the paths whose entries it may have changed, but for a reset, which leaves none.

        Raises:
            WrongDirectoryError: they are another node's.
        """
        match record:
            case EventRecord(event=event):
                self.remote(event)
                return [event.path]
            case KnownRecord(ranges=ranges):
                _, closed = self.learn_known(ranges)
                return [event.path for event in closed]
            case LostRecord(ranges=ranges):
                # What was heard of has no record of its own, and only what was heard of can be marked.
                self.hear_ticks((node, [Tick(end - 1) for _, end in lives(lost)]) for node, lost in ranges.items())
                self.tree.ledger.mark_lost(ranges)
            case ReleaseRecord(ranges=ranges):
                self.tree.release(ranges)
            case LifeRecord(node=node, life=life):
                self.own.check_name(node)
                self.own.begin_life(life)
            case StaleRecord(is_stale=is_stale):
                self.own.mark_stale(is_stale)
                self.is_damaged &= is_stale  # what was damaged when it was loaded is here again
            case ResetRecord():
                self.reset()
            case CeilingRecord(tock=tock):
                self._ceiling = tock
            case SlotRecord():
                self.kept.replay(record)
            case DataRecord():
                self.data.replay(record)
            case PurgeRecord(path=path):
                self.tree.purge(path)
                return [path]
            case _:
                assert_never(record)
        return []

    def skip(self, event: Event) -> None:
        """Leave out an event of the log, which is set aside: it is missing, and what it used stays used."""
        self.tock = max(event.tock, self.tock)
        self.hear_ticks([(event.node, [event.tick])])
        if event.node == self.me and life_of(event.tick) == self.own.life:
            self.own.tick = max(self.own.tick, event.tick)

    def meta(self) -> Meta:
        """Identity and sums, to go with the entries into the archive."""
        own, tree = self.own, self.tree
        return Meta(
            self.me,
            own.life,
            own.tick,
            self.tock,
            self._ceiling,
            tree.digest,
            tree.live_count,
            restored=own.is_life_over,
            stale=own.is_stale,
            first_life=own.first_life,
        )

    def load(self, archived: ArchivedState) -> None:
        """Take over an archived state whole; the records after it are replayed then.

        Raises:
            WrongDirectoryError: it is another node's.
        """
        self.own.load(archived.meta)
        self.tock, self._ceiling = Tock(archived.meta.tock), Tock(archived.meta.ceiling)
        self.tree.load(archived.books, self._collect_fading(archived.entries))
        self.kept.load(archived.slots)
        self.data.load(archived.data)
        for entry in self.tree.reserved():
            self.registry.changed(entry.head.path)

    def doubt(self, seen: Iterable[tuple[Path, Link]]) -> None:
        """Some of what was to be loaded could not be read; `seen` are ticks that were here, each on its path.

        Raises:
            LogDamagedError: what says whose node this is cannot be read.
        """
        if self.own.life is not None and self.registry.network is None:
            raise LogDamagedError(
                f"the entry {NETWORK_PATH} is damaged, which says what network {self.me} belongs to: move the data"
                " directory aside and keep it, then start the node empty: it joins again under a new life"
            )
        self.is_damaged = True
        self.tree.doubt(seen)

    def lose(self, paths: Iterable[Path | None]) -> None:
        """What stood at these paths was lost, at this start or an earlier one; None: where it was is not known. Before
        anything is replayed. What stands there again is not lost (docs/protocol, LIFE-13)."""
        for path in paths:
            if path is None or self.tree.head(path) is None:
                self.losses.add(path)
        self._see_whether_whole()

    def replayed(self) -> None:
        """The log is at its end: go on above every tock that may have been used."""
        self.tock = max(self.tock, self._ceiling)

    def raise_ceiling(self, committing: bool) -> list[Record]:
        """A new ceiling when the tock comes near the old one; early when a commit is under way anyway."""
        if self.tock + (TOCK_AHEAD // 2 if committing else TOCK_MARGIN) < self._ceiling:
            return []
        self._ceiling = Tock(self.tock + TOCK_AHEAD)
        return [CeilingRecord(self._ceiling)]

    # -- inside

    def _see_whether_whole(self) -> None:
        """What was lost is a missing tick: where none is missing, nothing is lost."""
        if self.losses.are_any and self.tree.ledger.is_whole:
            self.losses.forget()

    def _collect_fading(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, while `pending_expiry` gets what time will act upon."""
        for entry in entries:
            head = entry.head
            if head.kind is not Kind.SET or head.ttl is not None:
                self.pending_expiry.append(head)
            yield entry

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.losses.check()
        self.kept.check()
        self.data.check()
        self.registry.check()
        self.own.check()
        must(not any(self.tree.head(path) for path in self.losses.below(ROOT)), "nothing stands where one is lost")
        own = [event for entry in self.tree.entries() for event in (entry.head, *entry.losers) if event.node == self.me]
        mine = [event.tick for event in own if life_of(event.tick) == self.own.life]
        must(max(mine, default=0) <= self.own.tick, "no change of this life is above its last tick")


def _is_there(request: SetValue, before: Event) -> bool:
    """Whether a path has what a write asks for. What ends by itself is never there: a write with a ttl moves its end,
    and one without takes it away."""
    return request.ttl is None and before.ttl is None and same_value(before.value, request.value or b"")
