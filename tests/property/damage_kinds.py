"""Damage to a stopped node's files, drawn at random: what disks do to bits, sectors, pages and rows.

Knows: where the files of a data directory have something to lose, and how it is lost.  Does not know what a node makes
of it (`damage`).

Invariant: the same random numbers give the same damage to the same files.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from distkv.storage.archive import ARCHIVE_NAME
from distkv.storage.archive_connection import PAGE_BYTES, set_text
from distkv.storage.segment import BatchSpan, SegmentHeader, parse_batch, parse_header

SECTOR_BYTES: Final = 512
TABLES: Final = {
    "state": ("path", "entry", "checked"),
    "history": ("lsn", "path", "node", "tick", "arrived", "record", "won", "checked"),
    "ledger": ("node", "life", "book", "checked"),
    "meta": ("key", "value", "checked"),
    "progress": ("settled_lsn", "history_rows", "history_from", "state_rows", "ledger_sum", "meta_sum", "checked"),
}
KEYS: Final = {"state": ("path",), "history": ("lsn",), "ledger": ("node", "life"), "meta": ("key",)}

IN_STEP: Final = ", indexes in step"

Harm: TypeAlias = Callable[[Random, Path, Sequence[bytes]], str]
"""Damages the files of a directory, which may be set back to older contents of its archive; says where."""


# -- bytes --------------------------------------------------------------------------------------------------------


def _segments(path: Path) -> list[str]:
    """Those in which something stands."""
    return sorted(file.name for file in path.glob("segment-*") if file.read_bytes().strip(b"\0"))


def _file(rng: Random, path: Path) -> str:
    """One file: the archive, what it has in its WAL, or a segment."""
    wal = f"{ARCHIVE_NAME}-wal"
    has_wal = (path / wal).exists() and os.path.getsize(path / wal)
    return rng.choice([ARCHIVE_NAME, ARCHIVE_NAME, wal if has_wal else ARCHIVE_NAME, rng.choice(_segments(path))])


def _place(rng: Random, path: Path, name: str, step: int) -> int:
    """An offset, a multiple of `step`; mostly where something was written."""
    size = os.path.getsize(path / name)
    if rng.random() < 0.85:
        size = len((path / name).read_bytes().rstrip(b"\0"))
    return rng.randrange(max(1, -(-size // step))) * step


def _write(path: Path, name: str, offset: int, data: bytes) -> None:
    with open(path / name, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(offset)
        file.write(data[: max(0, size - offset)])


def flip(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """One bit of one file."""
    del older
    name = _file(rng, path)
    at, bit = _place(rng, path, name, 1), rng.randrange(8)
    data = (path / name).read_bytes()
    _write(path, name, at, bytes([data[at] ^ 1 << bit]))
    return f"{name} byte {at} bit {bit}"


def truncate(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """The end of a file is gone; or all of it."""
    del older
    name = _file(rng, path)
    end = _place(rng, path, name, rng.choice([1, SECTOR_BYTES, PAGE_BYTES]))
    if rng.random() < 0.05:
        (path / name).unlink()
        return f"{name} removed"
    os.truncate(path / name, end)
    return f"{name} from byte {end} on"


def zero_sector(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    del older
    return _zero(rng, path, SECTOR_BYTES)


def zero_page(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    del older
    return _zero(rng, path, 4096)


def _zero(rng: Random, path: Path, length: int) -> str:
    name = _file(rng, path)
    at = _place(rng, path, name, length)
    _write(path, name, at, bytes(length))
    return f"{name} {length} bytes at {at}"


def misplaced(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """A sector or page stands where another one belongs, and its own place keeps what it had."""
    del older
    name, length = _file(rng, path), rng.choice([SECTOR_BYTES, 4096, PAGE_BYTES])
    begin, end = (_place(rng, path, name, length) for _ in range(2))
    data = (path / name).read_bytes()[begin : begin + length]
    _write(path, name, end, data)
    return f"{name} {length} bytes at {end} from {begin}"


def lost_write(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """A page of the archive, or a part of one, is as it was some time before."""
    data = (path / ARCHIVE_NAME).read_bytes()
    copy = rng.choice([copy for copy in older if copy != data])
    length = rng.choice([4096, PAGE_BYTES, PAGE_BYTES])
    places = [
        at
        for at in range(0, min(len(data), len(copy)), length)
        if data[at : at + length] != copy[at : at + length]
    ]
    at = rng.choice(places)
    _write(path, ARCHIVE_NAME, at, copy[at : at + length])
    return f"{ARCHIVE_NAME} {length} bytes at {at} as in copy {older.index(copy)}"


# -- rows ---------------------------------------------------------------------------------------------------------


def flip_row(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """One bit of one column, wherever the row stands."""
    del older
    table = rng.choice(list(TABLES))
    column = rng.choice(TABLES[table])
    with _rows_of(rng, path) as (connection, indexes):
        rowid, *_ = _rows(rng, connection, table, 1)[0]
        (value,) = _one(connection, f"SELECT {column} FROM {table} WHERE {rowid}")
        bit, flipped = _flipped(rng, value)
        try:
            written = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
            _change(connection, f"UPDATE {table} SET {column} = {written} WHERE {rowid}", (flipped,))
        except sqlite3.IntegrityError:  # of another row: SQLite writes no key twice
            return f"{table}.{column} of {rowid:.60} as it was"
    return f"{table}.{column} of {rowid:.60} bit {bit}{indexes}"


def _flipped(rng: Random, value: object) -> tuple[int, object]:
    """Which bit, and the value then; that of a text as its bytes."""
    match value:
        case int():
            bit = rng.randrange(32)
            return bit, value ^ 1 << bit
        case float():
            return 0, value + rng.choice([-2.0, 2.0, 1e6])
        case str():
            data = bytearray(value.encode(errors="surrogateescape"))
        case bytes():
            data = bytearray(value)
        case _:
            raise TypeError(f"no column holds {value!r}")
    bit = rng.randrange(max(1, 8 * len(data)))
    if data:
        data[bit // 8] ^= 1 << bit % 8
    return bit, bytes(data)


def swap_rows(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """Two rows of a table trade what they hold, with or without the checksums."""
    del older
    table = rng.choice(list(KEYS))
    columns = [column for column in TABLES[table] if column not in KEYS[table]]
    if rng.random() < 0.5:
        columns.remove("checked")
    with _rows_of(rng, path) as (connection, indexes):
        (first, *_), (second, *_) = _rows(rng, connection, table, 2)
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE "
        both = [_one(connection, query + where) for where in (first, second)]
        change = f"UPDATE {table} SET {', '.join(f'{column} = ?' for column in columns)} WHERE "
        _change(connection, change + second, both[0])
        _change(connection, change + first, both[1])
    return f"{table} {first:.60} and {second:.60}, {'with' if 'checked' in columns else 'without'} checksums{indexes}"


def delete_row(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    del older
    table = rng.choice(list(TABLES))
    with _rows_of(rng, path) as (connection, indexes):
        (where, *_) = _rows(rng, connection, table, 1)[0]
        _change(connection, f"DELETE FROM {table} WHERE {where}", ())
    return f"{table} {where:.60}{indexes}"


def move_row(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """A row stands once more, over another one: key and all but a part of the key."""
    del older
    table = rng.choice(list(KEYS))
    columns = [column for column in TABLES[table] if column != KEYS[table][-1]]
    with _rows_of(rng, path) as (connection, indexes):
        (first, *_), (second, *_) = _rows(rng, connection, table, 2)
        if len(KEYS[table]) > 1:
            columns.remove(KEYS[table][0])
        values = _one(connection, f"SELECT {', '.join(columns)} FROM {table} WHERE {first}")
        _change(connection, f"UPDATE {table} SET {', '.join(f'{c} = ?' for c in columns)} WHERE {second}", values)
    return f"{table} {first:.60} over {second:.60}{indexes}"


@contextmanager
def _rows_of(rng: Random, path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    """The archive's tables, and what is said of their indexes.

    Half of the time these are hidden meanwhile, so that they tell of the rows as they were, as after damage to one
    page. Else they keep in step, which a disk does not.
    """
    with closing(_connect(path)) as connection:
        hidden = connection.execute("SELECT * FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL").fetchall()
        if rng.random() < 0.5:
            hidden = []
        for row in hidden:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (row[1],))
    with closing(_connect(path)) as connection:
        yield connection, "" if hidden else IN_STEP
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", hidden)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path / ARCHIVE_NAME, isolation_level=None)
    set_text(connection)
    return connection


def _one(connection: sqlite3.Connection, query: str) -> tuple[object, ...]:
    row = connection.execute(query).fetchone()
    return tuple(row)


def _rows(rng: Random, connection: sqlite3.Connection, table: str, count: int) -> list[tuple[str]]:
    """The conditions that name some rows of a table."""
    keys = KEYS.get(table, ())
    quoted = " || ' AND ' || ".join(f"'{key} = ' || quote({key})" for key in keys) or "'1'"
    found = connection.execute(f"SELECT {quoted} FROM {table} ORDER BY 1").fetchall()
    return rng.sample(found, count)


def _change(connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> None:
    connection.execute(statement, values)


# -- the log ------------------------------------------------------------------------------------------------------


def swap_batches(rng: Random, path: Path, older: Sequence[bytes]) -> str:
    """Two batches of a segment stand in each other's place; or two segments do."""
    del older
    names = _segments(path)
    rng.shuffle(names)
    for name in names:
        data = (path / name).read_bytes()
        header, spans = _batches(data)
        if header is not None and len(spans) > 1 and rng.random() < 0.8:
            first, second = sorted(rng.sample(spans, 2), key=lambda span: span.start)
            parts = (data[second.start : second.end], data[first.end : second.start], data[first.start : first.end])
            _write(path, name, first.start, b"".join(parts))
            return f"{name} batches at {first.start} and {second.start}"
    first_name, second_name = (names * 2)[:2]
    parts = [(path / name).read_bytes() for name in (first_name, second_name)]
    (path / first_name).write_bytes(parts[1])
    (path / second_name).write_bytes(parts[0])
    return f"{first_name} and {second_name}"


def _batches(data: bytes) -> tuple[SegmentHeader | None, list[BatchSpan]]:
    header = parse_header(data)
    spans: list[BatchSpan] = []
    span = None if header is None else parse_batch(data, header.end, header)
    while header is not None and span is not None:
        spans.append(span)
        span = parse_batch(data, span.end, header)
    return header, spans


KINDS: Final[dict[str, tuple[Harm, int]]] = {
    "flip": (flip, 6),
    "flip_row": (flip_row, 4),
    "truncate": (truncate, 3),
    "zero_sector": (zero_sector, 3),
    "zero_page": (zero_page, 3),
    "misplaced": (misplaced, 2),
    "lost_write": (lost_write, 3),
    "swap_rows": (swap_rows, 3),
    "delete_row": (delete_row, 2),
    "move_row": (move_row, 2),
    "swap_batches": (swap_batches, 1),
}
"""Each with how often it is drawn, compared with the others."""
