"""Moves the log into the archive, so that a start needs to read only the log's tail.

Knows: which records are not settled, which paths they touched, and when it is time.  Does not know SQLite or segments.

Invariant: what is settled was durable before, and the log lets go of a record only after the archive has it; between
two settlings everything is still in the log, so a crash costs nothing but a longer start.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final, TypeAlias

import attrs
import trio

from distkv.core.ready import PathChange
from distkv.core.update import Store
from distkv.engine.changes import Changes
from distkv.engine.commit import Committer
from distkv.engine.log_stretch import LogStretch
from distkv.engine.missed import MISSED_KEY, closed_links, tells_missed
from distkv.engine.scarce import on_a_thread
from distkv.errors import BusyError, DamagedError, DecodeError, InternalError, NoSpaceError
from distkv.model.event import Link
from distkv.model.path import Path
from distkv.model.tick_ranges import TickRanges
from distkv.storage.archive import BACKUP_NAME, Archive, Settlement
from distkv.storage.archive_copy import check_copy, write_copy
from distkv.storage.archive_rows import DamagedRow, HistoryRow, LedgerRow, data_damage
from distkv.storage.base import Log
from distkv.storage.seal import put_seal
from distkv.wire.message import (
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    PurgeRecord,
    Record,
    ResetRecord,
    SlotRecord,
)
from distkv.wire.states import encode_book, encode_entry, encode_meta, path_key, read_path_key

log = logging.getLogger("distkv.engine")

SETTLE_RECORDS: Final = 10_000
"""So many unsettled records start a settling: the more at once, the less often a page of the archive is written."""
SETTLE_BYTES: Final = 4 << 20
"""So do so many bytes of them, and they are settled by themselves: one transaction needs room for twice as many, and as
many again in the file, before the log lets go of any."""
SETTLE_S: Final = 2.0
"""Unsettled records wait so long at the most."""
RETRY_S: Final = 5.0
LOOKS: Final = 100
"""After so many paths others have their turn."""
UNSETTLED_MAX: Final = 200_000
"""Past it writes are refused: the archive takes nothing any more, and all that waits for it is in memory."""

RunBlocking: TypeAlias = Callable[..., Awaitable[Any]]


class Settler:
    """`note` belongs to the driver's every step; `run` works until cancelled."""

    def __init__(
        self,
        state: Store,
        committer: Committer,
        archive: Archive,
        store: Log,
        *,
        run_blocking: RunBlocking = on_a_thread,
        unsettled_max: int = UNSETTLED_MAX,
    ) -> None:
        self.state: Final = state
        """What is settled, and what will be; only read."""
        self._committer = committer
        self._archive = archive
        self._log = store
        self._run_blocking = run_blocking
        self._unsettled = LogStretch()
        self._closed = deque[tuple[LogStretch, Settlement, int]]()  # on its way into the archive, or refused there
        self.contain: Callable[[Exception, str], Exception] | None = None
        """Logs a failure that nobody foresaw; what it returns says so in words. None: it is raised."""
        self.has_failed = False
        """Whether the last attempt ended in such a failure: the log keeps what it would have settled."""
        self.is_void = False
        """Whether a step failed, so that the state may be half of something: then nothing more of it is settled, and
        the next start makes it anew of the log."""
        self._is_looking = False
        """Whether all paths are being looked at, which belong into one transaction."""
        self.is_short = False
        """Whether the archive was refused space the last time."""
        self._full = trio.Event()
        self.first_lsn = store.next_lsn  # of the first record that the committer appends
        self._sizes = archive.sizes()
        self._unsettled_max = unsettled_max
        self._refusal = "it is too slow"
        self._one_at_a_time = trio.Lock()
        self._has_backup = False

    # -- what is not settled

    def note_replayed(self, lsn: int, record: Record, data: bytes, paths: Sequence[Path]) -> None:
        """A record that the archive has not was read at the start, and changed the entries of `paths`."""
        heads = (entry.head for path in paths if (entry := self.state.tree.get(path)) is not None)
        self._add(lsn, record, data, {id(head) for head in heads})
        if isinstance(record, KnownRecord) and record.ranges and not paths:  # else it closed something
            self._add_missed(lsn, data)
        if not isinstance(record, EventRecord):  # Where an event stands was looked at.
            for path in paths:
                self._look(path)
        self._close_if_large(lsn + 1)

    def note(self, records: Sequence[Record], encoded: Sequence[bytes], changes: Sequence[PathChange]) -> None:
        """Records were appended; called right after `Committer.append`, while the state is what they made of it."""
        lsn = self._next_lsn - len(records)
        winners = {id(change.event) for change in changes if change.won}
        for record, data in zip(records, encoded, strict=True):
            self._add(lsn, record, data, winners)
            if isinstance(record, KnownRecord) and tells_missed(record, closed_links(changes)):
                self._add_missed(lsn, data)
            lsn += 1
        for change in changes:
            if not change.won:  # What won has a record here.
                self._look(change.event.path)
        self._close_if_large(self._next_lsn)

    def rewrite(self) -> None:
        """Have all settled anew, because some of what was settled is damaged. Blocks: for the end of a start."""
        for entry in self.state.tree.entries():
            self._look(entry.head.path)
        for row in self.state.data.rows():
            self._look_at_row(*row)
        self._forget()

    async def write_anew(self) -> None:
        """The same while the node runs; returns when it is done.

        Raises:
            NoSpaceError, BusyError, StorageError: as `settle`.
        """
        async with self._one_at_a_time:  # nothing may be taken before all paths were looked at
            self._is_looking = True
            paths = [entry.head.path for entry in self.state.tree.entries()]
            for at in range(0, len(paths), LOOKS):
                for path in paths[at : at + LOOKS]:
                    self._look(path)
                await trio.lowlevel.checkpoint()
            rows = [*self.state.data.rows()]
            for at in range(0, len(rows), LOOKS):
                for row in rows[at : at + LOOKS]:
                    self._look_at_row(*row)
                await trio.lowlevel.checkpoint()
            self._forget()
            self._is_looking = False
        await self.settle()

    def check_room(self) -> None:
        """Ask before a write.

        Raises:
            NoSpaceError: the archive is too far behind.
        """
        count = self._count
        if count > self._unsettled_max:
            raise NoSpaceError(f"{count} changes wait for the archive, nothing was changed: {self._refusal}")

    def recent(self) -> list[HistoryRow]:
        """The events that the archive's history has not yet, or has since a moment, oldest first."""
        return [*(row for stretch, _, _ in self._closed for row in stretch.history), *self._unsettled.history]

    # -- history

    async def history(self, path: Path, limit: int, before_lsn: int | None = None) -> list[HistoryRow]:
        """The changes of a path that reached this node, newest first; `before_lsn` goes on behind a last row."""
        key, settled_lsn = path_key(path), self._archive.settled_lsn
        if key == MISSED_KEY:
            return []
        before = self._next_lsn if before_lsn is None else before_lsn
        rows = [row for row in self.recent() if row.path == key and settled_lsn <= row.lsn < before][::-1][:limit]
        left = limit - len(rows)
        if left:
            rows += await self._run_blocking(self._archive.past.of_path, key, left, min(before, settled_lsn))
        return rows

    async def won_since(self, lsn: int, limit: int) -> list[HistoryRow] | None:
        """The events from `lsn` on that gave their path another value, and what was missed, the oldest first, durable
        or not.

        So many of them, or all there are by now, which may be more. None: some that came after `lsn` were removed, or
        cannot be read.
        """
        recent = self.recent()  # before the archive is asked: what is settled meanwhile is in both, never in neither
        try:
            rows: list[HistoryRow] = await self._run_blocking(self._archive.past.won_since, lsn, limit)
        except DamagedError:
            return None
        if self._archive.past.begin > lsn:
            return None
        if len(rows) < limit:
            begin = rows[-1].lsn + 1 if rows else lsn
            rows += [row for row in recent if row.won and row.lsn >= begin]
        return rows

    def lost_past(self, path: Path, low: int = 0, high: float = inf) -> DamagedError | None:
        """What to say when of the history of a path, from one lsn up to another, the disk damaged some, as far as that
        was read, or found by a look."""
        if not self._archive.damage.is_past_lost(path_key(path), low, high):
            return None
        where = f"the history of {path}"
        return DamagedError(f"perhaps not all of {where} is here, the disk damaged some of it: ask another node")

    @property
    def has_forgotten(self) -> bool:
        """Whether some of the history was removed."""
        return self._archive.past.begin > 0

    async def latest_at(self, path: Path, arrived: float) -> HistoryRow | None:
        """What gave a path the content that it had on this node at a time, in seconds since 1970."""
        key = path_key(path)
        if key == MISSED_KEY:
            return None
        for row in reversed(self.recent()):
            if row.path == key and row.arrived <= arrived and row.won:
                return row
        found: HistoryRow | None = await self._run_blocking(self._archive.past.latest_at, key, arrived)
        return found

    async def known_since(self) -> float | None:
        """When the first change came that the history still has, in seconds since 1970; None: it has none."""
        recent = [row.arrived for row in self.recent()]
        settled: float | None = await self._run_blocking(self._archive.past.earliest)
        return min(recent if settled is None else [settled, *recent], default=None)

    async def change(self, link: Link) -> HistoryRow | None:
        """The change that a tick names, if it reached this node and history has it; where it came twice, the first."""
        for row in self.recent():
            if row.tick == link[1] and row.node == link[0]:
                return row
        found: list[HistoryRow] = await self._run_blocking(self._archive.past.by_ticks, *link, link[1] + 1, 1)
        return found[0] if found else None

    def changes(self, wanted: TickRanges, path: Path) -> Changes:
        """The content of ticks that the ledger holds, at and below a path."""
        return Changes(self._archive.changes, self.recent(), self.state.tree, wanted, path, self._run_blocking)

    def statistics(self) -> dict[str, int]:
        """How much lies where."""
        log_now, sizes = self._log.statistics(), self._sizes
        return {
            "settled_lsn": self._archive.settled_lsn,
            "unsettled": self._count,
            "log_segments": log_now.segments,
            "log_bytes": log_now.size_bytes,
            "archive_bytes": sizes.file_bytes,
            "archive_free_bytes": sizes.free_bytes,
            "history_rows": sizes.history_rows,
        }

    # -- settling

    async def run(self) -> None:
        """Settle now and then, until cancelled; then once more, so that the next start has nothing to replay.

        Raises:
            StorageError: the archive failed or is damaged; the node must end.
        """
        try:
            while True:
                with trio.move_on_after(SETTLE_S):
                    await self._full.wait()
                if not await self._settle_if_possible():
                    await trio.sleep(RETRY_S)
        except trio.Cancelled:
            # Nobody commits any more. What is not durable now was never promised, and the log keeps what is.
            if self._committer.is_idle:
                with trio.CancelScope(shield=True):
                    await self._settle_if_possible()
            raise

    async def settle(self) -> None:
        """Settle everything that was appended up to now.

        Raises:
            NoSpaceError, BusyError: not now; nothing is lost, and it may be tried again.
            StorageError: the node must end.
        """
        async with self._one_at_a_time:
            self._full = trio.Event()
            for _ in range(len(self._closed) + 1):  # the last one has all that was appended up to now
                if not self._closed:
                    self._close(self._next_lsn)
                stretch, batch, position = self._closed[0]
                await self._committer.wait_durable(position)
                batch = attrs.evolve(batch, states=stretch.states(), segment=self._log.segment_number)
                await self._run_blocking(self._archive.settle, batch)
                self._closed.popleft()
                await self._run_blocking(self._log.drop, batch.lsn)
            self._sizes = await self._run_blocking(self._archive.sizes)

    @asynccontextmanager
    async def backup(self) -> AsyncIterator[str]:
        """The path of a copy of the archive that has everything up to now; it is removed at the end.

        Raises:
            RequestError: it cannot be made now, or something is damaged that a scrub can mend; nothing is left behind.
            StorageError: the node must end.
        """
        if self._has_backup:
            raise BusyError("a backup is being made already: try again when it is done")
        self._has_backup = True
        path = self._archive.beside(BACKUP_NAME)
        try:
            await self.settle()
            await self._run_blocking(write_copy, self._archive.path, path)
            await self._run_blocking(check_copy, path)
            await self._run_blocking(put_seal, path)
            yield path
        finally:
            self._has_backup = False
            with suppress(FileNotFoundError):
                os.unlink(path)  # quick, and to be done also when the client is gone

    async def _settle_if_possible(self) -> bool:
        """Settle if there is anything to settle; False: it is not possible now.

        If one change is the cause of a failure, it fails each time. Then the log grows, and writes are refused in the
        end; but nothing of what is durable is lost.
        """
        if self._unsettled.is_empty and not self._closed:
            return True
        try:
            await self.settle()
        except (NoSpaceError, BusyError) as error:
            log.error("not_settled reason=%s", error)
            self._refusal, self.is_short = str(error), isinstance(error, NoSpaceError)
            return False
        except Exception as error:
            if self.contain is None:
                raise
            self._refusal, self.has_failed = str(self.contain(error, "settling")), True
            return False
        self.is_short = self.has_failed = False
        return True

    # -- inside

    @property
    def _next_lsn(self) -> int:
        """The lsn of the next record that is appended."""
        return self.first_lsn + self._committer.appended

    @property
    def _count(self) -> int:
        """How many records are not settled."""
        return sum(stretch.count for stretch, _, _ in self._closed) + self._unsettled.count

    def _forget(self) -> None:
        """All there is was looked at: it takes the place of all that was settled, or is about to be."""
        self._join_all()
        self._unsettled.forget = self._unsettled.forget_data = True

    def _join_all(self) -> None:
        """Let the last stretch bring the history of those before it: what these would do to the state is void."""
        whole = self._unsettled
        while self._closed:
            before, _, _ = self._closed.pop()
            whole.count += before.count
            whole.size += before.size
            whole.history[:0] = before.history

    def _close_if_large(self, lsn: int) -> None:
        if self._unsettled.size >= SETTLE_BYTES and not self._is_looking:
            self._close(lsn)

    def _add(self, lsn: int, record: Record, data: bytes, winners: set[int]) -> None:
        """One more record; `winners` are the ids of the events that won their paths by it and its neighbours.

        What the path holds now is kept at once. Nearly always that is the event itself, and the record's bytes serve as
        they are; to visit all the paths when they are settled would hold up the loop for long.
        """
        stretch = self._unsettled
        stretch.count += 1
        stretch.size += len(data)
        if isinstance(record, EventRecord):
            event = record.event
            key = path_key(event.path)
            row = HistoryRow(lsn, key, event.node, event.tick, record.arrived, data, id(event) in winners)
            stretch.history.append(row)
            if self.state.tree.is_only(event):
                stretch.held[key] = row
            else:
                self._look(event.path)
        elif isinstance(record, PurgeRecord):
            self._look(record.path)
        elif isinstance(record, SlotRecord):
            stretch.slots[record.machine, record.key] = None
        elif isinstance(record, DataRecord):
            stretch.data[record.machine, record.key] = record.value
        elif isinstance(record, ResetRecord):
            stretch.forget = True
            stretch.held.clear()
        elif isinstance(record, LifeRecord):
            self._full.set()  # at once: until the archive knows of it, nothing tells a log that was lost from a new one
        if stretch.count >= SETTLE_RECORDS or stretch.size >= SETTLE_BYTES:
            self._full.set()

    def _add_missed(self, lsn: int, data: bytes) -> None:
        """That changes were missed, among those that came: whoever goes on with a token is told of both in order."""
        self._unsettled.history.append(HistoryRow(lsn, MISSED_KEY, "", 0, time.time(), data, won=True))

    def _look(self, path: Path) -> None:
        """See what a path holds now."""
        key, entry = path_key(path), self.state.tree.get(path)
        self._unsettled.held[key] = None if entry is None else encode_entry(entry)

    def _look_at_row(self, machine: str, key: str) -> None:
        """See what a row of data holds now."""
        self._unsettled.data[machine, key] = self.state.data.find(machine, key)

    def is_healed(self, damage: DamagedRow) -> bool:
        """Whether what a row of the state held, or a row of data, is here, was replaced or was made good."""
        if damage.is_data:
            lost = self.state.data.lost()
            return damage not in {data_damage(machine, key) for machine, key in lost}
        return not self.state.losses.has(path_of(damage))

    def _close(self, lsn: int) -> None:
        """What the unsettled records came to, up to `lsn`: one consistent snapshot, with what must be durable first."""
        if self.is_void:
            raise InternalError("a step of the node failed, and it ends")
        known = self._archive.damage
        healed = {one for one in known.all() if (one.is_value or one.is_data) and self.is_healed(one)}
        known.forget(healed)
        taken = self._unsettled
        gone = [path for path, held in taken.held.items() if held is None]
        books = self.state.tree.ledger.writers()
        ledger = [LedgerRow(node, life, encode_book(book)) for (node, life), book in books]
        meta, count = encode_meta(self.state.meta()), len(self.state.tree)
        slots, gone_slots = taken.slot_rows(self.state.slots)
        batch = Settlement(
            lsn, (), gone, taken.history, ledger, meta, taken.forget, count, slots=slots, dropped_slots=gone_slots,
            data=taken.data, forget_data=taken.forget_data,
        )  # fmt: skip
        self._unsettled = LogStretch()  # not before: what fails above is tried again with all that it had
        self._closed.append((taken, batch, self._committer.appended))


def path_of(damage: DamagedRow) -> Path | None:
    """What it was about; None: that cannot be read. A part of a path, too, may look as if it were one, byte by byte."""
    try:
        return None if damage.path is None else read_path_key(damage.path)
    except DecodeError:
        return None
