"""The tree of one node with its ledger: the whole replicated state, and the one place that changes it.

Knows: entries by path, events by tick, the ledger, and the digest over them, kept up to date incrementally.
Does not know: time, messages, the disk, nor who may write.

Invariant: an event is in `present` exactly when it is the winner or an open loser of its path; every present tick is
held in the ledger; `digest` is the XOR over the live winners and nearly all open losers (docs/protocol, DIGEST-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

from distkv.model.conflict_index import ConflictIndex
from distkv.model.entry import Entry
from distkv.model.event import COUNT_BITS, Event, Kind, Link, Tick, Writer, same, sort_down
from distkv.model.fence import NO_FENCE
from distkv.model.index import Index
from distkv.model.ledger import Ledger, WriterLedger
from distkv.model.path import NAMES_MAX, RESERVED, ROOT, Name, Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, lives
from distkv.model.unchecked import unchecked_value

Sums: TypeAlias = tuple[int, bytes]
"""A state digest, and the hash of the ticks held. Two nodes with equal sums hold the same, except by chance."""
_Shown: TypeAlias = tuple[Event, tuple[Event, ...]]
"""What an entry shows: its winner and its open losers."""


@unchecked_value
class Applied:
    """What came of an event."""

    event: Event
    is_new: bool
    """Whether it said something new: nearly always that the ledger lacked its tick. A duplicate may do so, too, when
    its tick was held by hearsay; and it may close losers."""
    won: bool
    """Whether it is the winner of its path now, and was not before."""
    closed: tuple[Event, ...] = ()
    """Open losers and the former winner that are neither any more."""
    two_contents: bool = False
    """Whether the tick is here with another content: one name was used twice, or somebody lies."""
    unseen: tuple[Link, ...] = ()
    """What is held from now on and was never the winner nor an open loser here: older links of its chain whose events
    did not come before it, and its own, if what is here knew it."""

    @property
    def changed(self) -> bool:
        """Whether the state of the node is another one now, so that the disk must hear of it."""
        return self.is_new or bool(self.closed)


class Tree:
    """The replicated state of one node."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.digest = 0
        self.live_count = 0
        self._index = Index()
        self._present: dict[Writer, dict[int, Event]] = {}
        self._conflicts = ConflictIndex()

    # -- reading

    @property
    def sums(self) -> Sums:
        """What others compare with theirs."""
        return self.digest, self.ledger.hash()

    def get(self, path: Path) -> Entry | None:
        """The entry as it is now, tombstones included; None when the path was never written (or is purged)."""
        return self._index.get(path.key)

    def head(self, path: Path) -> Event | None:
        """The winner, which may be a tombstone; None as `get`. Cheaper, so reads come here."""
        return self._index.head(path.key)

    def is_only(self, event: Event) -> bool:
        """Whether its path holds this event and nothing else is kept about it; see `Index.is_only`."""
        return self._index.is_only(event)

    def entries(self) -> Iterator[Entry]:
        """All entries, tombstones included, each path before what lies below it; not while the tree changes."""
        return self._index.entries()

    def walk(
        self,
        path: Path,
        after: Path | None = None,
        min_depth: int = 0,
        max_depth: int = NAMES_MAX,
        *,
        tombstones: bool = False,
    ) -> Iterator[Entry]:
        """The entries at and below a path, in order; see `Index.walk`."""
        return self._index.walk(path, after, min_depth, max_depth, tombstones=tombstones)

    def names(self, path: Path, after: Path | None = None) -> Iterator[tuple[Name, bool, int]]:
        """The names below a path, in order; see `Index.names`."""
        return self._index.names(path, after)

    def __len__(self) -> int:
        """How many entries, tombstones included."""
        return len(self._index)

    @property
    def tombstone_count(self) -> int:
        return len(self._index) - self.live_count

    def event(self, link: Link) -> Event | None:
        """The winner or open loser that a tick names."""
        return self._present.get((link[0], link[1] >> COUNT_BITS), {}).get(link[1])

    def present(self, ranges: TickRanges) -> Iterator[Event]:
        """The winners and open losers among `ranges`, by name and tick."""
        for node in sorted(ranges):
            for begin, end in lives(ranges[node]):
                events = self._present.get((node, begin >> COUNT_BITS), {})
                if end - begin < len(events):
                    found = [tick for tick in range(begin, end) if tick in events]
                else:
                    found = sorted(tick for tick in events if begin <= tick < end)
                for tick in found:
                    event = events.get(tick)
                    if event is not None:  # the tree may have changed while a caller paused
                        yield event

    def conflicted(self) -> list[Entry]:
        """The entries that have open losers, listed or not, in the order of `walk`."""
        return list(self._conflicts.below(ROOT))

    def conflicted_below(self, path: Path, after: Path | None = None) -> Iterator[Entry]:
        """Those at and below a path, of those behind the path `after`; not while the tree changes. Nothing else is
        looked at."""
        return self._conflicts.below(path, after)

    @property
    def conflict_count(self) -> int:
        """How many open losers people are told of, those of the system's own paths aside."""
        return self._conflicts.conflict_count

    def open_losers(self) -> Iterator[Event]:
        """All open losers, listed or not."""
        for entry in self.conflicted():
            yield from entry.losers

    def superseded(self) -> TickRanges:
        """What is held but not present."""
        found = self.ledger.held()
        for (node, _), events in self._present.items():
            if events:
                here = Ranges.from_ticks(sorted(events))
                found[node] = found[node] - here
        return {node: ranges for node, ranges in found.items() if ranges}

    # -- changing

    def apply(self, event: Event, entry: Entry | None = None) -> Applied:
        """Take in one event, whoever sent it and however often (docs/protocol, APPLY-1 to APPLY-5).

        `entry` is the path's, when the caller has it already.
        """
        ledger = self.ledger
        if entry is None:
            entry = self._index.get(event.path.key)
        if not ledger.hold(event.link):
            return self._apply_duplicate(event, entry)
        before = None
        if entry is None:
            entry = Entry(event)
            gone: list[Event] = []
        else:
            before = entry.head, entry.losers
            gone = entry.settle(event, event.older)
        self._present.setdefault(event.writer, {})[event.tick] = event
        older = event.older
        unseen = [other for other in older if ledger.hold(other)] if older else []
        self._account(entry, gone, before)
        if event in gone:
            gone.remove(event)
            unseen.append(event.link)
        return Applied(event, True, entry.head is event, tuple(gone), unseen=tuple(unseen))

    def load(self, books: Iterable[tuple[Writer, WriterLedger]], entries: Iterable[Entry]) -> None:
        """Take over a whole state that was kept elsewhere, into an empty tree; its sums are made of what comes."""
        self.ledger.load(books)
        digest = live_count = 0
        writer: Writer | None = None
        events: dict[int, Event] = {}
        for entry in entries:  # no call that is not needed: this loop is most of the time of a start
            head, losers = entry.head, entry.losers
            self._index.add(head.path.key, entry)
            for event in (head, *losers) if losers else (head,):
                if event.writer != writer:
                    writer = event.writer
                    events = self._present.setdefault(writer, {})
                events[event.tick] = event
            if losers:
                self._conflicts.put(entry)
            live_count += head.kind is Kind.SET
            digest ^= share(entry)
        self.digest, self.live_count = digest, live_count

    def doubt(self, seen: Iterable[tuple[Path, Link]]) -> None:
        """Entries are missing that should be here, nobody knows which: hold only those ticks that can be shown.

        These are what is present, what the chains of that name, and of the ticks that were `seen` here, each on its
        path, those whose path has an entry: they are superseded, as they are not present. Any other tick may be that of
        an entry which is gone; whoever has its event must not be told that it is superseded.
        """
        shown: dict[Writer, list[int]] = {}
        for entry in self._index.entries():
            remembered = ((writer, row[0]) for writer, rows in (entry.memory or {}).items() for row in rows)
            links = [link for event in (entry.head, *entry.losers) for link in event.chain]
            for (node, _), tick in remembered:
                links.append((node, Tick(tick)))
            for node, tick in links:
                shown.setdefault((node, tick >> COUNT_BITS), []).append(tick)
        for path, (node, tick) in seen:
            if self._index.get(path.key) is not None:
                shown.setdefault((node, tick >> COUNT_BITS), []).append(tick)
        self.ledger.keep({writer: Ranges.from_ticks(sorted(set(ticks))) for writer, ticks in shown.items()})

    def reserved(self) -> list[Entry]:
        """The system's own entries, tombstones included."""
        return list(self._index.entries(RESERVED.key))

    def close(self, ranges: TickRanges) -> tuple[TickRanges, tuple[Event, ...]]:
        """Somebody knows these ticks as superseded: hold them, and close the open losers among them.

        A winner stays: no rule deletes an entry because someone else claims it superseded.  Returns what was new to
        the ledger, and the losers closed.
        """
        new: TickRanges = {}
        closed: list[Event] = []
        for node, wanted in ranges.items():
            for event in list(self.present({node: wanted})):
                entry = self._index.get(event.path.key)
                if entry is not None and event is not entry.head:
                    before = entry.head, entry.losers
                    gone = entry.settle(None, (event.link,))
                    self._account(entry, gone, before)
                    closed += gone
            for begin, end in lives(wanted):
                book = self.ledger.book((node, begin >> COUNT_BITS))
                fresh = book.held.gaps(begin, end) if book else Ranges([(begin, end)])
                if fresh:
                    new.setdefault(node, Ranges()).update(fresh)
                    self.ledger.hold_range(node, begin, end)
        return new, tuple(closed)

    def purge(self, path: Path) -> tuple[Event, ...]:
        """Forget a tombstone, and with it the deletions that lost to it; their ticks stay held, as superseded.

        Returns what is gone; nothing, when the path has a value or an open loser that is one.
        """
        entry = self._index.get(path.key)
        if entry is None or entry.is_live or entry.conflicts():
            return ()
        gone = (entry.head, *entry.losers)
        for event in gone:
            del self._present[event.writer][event.tick]
        self._conflicts.drop(path)
        self._index.remove(path.key)
        return gone

    def is_settled(self, event: Event) -> bool:
        """Whether it would change nothing here, whatever the ledger says: it is here, or something here knew it."""
        if self.event(event.link) is not None:
            return True
        entry = self._index.get(event.path.key)
        return entry is not None and entry.knows(event)

    def release(self, ranges: TickRanges) -> None:
        """Forget that these ticks were here, and what is here of them, so that their events are applied once more."""
        for event in list(self.present(ranges)):
            self._forget(event)
        for node, ticks in ranges.items():
            for begin, end in lives(ticks):
                self.ledger.release_range(node, begin, end)

    def _forget(self, event: Event) -> None:
        """A winner or open loser is neither any more; the next one of its path wins, if there is one."""
        path, entry = event.path, self._index.get(event.path.key)
        if entry is None:
            return
        before = entry.head, entry.losers
        rest = [one for one in (entry.head, *entry.losers) if one is not event]
        if rest:
            sort_down(rest)
            entry.head, entry.losers = rest[0], tuple(rest[1:])
            self._account(entry, [event], before)
            return
        del self._present[event.writer][event.tick]
        self.digest ^= _share(*before, _place(path))
        if entry.is_live:
            self._index.turned(path.key, False)
            self.live_count -= 1
        self._index.remove(path.key)

    def _apply_duplicate(self, event: Event, entry: Entry | None) -> Applied:
        """The ledger has the tick: the event is not applied, which keeps purged values dead.

        Its chain is still read for what it supersedes, because the tick may be held by hearsay (a chain, or `known`).
        """
        for link in event.older:
            self.ledger.hear(link)
        here = self.event(event.link)
        if here is not None:
            return Applied(event, False, False, two_contents=not same(here, event))
        named = [link for link in event.older if not self._is_head(link)]
        gone: list[Event] = []
        learned = False
        if entry is not None:
            before, memory = (entry.head, entry.losers), dict(entry.memory or {})
            entry.remember(event)
            gone = entry.settle(None, named)
            self._account(entry, gone, before)
            learned = memory != (entry.memory or {})
        unseen = tuple(link for link in named if self.ledger.hold(link))
        return Applied(event, learned or bool(unseen), False, tuple(gone), unseen=unseen)

    def _is_head(self, link: Link) -> bool:
        event = self.event(link)
        return event is not None and self._index.head(event.path.key) is event

    def _account(self, entry: Entry, gone: list[Event], before: _Shown | None) -> None:
        """Bring the indexes, the digest and the count in line with an entry that may have changed."""
        for event in gone:
            here = self._present[event.writer]
            if here.get(event.tick) is event:  # else another content of its tick has taken its place
                del here[event.tick]
        self._index.put(entry.head.path.key, entry)
        if entry.losers:
            self._conflicts.put(entry)
        elif self._conflicts:
            self._conflicts.drop(entry.head.path)
        if before is not None and before[0] is entry.head and before[1] == entry.losers:
            return  # what came is below what is here, and known to it
        place = _place(entry.head.path)
        was_live, is_live = before is not None and before[0].kind is Kind.SET, entry.is_live
        if is_live != was_live:
            self._index.turned(entry.head.path.key, is_live)
            self.live_count += is_live - was_live
        self.digest ^= _share(entry.head, entry.losers, place) ^ (0 if before is None else _share(*before, place))


_LIVE: Final = blake2b(digest_size=8, person=b"live")
_OPEN: Final = blake2b(digest_size=8, person=b"open")
"""Copies of these are fed, at half the price of new ones: two hashes are the largest part of a set in a profile."""


def _place(path: Path) -> bytes:
    """A path as the digest has it."""
    return str(path).encode()


def share(entry: Entry) -> int:
    """What an entry adds to the digest."""
    head, losers = entry.head, entry.losers
    if losers:
        return _share(head, losers, _place(head.path))
    return _hash(_LIVE, head, str(head.path).encode()) if head.kind is Kind.SET else 0


def _share(head: Event, losers: tuple[Event, ...], place: bytes) -> int:
    is_live = head.kind is Kind.SET
    share = _hash(_LIVE, head, place) if is_live else 0
    for loser in losers:
        if is_live or loser.kind is Kind.SET:  # DIGEST-1
            share ^= _hash(_OPEN, loser, place)
    return share


def _hash(kind: blake2b, event: Event, place: bytes) -> int:
    parts = place, event.node.encode(), event.tick, event.tock, event.kind, event.value
    whole = kind.copy()
    if event.fence is not NO_FENCE:
        whole.update(b"%d %d %d %b\n" % (*event.fence[:3], event.fence.token.encode()))
    whole.update(b"%b\n%b\n%d\n%d\n%d\n%b" % parts)
    return int.from_bytes(whole.digest(), "big")

