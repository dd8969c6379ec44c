"""The content of ticks, page after page, as the log has it: for programs that archive what happened.

Knows: where in a node an event may be: in history, among what is not settled yet, in the tree, where an event that is
present outlives its row of the history.  Does not know who asks, nor SQLite.

What came into being before the first page is found wherever it goes meanwhile: what was not settled then is kept in
mind, and all else is in the archive already. Pages are small, because what waits for a slow reader is one of them. Each
is built on a thread, in pieces: between two of them the event loop does what others wait for.

Invariant: each tick that is wanted is in one page, or lies at another path, or is `absent`; of two contents of one tick
the higher is shown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import attrs

from distkv.model.event import Event, NodeName, is_above
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.service_paths import SERVICE_NAMES
from distkv.model.tick_ranges import TickRanges
from distkv.storage.archive_history import History
from distkv.storage.archive_rows import HistoryRow
from distkv.wire.hidden import is_hidden, without_content
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_record, encode_record
from distkv.wire.states import is_key_below, path_key

NEAR_TICKS: Final = 256
"""Ranges that lie so near to each other are read by one query."""

WON_UNKNOWN: Final = 2
"""For an event of which the tree is left, and no row of the history."""
_NO_LSN: Final = -1
_SERVICES: Final = path_key(Path(SERVICE_NAMES))[1:]
"""What the keys of all entries of services have, and few others: to look for that costs less than a call."""


@attrs.frozen
class PageBounds:
    """How large a page becomes."""

    records: int = 4000
    size: int = 1 << 20
    """Bytes of records; the last one may take a page beyond."""
    ticks: int = 1 << 14
    """So many are looked at for one page at the most, of which there may be few that have content."""
    piece: int = 250
    """So many records are read in one go; meanwhile other threads come by the interpreter only by taking it away."""


@attrs.frozen
class ChangePage:
    """Changes of one node, in order of tick."""

    node: NodeName
    won: bytes
    """For each whether it gave its path another value when it came here: 0, 1, or `WON_UNKNOWN`."""
    records: bytes
    """As they are logged, one after another (docs/client-protocol)."""


class Present(Protocol):
    """What is neither superseded nor missing: `Tree`."""

    def present(self, ranges: TickRanges) -> Iterator[Event]:
        """The events among these ticks, by name and tick."""


class Changes:
    """What a node has of the ticks that somebody wants. Made, and asked, on the event loop; it reads on threads."""

    def __init__(
        self,
        past: History,
        recent: Sequence[HistoryRow],
        tree: Present,
        wanted: TickRanges,
        path: Path,
        run_blocking: Callable[..., Awaitable[Any]],
        bounds: PageBounds = PageBounds(),
    ) -> None:
        """`recent`: what is not settled yet, or was not a moment ago. `wanted`: ticks that the ledger holds."""
        self.absent: TickRanges = {}
        """The ticks looked at so far whose content is not here."""
        self._past = past
        self._recent = recent
        self._recent_of: dict[int, HistoryRow] = {}  # by tick, of the node that is read; rising
        self._recent_ticks: list[int] = []
        self._tree = tree
        self._below = path_key(path) if path != ROOT else None
        self._run_blocking = run_blocking
        self._bounds = bounds
        self._left = _windows_of(wanted, bounds.ticks)
        self._window: tuple[NodeName, Ranges] | None = None
        self._node: NodeName | None = None

    async def next_page(self) -> ChangePage | None:
        """The next changes; None at the end.

        Raises:
            DamagedError: some of the history cannot be read.
            StorageError: as `open_archive`.
        """
        while (window := self._next_window()) is not None:
            node, wanted = window
            rows, end = await self._rows(node, wanted)
            looked_at = wanted & Ranges([(0, end)])
            if len(rows) < len(looked_at):
                unseen = looked_at - Ranges.from_ticks(rows)
                present = list(self._tree.present({node: unseen}))
                if present:
                    rows, end = await self._run_blocking(self._with_events, rows, end, present)
                    looked_at = wanted & Ranges([(0, end)])
                self._note_absent(node, looked_at - Ranges.from_ticks(rows))
            rest = wanted - looked_at
            self._window = (node, rest) if rest else None
            page = self._page(node, list(rows.values()))
            if page is not None:
                return page
        return None

    async def here(self) -> TickRanges:
        """Which of the ticks have their content here, at or below the path; the others are absent, or elsewhere.

        Raises as `next_page`.
        """
        found: TickRanges = {}
        while (window := self._next_window()) is not None:
            node, wanted = window
            self._window = None
            if self._below is None:
                here = await self._run_blocking(self._ticks, node, wanted)
                here.update(Ranges.from_ticks(e.tick for e in self._tree.present({node: wanted - here})))
                self._note_absent(node, wanted - here)
            else:
                rows, end = await self._rows(node, wanted)
                looked_at = wanted & Ranges([(0, end)])
                events = self._tree.present({node: looked_at - Ranges.from_ticks(rows)})
                keys = {tick: row.path for tick, row in rows.items()}
                keys |= {event.tick: path_key(event.path) for event in events}
                here = Ranges.from_ticks(tick for tick in sorted(keys) if is_key_below(keys[tick], self._below))
                self._note_absent(node, looked_at - Ranges.from_ticks(sorted(keys)))
                rest = wanted - looked_at
                self._window = (node, rest) if rest else None
            if here:
                found.setdefault(node, Ranges()).update(here)
        return found

    # -- inside

    def _next_window(self) -> tuple[NodeName, Ranges] | None:
        """Of one node the ticks that are looked at next: what is left of the last ones, or others."""
        if self._window is None:
            self._window = next(self._left, None)
            if self._window is not None and self._window[0] != self._node:
                self._node = self._window[0]
                self._choose_recent(self._node)
        return self._window

    def _choose_recent(self, node: NodeName) -> None:
        found: dict[int, HistoryRow] = {}
        for row in self._recent:
            if row.node == node:
                found[row.tick] = row if row.tick not in found else _higher(found[row.tick], row)
        self._recent_ticks = sorted(found)
        self._recent_of = {tick: found[tick] for tick in self._recent_ticks}

    async def _rows(self, node: NodeName, wanted: Ranges) -> tuple[dict[int, HistoryRow], int]:
        """The rows of these ticks, rising, as many as a page may have, and the tick up to which they were read."""
        rows: dict[int, HistoryRow] = {}
        size, at, end = 0, next(iter(wanted)), wanted.last() + 1
        while at < end and len(rows) < self._bounds.records and size < self._bounds.size:
            most = PageBounds(min(self._bounds.piece, self._bounds.records - len(rows)), self._bounds.size - size)
            some, at = await self._run_blocking(self._read, node, wanted, at, end, most)
            rows |= some
            size += sum(len(row.record) for row in some.values())
        return rows, at

    def _read(
        self, node: NodeName, wanted: Ranges, begin: int, end: int, most: PageBounds
    ) -> tuple[dict[int, HistoryRow], int]:
        """Some rows of these ticks from `begin` on, rising, and the tick up to which they were read. On a thread."""
        rows, end = self._past.stretch(node, begin, end, most.records, most.size)
        found = {row.tick: row for row in rows}
        if len(found) < len(rows) or not wanted.has_all(begin, end):
            found = {}
            for row in rows:
                if row.tick in wanted:
                    found[row.tick] = row if row.tick not in found else _higher(found[row.tick], row)
        recent = self._recent_ticks[bisect_left(self._recent_ticks, begin) : bisect_left(self._recent_ticks, end)]
        more = {tick: self._recent_of[tick] for tick in recent if tick in wanted}
        for tick, row in more.items():
            found[tick] = row if tick not in found else _higher(found[tick], row)
        return _cut(dict(sorted(found.items())), end, most) if more else (found, end)

    def _with_events(
        self, rows: dict[int, HistoryRow], end: int, events: Sequence[Event]
    ) -> tuple[dict[int, HistoryRow], int]:
        """The rows, and events that have none. On a thread."""
        size = 0
        for event in events:
            record = encode_record(EventRecord(event, arrived=0.0))
            rows[event.tick] = HistoryRow(_NO_LSN, path_key(event.path), event.node, event.tick, 0.0, record, won=False)
            size += len(record)
            if size >= self._bounds.size:  # the others come with the next page
                end = event.tick + 1
                break
        return _cut({tick: rows[tick] for tick in sorted(rows) if tick < end}, end, self._bounds)

    def _ticks(self, node: NodeName, wanted: Ranges) -> Ranges:
        """Those of the ticks that history has, or will have. On a thread."""
        begin, end = next(iter(wanted)), wanted.last() + 1
        ticks = {*self._past.ticks(node, begin, end), *self._recent_of}
        return Ranges.from_ticks(sorted(ticks)) & wanted

    def _note_absent(self, node: NodeName, ticks: Ranges) -> None:
        if ticks:
            self.absent.setdefault(node, Ranges()).update(ticks)

    def _page(self, node: NodeName, rows: list[HistoryRow]) -> ChangePage | None:
        if self._below is not None:
            below = self._below
            rows = [row for row in rows if is_key_below(row.path, below)]
        if not rows:
            return None
        rows = [_shown(row) if _SERVICES in row.path else row for row in rows]
        won = bytes([row.won if row.lsn != _NO_LSN else WON_UNKNOWN for row in rows])
        return ChangePage(node, won, b"".join([row.record for row in rows]))


def _shown(row: HistoryRow) -> HistoryRow:
    """What a client may know of a change of an entry of a service."""
    record = decode_record(row.record)
    if not isinstance(record, EventRecord) or not is_hidden(record.event.path):
        return row
    return row._replace(record=encode_record(attrs.evolve(record, event=without_content(record.event))))


def _windows_of(wanted: TickRanges, size: int) -> Iterator[tuple[NodeName, Ranges]]:
    """The ticks in parts that can be looked at in one go each, by node and tick."""
    for node in sorted(wanted):
        window: list[tuple[int, int]] = []
        for begin, end in _pieces(wanted[node], size):
            if window and (begin - window[-1][1] > NEAR_TICKS or end - window[0][0] > size):
                yield node, Ranges(window)
                window = []
            window.append((begin, end))
        yield node, Ranges(window)


def _pieces(ranges: Ranges, size: int) -> Iterator[tuple[int, int]]:
    for begin, end in ranges.pairs():
        for at in range(begin, end, size):
            yield at, min(at + size, end)


def _cut(rows: dict[int, HistoryRow], end: int, most: PageBounds) -> tuple[dict[int, HistoryRow], int]:
    """As many of the rows, which rise, as are wanted at the most, and the tick up to which that is all."""
    found: dict[int, HistoryRow] = {}
    size = 0
    for tick, row in rows.items():
        found[tick] = row
        size += len(row.record)
        if len(found) >= most.records or size >= most.size:
            return found, tick + 1
    return found, end


def _higher(one: HistoryRow, other: HistoryRow) -> HistoryRow:
    """Of two rows of one tick: nearly always one row, found in both places."""
    if one.record == other.record or one.lsn == other.lsn:
        return one
    contents = [decode_record(row.record) for row in (one, other)]
    first, second = (record.event for record in contents if isinstance(record, EventRecord))
    return other if is_above(second, first) else one
