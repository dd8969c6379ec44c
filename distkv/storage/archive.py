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
from contextlib import ExitStack, closing, contextmanager, nullcontext
from operator import itemgetter, lt
from typing import Any, Final

import attrs

from distkv.errors import BusyError, StorageError, StorageFailedError
from distkv.storage.archive_connection import (
    connect_reader,
    connect_writer,
    create_file,
    damaged,
    transaction,
    translated,
)
from distkv.storage.archive_damage import DamageList, Tell, say_nothing
from distkv.storage.archive_data import SUM_KEY, DataLook, read_sums, readable_data, sum_rows, write_data
from distkv.storage.archive_history import History
from distkv.storage.archive_rows import (
    DATA,
    HISTORY_COLUMNS,
    SLOTS,
    UNKNOWN,
    DamagedRow,
    DataRow,
    HistoryRow,
    LedgerRow,
    SettledUpTo,
    SlotRow,
    StateRow,
    check_ledger,
    check_meta,
    check_numbers,
    check_slot,
    check_state,
    insert_history,
    insert_states,
    is_intact_ledger,
    is_intact_meta,
    is_intact_slot,
    slot_damage,
    state_damage,
)
from distkv.storage.archive_salvage import TABLES, empty, is_malformed, is_readable
from distkv.storage.archive_schema import PROGRESS, prepare

ARCHIVE_NAME: Final = "state.sqlite"
"""Its file in the data directory; SQLite keeps two more beside it, `-wal` and `-shm`, which belong to it."""
BACKUP_NAME: Final = "backup"
"""A copy beside it that is on its way to somebody; `backup` has `.part` behind that while it writes."""
PRUNE_ROWS: Final = 1000
_LSN: Final = itemgetter(HistoryRow._fields.index("lsn"))


@attrs.frozen
class Settlement:
    """What the records from `settled_lsn` up to `lsn` came to. Rows replace those with the same key.

    `forget` empties state, ledger, meta and slots first, for a node that started anew in between; history stays, and so
    does data, unless `forget_data` empties it.
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
    state_rows: int = UNKNOWN
    """How many paths the state has after it."""
    segment: int | None = None
    """The number of the segment that the log had come to, 0: there is none; None: what was said before stays."""
    slots: Sequence[SlotRow] = ()
    dropped_slots: Sequence[tuple[str, str]] = ()
    """The names and keys of those that are not kept any more."""
    data: Mapping[tuple[str, str], bytes | None] = attrs.Factory(dict)
    """By service and key; None: not kept any more."""
    forget_data: bool = False


@attrs.frozen
class Sizes:
    """What the archive takes. `file_bytes` includes the WAL; of it, `free_bytes` will be used again before it grows."""

    file_bytes: int
    free_bytes: int
    history_rows: int


@attrs.frozen
class Scrubbed:
    """A look at everything: when, in seconds since 1970, how many rows, and how many places were damaged."""

    begun: float
    ended: float
    row_count: int
    damaged: int


def open_archive(path: str, tell: Tell = say_nothing) -> Archive:
    """Open the file, made if there is none and brought to the newest format if it is older.

    `tell` is called with each damaged row that is met, once, on the thread that met it. Only the holder of the
    directory's lock may do this. Raises FormatVersionError, LogDamagedError, NoSpaceError, BusyError when another
    program has locked the file, StorageFailedError.
    """
    with translated(path):
        create_file(path)
        with ExitStack() as undo:
            writer = connect_writer(path)
            undo.callback(writer.close)
            prepare(writer, path)
            reader = connect_reader(path)
            undo.callback(reader.close)
            past, changes = connect_reader(path), connect_reader(path)
            undo.callback(past.close)
            undo.callback(changes.close)
            archive = Archive(path, writer, reader, (past, changes), tell)
            undo.pop_all()
            return archive


class Archive:
    """Made by `open_archive`. All calls block, and may come from any thread.

    `settle` and `prune_history` wait for each other, and the reading calls for one another; reading and changing go on
    side by side. `close` is called when nothing else runs. Every call may raise what `open_archive` does; NoSpaceError
    and BusyError leave all as it was, and the same call may be made again later. After the other two nothing is changed
    any more until the file is opened again.
    """

    def __init__(
        self,
        path: str,
        writer: sqlite3.Connection,
        reader: sqlite3.Connection,
        past: tuple[sqlite3.Connection, sqlite3.Connection],
        tell: Tell,
    ) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._failure = ""
        self.unread_rows = 0
        """How many rows of the state did not check when it was loaded."""
        self.lost_data: Sequence[tuple[str, str | None]] = ()
        """Service and key of the rows of data that were lost when they were loaded; None: nobody knows which."""
        self.is_data_damaged = False
        """Whether anything of that was damaged then."""
        self.damage: Final = DamageList(tell)
        """What is not as it was written."""
        self.damage.load(reader)
        self._data_sums = read_sums(reader)
        self.past: Final = History(path, past[0], self.damage, lambda: self._progress)
        """Questions about the history."""
        self.changes: Final = History(path, past[1], self.damage, lambda: self._progress)
        """The same, for those who read all of it, so that a short question does not wait for a long answer."""
        rows = self._read(f"SELECT {PROGRESS}, checked FROM progress")
        if len(rows) != 1 or check_numbers(rows[0][:-1]) != rows[0][-1]:
            raise damaged(path, "how far it is does not check")
        self._progress: SettledUpTo = SettledUpTo(*rows[0][:-1])

    # -- start-up

    @property
    def path(self) -> str:
        """Of its file."""
        return self._path

    @property
    def settled_lsn(self) -> int:
        """Everything below is here, durably."""
        return self._progress.settled_lsn

    @property
    def state_rows(self) -> int:
        """How many paths the state has, damaged ones too, or `UNKNOWN`."""
        return self._progress.state_rows

    @property
    def segment(self) -> int:
        """The number of a segment that the log must have; 0: not known."""
        return self._progress.segment

    def load(self) -> Iterator[StateRow]:
        """All of the state that is intact, in order of path, as it was when the first row was asked for.

        What does not check is left out, and stands in `damage` then. Raises LogDamagedError at the end when rows are
        missing of which nothing is left that could be named.
        """
        self.unread_rows = count = 0
        last = None
        new_row = tuple.__new__  # a third of the time, which a start spends a hundred thousand times
        with translated(self._path), closing(connect_reader(self._path)) as connection:
            for path, entry, checked in connection.execute("SELECT path, entry, checked FROM state ORDER BY path"):
                count += 1
                if type(path) is not bytes or type(entry) is not bytes or check_state(path, entry) != checked:
                    self.unread_rows += 1
                    self.damage.note(state_damage(path, entry))
                    continue
                if last is not None and path <= last:
                    raise damaged(self._path, "the paths of its state are in no order")
                last = path
                yield new_row(StateRow, (path, entry))
        if self._progress.state_rows not in (UNKNOWN, count):
            raise damaged(self._path, f"its state has {count} paths, and had {self._progress.state_rows}")

    def leave_out(self, damage: DamagedRow) -> None:
        """A row that `load` gave is of no use: it counts as one that does not check."""
        self.unread_rows += 1
        self.damage.note(damage)

    def ledger(self) -> list[LedgerRow]:
        """All books, in order of node and life. Raises LogDamagedError when one does not check, or is missing."""
        rows = self._read("SELECT node, life, book, checked FROM ledger ORDER BY node, life")
        books = [LedgerRow(*row) for *row, _ in rows]
        is_intact = all(is_intact_ledger(book, row[-1]) for book, row in zip(books, rows, strict=True))
        if not is_intact or sum(row[-1] for row in rows) != self._progress.ledger_sum:
            raise damaged(self._path, "its ledger does not check")
        return books

    def meta(self) -> dict[str, bytes]:
        """All values by their keys. Raises LogDamagedError when one does not check, or is missing."""
        rows = self._read("SELECT key, value, checked FROM meta ORDER BY key")
        is_intact = all(is_intact_meta(*row) for row in rows)
        if not is_intact or sum(row[-1] for row in rows) != self._progress.meta_sum:
            raise damaged(self._path, "what it says of its node does not check")
        return {key: value for key, value, _ in rows if not key.startswith(SUM_KEY)}

    def slots(self) -> list[SlotRow] | None:
        """What services keep, in order of name and key; None: something of it does not check, is missing or cannot be
        read, and stands in `damage` then. All of it is left out, because a part of what a service has promised may be
        worse than nothing; and no start fails because of it."""
        with self._reading, translated(self._path):
            try:
                found = self._reader.execute("SELECT machine, key, value, checked FROM slots ORDER BY machine, key")
                rows = found.fetchall()
            except sqlite3.DatabaseError as error:
                if not is_malformed(error):
                    raise
                self.damage.note(DamagedRow.of_page(SLOTS))
                return None
        slots = [SlotRow(*row[:-1]) for row in rows]
        damaged_rows = [
            slot_damage(slot) for slot, row in zip(slots, rows, strict=True) if not is_intact_slot(slot, row[-1])
        ]
        if not damaged_rows and sum(row[-1] for row in rows) != self._progress.slots_sum:
            damaged_rows = [DamagedRow(f"{SLOTS}, rows that are missing")]
        for damage in damaged_rows:
            self.damage.note(damage)
        return None if damaged_rows else slots

    def data(self) -> Iterator[DataRow]:
        """What services keep row by row, as far as it is intact, in order of service and key where every page can be
        read. Then `lost_data` says what is not, and `damage` has it. No start fails because of it."""
        look = DataLook()
        with translated(self._path), closing(connect_reader(self._path)) as connection:
            yield from look.intact(readable_data(connection, look))
        look.end(self._data_sums)
        for damage in look.damaged:
            self.damage.note(damage)
        self.lost_data, self.is_data_damaged = look.lost, bool(look.damaged)

    # -- changing

    def settle(self, batch: Settlement) -> None:
        """Take in a stretch of the log, durably and whole. Raises ValueError when it does not follow what is here."""
        with self._changing(is_mending=batch.forget):
            self._check_follows(batch)
            with transaction(self._writer):
                data_sums = self._write(batch)
                ledger_sum, meta_sum, slots_sum = map(self._sum_of, ("ledger", "meta", SLOTS))
                was = self._progress
                progress = attrs.evolve(
                    was,
                    settled_lsn=batch.lsn,
                    history_rows=was.history_rows + len(batch.history),
                    state_rows=batch.state_rows,
                    segment=was.segment if batch.segment is None else batch.segment,
                    ledger_sum=ledger_sum,
                    meta_sum=meta_sum,
                    slots_sum=slots_sum,
                )
                self._write_progress(progress)
            self._progress, self._data_sums = progress, data_sums

    def prune_history(self, *, before: float | None = None, keep: int | None = None, chunk: int = PRUNE_ROWS) -> int:
        """Remove up to `chunk` rows that arrived before `before`, or are older than the newest `keep`, oldest first.

        Returns how many were removed; fewer than `chunk` means that no more are due. The state needs none of them. The
        file does not become shorter: the space is used for later rows.
        """
        with self._changing():
            gone: list[int] = []
            was = self._progress
            with transaction(self._writer):
                if before is not None:
                    gone = self._delete(
                        "INDEXED BY history_by_arrival WHERE arrived < ? ORDER BY arrived", before, chunk
                    )
                excess = 0 if keep is None else was.history_rows - len(gone) - keep
                if len(gone) < chunk and excess > 0:
                    gone += self._delete("WHERE lsn >= ? ORDER BY lsn", 0, min(excess, chunk - len(gone)))
                begin = max([was.history_from - 1, *gone]) + 1
                progress = attrs.evolve(was, history_rows=was.history_rows - len(gone), history_from=begin)
                self._write_progress(progress)
            self._progress = progress
            return len(gone)

    def mend_history(self) -> None:
        """Write the history anew, with its indexes, without the rows that do not check; these stand in `damage`."""
        with self._changing(is_mending=True), closing(connect_reader(self._path)) as reader:
            with transaction(self._writer):
                self._writer.execute(f"CREATE TEMP TABLE kept ({HISTORY_COLUMNS})")
                insert_history(self._writer, "kept", self.past.rows())
                empty(self._writer, reader, "history")
                self._writer.execute(f"INSERT OR IGNORE INTO history SELECT {HISTORY_COLUMNS} FROM kept ORDER BY lsn")
                self._writer.execute("DROP TABLE kept")
                ((count,),) = self._writer.execute("SELECT count(*) FROM history").fetchall()
                progress = attrs.evolve(self._progress, history_rows=count, history_from=self.past.begin)
                self._write_progress(progress)
            self._progress = progress
            self.past.renewed()
            self.changes.renewed()

    # -- housekeeping

    def sizes(self) -> Sizes:
        """How large the file is; quick."""
        with translated(self._path):
            file_bytes = os.stat(self._path).st_size + _size_if_any(f"{self._path}-wal")
        ((free_bytes,),) = self._read("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
        return Sizes(file_bytes, free_bytes, self._progress.history_rows)

    def beside(self, name: str) -> str:
        """The path of a file in the same directory."""
        return os.path.join(os.path.dirname(self._path), name)

    @property
    def last_scrub(self) -> Scrubbed | None:
        """What the last look at everything found; None: there was none."""
        rows = self._read("SELECT begun, ended, row_count, damaged FROM scrub")
        is_read = bool(rows) and all(isinstance(number, int | float) for number in rows[0])
        return Scrubbed(*rows[0]) if is_read else None  # nothing depends on it: the next one is due then

    def write_scrub(self, found: Scrubbed) -> None:
        """Keep in mind what a look at everything found, and what is damaged now."""
        with self._changing(), transaction(self._writer):
            self._writer.execute("DELETE FROM scrub")
            self._writer.execute("INSERT INTO scrub VALUES (?, ?, ?, ?)", attrs.astuple(found))
            self.damage.save(self._writer)

    def write_damage(self) -> None:
        """Keep in mind what is damaged now."""
        with self._changing(), transaction(self._writer):
            self.damage.save(self._writer)

    def close(self) -> None:
        """Give up the file; a second call does nothing."""
        self._failure = f"{self._path} is closed: open it again"
        self._reader.close()
        self.past.close()
        self.changes.close()
        self._writer.close()

    # -- inside

    @contextmanager
    def _changing(self, *, is_mending: bool = False) -> Iterator[None]:
        with self._writing:
            if self._failure:
                raise StorageFailedError(self._failure)
            try:
                with translated(self._path), nullcontext() if is_mending else self._malformed_is_noted():
                    yield
            except StorageError as error:
                self._failure = str(error)
                raise

    @contextmanager
    def _malformed_is_noted(self) -> Iterator[None]:
        """What a scrub can mend is told, and ends nobody; until then changes have to wait."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            with closing(connect_reader(self._path)) as reader:
                tables = [table for table in TABLES if is_malformed(error) and not is_readable(reader, table)]
            if not tables:
                raise
            for table in tables:
                self.damage.note(DamagedRow.of_page(table))
            raise BusyError(
                f"{self._path}: {error}: nothing was changed; it is mended soon, or now by 'distkv client scrub'"
            ) from error

    def _check_follows(self, batch: Settlement) -> None:
        begin = self.settled_lsn
        lsns = [begin - 1, *map(_LSN, batch.history), max(batch.lsn, begin)]
        if batch.lsn < begin or not all(map(lt, lsns, lsns[1:])):
            raise ValueError(f"history must rise from lsn {begin} to below {batch.lsn}, the end of the batch")

    def _write(self, batch: Settlement) -> dict[str, int]:
        """Returns the sums of data after it."""
        change_all = self._writer.executemany
        tables = [*(("state", "ledger", "meta", SLOTS, "progress") if batch.forget else ())]
        tables += [DATA] if batch.forget_data else []
        if tables:
            with closing(connect_reader(self._path)) as reader:
                for table in tables:
                    empty(self._writer, reader, table)
        data_sums = dict.fromkeys(self._data_sums, 0) if batch.forget_data else dict(self._data_sums)
        write_data(self._writer, batch.data, data_sums)
        change_all("DELETE FROM state WHERE path = ?", zip(batch.dropped_paths))
        insert_states(self._writer, batch.states)
        insert_history(self._writer, "history", batch.history)
        books = [(row.node, row.life, row.book, check_ledger(row)) for row in batch.ledger]
        change_all("REPLACE INTO ledger (node, life, book, checked) VALUES (?, ?, ?, ?)", books)
        values = {**batch.meta, **sum_rows(data_sums)}
        meta = [(key, value, check_meta(key, value)) for key, value in values.items()]
        change_all("REPLACE INTO meta (key, value, checked) VALUES (?, ?, ?)", meta)
        change_all("DELETE FROM slots WHERE machine = ? AND key = ?", batch.dropped_slots)
        slots = [(row.machine, row.key, row.value, check_slot(row)) for row in batch.slots]
        change_all("REPLACE INTO slots (machine, key, value, checked) VALUES (?, ?, ?, ?)", slots)
        return data_sums

    def _write_progress(self, progress: SettledUpTo) -> None:
        """What changed with it: how far the archive is, and what of it is damaged."""
        numbers = attrs.astuple(progress)
        self._writer.execute("DELETE FROM progress")  # what stands there may not be one row any more
        marks = ", ".join("?" for _ in numbers)
        insert = f"INSERT INTO progress ({PROGRESS}, checked) VALUES ({marks}, ?)"
        self._writer.execute(insert, (*numbers, check_numbers(numbers)))
        self.damage.save(self._writer)

    def _sum_of(self, table: str) -> int:
        ((total,),) = self._writer.execute(f"SELECT ifnull(sum(checked), 0) FROM {table}").fetchall()
        return int(total)

    def _delete(self, which: str, bound: float, count: int) -> list[int]:
        query = f"DELETE FROM history WHERE lsn IN (SELECT lsn FROM history {which} LIMIT ?) RETURNING lsn"
        return [lsn for (lsn,) in self._writer.execute(query, (bound, count))]

    def _read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._reading, translated(self._path):
            return self._reader.execute(query, values).fetchall()


def _size_if_any(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
