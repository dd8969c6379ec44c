"""The ledger: which ticks of every writer exist, which of them this node holds, and which it misses.

Knows: per writer `last` (the highest tick heard of) and `held` (present or superseded); what is present is told by the
tree, so superseded = held - present.  Does not know events, nor why a tick is held.

Invariant: missing = 1..last minus held; `lost` is a mark on missing ticks and never counts as held
(docs/protocol, LEDGER-1 to LOST-2).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from hashlib import blake2b

import attrs

from distkv.model.event import COUNT_BITS, Link, NodeName, Tick, Writer, first_tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, lives


@attrs.define(slots=True)
class WriterLedger:
    """What is known about one writer."""

    first: int
    last: int
    held: Ranges = attrs.field(factory=Ranges)
    lost: Ranges = attrs.field(factory=Ranges)

    @property
    def missing(self) -> Ranges:
        return self.held.gaps(self.first, self.last + 1)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing; cheap."""
        held = self.held
        return self.last < self.first or (held.count() == 1 and (self.first, self.last + 1) == next(held.pairs()))


class Ledger:
    """All books. Iteration is in order of name and life."""

    def __init__(self) -> None:
        self._books: dict[Writer, WriterLedger] = {}
        self._lives: dict[NodeName, tuple[int, ...]] = {}
        """The lives of each name that have a book, rising."""
        self._is_sorted = True
        self._gappy: dict[Writer, None] = {}  # the writers of whom something is missing
        self._hash: bytes | None = None
        self._shared_held: tuple[TickRanges, bytes | None] = {}, None

    # -- one tick

    def has(self, link: Link) -> bool:
        """Whether the event was here once: as present, or superseded."""
        book = self._books.get((link[0], link[1] >> COUNT_BITS))
        return book is not None and link[1] in book.held

    def hear(self, link: Link) -> bool:
        """A tick exists. True when it is higher than any heard before."""
        book = self._book(link[0], link[1])
        if link[1] <= book.last:
            return False
        book.last = link[1]
        self._note(link[0], link[1], book)
        return True

    def hold(self, link: Link) -> bool:
        """The tick is present or superseded from now on. True when it was not."""
        node, tick = link
        book = self._book(node, tick)
        if tick != book.last + 1:  # held already, as the links of nearly all chains are; else it was a gap
            return tick not in book.held and self.hold_range(node, tick, tick + 1)
        # The next one of its writer, as nearly always: what was missing still is, and this was never marked as lost.
        book.last = tick
        book.held.add_range(tick, tick + 1)
        self._hash = None
        return True

    def hold_range(self, node: NodeName, begin: int, end: int) -> bool:
        """The same for ticks [begin, end) of one life."""
        book = self._book(node, begin)
        book.last = max(book.last, end - 1)
        if not book.held.add_range(begin, end):
            return False
        if book.lost:
            book.lost.discard_range(begin, end)
        self._hash = None
        self._note(node, begin, book)
        return True

    def release_range(self, node: NodeName, begin: int, end: int) -> None:
        """The ticks [begin, end) of one life are missing again."""
        book = self._book(node, begin)
        book.held.discard_range(begin, end)
        self._hash = None
        self._note(node, begin, book)

    # -- many

    def keep(self, ranges: Mapping[Writer, Ranges]) -> None:
        """Of what is held, hold on to these ticks only; the others are missing again."""
        for (node, life), book in self.writers():
            book.held = book.held & ranges.get((node, life), Ranges())
            self._note(node, book.first, book)
        self._hash = None

    def load(self, books: Iterable[tuple[Writer, WriterLedger]]) -> None:
        """Take over books that were kept elsewhere, into an empty ledger."""
        for (node, life), book in books:
            self._books[node, life] = book
            self._add_life(node, life)
            self._note(node, book.first, book)
        self._is_sorted = False

    def writers(self) -> list[tuple[Writer, WriterLedger]]:
        if not self._is_sorted:  # writers are looked through far more often than one comes
            self._books = dict(sorted(self._books.items()))
            self._is_sorted = True
        return list(self._books.items())

    def book(self, writer: Writer) -> WriterLedger | None:
        return self._books.get(writer)

    def books(self, node: NodeName) -> list[WriterLedger]:
        """Those of a name's lives, rising; of a thousand writers the others are not looked at."""
        return [self._books[node, life] for life in self._lives.get(node, ())]

    def ticks(self) -> dict[NodeName, list[Tick]]:
        """Per name the highest tick heard of in each life, rising."""
        found: dict[NodeName, list[Tick]] = {}
        for (node, _), book in self.writers():
            found.setdefault(node, []).append(Tick(book.last))
        return found

    def ticks_unheld(self, besides: Writer) -> dict[NodeName, list[Tick]]:
        """The same for the writer `besides`, and for writers with missing ticks: a node that holds the same knows the
        others."""
        found: dict[NodeName, list[Tick]] = {}
        for writer in sorted({**self._gappy, besides: None}):
            book = self._books.get(writer)
            if book is not None:
                found.setdefault(writer[0], []).append(Tick(book.last))
        return found

    def last(self, node: NodeName) -> Tick:
        """The highest tick heard of a name in any life, 0 when none."""
        return Tick(max((book.last for book in self.books(node)), default=0))

    def whole_up_to(self, node: NodeName) -> Tick:
        """The tick of a name's last life up to which all of that life is held; 0 when nothing is."""
        last = self.last(node)
        book = self._books.get((node, last >> COUNT_BITS))
        begin, end = next(book.held.pairs(), (0, 0)) if book is not None else (0, 0)
        return Tick(end - 1) if book is not None and begin == book.first and end else Tick(0)

    def held(self, of: Container[NodeName] | None = None) -> TickRanges:
        """What is held, of all names or of these."""
        found: TickRanges = {}
        for (node, _), book in self.writers():
            if book.held and (of is None or node in of):
                found.setdefault(node, Ranges()).update(book.held)
        return found

    def shared_held(self) -> TickRanges:
        """The same, one object until it changes, so that a thousand peers may hold it: not to be changed."""
        held, as_of = self._shared_held
        if as_of is not self.hash():
            held = self.held()
            self._shared_held = held, self.hash()
        return held

    def held_beside(self, ticks: TickRanges, *, others: bool = False) -> TickRanges:
        """What is held of these names, and of `others`, besides these ticks."""
        found: TickRanges = {}
        for (node, _), book in self.writers():
            if node in ticks:
                new = book.held - ticks[node]
            elif others:
                new = book.held
            else:
                continue
            if new:
                found.setdefault(node, Ranges()).update(new)
        return found

    def missing(self, *, but_lost: bool = False) -> TickRanges:
        """What is missing, with or without (`but_lost`) what is marked lost."""
        found: TickRanges = {}
        for (node, life) in sorted(self._gappy):
            book = self._books[node, life]
            gaps = book.missing - book.lost if but_lost else book.missing
            if gaps:
                found.setdefault(node, Ranges()).update(gaps)
        return found

    def lost(self) -> TickRanges:
        found: TickRanges = {}
        for (node, _), book in self.writers():
            if book.lost:
                found.setdefault(node, Ranges()).update(book.lost)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether nothing at all is missing, lost or not."""
        return not self._gappy

    def mark_lost(self, ranges: Mapping[NodeName, Ranges]) -> TickRanges:
        """Mark what is missing among `ranges`; returns what was marked now."""
        marked: TickRanges = {}
        for node, wanted in ranges.items():
            for writer in [w for w in sorted(self._gappy) if w[0] == node]:
                book = self._books[writer]
                new = (book.missing & wanted) - book.lost
                if new:
                    book.lost.update(new)
                    marked.setdefault(node, Ranges()).update(new)
        return marked

    def spans(self, marked: Mapping[NodeName, Ranges]) -> TickRanges:
        """In far fewer ranges what was just marked as lost: with it all that is held in between. To mark these says the
        same, and the record of it is small, so that it fits on a full disk."""
        found: TickRanges = {}
        for node, ticks in marked.items():
            bounds: dict[int, tuple[int, int]] = {}
            for begin, end in lives(ticks):
                life = begin >> COUNT_BITS
                bounds[life] = bounds.get(life, (begin, end))[0], end
            for life, whole in bounds.items():
                book = self._books[node, life]
                found.setdefault(node, Ranges()).update(Ranges([whole]) - (book.missing - book.lost))
        return found

    def hash(self) -> bytes:
        """Eight bytes over the tick ranges held: equal exactly (but for chance) when two nodes hold the same."""
        if self._hash is None:
            whole = blake2b(digest_size=8)
            for (node, _), book in self.writers():
                if book.held:
                    whole.update(f"{node} {book.held.to_list()}\n".encode())
            self._hash = whole.digest()
        return self._hash

    # -- inside

    def _book(self, node: NodeName, tick: int) -> WriterLedger:
        writer = (node, tick >> COUNT_BITS)
        book = self._books.get(writer)
        if book is None:
            first = first_tick(writer[1])
            book = self._books[writer] = WriterLedger(first, first - 1)
            self._add_life(*writer)
            self._is_sorted = False
        return book

    def _add_life(self, node: NodeName, life: int) -> None:
        self._lives[node] = tuple(sorted({*self._lives.get(node, ()), life}))

    def _note(self, node: NodeName, tick: int, book: WriterLedger) -> None:
        writer = (node, tick >> COUNT_BITS)
        if book.is_whole:
            self._gappy.pop(writer, None)
        else:
            self._gappy[writer] = None
