"""The values of the archive on their way into a node that starts, and which of them a failure is about.

Knows: which row was handed over last, and which rows are left out.  Does not know what becomes of a value.

Invariant: a row that is left out counts as damaged: it is named, and its value is lost (docs/protocol, ASIDE-8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import Final, Protocol

from distkv.model.entry import Entry
from distkv.storage.archive import Archive
from distkv.storage.archive_rows import DamagedRow, StateRow
from distkv.wire.states import decode_entry

DECODE_ROWS: Final = 256


class RowsAside(Protocol):
    """Which rows failed before: `engine.asides.AsideKeeper`."""

    @property
    def has_rows(self) -> bool:
        """Whether any is left out."""

    def is_row_left_out(self, path: bytes) -> bool:
        """Whether this one is."""

    def row_failed(self, path: bytes, error: Exception) -> None:
        """It could not be loaded, and the start ends."""

    def rows_loaded(self) -> None:
        """All others were: those that are left out are damage from now on, which the archive remembers."""


class ArchivedRows:
    """Those of one start."""

    def __init__(self, archive: Archive, aside: RowsAside | None) -> None:
        self._archive: Final = archive
        self._aside: Final = aside
        self._part: Sequence[StateRow] = ()
        self._entries: Iterator[Entry] | None = None
        """Of the part what was not handed over yet; None: it is being decoded."""

    def entries(self) -> Iterator[Entry]:
        """All of them, some at a time: one by one they take a fifth longer, because each step drives the others out of
        the cache."""
        rows = self._kept()
        while part := list(islice(rows, DECODE_ROWS)):
            self._part, self._entries = part, None
            self._entries = iter([decode_entry(row.entry) for row in part])
            yield from self._entries
        self._part, self._entries = (), iter(())

    def failed(self, error: Exception) -> bool:
        """Whoever took them failed, or could not be given one: remember which row that was about; False: about none."""
        row = self._last()
        if row is not None and self._aside is not None:
            self._aside.row_failed(row.path, error)
        return row is not None

    def loaded(self) -> None:
        """All were taken."""
        if self._aside is not None and self._aside.has_rows:
            self._aside.rows_loaded()

    # -- inside

    def _kept(self) -> Iterator[StateRow]:
        aside = self._aside
        if aside is None or not aside.has_rows:
            yield from self._archive.load()
            return
        for row in self._archive.load():
            if aside.is_row_left_out(row.path):
                self._archive.leave_out(DamagedRow.of_value(row.path))
            else:
                yield row

    def _last(self) -> StateRow | None:
        if self._entries is not None:
            return self._part[len(self._part) - length_hint(self._entries) - 1] if self._part else None
        for row in self._part:
            try:
                decode_entry(row.entry)
            except Exception:  # whatever it is, it was this one
                return row
        return None
