"""Questions about the history: one path, one time, one writer, all that came since.

Knows: which index finds a row, and what must be true of an answer so that nothing is missing in it.  Does not know how
rows come (`archive`), nor how damage is mended.

A page that is as it was before, as after a write that the disk lost, takes rows with it, and each row that is left
checks. So before the first answer the rows are counted, in the table and in each index.

Invariant: an answer has every row that belongs to it, or is refused, or what is missing was found damaged and told.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from typing import Any

from distkv.errors import DamagedError
from distkv.storage.archive_connection import connect_reader, translated
from distkv.storage.archive_damage import NOT_CERTAIN, DamageList
from distkv.storage.archive_rows import (
    CHANGE_COLUMNS,
    HISTORY_COLUMNS,
    DamagedRow,
    HistoryRow,
    SettledUpTo,
    checked_changes,
    history_damage,
    is_intact_history,
)
from distkv.storage.archive_salvage import is_malformed, readable_history
from distkv.storage.archive_scrub import count_damage

_REFUSED = "some of this node's history cannot be read: ask another node, or run 'distkv client scrub' here"


class History:
    """Of one archive. All calls block, and may come from any thread; they wait for one another.

    All questions may raise what `open_archive` does, and DamagedError: what belongs into the answer cannot be read.
    """

    def __init__(
        self, path: str, reader: sqlite3.Connection, damage: DamageList, progress: Callable[[], SettledUpTo]
    ) -> None:
        self._path = path
        self._reader = reader
        self._reading = threading.Lock()
        self._damage = damage
        self._progress = progress
        self._is_counted = False

    def of_path(self, path: bytes, limit: int, before_lsn: int | None = None) -> list[HistoryRow]:
        """The rows of a path, the newest first; from `before_lsn` on backwards, to go on behind a last row."""
        return self._rows(
            "INDEXED BY history_by_path WHERE path = ? AND lsn < ? ORDER BY lsn DESC LIMIT ?",
            (path, self._progress().settled_lsn if before_lsn is None else before_lsn, limit),
        )

    def latest_at(self, path: bytes, arrived: float) -> HistoryRow | None:
        """The last row that gave a path another value among those that had arrived at a time.

        The index finds it at once. That the index has no other row is seen by a look at all rows behind that one: some
        100 ms for a million. A page that rotted there would else make an older value of it. Rows before it that arrived
        later are there only if the clock stepped back, or if they were put there by damage.

        Raises:
            DamagedError: a row that does not check, or that the index leads past, may be a later one.
        """
        end = self._progress().settled_lsn
        led = self._fetch(
            f"SELECT {HISTORY_COLUMNS} FROM (SELECT lsn FROM history INDEXED BY history_by_path"
            " WHERE path = ? AND lsn < ? AND arrived <= ? AND won ORDER BY lsn DESC LIMIT 1)"
            " LEFT JOIN history USING (lsn)",
            (path, end, arrived),
        )
        found = next(map(self.checked, led), None)
        if found is not None and not (found.path == path and found.arrived <= arrived and found.won):
            self._damage.note(DamagedRow(f"history, what leads to row {found.lsn}", path, found.lsn))
            found = None
        last = -1 if found is None else found.lsn
        missed = self._fetch(
            "SELECT lsn FROM history NOT INDEXED"
            " WHERE lsn > ? AND lsn < ? AND path = ? AND arrived <= ? AND won LIMIT 1",
            (last, end, path, arrived),
        )
        for (lsn,) in missed:
            self._damage.note(DamagedRow(f"history, what leads to row {lsn}", path, lsn))
        self._damage.check_certain(path, last)
        if found is not None and not self._are_intact_before(found, arrived):
            raise DamagedError(NOT_CERTAIN)
        return found

    def earliest(self) -> float | None:
        """When the first row came; None: there is none, or nobody can read when."""
        rows = self._rows("INDEXED BY history_by_arrival ORDER BY arrived LIMIT 1", ())
        return rows[0].arrived if rows else None

    def by_ticks(self, node: str, begin: int, end: int, limit: int) -> list[HistoryRow]:
        """The rows of a node's ticks from `begin` up to, not including, `end`, in order of tick."""
        return self._rows(
            "INDEXED BY history_by_tick WHERE node = ? AND tick >= ? AND tick < ? ORDER BY tick, lsn LIMIT ?",
            (node, begin, end, limit),
        )

    def stretch(
        self, node: str, begin: int, end: int, count_max: int, size_max: int
    ) -> tuple[list[HistoryRow], int]:
        """As `by_ticks`, until there are so many, or records of so many bytes; and the tick up to which that is all."""
        found: list[HistoryRow] = []
        size = 0
        query = f"SELECT {CHANGE_COLUMNS} FROM history INDEXED BY history_by_tick"
        query += " WHERE node = ? AND tick >= ? AND tick < ? ORDER BY tick, lsn"
        with self._asking() as reader, closing(reader.execute(query, (node, begin, end))) as rows:
            for row, is_intact in checked_changes(node, rows):
                if not (is_intact and begin <= row.tick < end):
                    self._damage.note(history_damage(row))
                    continue
                found.append(row)
                size += len(row.record)
                if len(found) >= count_max or size >= size_max:
                    return found, row.tick + 1
        return found, end

    def ticks(self, node: str, begin: int, end: int) -> list[int]:
        """The ticks of a node that have a row, from `begin` up to, not including, `end`; rising. A row of which it is
        known that it does not check is none."""
        query = "SELECT tick, lsn FROM history INDEXED BY history_by_tick WHERE node = ? AND tick >= ? AND tick < ?"
        damaged = self._damage.history_rows
        return [tick for tick, lsn in self._fetch(f"{query} ORDER BY tick", (node, begin, end)) if lsn not in damaged]

    @property
    def begin(self) -> int:
        """From this lsn on nothing was removed, nor found damaged."""
        return max(self._progress().history_from, self._damage.history_end)

    def won_since(self, lsn: int, limit: int) -> list[HistoryRow]:
        """The rows from `lsn` on that gave their path another value, the oldest first."""
        rows = self._rows("WHERE lsn >= ? AND won ORDER BY lsn LIMIT ?", (lsn, limit))
        for before, row in pairwise(rows):
            if row.lsn <= before.lsn:  # a page stands where another one belongs: which rows that one had, nobody knows
                self._damage.note(DamagedRow(f"history, rows behind row {before.lsn}", None, max(row.lsn, before.lsn)))
        return rows

    def rows(self) -> Iterator[HistoryRow]:
        """Every row that can be read, as of when the first one was asked for; in order, unless pages are in none."""
        with translated(self._path), closing(connect_reader(self._path)) as connection:
            with suppress(sqlite3.DatabaseError):  # that is met again
                self._note(count_damage(connection))
            connection.execute("BEGIN")
            rows = readable_history(connection, self._progress().settled_lsn, self._damage.note)
            yield from (row for row in map(self.checked, rows) if row is not None)

    def checked(self, columns: Sequence[Any]) -> HistoryRow | None:
        """A row as it was written, from its columns; None when it is not that any more, which is told."""
        row, checked = HistoryRow(*columns[:-1])._replace(won=columns[-2] != 0), columns[-1]
        if is_intact_history(row, checked):
            return row
        self._damage.note(history_damage(row))
        return None

    def renewed(self) -> None:
        """What is left was written anew: from now on it is all that there is."""
        self._is_counted = True

    def close(self) -> None:
        """Nothing more is asked."""
        self._reader.close()

    # -- inside

    def _are_intact_before(self, found: HistoryRow, arrived: float) -> bool:
        """Whether the rows of its path check that stand before a row and arrived after it, up to a time."""
        later = self._fetch(
            "SELECT lsn FROM history INDEXED BY history_by_path"
            " WHERE path = ? AND lsn < ? AND arrived > ? AND arrived <= ?",
            (found.path, found.lsn, found.arrived, arrived),
        )
        return all(self._rows("WHERE lsn = ?", place) for place in later)

    def _rows(self, rest: str, values: Sequence[object]) -> list[HistoryRow]:
        rows = self._fetch(f"SELECT {HISTORY_COLUMNS} FROM history {rest}", values)
        return [row for row in map(self.checked, rows) if row is not None]

    def _fetch(self, query: str, values: Sequence[object]) -> list[Any]:
        with self._asking() as reader:
            return reader.execute(query, values).fetchall()

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        with translated(self._path):
            try:
                with self._reading:
                    self._count()
                    yield self._reader
            except sqlite3.DatabaseError as error:
                if not is_malformed(error):
                    raise
                self._damage.note(DamagedRow.of_page("history"))
                raise DamagedError(_REFUSED) from error

    def _count(self) -> None:
        """Once: what rots later, a scrub finds."""
        if self._is_counted:
            return
        if self._note(count_damage(self._reader)):
            raise DamagedError(_REFUSED)
        self._is_counted = True

    def _note(self, damage: DamagedRow | None) -> bool:
        if damage is not None:
            self._damage.note(damage)
        return damage is not None
