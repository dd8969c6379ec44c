"""The tables of the archive, and how a file of an earlier format becomes one of this.

Knows: the format's versions, one step from each to the next.  Does not know what the rows mean.

The version stands in `PRAGMA user_version`; an empty file is version 0. A new format is one more function at the end of
`STEPS`. A step is never changed once it was released: files that it made exist.

Invariant: after `prepare` the file is of the newest version, and before its commit it is of the version it had.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final, TypeAlias

from distkv.errors import FormatVersionError, LogDamagedError
from distkv.storage.archive_connection import damaged, set_text, transaction
from distkv.storage.archive_rows import (
    HistoryRow,
    LedgerRow,
    check_history,
    check_ledger,
    check_meta,
    check_numbers,
    check_state,
)

APPLICATION_ID: Final = 0x646B7600
"""In every archive's header, so that no other SQLite file is taken for one."""

_HEADER_BYTES: Final = 100
"""Of an SQLite file: the version is at 60, the application at 68, both big-endian."""

_VERSION_1: Final = """
-- One row: everything below settled_lsn is in this file. The number of rows in history is kept here, not counted.
-- From history_from on no row was removed.
CREATE TABLE progress (
    settled_lsn INTEGER NOT NULL, history_rows INTEGER NOT NULL, history_from INTEGER NOT NULL
);
INSERT INTO progress VALUES (0, 0, 0);

CREATE TABLE state (path BLOB NOT NULL PRIMARY KEY, entry BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger (node TEXT NOT NULL, life INTEGER NOT NULL, book BLOB NOT NULL, PRIMARY KEY (node, life))
    WITHOUT ROWID;
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE history (
    lsn INTEGER PRIMARY KEY,
    path BLOB NOT NULL,
    node TEXT NOT NULL,
    tick INTEGER NOT NULL,
    arrived REAL NOT NULL,
    record BLOB NOT NULL,
    won INTEGER NOT NULL
);
-- With arrived and won in it, a search by time along one path reads nothing but this index.
CREATE INDEX history_by_path ON history (path, lsn, arrived, won);
CREATE INDEX history_by_tick ON history (node, tick);
CREATE INDEX history_by_arrival ON history (arrived)
"""

_VERSION_2: Final = """
-- A checksum in every row (archive_rows). Of the ledger and of meta the sum of theirs, too, since a row may vanish.
ALTER TABLE state ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN state_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN segment INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN ledger_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN meta_sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;

-- What was found damaged, and is not known to be whole again. The last look at everything.
CREATE TABLE damage (place TEXT NOT NULL, path BLOB, lsn INTEGER, found REAL NOT NULL, checked INTEGER NOT NULL);
CREATE TABLE scrub (
    begun REAL NOT NULL, ended REAL NOT NULL, row_count INTEGER NOT NULL, damaged INTEGER NOT NULL
);

UPDATE state SET checked = check_state(path, entry);
UPDATE history SET checked = check_history(lsn, path, node, tick, arrived, record, won);
UPDATE ledger SET checked = check_ledger(node, life, book);
UPDATE meta SET checked = check_meta(key, value);
UPDATE progress SET state_rows = (SELECT count(*) FROM state),
    ledger_sum = (SELECT ifnull(sum(checked), 0) FROM ledger), meta_sum = (SELECT ifnull(sum(checked), 0) FROM meta)
"""

_VERSION_3: Final = """
-- What the services of this node keep: no other node has it, and no backup. The sum as that of the ledger.
CREATE TABLE slots (
    machine TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, checked INTEGER NOT NULL, PRIMARY KEY (machine, key)
) WITHOUT ROWID;
ALTER TABLE progress ADD COLUMN slots_sum INTEGER NOT NULL DEFAULT 0
"""

_VERSION_4: Final = """
-- What services keep row by row. A second checksum says of a damaged row whether its key is right.
CREATE TABLE data (
    machine TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, key_checked INTEGER NOT NULL,
    checked INTEGER NOT NULL, PRIMARY KEY (machine, key)
) WITHOUT ROWID
"""

_PROGRESS_2: Final = "settled_lsn, history_rows, history_from, state_rows, segment, ledger_sum, meta_sum"
"""The columns that format 2 had."""
PROGRESS: Final = f"{_PROGRESS_2}, slots_sum"
INDEXES: Final = ("history_by_path", "history_by_tick", "history_by_arrival")

Step: TypeAlias = Callable[[sqlite3.Connection], None]


def create_version_1(connection: sqlite3.Connection) -> None:
    """The first format, in an empty file."""
    _execute(connection, _VERSION_1)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def add_checksums(connection: sqlite3.Connection) -> None:
    """The second format: what is there is taken for intact, but for what the loading of it finds."""
    functions: dict[str, tuple[int, Callable[..., int]]] = {
        "check_state": (2, check_state),
        "check_history": (7, lambda *columns: check_history(HistoryRow(*columns))),
        "check_ledger": (3, lambda *columns: check_ledger(LedgerRow(*columns))),
        "check_meta": (2, check_meta),
    }
    for name, (count, function) in functions.items():
        connection.create_function(name, count, function, deterministic=True)
    _execute(connection, _VERSION_2)
    numbers = connection.execute(f"SELECT {_PROGRESS_2} FROM progress").fetchone()
    connection.execute("UPDATE progress SET checked = ?", (check_numbers(numbers),))


def add_slots(connection: sqlite3.Connection) -> None:
    """The third format. How far the archive is gets a new checksum only if it has the right one: what was damaged
    before stays so."""
    _execute(connection, _VERSION_3)
    rows = connection.execute(f"SELECT {_PROGRESS_2}, checked FROM progress").fetchall()
    if len(rows) == 1 and check_numbers(rows[0][:-1]) == rows[0][-1]:
        connection.execute("UPDATE progress SET checked = ?", (check_numbers((*rows[0][:-1], 0)),))


def add_data(connection: sqlite3.Connection) -> None:
    """The fourth format: nobody kept data before."""
    _execute(connection, _VERSION_4)


STEPS: Final[Sequence[Step]] = (create_version_1, add_checksums, add_slots, add_data)
"""The function at index n turns a file of version n into one of version n + 1."""


def prepare(connection: sqlite3.Connection, path: str, steps: Sequence[Step] = STEPS) -> None:
    """Bring the file to version `len(steps)`, in one transaction.

    Raises FormatVersionError when a newer release wrote it, LogDamagedError when it is something else, sqlite3.Error.
    """
    if _version(connection, path, steps) < len(steps):
        with transaction(connection):
            for step in steps[_version(connection, path, steps) :]:
                step(connection)
            connection.execute(f"PRAGMA user_version = {len(steps)}")
    if _tables(connection) != _made_by(steps):
        raise damaged(path, "its tables are not as they were made")


def read_format(path: str) -> int | None:
    """The version of a file, without SQLite and without touching it; None while all of it is still in the WAL.

    What a server that was killed left in the WAL is not looked at, so it may be of a newer format than this says.

    Raises LogDamagedError when it is something else, OSError.
    """
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return None
    if len(header) < _HEADER_BYTES or header[:16] != b"SQLite format 3\0":
        raise _no_archive(path)
    version, application = _u32(header, 60), _u32(header, 68)
    if application != APPLICATION_ID and (version or application):
        raise _no_archive(path)
    return version or None


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        connection.execute(statement)


def _tables(connection: sqlite3.Connection) -> list[Any]:
    """What the file says of its tables, whatever the layout of the text."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"
    return [(*row, re.sub(r"\s+|--[^\n]*", "", sql or "")) for *row, sql in connection.execute(query)]


def _made_by(steps: Sequence[Step]) -> list[Any]:
    """What a new file says. A step that looks for rows finds none."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        set_text(connection)
        for step in steps:
            step(connection)
        return _tables(connection)


def _u32(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")


def _no_archive(path: str) -> LogDamagedError:
    return LogDamagedError(f"{path} is not an archive of distkv: move it away, or name another data directory")


def _version(connection: sqlite3.Connection, path: str, steps: Sequence[Step]) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise _no_archive(path)
    if tables and not version:
        raise damaged(path, "it does not say which format it has")
    if version > len(steps):
        raise FormatVersionError(
            f"{path} has format {version}, this release reads up to {len(steps)}: start the release that wrote it"
        )
    return int(version)
