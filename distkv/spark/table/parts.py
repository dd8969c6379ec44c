"""Data files that workers write, and how they become part of an event table.

Knows: the form of a file, the folder where it lies before it counts, and how a table takes it in.  Does not know where
its rows come from (`spark.writing`, `spark.table.merging`), nor whether it counts: a commit says so
(`spark.table.store`).

Invariant: each file is in order of node and tick; what is told of it is what is in it, and it is durable by then.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from distkv.errors import DistkvError
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.table.columns import FENCELESS_FORM, TABLE_FORM, form_of
from distkv.spark.table.folder import crc32_of, translated
from distkv.spark.table.manifest import PLAIN_FORM, DataFile
from distkv.spark.table.store import Table, sync_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS: Final = 250_000
"""A good size of a file."""
GROUP_ROWS: Final = 100_000
GROUP_BYTES: Final = 64 << 20
"""A row group of a file ends when it has so much: what a task keeps in memory."""
PARTS: Final = "parts"
"""The folder in the table's where files are before they are committed; nobody else's."""
_NOTHING: Final = ("", 0)

Task = TypeVar("Task")
Told = TypeVar("Told")


@attrs.frozen
class Part:
    """A file that a worker wrote."""

    place: str
    rows: int
    size_bytes: int
    ticks: TickRanges
    crc32: int
    """Of its bytes."""
    form: int = PLAIN_FORM
    """Of its columns."""


class PartWriter:
    """Writes the files of one task: one, and one more wherever rows begin below the last one, or need a newer form than
    that with which the file was begun."""

    def __init__(self, folder: str) -> None:
        """`folder` is on a disk that driver and workers share."""
        self._folder = folder
        self._parts: list[Part] = []
        self._batches: list[pa.RecordBatch] = []
        self._size = self._count = 0
        self._file: pq.ParquetWriter | None = None
        self._place = ""
        self._form = FENCELESS_FORM
        self._rows = 0
        self._ticks: TickRanges = {}
        self._last = _NOTHING

    def add(self, batch: pa.RecordBatch, ticks: TickRanges) -> None:
        """More rows, at least one, which rise among themselves; `ticks` are theirs.

        Raises:
            OSError: the disk is full, or refused something else.
        """
        form = form_of(batch)
        is_too_old = self._file is not None and self._form.number < form.number
        if _link(batch, 0) < self._last or is_too_old:
            self._end_file()
        self._form = max(self._form, form, key=lambda one: one.number)
        self._last = _link(batch, batch.num_rows - 1)
        for node, some in ticks.items():
            self._ticks.setdefault(node, Ranges()).update(some)
        self._batches.append(batch.select(TABLE_FORM.columns.names))
        self._count += batch.num_rows
        self._size += batch.nbytes
        if self._count >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._end_group()

    def finish(self) -> list[Part]:
        """No more rows; what was written, and is durable.

        Raises:
            OSError: see `add`.
        """
        self._end_file()
        return self._parts

    def _end_group(self) -> None:
        if not self._batches:
            return
        if self._file is None:
            # Each attempt of a task writes a file of its own: another one may be under way.
            self._place = os.path.join(self._folder, f"{uuid.uuid4().hex}.parquet")
            self._file = pq.ParquetWriter(
                self._place, self._form.schema, compression="zstd", write_page_checksum=True
            )
        schema = self._form.schema
        table = pa.Table.from_batches(self._batches).select(schema.names).cast(schema)
        self._file.write_table(table, row_group_size=GROUP_ROWS)
        self._rows += self._count
        self._batches, self._count, self._size = [], 0, 0

    def _end_file(self) -> None:
        self._end_group()
        if self._file is not None:
            self._file.close()
            sync_file(self._place)
            size = os.path.getsize(self._place)
            told = self._rows, size, self._ticks, crc32_of(self._place), self._form.number
            self._parts.append(Part(self._place, *told))
        self._form = FENCELESS_FORM
        self._file, self._rows, self._ticks, self._last = None, 0, {}, _NOTHING


@contextmanager
def parts_folder(table: Table) -> Iterator[str]:
    """Where the workers of one job write; it goes with all that was not taken in, also what a killed run left.

    Raises:
        NoSpaceError, StorageFailedError: there can be no such folder.
    """
    place = os.path.join(table.directory, PARTS)
    shutil.rmtree(place, ignore_errors=True)
    with translated(place):
        os.makedirs(place, exist_ok=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def work_out(
    spark: SparkSession, work: Callable[[Task], Sequence[Told | DistkvError]], tasks: Sequence[Task]
) -> list[Told]:
    """What workers tell of these tasks, in their order.

    Raises:
        DistkvError: one of them told it. Would it raise it, Spark would try again, and hide it.
    """
    if not tasks:
        return []
    found: list[Told] = []
    for one in spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(work).collect():
        if isinstance(one, DistkvError):
            raise one
        found.append(one)
    return found


def taken_in(table: Table, parts: Sequence[Part]) -> list[DataFile]:
    """Files of the next commit: their content is moved to where the commit looks for it.

    Raises:
        NoSpaceError, StorageFailedError: the disk; the next `open_table` removes what was moved.
        ValueError: they are more than a commit can have.
    """
    found = []
    for number, part in enumerate(parts):
        name = table.new_name(number)
        with translated(part.place):
            os.rename(part.place, table.new_place(name))
        found.append(DataFile(name, part.rows, part.size_bytes, part.ticks, part.crc32))
    return found


def newest_form(parts: Sequence[Part]) -> int:
    """The newest form of events that one of these has."""
    return max((part.form for part in parts), default=PLAIN_FORM)


# -- inside -------------------------------------------------------------------------------------------------------


def _link(batch: pa.RecordBatch, at: int) -> tuple[str, int]:
    return batch.column("node")[at].as_py(), batch.column("tick")[at].as_py()
