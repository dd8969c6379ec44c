"""Connections to an SQLite file: how they are set up, what a transaction is, and what SQLite's errors mean to us.

Knows: sqlite3's settings and error codes.  Does not know a table (`storage.archive_schema`) nor a query
(`storage.archive`).

Invariant: a transaction is committed durably, or nothing of it is there; no `sqlite3.Error` that the disk or another
program may cause leaves `translated`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from distkv.errors import BusyError, DistkvError, LogDamagedError, NoSpaceError, StorageFailedError
from distkv.storage.base import SCARCE_ERRNOS

PAGE_BYTES: Final = 8192
"""Of a new file. 10,000 changes all over 100,000 paths settle a fifth faster than with pages of 4 KiB."""
CHECKPOINT_PAGES: Final = 2000
"""Committed pages go from the WAL into the file at 16 MiB: fewer, larger, more sequential writes than at 4 MiB."""
WAL_BYTES_MAX: Final = 64 << 20
"""A larger WAL, left by one very large transaction, is cut when it is used again."""
CACHE_KIB: Final = 4096
"""Per writing connection: holds the inner pages of all indexes, and what one settlement changes."""
BUSY_S: Final = 5.0
"""Only a program that is not ours holds a lock: an operator's shell, for instance."""


def create_file(path: str) -> None:
    """Make an empty file for its owner only, with a durable name, unless there is one."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # It is not opened to look: closing it would release the locks that SQLite holds on it in this process.
        return
    os.close(descriptor)
    sync_directory(path)


def sync_directory(path: str) -> None:
    """Make the name of a file durable."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect_writer(path: str) -> sqlite3.Connection:
    """The connection that changes the file. Any thread may use it, one at a time."""
    connection = _connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageFailedError(
                f"{path}: the file system cannot share memory between readers and a writer (journal mode {mode}): "
                "use a local disk"
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str) -> sqlite3.Connection:
    """A connection that sees what was committed when a query begins, and waits for no writer."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    set_text(connection)
    connection.execute("PRAGMA cell_size_check = ON")  # a page whose parts overlap is damage, not rows
    return connection


def set_text(connection: sqlite3.Connection) -> None:
    """Read what should be text and is none, because a bit flipped: its checksum tells, and no exception of Python's."""
    connection.text_factory = lambda data: data.decode(errors="surrogateescape")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """What is done inside becomes durable at the end, or is undone when anything raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # Some errors have rolled it back already.
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise our errors for SQLite's and the system's: NoSpaceError, BusyError, LogDamagedError, StorageFailedError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _our_error(path, code_of(error), str(error)) from error


DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# Growing the index that is shared between connections has a code of its own when the disk is full.
FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def code_of(error: sqlite3.Error | OSError) -> int:
    """What went wrong, as SQLite numbers it."""
    if isinstance(error, OSError):
        return sqlite3.SQLITE_FULL if error.errno in SCARCE_ERRNOS else sqlite3.SQLITE_IOERR
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        raise error  # Python's own complaint about how it was called: our mistake, not the disk's.
    return code


def _our_error(path: str, code: int, reason: str) -> DistkvError:
    if code in FULL:
        return NoSpaceError(
            f"{path}: {reason}: nothing was changed, and the log keeps what is to be settled; make space"
        )
    if code & 0xFF in _LOCKED:
        return BusyError(f"{path}: {reason}: nothing was changed; end the other program that uses this file")
    if code & 0xFF in DAMAGED:
        return damaged(path, reason)
    return StorageFailedError(f"{path}: {reason}: the server must end; see to the disk, then start it again")


def damaged(path: str, reason: str) -> LogDamagedError:
    """The file cannot be used, since nobody can tell what of it is right."""
    return LogDamagedError(
        f"{path} is damaged: {reason}. Move {os.path.dirname(path) or '.'} aside and keep it, then restore a "
        "backup, or start the node empty: it joins again under a new life and downloads from the others"
    )
