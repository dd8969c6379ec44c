"""What a worker of the job `archive` does: read, and write files that may become part of an event table.

Knows: one task.  Does not know what is new, nor what is committed: a file counts when the driver says so.

Invariant: each attempt of a task writes files of its own, in order of node and tick, and tells of those that are whole
and durable; what it tells is what is in them.
"""

from __future__ import annotations

import os
import uuid
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from distkv.client.addresses import Address
from distkv.errors import NoSpaceError, StorageFailedError
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.columns import TABLE_FORM
from distkv.spark.folder import translated
from distkv.spark.hosts import Hosts
from distkv.spark.planning import Read
from distkv.spark.reading import Reading
from distkv.spark.rows import ValueForm
from distkv.spark.table import sync_file

GROUP_ROWS: Final = 100_000
GROUP_BYTES: Final = 64 << 20
"""A row group of a file ends when it has so much: what a task keeps in memory."""
_NOTHING: Final = (NodeName(""), 0)


@attrs.frozen
class Task:
    """What one worker reads and writes."""

    reads: tuple[Read, ...]
    folder: str
    """Where its files go, on a disk that driver and workers share."""
    addresses: tuple[Address, ...]
    path: Path


@attrs.frozen
class Part:
    """A file that a worker wrote."""

    place: str
    rows: int
    size_bytes: int
    ticks: TickRanges


def write(task: Task) -> list[Part | NoSpaceError | StorageFailedError]:
    """Read, and write what came; or why it could not be written, since Spark would try that again, and hide it."""
    hosts, files = Hosts(task.addresses), _Files(task.folder)
    try:
        with translated(task.folder):
            for read in task.reads:
                reading = Reading(read, ValueForm.BOTH)
                for page in reading.pages(lambda addr, ticks: hosts.pages(addr, ticks, task.path)):
                    files.add(read.node, page.ticks, page.batch)
            return [*files.finish()]
    except (NoSpaceError, StorageFailedError) as error:
        return [error]


class _Files:
    """One for a task; one more where rows come in another order, because a host failed and another one had more."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._parts: list[Part] = []
        self._batches: list[pa.RecordBatch] = []
        self._size = self._count = 0
        self._file: pq.ParquetWriter | None = None
        self._place = ""
        self._rows = 0
        self._ticks: TickRanges = {}
        self._last = _NOTHING

    def add(self, node: NodeName, ticks: Ranges, batch: pa.RecordBatch) -> None:
        """More rows, which rise among themselves."""
        if (node, next(iter(ticks))) < self._last:
            self._end_file()
        self._last = (node, ticks.last())
        self._ticks.setdefault(node, Ranges()).update(ticks)
        self._batches.append(batch.select(TABLE_FORM.columns.names))
        self._count += batch.num_rows
        self._size += batch.nbytes
        if self._count >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._end_group()

    def finish(self) -> list[Part]:
        """No more rows; what was written."""
        self._end_file()
        return self._parts

    def _end_group(self) -> None:
        if not self._batches:
            return
        if self._file is None:
            self._place = os.path.join(self._folder, f"{uuid.uuid4().hex}.parquet")
            self._file = pq.ParquetWriter(
                self._place, TABLE_FORM.schema, compression="zstd", write_page_checksum=True
            )
        table = pa.Table.from_batches(self._batches).cast(TABLE_FORM.schema)
        self._file.write_table(table, row_group_size=GROUP_ROWS)
        self._rows += self._count
        self._batches, self._count, self._size = [], 0, 0

    def _end_file(self) -> None:
        self._end_group()
        if self._file is not None:
            self._file.close()
            sync_file(self._place)
            self._parts.append(Part(self._place, self._rows, os.path.getsize(self._place), self._ticks))
        self._file, self._rows, self._ticks, self._last = None, 0, {}, _NOTHING
