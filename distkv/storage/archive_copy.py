"""A copy of an archive as of one moment, made while the archive is in use, and looked at before it is given away.

Knows: when a copy counts as made, what is left out of it, and what a copy that cannot be made means for whoever wants
it.  Does not know what rows mean.

What the services of the node keep is left out. A node that is restored begins a new life, and what a service promised
in the old one is void: some of these promises would be older than what others were told since.

Invariant: under the name of a copy there is a whole and durable one, or nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from distkv.errors import DamagedError, ExistsError, NoSpaceError, RequestError
from distkv.storage.archive_connection import (
    DAMAGED,
    FULL,
    code_of,
    connect_reader,
    create_file,
    set_text,
    sync_directory,
    transaction,
    translated,
)
from distkv.storage.archive_rows import check_numbers
from distkv.storage.archive_salvage import is_malformed
from distkv.storage.archive_schema import PROGRESS
from distkv.storage.archive_scrub import parts


def write_copy(path: str, to_path: str) -> None:
    """Write a copy of the archive at `path` to a new file, for its owner only; settling goes on meanwhile.

    A copy appears under its name only when it is whole and durable. Raises ExistsError when there is a file of that
    name, NoSpaceError, another RequestError when it cannot be written, LogDamagedError when the archive is damaged.
    """
    if os.path.lexists(to_path):
        raise ExistsError(f"{to_path} is there already: name a new file for the backup")
    part = f"{to_path}.part"
    with translated(path), _refused(to_path):
        try:
            create_file(part)
            with closing(connect_reader(path)) as source, closing(_connect_copy(part)) as target:
                source.backup(target)
                _leave_slots_out(target)
            os.rename(part, to_path)
            sync_directory(to_path)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise


def _connect_copy(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    set_text(connection)
    return connection


def check_copy(path: str) -> None:
    """Look at a copy whole, before it is given away, or after it came. Blocks for as long as that takes.

    Raises:
        DamagedError: something in it is not as it was written.
        LogDamagedError: it is no archive that SQLite can read.
    """
    for part in parts(path):
        for damage in part.damaged:
            raise DamagedError(f"{damage.place} is damaged on this node's disk: mend it by 'distkv client scrub' first")


def _leave_slots_out(target: sqlite3.Connection) -> None:
    """Where a page cannot be read, or how far the archive is does not check, all stays: `check_copy` tells of it."""
    rows = target.execute(f"SELECT {PROGRESS}, checked FROM progress").fetchall()
    if len(rows) != 1 or check_numbers(rows[0][:-1]) != rows[0][-1]:
        return
    numbers = (*rows[0][:-2], 0)
    try:
        with transaction(target):
            target.execute("DELETE FROM slots")
            target.execute("UPDATE progress SET slots_sum = 0, checked = ?", (check_numbers(numbers),))
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise


@contextmanager
def _refused(to_path: str) -> Iterator[None]:
    """What the new file meets is refused, and ends nobody."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        code = code_of(error)
        if code & 0xFF in DAMAGED:
            raise
        if code in FULL:
            raise NoSpaceError(f"{to_path}: {error}: nothing was written; make space, or name another place") from error
        raise RequestError(
            f"{to_path}: {error}: nothing was written; name a place that this server can write"
        ) from error
