"""What the log was settled into: state, history, ledger and meta in one SQLite file.

Knows: rows, the transaction that replaces a stretch of the log, the queries on history.  Does not know what an entry, a
record or a book means, and nothing of the log but how far it is settled.

The log makes a write durable; later the settler puts a long stretch of it into this file at once, and only then may the
log let go of it. Settling is one transaction together with `settled_lsn`, so after any crash the file holds a stretch
whole or not at all, and the log still has what the file has not.

History is in order of lsn, which is this node's order of arrival. The wall clock may step back; `arrived` may too.

Invariant: everything that the records below `settled_lsn` brought is in the file, and nothing of any other record; only
`prune_history` takes some of it away, and only of the history.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from operator import attrgetter, lt
from typing import Any, Final, NamedTuple

import attrs

from distkv.errors import ExistsError, StorageError, StorageFailedError
from distkv.storage.archive_connection import (
    connect_reader,
    connect_writer,
    create_file,
    sync_directory,
    transaction,
    translated,
    translated_copy,
)
from distkv.storage.archive_schema import prepare

ARCHIVE_NAME: Final = "state.sqlite"
"""Its file in the data directory; SQLite keeps two more beside it, `-wal` and `-shm`, which belong to it."""
BACKUP_NAME: Final = "backup"
"""A copy beside it that is on its way to somebody; `backup` has `.part` behind that while it writes."""
PRUNE_ROWS: Final = 1000
INSERT_ROWS: Final = 256
"""By one statement: about a millisecond's work, for which the interpreter's lock is let go once."""

_COLUMNS: Final = "lsn, path, node, tick, arrived, record, won"


class StateRow(NamedTuple):
    """What a path holds now. A tuple, as is the next: one of each is made for every write."""

    path: bytes
    entry: bytes


class HistoryRow(NamedTuple):
    """One record that reached this node. `arrived` is this node's wall clock then, in seconds since 1970."""

    lsn: int
    path: bytes
    node: str
    tick: int
    arrived: float
    record: bytes
    won: bool
    """Whether it gave its path another value when it arrived."""


@attrs.frozen
class LedgerRow:
    """What is known about one writer."""

    node: str
    life: int
    book: bytes


@attrs.frozen
class Batch:
    """What the records from `settled_lsn` up to `lsn` came to. Rows replace those with the same key.

    `forget` empties state, ledger and meta first, for a node that started anew in between; history stays.
    """

    lsn: int
    states: Iterable[StateRow] = ()
    """Read once. In order of path they are written faster: each page of the tree is visited once."""
    dropped_paths: Sequence[bytes] = ()
    history: Sequence[HistoryRow] = ()
    """In order of lsn; every lsn lies in the batch, not every lsn needs a row."""
    ledger: Sequence[LedgerRow] = ()
    meta: Mapping[str, bytes] = attrs.Factory(dict)
    forget: bool = False


@attrs.frozen
class Sizes:
    """What the archive takes. `file_bytes` includes the WAL; of it, `free_bytes` will be used again before it grows."""

    file_bytes: int
    free_bytes: int
    history_rows: int


def open_archive(path: str) -> Archive:
    """Open the file, made if there is none and brought to the newest format if it is older.

    Only the holder of the directory's lock may do this. Raises FormatVersionError, LogDamagedError, NoSpaceError,
    BusyError when another program has locked the file, StorageFailedError.
    """
    with translated(path):
        create_file(path)
        writer = connect_writer(path)
        try:
            prepare(writer, path)
            return Archive(path, writer, connect_reader(path))
        except BaseException:
            writer.close()
            raise


class Archive:
    """Made by `open_archive`. All calls block, and may come from any thread.

    `settle` and `prune_history` wait for each other, and the reading calls for one another; reading and changing go on
    side by side. `close` is called when nothing else runs. Every call may raise what `open_archive` does; NoSpaceError
    and BusyError leave all as it was, and the same call may be made again later. After the other two nothing is changed
    any more until the file is opened again.
    """

    def __init__(self, path: str, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._failure = ""
        progress = self._read("SELECT settled_lsn, history_rows, history_from FROM progress")
        self._settled_lsn: int = progress[0][0]
        self._history_rows: int = progress[0][1]
        self._history_from: int = progress[0][2]

    # -- start-up

    @property
    def settled_lsn(self) -> int:
        """Everything below is here, durably."""
        return self._settled_lsn

    def load(self) -> Iterator[StateRow]:
        """All of the state, in order of path, as it was when the first row was asked for."""
        with translated(self._path), closing(connect_reader(self._path)) as connection:
            for path, entry in connection.execute("SELECT path, entry FROM state ORDER BY path"):
                yield StateRow(path, entry)

    def ledger(self) -> list[LedgerRow]:
        """All books, in order of node and life."""
        return [LedgerRow(*row) for row in self._read("SELECT node, life, book FROM ledger ORDER BY node, life")]

    def meta(self) -> dict[str, bytes]:
        """All values by their keys."""
        return dict(self._read("SELECT key, value FROM meta ORDER BY key"))

    # -- changing

    def settle(self, batch: Batch) -> None:
        """Take in a stretch of the log, durably and whole. Raises ValueError when it does not follow what is here."""
        with self._changing():
            self._check_follows(batch)
            rows = self._history_rows + len(batch.history)
            with transaction(self._writer):
                self._write(batch)
                self._writer.execute("UPDATE progress SET settled_lsn = ?, history_rows = ?", (batch.lsn, rows))
            self._settled_lsn, self._history_rows = batch.lsn, rows

    def prune_history(self, *, before: float | None = None, keep: int | None = None, chunk: int = PRUNE_ROWS) -> int:
        """Remove up to `chunk` rows that arrived before `before`, or are older than the newest `keep`, oldest first.

        Returns how many were removed; fewer than `chunk` means that no more are due. The state needs none of them. The
        file does not become shorter: the space is used for later rows.
        """
        with self._changing():
            gone: list[int] = []
            with transaction(self._writer):
                if before is not None:
                    gone = self._delete(
                        "INDEXED BY history_by_arrival WHERE arrived < ? ORDER BY arrived", before, chunk
                    )
                excess = 0 if keep is None else self._history_rows - len(gone) - keep
                if len(gone) < chunk and excess > 0:
                    gone += self._delete("WHERE lsn >= ? ORDER BY lsn", 0, min(excess, chunk - len(gone)))
                rows, begin = self._history_rows - len(gone), max([self._history_from - 1, *gone]) + 1
                self._writer.execute("UPDATE progress SET history_rows = ?, history_from = ?", (rows, begin))
            self._history_rows, self._history_from = rows, begin
            return len(gone)

    # -- history

    def history(self, path: bytes, limit: int, before_lsn: int | None = None) -> list[HistoryRow]:
        """The rows of a path, the newest first; from `before_lsn` on backwards, to go on behind a last row."""
        return self._rows(
            "INDEXED BY history_by_path WHERE path = ? AND lsn < ? ORDER BY lsn DESC LIMIT ?",
            (path, self._settled_lsn if before_lsn is None else before_lsn, limit),
        )

    def latest_at(self, path: bytes, arrived: float) -> HistoryRow | None:
        """The last row that gave a path another value among those that had arrived at a time."""
        found = self._rows(
            "WHERE lsn = (SELECT lsn FROM history INDEXED BY history_by_path"
            " WHERE path = ? AND arrived <= ? AND won ORDER BY lsn DESC LIMIT 1)",
            (path, arrived),
        )
        return found[0] if found else None

    def by_ticks(self, node: str, begin: int, end: int, limit: int) -> list[HistoryRow]:
        """The rows of a node's ticks from `begin` up to, not including, `end`, in order of tick."""
        return self._rows(
            "INDEXED BY history_by_tick WHERE node = ? AND tick >= ? AND tick < ? ORDER BY tick, lsn LIMIT ?",
            (node, begin, end, limit),
        )

    @property
    def history_from(self) -> int:
        """From this lsn on nothing was removed from history."""
        return self._history_from

    def won_since(self, lsn: int, limit: int) -> list[HistoryRow]:
        """The rows from `lsn` on that gave their path another value, the oldest first."""
        return self._rows("WHERE lsn >= ? AND won ORDER BY lsn LIMIT ?", (lsn, limit))

    # -- housekeeping

    def sizes(self) -> Sizes:
        """How large the file is; quick."""
        with translated(self._path):
            file_bytes = os.stat(self._path).st_size + _size_if_any(f"{self._path}-wal")
        ((free_bytes,),) = self._read("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
        return Sizes(file_bytes, free_bytes, self._history_rows)

    def beside(self, name: str) -> str:
        """The path of a file in the same directory."""
        return os.path.join(os.path.dirname(self._path), name)

    def backup(self, to_path: str) -> None:
        """Write a copy as of one moment to a new file, for its owner only; settling goes on meanwhile.

        A copy appears under its name only when it is whole and durable. Raises ExistsError when there is a file of that
        name, NoSpaceError, another RequestError when it cannot be written, LogDamagedError when this file is damaged.
        """
        if os.path.lexists(to_path):
            raise ExistsError(f"{to_path} is there already: name a new file for the backup")
        part = f"{to_path}.part"
        with translated_copy(self._path, to_path):
            try:
                create_file(part)
                with closing(connect_reader(self._path)) as source, closing(sqlite3.connect(part)) as target:
                    source.backup(target)
                os.rename(part, to_path)
                sync_directory(to_path)
            except BaseException:
                if os.path.exists(part):
                    os.unlink(part)
                raise

    def close(self) -> None:
        """Give up the file; a second call does nothing."""
        self._failure = f"{self._path} is closed: open it again"
        self._reader.close()
        self._writer.close()

    # -- inside

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._writing:
            if self._failure:
                raise StorageFailedError(self._failure)
            try:
                with translated(self._path):
                    yield
            except StorageError as error:
                self._failure = str(error)
                raise

    def _check_follows(self, batch: Batch) -> None:
        lsns = [self._settled_lsn - 1, *(row.lsn for row in batch.history), max(batch.lsn, self._settled_lsn)]
        if batch.lsn < self._settled_lsn or not all(map(lt, lsns, lsns[1:])):
            raise ValueError(
                f"history must rise from lsn {self._settled_lsn} to below {batch.lsn}, the end of the batch"
            )

    def _write(self, batch: Batch) -> None:
        change, change_all = self._writer.execute, self._writer.executemany
        if batch.forget:
            for table in ("state", "ledger", "meta"):
                change(f"DELETE FROM {table}")
        change_all("DELETE FROM state WHERE path = ?", zip(batch.dropped_paths))
        _insert(self._writer, "state", batch.states, " ON CONFLICT (path) DO UPDATE SET entry = excluded.entry")
        _insert(self._writer, f"history ({_COLUMNS})", batch.history)
        change_all("REPLACE INTO ledger VALUES (?, ?, ?)", map(attrgetter("node", "life", "book"), batch.ledger))
        change_all("REPLACE INTO meta VALUES (?, ?)", batch.meta.items())

    def _delete(self, which: str, bound: float, count: int) -> list[int]:
        query = f"DELETE FROM history WHERE lsn IN (SELECT lsn FROM history {which} LIMIT ?) RETURNING lsn"
        return [lsn for (lsn,) in self._writer.execute(query, (bound, count))]

    def _read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._reading, translated(self._path):
            return self._reader.execute(query, values).fetchall()

    def _rows(self, rest: str, values: Sequence[object]) -> list[HistoryRow]:
        rows = self._read(f"SELECT {_COLUMNS} FROM history {rest}", values)
        return [HistoryRow(*row)._replace(won=row[-1] != 0) for row in rows]


def _insert(writer: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]], rest: str = "") -> None:
    """Insert rows, `INSERT_ROWS` of them by one statement, which ends in `rest`.

    The interpreter's lock is let go while a statement runs. With a statement for every row it would change hands
    several times for each, and whoever else wants it, the event loop first of all, would wait every time.
    """
    left = iter(rows)
    while part := list(islice(left, INSERT_ROWS)):
        one = f"({', '.join('?' * len(part[0]))})"
        if len(part) == INSERT_ROWS:
            writer.execute(f"INSERT INTO {table} VALUES {', '.join([one] * INSERT_ROWS)}{rest}", _values(part))
        else:
            writer.executemany(f"INSERT INTO {table} VALUES {one}{rest}", [_values([row]) for row in part])


def _values(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """What `sqlite3` binds as it is. For bytes and booleans it first seeks an adapter, five times as long."""
    return [bytearray(v) if type(v) is bytes else int(v) if type(v) is bool else v for row in rows for v in row]


def _size_if_any(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
