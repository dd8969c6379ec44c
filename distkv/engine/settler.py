"""Moves the log into the archive, so that a start needs to read only the log's tail.

Knows: which records are not settled, which paths they touched, and when it is time.  Does not know SQLite or segments.

Invariant: what is settled was durable before, and the log lets go of a record only after the archive has it; between
two settlings everything is still in the log, so a crash costs nothing but a longer start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from distkv.core.ready import Change
from distkv.engine.commit import Committer
from distkv.errors import BusyError, NoSpaceError
from distkv.model.entry import Entry
from distkv.model.event import Writer
from distkv.model.ledger import Book
from distkv.model.path import Path, PathKey
from distkv.model.tree import Tree
from distkv.storage.archive import BACKUP_NAME, Archive, Batch, HistoryRow, LedgerRow, StateRow
from distkv.storage.base import Log
from distkv.wire.message import EventRecord, Record, ResetRecord
from distkv.wire.states import Meta, encode_book, encode_entry, encode_meta, path_key

log = logging.getLogger("distkv.engine")

SETTLE_RECORDS: Final = 4000
"""So many unsettled records start a settling: few enough that the loop is held up for some ten milliseconds only."""
SETTLE_S: Final = 2.0
"""Unsettled records wait so long at the most."""
RETRY_S: Final = 5.0
UNSETTLED_MAX: Final = 200_000
"""Past it writes are refused: the archive takes nothing any more, and all that waits for it is in memory."""

RunBlocking: TypeAlias = Callable[..., Awaitable[Any]]


class State(Protocol):
    """What is settled, and loaded at the next start: `core.Replica`, or the store inside it."""

    @property
    def tree(self) -> Tree:
        """Entries and ledger."""

    def meta(self) -> Meta:
        """What goes with them."""

    def load(self, meta: Meta, books: Iterable[tuple[Writer, Book]], entries: Iterable[Entry]) -> None:
        """Take over what was settled."""

    def replay(self, record: Record) -> list[Path]:
        """Repeat a record that was not; returns the paths whose entries it may have changed."""


@attrs.define(slots=True)
class _Unsettled:
    """What a stretch of the log brought."""

    count: int = 0
    """How many records it has."""
    history: list[HistoryRow] = attrs.field(factory=list)
    paths: dict[PathKey, Path] = attrs.field(factory=dict)
    """Whose entries may be others now."""
    forget: bool = False
    """Whether the node started anew in it: what was settled before is void, but for the history."""

    def add(self, lsn: int, record: Record, data: bytes, winners: Container[int]) -> None:
        """One more record; `winners` are the ids of the events that won their paths by it."""
        self.count += 1
        if isinstance(record, EventRecord):
            event = record.event
            self.paths[event.path.key] = event.path
            key, won = path_key(event.path), id(event) in winners
            self.history.append(HistoryRow(lsn, key, event.node, event.tick, record.arrived, data, won))
        elif isinstance(record, ResetRecord):
            self.forget = True
            self.paths.clear()

    def joined(self, later: _Unsettled) -> _Unsettled:
        """This stretch, and the one that follows it."""
        return _Unsettled(
            self.count + later.count,
            self.history + later.history,
            later.paths if later.forget else self.paths | later.paths,
            self.forget or later.forget,
        )


class Settler:
    """`note` belongs to the driver's every step; `run` works until cancelled."""

    def __init__(
        self,
        state: State,
        committer: Committer,
        archive: Archive,
        store: Log,
        *,
        run_blocking: RunBlocking = trio.to_thread.run_sync,
        unsettled_max: int = UNSETTLED_MAX,
    ) -> None:
        self._state = state
        self._committer = committer
        self._archive = archive
        self._log = store
        self._run_blocking = run_blocking
        self._unsettled = _Unsettled()
        self._settling = _Unsettled()  # on its way into the archive, or refused there for want of space
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
        heads = (entry.head for path in paths if (entry := self._state.tree.get(path)) is not None)
        self._unsettled.add(lsn, record, data, {id(head) for head in heads})
        self._touch(paths)

    def note(self, records: Sequence[Record], encoded: Sequence[bytes], changes: Sequence[Change]) -> None:
        """Records were appended; called right after `Committer.append`."""
        lsn = self._next_lsn - len(records)
        winners = {id(change.event) for change in changes if change.won}
        for record, data in zip(records, encoded, strict=True):
            self._unsettled.add(lsn, record, data, winners)
            lsn += 1
        self._touch(change.event.path for change in changes)

    def check_room(self) -> None:
        """Ask before a write.

        Raises:
            NoSpaceError: the archive is too far behind.
        """
        count = self._settling.count + self._unsettled.count
        if count > self._unsettled_max:
            raise NoSpaceError(f"{count} changes wait for the archive, nothing was changed: {self._refusal}")

    def recent(self) -> list[HistoryRow]:
        """The events that the archive's history has not yet, or has since a moment, oldest first."""
        return [*self._settling.history, *self._unsettled.history]

    # -- history

    async def history(self, path: Path, limit: int, before_lsn: int | None = None) -> list[HistoryRow]:
        """The changes of a path that reached this node, newest first; `before_lsn` goes on behind a last row."""
        key, settled_lsn = path_key(path), self._archive.settled_lsn
        before = self._next_lsn if before_lsn is None else before_lsn
        rows = [row for row in self.recent() if row.path == key and settled_lsn <= row.lsn < before][::-1][:limit]
        left = limit - len(rows)
        if left:
            rows += await self._run_blocking(self._archive.history, key, left, min(before, settled_lsn))
        return rows

    async def won_since(self, lsn: int, limit: int) -> list[HistoryRow] | None:
        """The events from `lsn` on that gave their path another value, the oldest first, durable or not.

        So many of them, or all there are by now, which may be more. None: some that came after `lsn` were removed.
        """
        recent = self.recent()  # before the archive is asked: what is settled meanwhile is in both, never in neither
        rows: list[HistoryRow] = await self._run_blocking(self._archive.won_since, lsn, limit)
        if self._archive.history_from > lsn:
            return None
        if len(rows) < limit:
            begin = rows[-1].lsn + 1 if rows else lsn
            rows += [row for row in recent if row.won and row.lsn >= begin]
        return rows

    @property
    def has_forgotten(self) -> bool:
        """Whether some of the history was removed."""
        return self._archive.history_from > 0

    async def latest_at(self, path: Path, arrived: float) -> HistoryRow | None:
        """What gave a path the content that it had on this node at a time, in seconds since 1970."""
        key = path_key(path)
        for row in reversed(self.recent()):
            if row.path == key and row.arrived <= arrived and row.won:
                return row
        found: HistoryRow | None = await self._run_blocking(self._archive.latest_at, key, arrived)
        return found

    def statistics(self) -> dict[str, int]:
        """How much lies where."""
        log_now, sizes = self._log.statistics(), self._sizes
        return {
            "settled_lsn": self._archive.settled_lsn,
            "unsettled": self._settling.count + self._unsettled.count,
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
            batch, position = self._take()
            await self._committer.wait_durable(position)
            await self._run_blocking(self._archive.settle, batch)
            self._settling = _Unsettled()
            await self._run_blocking(self._log.drop, batch.lsn)
            self._sizes = await self._run_blocking(self._archive.sizes)

    @asynccontextmanager
    async def backup(self) -> AsyncIterator[str]:
        """The path of a copy of the archive that has everything up to now; it is removed at the end.

        Raises:
            RequestError: it cannot be made now; nothing is left behind.
            StorageError: the node must end.
        """
        if self._has_backup:
            raise BusyError("a backup is being made already: try again when it is done")
        self._has_backup = True
        path = self._archive.beside(BACKUP_NAME)
        try:
            await self.settle()
            await self._run_blocking(self._archive.backup, path)
            yield path
        finally:
            self._has_backup = False
            with suppress(FileNotFoundError):
                os.unlink(path)  # quick, and to be done also when the client is gone

    async def _settle_if_possible(self) -> bool:
        """Settle if there is anything to settle; False: it is not possible now."""
        if not self._unsettled.count and not self._settling.count:
            return True
        try:
            await self.settle()
        except (NoSpaceError, BusyError) as error:
            log.error("not_settled reason=%s", error)
            self._refusal = str(error)
            return False
        return True

    # -- inside

    @property
    def _next_lsn(self) -> int:
        """The lsn of the next record that is appended."""
        return self.first_lsn + self._committer.appended

    def _touch(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._unsettled.paths[path.key] = path
        if self._unsettled.count >= SETTLE_RECORDS:
            self._full.set()

    def _take(self) -> tuple[Batch, int]:
        """One consistent snapshot of what the unsettled records came to, and what must be durable first."""
        taken = self._settling = self._settling.joined(self._unsettled)
        self._unsettled = _Unsettled()
        self._full = trio.Event()
        states, gone = [], []
        for path in taken.paths.values():
            entry = self._state.tree.get(path)
            if entry is None:
                gone.append(path_key(path))
            else:
                states.append(StateRow(path_key(path), encode_entry(entry)))
        books = self._state.tree.ledger.writers()
        ledger = [LedgerRow(node, life, encode_book(book)) for (node, life), book in books]
        meta = encode_meta(self._state.meta())
        batch = Batch(self._next_lsn, states, gone, taken.history, ledger, meta, taken.forget)
        return batch, self._committer.appended
