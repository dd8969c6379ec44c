"""The rows of data that services of the node keep: each is written, read and lost by itself.

Knows: their table, and the sum of the checksums of each service, which stands in `meta`.  Does not know what a row
means, nor that some of them are marks.

A row may vanish, or an old page come back with all that was on it. No row tells of that, but the sum of its service
does. So only a service of which something is wrong is told so.

Invariant: a row that is given is as it was written; of each service from which another one is missing that is said.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from distkv.storage.archive_rows import (
    DATA,
    INSERT_ROWS,
    MALFORMED,
    DamagedRow,
    DataRow,
    check_data,
    check_data_key,
    data_damage,
    insert_data,
    is_intact_meta,
)
from distkv.storage.archive_salvage import is_malformed

SUM_KEY: Final = "data of "
"""How the key of a service's sum begins, in `meta`."""
COLUMNS: Final = "machine, key, value, key_checked, checked"
_ROWS: Final = f"SELECT {COLUMNS} FROM {DATA} ORDER BY machine, key"
_BACKWARDS: Final = f"SELECT {COLUMNS} FROM {DATA} ORDER BY machine DESC, key DESC"


def read_sums(connection: sqlite3.Connection) -> dict[str, int]:
    """The sum of each service that ever kept a row; one that does not check is left out, and ends the next start."""
    try:
        rows = connection.execute("SELECT key, value, checked FROM meta").fetchall()
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        return {}
    return {
        key.removeprefix(SUM_KEY): int(value) for key, value, checked in rows
        if isinstance(key, str) and key.startswith(SUM_KEY) and is_intact_meta(key, value, checked)
    }  # fmt: skip


def sum_rows(sums: Mapping[str, int]) -> dict[str, bytes]:
    """The sums as rows of `meta`."""
    return {SUM_KEY + machine: b"%d" % total for machine, total in sums.items()}


def write_data(writer: sqlite3.Connection, held: Mapping[tuple[str, str], bytes | None], sums: dict[str, int]) -> None:
    """Write what stands under these services and keys now, None: nothing; `sums` are changed with it."""
    keys = sorted(held)
    for part in _parts(keys):
        which = f"(machine, key) IN (VALUES {', '.join(['(?, ?)'] * len(part))})"
        values = [name for key in part for name in key]
        found = f"SELECT machine, sum(checked) FROM {DATA} WHERE {which} GROUP BY machine"
        for machine, total in writer.execute(found, values).fetchall():
            sums[machine] = sums.get(machine, 0) - total
        writer.execute(f"DELETE FROM {DATA} WHERE {which}", values)
    rows = [DataRow(*key, value) for key in keys if (value := held[key]) is not None]
    for row in rows:
        sums[row.machine] = sums.get(row.machine, 0) + check_data(*row)
    insert_data(writer, rows)


@attrs.define
class DataLook:
    """What is found when all rows are looked at."""

    damaged: dict[DamagedRow, None] = attrs.field(factory=dict)
    """All that is wrong. A row of which only the second checksum is wrong is not lost."""
    lost: list[tuple[str, str | None]] = attrs.field(factory=list)
    """Service and key of each row that is lost; None: of some that nobody can name."""
    _nameless: dict[str, None] = attrs.field(factory=dict)
    """Services with a row whose key cannot be read."""
    _read: dict[str, int] = attrs.field(factory=dict)
    """The sum of each service, of the checksums as they were read."""
    _made: dict[str, int] = attrs.field(factory=dict)
    """The same, of what they should be. One of the two is right where only rows are wrong that can be named."""

    def intact(self, rows: Iterable[Sequence[Any]]) -> Iterator[DataRow]:
        """Those rows of `COLUMNS` that are as they were written."""
        new_row, read, made = tuple.__new__, self._read, self._made
        for machine, key, value, key_checked, checked in rows:
            try:
                due = check_data(machine, key, value)
            except MALFORMED:
                due = -1
            if due != checked:
                self._lose(machine, key if _is_intact_key(machine, key, key_checked) else None, due, checked)
                continue
            read[machine] = read.get(machine, 0) + checked
            made[machine] = made.get(machine, 0) + checked
            yield new_row(DataRow, (machine, key, value))
            if not _is_intact_key(machine, key, key_checked):
                self.damaged[data_damage(machine, key)] = None

    def end(self, sums: Mapping[str, int]) -> None:
        """All rows were looked at; `sums` are what they should come to."""
        for machine, total in sums.items():
            is_whole = total in (self._read.get(machine, 0), self._made.get(machine, 0))
            if machine in self._nameless or not is_whole:
                self.lost.append((machine, None))
                self.damaged[data_damage(machine, None)] = None

    def _lose(self, machine: Any, key: str | None, due: int, checked: Any) -> None:
        self.damaged[data_damage(machine, key)] = None
        if key is None:
            self._nameless[machine] = None
        else:
            self.lost.append((machine, key))
        if isinstance(checked, int):
            self._read[machine] = self._read.get(machine, 0) + checked
        self._made[machine] = self._made.get(machine, 0) + due


def _is_intact_key(machine: Any, key: Any, key_checked: Any) -> bool:
    try:
        return bool(check_data_key(machine, key) == key_checked)
    except MALFORMED:
        return False


def readable_data(connection: sqlite3.Connection, look: DataLook) -> Iterator[Sequence[Any]]:
    """All rows in order. Where a page cannot be read, those before the first such page, and those behind the last."""
    last: tuple[Any, Any] | None = None
    try:
        for row in connection.execute(_ROWS):
            yield row
            last = row[0], row[1]
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        look.damaged[DamagedRow.of_page(DATA)] = None
        try:
            for row in connection.execute(_BACKWARDS):
                if last is not None and (row[0], row[1]) <= last:
                    return
                yield row
        except TypeError:  # a name of another type: what is missing, the sums tell
            return
        except sqlite3.DatabaseError as again:
            if not is_malformed(again):
                raise


def _parts(keys: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    left = iter(keys)
    while part := list(islice(left, INSERT_ROWS)):
        yield part
