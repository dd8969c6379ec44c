"""What is left of a table of which SQLite cannot read every page, and an empty table in its place.

Knows: how to go on behind a page that cannot be read, and that such a page cannot even be given back.  Does not know
what rows mean, nor which of them check.

A table of which a page rotted can be neither read to its end nor emptied, because both walk over all its pages. So its
name is taken from it, and a new table gets that name. The old pages stay in the file, and belong to nobody. SQLite lets
no transaction write that has met such a page, so another connection reads than that which writes.

Invariant: every row that SQLite can reach is found; the new table is declared as the old one was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from distkv.storage.archive_rows import HISTORY_COLUMNS, DamagedRow

TABLES: Final = ("state", "ledger", "meta", "slots", "data", "progress", "history")
"""What a running node writes anew when a page of it cannot be read."""

Note: TypeAlias = Callable[[DamagedRow], None]

_FROM_LSN = f"SELECT {HISTORY_COLUMNS} FROM history NOT INDEXED WHERE lsn >= ? ORDER BY lsn"
_LAST = f"{_FROM_LSN} DESC"


def is_malformed(error: sqlite3.Error) -> bool:
    """Whether SQLite says that a page is none that it wrote."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_CORRUPT


def is_readable(connection: sqlite3.Connection, table: str) -> bool:
    """Whether a table and its indexes can be read to their ends. It looks at every page."""
    try:
        found: list[tuple[str]] = connection.execute(f"PRAGMA quick_check({table})").fetchall()
    except sqlite3.DatabaseError as error:  # it tells of most damage, and fails at some
        if not is_malformed(error):
            raise
        return False
    return found == [("ok",)]


def empty(writer: sqlite3.Connection, reader: sqlite3.Connection, table: str) -> None:
    """Remove all rows of a table, inside a transaction of `writer`, whatever became of its pages."""
    if is_readable(reader, table):
        writer.execute(f"DELETE FROM {table}")
    else:
        _replace(writer, table)


def readable_history(connection: sqlite3.Connection, end: int, note: Note) -> Iterator[tuple[Any, ...]]:
    """The rows of the history below `end` that can be reached, in order; `note` hears of the gaps.

    Where a page stands in another one's place, rows come in another order, or twice.
    """
    begin = 0
    while True:
        try:
            for row in connection.execute(_FROM_LSN, (begin,)):
                yield row
                begin = max(begin, row[0] + 1)
            return
        except sqlite3.DatabaseError as error:
            if not is_malformed(error):
                raise
        row = _first(connection, begin)
        if row is not None:  # the library looks one row ahead, and fails before it gives the last one
            yield row
            begin = row[0] + 1
            continue
        next_lsn = _readable_from(connection, begin, end)
        note(DamagedRow(f"history, rows {begin} to {next_lsn - 1}", None, next_lsn - 1))
        if next_lsn >= end:
            return
        begin = next_lsn


def _readable_from(connection: sqlite3.Connection, begin: int, end: int) -> int:
    """The lowest lsn behind `begin` from which a row can be reached, or `end`: in steps that double, then halve."""
    step = 1
    while begin + step < end and _first(connection, begin + step) is None:
        step *= 2
    low, high = begin + step // 2, begin + step
    if high >= end:
        last = _first(connection, begin, _LAST)
        if last is None:
            return end
        high = last[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _first(connection, middle) is None else (low, middle)
    return high


def _first(connection: sqlite3.Connection, lsn: int, query: str = _FROM_LSN) -> tuple[Any, ...] | None:
    """The first row from `lsn` on, or the last; None when it cannot be reached, or there is none."""
    try:
        row: tuple[Any, ...] | None = connection.execute(f"{query} LIMIT 1", (lsn,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        return None
    return None if row is None or row[0] < lsn else row


def _replace(writer: sqlite3.Connection, table: str) -> None:
    made = "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL ORDER BY type = 'index'"
    statements = [sql for (sql,) in writer.execute(made, (table,)).fetchall()]
    writer.execute("PRAGMA writable_schema = ON")
    try:
        writer.execute("DELETE FROM sqlite_schema WHERE tbl_name = ?", (table,))
    finally:
        writer.execute("PRAGMA writable_schema = RESET")
    for statement in statements:
        writer.execute(statement)
