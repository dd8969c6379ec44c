"""A look at everything in an archive, part by part, beside whoever writes to it.

Knows: in which order the rows are looked at, and what must be true of them.  Does not know how fast to go on, nor how
damage is healed.

Each part is of one moment, and the archive may be another one at the next. So the state is looked at path by path,
always behind the last path that was intact, and what is counted is counted within one moment. An index holds each row
of its table once, with the same values: else a search would pass over a row that is there.

Invariant: whatever differs from what was written is in a part, if it was there all the time; nothing is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from operator import lt
from typing import Any, Final, TypeAlias

import attrs

from distkv.storage.archive_connection import connect_reader, translated
from distkv.storage.archive_data import COLUMNS, DataLook, read_sums
from distkv.storage.archive_rows import (
    DATA,
    HISTORY_COLUMNS,
    SLOTS,
    UNKNOWN,
    DamagedRow,
    HistoryRow,
    LedgerRow,
    SlotRow,
    check_numbers,
    data_damage,
    history_damage,
    is_intact_history,
    is_intact_ledger,
    is_intact_meta,
    is_intact_slot,
    is_intact_state,
    slot_damage,
    state_damage,
)
from distkv.storage.archive_salvage import is_malformed
from distkv.storage.archive_schema import PROGRESS

PART_ROWS: Final = 500

_INDEXES: Final = {
    "history_by_path": ("path", "lsn", "arrived", "won"),
    "history_by_tick": ("node", "tick", "lsn"),
    "history_by_arrival": ("arrived", "lsn"),
}
"""Which of its columns an index has."""

_Progress: TypeAlias = dict[str, Any]


@attrs.frozen
class ScrubStep:
    """What one step looked at."""

    row_count: int
    size: int
    """Bytes, about."""
    damaged: Sequence[DamagedRow] = ()


def parts(path: str) -> Iterator[ScrubStep]:
    """Look at the archive at `path`; each step blocks for some milliseconds, or to count for some more.

    Any thread may take a step, one at a time. Raises LogDamagedError when it is no archive that SQLite can read.
    """
    with translated(path), closing(connect_reader(path)) as connection:
        yield from _readable("ledger", _look_at_few(connection))
        yield from _readable(SLOTS, _look_at_slots(connection))
        yield from _readable(DATA, _look_at_data(connection))
        yield from _readable("state", _look_at_state(connection))
        yield from _readable("history", _look_at_history(connection))


def _readable(table: str, looks: Iterator[ScrubStep]) -> Iterator[ScrubStep]:
    """As far as SQLite can read; `table` names them all."""
    try:
        yield from looks
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        yield ScrubStep(0, 0, [DamagedRow.of_page(table)])


def _look_at_few(connection: sqlite3.Connection) -> Iterator[ScrubStep]:
    """The tables with few rows, as of one moment."""
    with _moment(connection):
        progress = _read_progress(connection)
        ledger = connection.execute("SELECT node, life, book, checked FROM ledger").fetchall()
        meta = connection.execute("SELECT key, value, checked FROM meta").fetchall()
    if progress is None:
        yield ScrubStep(1, 0, [DamagedRow("progress")])
        return
    damaged = [DamagedRow(f"ledger, {node}:{life}") for node, life, book, checked in ledger
               if not is_intact_ledger(LedgerRow(node, life, book), checked)]  # fmt: skip
    damaged += [DamagedRow(f"meta, {row[0]}") for row in meta if not is_intact_meta(*row)]
    for name, found in (("ledger", ledger), ("meta", meta)):
        if not damaged and sum(row[-1] for row in found) != progress[f"{name}_sum"]:
            damaged.append(DamagedRow(f"{name}, rows that are missing"))
    yield ScrubStep(len(ledger) + len(meta) + 1, _size((*ledger, *meta)), damaged)


def _look_at_slots(connection: sqlite3.Connection) -> Iterator[ScrubStep]:
    """What services keep, as of one moment."""
    with _moment(connection):
        progress = _read_progress(connection)
        rows = connection.execute("SELECT machine, key, value, checked FROM slots").fetchall()
    damaged = [slot_damage(slot) for *parts, checked in rows if not is_intact_slot(slot := SlotRow(*parts), checked)]
    if not damaged and progress is not None and sum(row[-1] for row in rows) != progress["slots_sum"]:
        damaged.append(DamagedRow(f"{SLOTS}, rows that are missing"))
    yield ScrubStep(len(rows), _size(rows), damaged)


def _look_at_data(connection: sqlite3.Connection) -> Iterator[ScrubStep]:
    """What services keep row by row; then, as of one moment, what those of each come to."""
    query = f"SELECT {COLUMNS} FROM {DATA} WHERE (machine, key) > (?, ?) ORDER BY machine, key LIMIT {PART_ROWS}"
    last = ("", "")
    while True:
        rows, look = connection.execute(query, last).fetchall(), DataLook()
        names = [row[:2] for row in look.intact(rows)]
        yield ScrubStep(len(rows), _size(rows), [*look.damaged])
        if len(rows) < PART_ROWS or not names or names[-1] <= last:
            break
        last = names[-1]
    try:
        with _moment(connection):
            sums = read_sums(connection)
            found = dict(connection.execute(f"SELECT machine, sum(checked) FROM {DATA} GROUP BY machine").fetchall())
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        return  # a page of this table was met above, one of `meta` before
    damaged = [data_damage(machine, None) for machine, total in sums.items() if found.get(machine, 0) != total]
    yield ScrubStep(0, 0, damaged)


def _look_at_state(connection: sqlite3.Connection) -> Iterator[ScrubStep]:
    last: bytes | None = None
    while True:
        where, values = ("", ()) if last is None else ("WHERE path > ?", (last,))
        query = f"SELECT path, entry, checked FROM state {where} ORDER BY path LIMIT {PART_ROWS}"
        rows = connection.execute(query, values).fetchall()
        damaged = [state_damage(*row[:2]) for row in rows if not is_intact_state(*row)]
        paths = [row[0] for row in rows if is_intact_state(*row)]
        is_in_order = all(map(lt, paths, paths[1:])) and (last is None or not paths or last < paths[0])
        if not is_in_order:
            damaged.append(DamagedRow("state, paths in no order"))
        yield ScrubStep(len(rows), _size(rows), damaged)
        if len(rows) < PART_ROWS or not paths or not is_in_order:
            break
        last = paths[-1]
    with _moment(connection):
        progress = _read_progress(connection)
        ((count,),) = connection.execute("SELECT count(*) FROM state").fetchall()
    if progress is not None and progress["state_rows"] not in (UNKNOWN, count):
        yield ScrubStep(0, 0, [DamagedRow(f"state, {count} rows where {progress['state_rows']} should be")])


def _look_at_history(connection: sqlite3.Connection) -> Iterator[ScrubStep]:
    query = f"SELECT {HISTORY_COLUMNS} FROM history WHERE lsn >= ? ORDER BY lsn LIMIT ?"
    begin = 0
    while True:
        with _moment(connection):
            rows = connection.execute(query, (begin, PART_ROWS)).fetchall()
            damaged = [history_damage(HistoryRow(*row[:-1])) for row in rows if not _is_intact(row)]
            if rows and not damaged:
                damaged = _indexes_damaged(connection, rows[0][0], rows[-1][0], len(rows))
        yield ScrubStep(len(rows), _size(rows), damaged)
        lsns = [row[0] for row in rows if _is_intact(row)]
        if len(rows) < PART_ROWS or not lsns or max(lsns) < begin:
            break
        begin = max(lsns) + 1
    damage = count_damage(connection)
    if damage is not None:
        yield ScrubStep(0, 0, [damage])


def count_damage(connection: sqlite3.Connection) -> DamagedRow | None:
    """Whether the history has as many rows as it had, in its table and in each index; it looks at every page.

    Raises sqlite3.Error.
    """
    with _moment(connection):
        progress = _read_progress(connection)
        counts = [  # count(*) would take whichever index is the smallest
            connection.execute(f"SELECT ifnull(sum(1), 0) FROM history {which}").fetchone()[0]
            for which in ("NOT INDEXED", *(f"INDEXED BY {name}" for name in _INDEXES))
        ]
    if progress is None or set(counts) == {progress["history_rows"]}:
        return None
    is_all_there = counts[0] == progress["history_rows"]  # then only an index lacks some
    place = f"history, {counts} rows and in its indexes, not {progress['history_rows']}"
    return DamagedRow(place, None, None if is_all_there else progress["settled_lsn"] - 1)


def _is_intact(row: Sequence[Any]) -> bool:
    return is_intact_history(HistoryRow(*row[:-1]), row[-1])


def _indexes_damaged(connection: sqlite3.Connection, first: int, last: int, count: int) -> list[DamagedRow]:
    """Which indexes do not lead to each of these rows. The joins run within SQLite, without the interpreter's lock.

    Each column is compared twice. The first comparison is how SQLite searches: it takes what stands at the place where
    a row should be, if that is not above it, for this row. The second one, with a +, looks at what stands there.
    """
    found = []
    for name, columns in _INDEXES.items():
        same = " AND ".join(f"i.{column} = h.{column} AND +i.{column} = +h.{column}" for column in columns)
        query = (
            f"SELECT count(*) FROM history h NOT INDEXED CROSS JOIN history i INDEXED BY {name} ON {same}"
            " WHERE h.lsn BETWEEN ? AND ?"
        )
        if connection.execute(query, (first, last)).fetchone()[0] != count:
            found.append(DamagedRow(f"history, index {name}"))
    return found


def _read_progress(connection: sqlite3.Connection) -> _Progress | None:
    """How far the archive is; None when that is damaged, or not there."""
    rows = connection.execute(f"SELECT {PROGRESS}, checked FROM progress").fetchall()
    if len(rows) != 1 or check_numbers(rows[0][:-1]) != rows[0][-1]:
        return None
    return dict(zip(PROGRESS.split(", "), rows[0][:-1], strict=True))


def _size(rows: Sequence[Sequence[Any]]) -> int:
    return sum(len(part) for row in rows for part in row if isinstance(part, bytes | str))


@contextmanager
def _moment(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read inside is as of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")
