"""Local and remote updates: the one place that decides what a write or an arriving event does.

Knows: the tree with its ledger, this node's identity (name, life, tick, tock) and the registry of nodes.
Does not know: messages, timers, other nodes' addresses, or whether the node may serve.

Invariant: a tick is used once; the tock is above every tock seen or used; every change of state has a record, and
replaying the records in order gives the same state again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from distkv.core.registry import (
    NETWORK_PATH,
    Network,
    Registration,
    network_of,
    node_path,
    refuse_reserved,
    registration_of,
    retired_of,
    retired_path,
)
from distkv.errors import (
    ChainMismatchError,
    ExistsError,
    NotFoundError,
    ValueMismatchError,
    WrongDirectoryError,
)
from distkv.model.entry import Entry
from distkv.model.event import (
    COUNT_BITS,
    LIFE_MAX,
    Event,
    Fleeting,
    Kind,
    NodeName,
    Tick,
    Tock,
    Writer,
    is_above,
    life_of,
    next_chain,
    tick_text,
)
from distkv.model.ledger import Book, TickRanges, lives
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Applied, Tree
from distkv.wire.message import (
    CeilingRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    StaleRecord,
)
from distkv.wire.request import Dismiss, Restore, SetValue
from distkv.wire.states import Meta
from distkv.wire.values import pack_value

TOCK_AHEAD: Final = 1 << 20
"""How far the durable ceiling runs ahead of the tock, so that the tock itself needs no fsync."""

TOCK_MARGIN: Final = 4096
"""More tocks than messages leave between two steps."""


LIVES_SPARE: Final = 1 << 20
"""So many lives no clock can use up."""


class Store:
    """The replicated state of this node and its own writing hand."""

    def __init__(self, me: NodeName, chain_length_max: int) -> None:
        self.me = me
        self.tree = Tree()
        self.life: int | None = None
        self.first_life = 0
        """The life in which what is here was downloaded, or founded: whoever spoke of an earlier one meant another
        disk."""
        self.tick = Tick(0)
        self.tock = Tock(0)
        self.network: Network | None = None
        self.registry: dict[NodeName, Registration] = {}
        """The nodes that are registered and not retired."""
        self.retired: dict[NodeName, list[int]] = {}
        """The lives that are over for good."""
        self.fading: list[Event] = []
        """Winners that are new since somebody took them, and that time will act upon: tombstones, and values that go
        by themselves."""
        self.is_life_over = False
        """Whether nothing more may be written in this life, because its ticks may have been used elsewhere: what was
        loaded is a backup, or the disk was set back, or the life was retired."""
        self.is_stale = False
        """Whether others may have forgotten what is here: the disk was set back or its life retired, and nothing was
        downloaded since."""
        self._ceiling = Tock(0)
        self._chain_length_max = chain_length_max

    # -- reading

    @property
    def has_data(self) -> bool:
        """Whether this directory belongs to a network and has a life in it."""
        return self.network is not None and self.life is not None

    @property
    def has_written(self) -> bool:
        """Whether this life has a change of its own; before the first one its tick names nothing."""
        return self.tick & ((1 << COUNT_BITS) - 1) != 0

    def is_retired(self, name: str, life: int) -> bool:
        """Whether a node's life was ended by a person."""
        return self.live(retired_path(name, life)) is not None

    def live(self, path: Path) -> Event | None:
        """The event that gives a path its value; None when it has none."""
        entry = self.tree.get(path)
        return entry.head if entry is not None and entry.is_live else None

    # -- a client's write

    def local_set(self, request: SetValue, wall: float) -> tuple[Applied | None, Event | None]:
        """Check and carry out a write: (what it did, or None when nothing was to do; the winner before it).

        Raises:
            RequestError: a condition does not hold; nothing changed.
        """
        entry = self.tree.get(request.path)
        before = entry.head if entry is not None and entry.is_live else None
        _check_conditions(request, before)
        if request.value is None:
            if before is None:
                return None, None  # deleting nothing burns no tick
            return self.write(request.path, Kind.DELETE, b"", wall, entry), before
        if request.idem and before is not None and before.value == request.value:
            return None, before
        return self.write(request.path, Kind.SET, request.value, wall, entry, ttl=request.ttl), before

    def check(self, request: SetValue) -> None:
        """Whether a write would be carried out; changes nothing.

        Raises:
            RequestError: the path is reserved, or a condition does not hold.
        """
        refuse_reserved(request.path)
        _check_conditions(request, self.live(request.path))

    def check_decision(self, request: Restore | Dismiss) -> tuple[Entry, Event]:
        """The open loser that is decided about, behind the entry of its path; changes nothing.

        Raises:
            RequestError: there is no such open loser, its path is reserved, or the path holds something else than the
                request says.
        """
        loser = self.tree.event(request.loser)
        entry = None if loser is None else self.tree.get(loser.path)
        text = tick_text(*request.loser)
        if loser is None or entry is None:
            known = self.tree.ledger.has(request.loser)
            raise NotFoundError(f"{text} is {'no open conflict any more' if known else 'not known here'}")
        refuse_reserved(loser.path)
        if loser is entry.head:
            raise NotFoundError(f"{text} is what {loser.path} holds: there is nothing to decide")
        if loser not in entry.conflicts():
            raise NotFoundError(f"{text} deleted {loser.path}, and so did what won: there is nothing to decide")
        if request.head is not None and request.head != entry.head.link:
            now, said = tick_text(*entry.head.link), tick_text(*request.head)
            raise ChainMismatchError(f"{loser.path} is at {now}, the condition says {said}")
        return entry, loser

    def decide(
        self, entry: Entry, loser: Event, request: Restore | Dismiss, wall: float
    ) -> tuple[Applied, Event | None]:
        """Write the loser again, or what won over it: (what that did; the winner before it).

        The chain names both, so that the loser is closed wherever the write comes; other losers stay open.
        """
        before = entry.head if entry.is_live else None
        kept = loser if isinstance(request, Restore) else entry.head
        kind = Kind.SET if kept.kind is Kind.SET else Kind.DELETE
        return self.write(loser.path, kind, kept.value, wall, entry, kept.ttl, loser), before

    def write(
        self,
        path: Path,
        kind: Kind,
        value: bytes,
        wall: float,
        entry: Entry | None = None,
        ttl: float | None = None,
        decided: Event | None = None,
    ) -> Applied:
        """Make the next own event. `entry` is the path's, when the caller has it already; `decided` is the open loser
        that it closes."""
        if entry is None:
            entry = self.tree.get(path)
        if entry is not None:
            path = entry.head.path  # an equal one; so a path is kept once, however often it is written
        self.tick = Tick(self.tick + 1)
        self.tock = Tock(self.tock + 1)
        sources = entry.sources(decided) if entry is not None else []
        chain, truncated = next_chain((self.me, self.tick), sources, self._chain_length_max)
        if ttl is not None:
            event: Event = Fleeting(path, value, chain, self.tock, wall, truncated, ttl)
        elif kind is Kind.EXPIRE and entry is not None:  # one above what expires, so that any renewal beats it
            event = Event(path, kind, value, chain, Tock(entry.head.tock + 1), wall, truncated)
        else:
            event = Event(path, kind, value, chain, self.tock, wall, truncated)
        applied = self.tree.apply(event, entry)
        if kind is not Kind.SET or ttl is not None:
            self.fading.append(event)
        self._note_reserved(event)
        return applied

    def expire(self, event: Event, wall: float) -> Applied:
        """The time of a value is over; it is the winner of its path still."""
        return self.write(event.path, Kind.EXPIRE, b"", wall)

    @property
    def ticks_left(self) -> int:
        """How many more changes this life has room for."""
        return (1 << COUNT_BITS) - 1 - (self.tick & ((1 << COUNT_BITS) - 1))

    # -- what others say

    def remote(self, event: Event) -> Applied:
        """Take in an event from anywhere."""
        self.tock = max(self.tock, event.tock)
        if event.node == self.me and life_of(event.tick) == self.life:
            self.tick = max(self.tick, event.tick)  # our own, from the log, or back from others
        applied = self.tree.apply(event)
        if applied.changed:
            if applied.won and (event.kind is not Kind.SET or event.ttl is not None):
                self.fading.append(event)
            self._note_reserved(event)
        return applied

    def release(self, event: Event) -> list[Record]:
        """Have an event count again, whatever the ledger says; none when it would not win, or change nothing.

        A deletion wins over something only: where nothing is, it may have been purged.
        """
        head = self.tree.head(event.path)
        would_win = event.kind is Kind.SET if head is None else is_above(event, head)
        if not would_win or self.tree.is_settled(event):
            return []
        ranges = {event.node: Ranges([(event.tick, event.tick + 1)])}
        self.tree.release(ranges)
        return [ReleaseRecord(ranges)]

    def learn_known(self, ranges: TickRanges) -> tuple[list[Record], tuple[Event, ...]]:
        """Ticks are superseded, says somebody who has what superseded them."""
        new, closed = self.tree.close(ranges)
        for event in closed:
            self._note_reserved(event)
            node, tick = event.link
            new.setdefault(node, Ranges()).add(tick)
        return ([KnownRecord(new)] if new else []), closed

    def hear_ticks(self, ticks: Iterable[tuple[NodeName, Iterable[Tick]]]) -> bool:
        """Ticks exist. True when one is higher than any heard before."""
        heard = [self.tree.ledger.hear((node, tick)) for node, lasts in ticks for tick in lasts]
        return any(heard)

    def purge(self, path: Path) -> list[Record]:
        """Forget a tombstone; whoever asks knows that it may be."""
        gone = self.tree.purge(path)
        return [PurgeRecord(path, tuple(event.link for event in gone))] if gone else []

    def mark_lost(self, ranges: TickRanges) -> list[Record]:
        marked = self.tree.ledger.mark_lost(ranges)
        return [LostRecord(self.tree.ledger.spans(marked))] if marked else []

    # -- identity

    def begin_life(self, life: int) -> list[Record]:
        """Write under `life` from now on."""
        if self.life is None or life < self.first_life:
            self.first_life = life
        self.life, self.is_life_over = life, False
        self.tick = Tick(life << COUNT_BITS)
        return [LifeRecord(self.me, life)]

    def next_life(self, name: NodeName, started: float) -> int:
        """The life of a directory made at `started`: above any life heard of for its name, where there is one.

        Seconds since the network's creation (docs/protocol, TICK-3); a clock that stands before that gives 1.
        """
        created = self.network.created if self.network is not None else started
        # Clamped: a peer's `started` may be anything, and a clock that shows nonsense must leave lives to come.
        seconds = max(int(min(max(started - created, 0.0), LIFE_MAX - LIVES_SPARE)), 1)
        taken = {life_of(tick) for tick in self.tree.ledger.ticks().get(name, ())}
        taken.update(self.retired.get(name, ()))  # such a life may have ended before its first change
        if name in self.registry:
            taken.add(self.registry[name].life)
        life = max(seconds, max(taken, default=0) + 1)
        if life <= LIFE_MAX:
            return life
        # Somebody says that the last life is taken. Nobody takes so many: it is wrong, or a lie, and ends no node.
        life = max(seconds, (self.life or 0) + 1 if name == self.me else 1)
        while life in taken or life > LIFE_MAX:
            life = life + 1 if life < LIFE_MAX else 1
        return life

    def found_network(self, id: bytes, value: bytes, wall: float) -> list[Applied]:
        """`--init`: the root's value and the network's identity, in life 0."""
        network = pack_value({"network": id, "created": wall})
        return [
            self.write(NETWORK_PATH, Kind.SET, network, wall),
            self.write(ROOT, Kind.SET, value, wall),
        ]

    def register(self, name: NodeName, life: int, addr: str, wall: float) -> Applied:
        """Write a node's registry entry."""
        value = pack_value({"life": life, "addr": addr, "since": wall})
        return self.write(node_path(name), Kind.SET, value, wall)

    def retire(self, name: NodeName, life: int, wall: float) -> Applied:
        """Write that a life of a node is over for good."""
        return self.write(retired_path(name, life), Kind.SET, pack_value({"since": wall}), wall)

    def mark_stale(self, is_stale: bool) -> list[Record]:
        """Keep in mind that others may have forgotten what is here, so that our life is over; or that they have not."""
        if is_stale == self.is_stale and (self.is_life_over or not is_stale):
            return []
        self.is_stale = is_stale
        self.is_life_over |= is_stale
        return [StaleRecord(is_stale)]

    def reset(self) -> list[Record]:
        """Forget everything, to download as if empty. The tock stays: it is about what was said, not what is held."""
        self.tree = Tree()
        self.life, self.tick, self.network = None, Tick(0), None
        self.registry, self.retired, self.fading = {}, {}, []
        self.is_stale = self.is_life_over = False
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
                self._check_mine(node)
                self.begin_life(life)
            case StaleRecord(is_stale=is_stale):
                self.mark_stale(is_stale)
            case ResetRecord():
                self.reset()
            case CeilingRecord(tock=tock):
                self._ceiling = tock
            case PurgeRecord(path=path):
                self.tree.purge(path)
                return [path]
        return []

    def meta(self) -> Meta:
        """Identity and sums, to go with the entries into the archive."""
        tree, ceiling = self.tree, self._ceiling
        sums, marks = (tree.digest, tree.live_count), (self.is_life_over, self.is_stale)
        return Meta(self.me, self.life, self.tick, self.tock, ceiling, *sums, *marks, self.first_life)

    def load(self, meta: Meta, books: Iterable[tuple[Writer, Book]], entries: Iterable[Entry]) -> None:
        """Take over an archived state whole; the records after it are replayed then.

        Raises:
            WrongDirectoryError: it is another node's.
        """
        self._check_mine(meta.node)
        self.is_life_over, self.is_stale = meta.restored, meta.stale
        self.first_life = (meta.life or 0) if meta.first_life is None else meta.first_life
        self.life, self.tick, self.tock, self._ceiling = meta.life, Tick(meta.tick), Tock(meta.tock), Tock(meta.ceiling)
        self.tree.load(books, self._faded(entries), meta.digest, meta.live_count)
        for entry in self.tree.reserved():
            self._note_reserved(entry.head)

    def replayed(self) -> None:
        """The log is at its end: go on above every tock that may have been used."""
        self.tock = max(self.tock, self._ceiling)

    def ceiling(self, committing: bool) -> list[Record]:
        """A new ceiling when the tock comes near the old one; early when a commit is under way anyway."""
        if self.tock + (TOCK_AHEAD // 2 if committing else TOCK_MARGIN) < self._ceiling:
            return []
        self._ceiling = Tock(self.tock + TOCK_AHEAD)
        return [CeilingRecord(self._ceiling)]

    # -- inside

    def _faded(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, while `fading` gets what time will act upon."""
        for entry in entries:
            if not entry.is_live or entry.head.ttl is not None:
                self.fading.append(entry.head)
            yield entry

    def _check_mine(self, node: NodeName) -> None:
        if node != self.me:
            raise WrongDirectoryError(
                f"the data directory belongs to the node {node}, not to {self.me}:"
                " start the server under that name, or give this one a directory of its own"
            )

    def _note_reserved(self, event: Event) -> None:
        """Keep `network` and `registry` true when a reserved path changed."""
        if not event.path.is_reserved:
            return
        names = event.path.names
        entry = self.tree.get(event.path)
        if entry is None:
            return
        if len(names) == 1:
            self.network = network_of(entry.head) or self.network
            return
        retired = retired_of(event.path)
        match names:
            case (None, "node", str() as name):
                self._note_registration(NodeName(name))
            case _ if retired is not None:
                name, life = retired
                lives = self.retired.setdefault(name, [])
                if life not in lives:
                    lives.append(life)
                    self._note_registration(name)

    def _note_registration(self, name: NodeName) -> None:
        """Of several entries of one name the youngest life counts; when that is retired, the name is not registered."""
        entry = self.tree.get(node_path(name))
        events = () if entry is None else (entry.head, *entry.losers)
        found = [registration for registration in map(registration_of, events) if registration is not None]
        here = max(found, key=lambda r: (r.life, r.since), default=None)
        if here is None or here.life in self.retired.get(name, ()):
            self.registry.pop(name, None)
        else:
            self.registry[name] = here


def _check_conditions(request: SetValue, before: Event | None) -> None:
    if not request.new and request.chain is None and request.prev is None:
        return  # the usual write asks for nothing; making its path's text would cost more than its checks
    where = f"{request.path}"
    if request.new and before is not None:
        raise ExistsError(f"{where} exists already, written by {tick_text(*before.link)}")
    if request.chain is not None:
        link = request.chain[0] if request.chain else None
        if link != (before.link if before is not None else None):
            now = f"at {tick_text(*before.link)}" if before is not None else "not there"
            raise ChainMismatchError(f"{where} is {now}, the condition says {tick_text(*link) if link else 'absent'}")
    if request.prev is not None:
        if before is None:
            raise NotFoundError(f"{where} has no value to compare with")
        if before.value != request.prev:
            raise ValueMismatchError(f"{where} has another value than the condition says; read it and decide again")
