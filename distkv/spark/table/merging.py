"""What a worker of the job `compact` does: some data files become one that has their rows, in order.

Knows: how rows are checked against what the manifest says of their file, and sorted in bounded memory.  Does not know
which files are merged (`spark.compact`), nor why a row is left out (`spark.forgetting`).

Invariant: what is told was made of files that had exactly the rows that they should have; else only that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distkv.errors import FormatVersionError, LogDamagedError, NoSpaceError, StorageFailedError
from distkv.model.tick_ranges import TickRanges, joined, without
from distkv.spark.table.columns import TABLE_FORM
from distkv.spark.table.contents import LINK, ticks_of, whole_batches
from distkv.spark.table.folder import translated
from distkv.spark.table.manifest import DataFile
from distkv.spark.table.parts import Part, PartWriter

MERGE_BYTES: Final = 512 << 20
"""So much of files, as Arrow has it in memory, is sorted at once. What comes then goes into a further file."""
BATCH_BYTES: Final = 8 << 20
"""So much is given to the writer at once, which ends a row group when it has enough."""


@attrs.frozen
class Source:
    """A file that is superseded."""

    file: DataFile
    place: str
    dropped: tuple[str, ...] = ()
    """Parquet files with the node and tick of each row that is left out."""


@attrs.frozen
class Merge:
    """What one worker reads and writes."""

    sources: tuple[Source, ...]
    folder: str
    """Where its files go, on a disk that driver and workers share."""
    bytes_max: int = MERGE_BYTES


@attrs.frozen
class Merged:
    """What is there in the place of some files: one file, nearly always; none, when all rows were left out."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]


Failure = NoSpaceError | StorageFailedError | LogDamagedError | FormatVersionError


def merge(task: Merge) -> list[Merged | Failure]:
    """Read, and write what is to stay; or why that cannot be, since Spark would try it again, and hide it."""
    writer = PartWriter(task.folder)
    try:
        with translated(task.folder):
            loaded: list[pa.RecordBatch] = []
            size = 0
            for source in task.sources:
                for batch in _left(whole_batches(source.file, source.place), source.dropped):
                    loaded.append(batch)
                    size += batch.nbytes
                    if size > task.bytes_max:
                        _write(loaded, writer)
                        loaded, size = [], 0
            _write(loaded, writer)
            return [Merged(tuple(one.file.name for one in task.sources), _with_all_ticks(task, writer.finish()))]
    except (NoSpaceError, StorageFailedError, LogDamagedError, FormatVersionError) as error:
        return [error]


# -- inside -------------------------------------------------------------------------------------------------------


def _left(batches: Iterable[pa.RecordBatch], dropped: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows that stay."""
    gone: dict[str, Any] = {}
    for place in dropped:
        for node, ticks in _by_node(pq.read_table(place, columns=list(LINK), partitioning=None)):
            gone[node] = pa.concat_arrays([gone[node], ticks]) if node in gone else ticks
    for batch in batches:
        if gone:
            batch = batch.filter(pc.invert(_is_in(batch, gone)))
        if batch.num_rows:
            yield batch


def _by_node(links: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    for node in pc.unique(links["node"]).to_pylist():
        yield node, links.filter(pc.equal(links["node"], node))["tick"].combine_chunks()


def _is_in(batch: pa.RecordBatch, links: dict[str, Any]) -> pa.Array:
    found = pa.array([False] * batch.num_rows)
    for node, ticks in links.items():
        is_its = pc.equal(batch.column("node"), node)
        found = pc.or_(found, pc.and_(is_its, pc.is_in(batch.column("tick"), ticks)))
    return found


def _write(loaded: list[pa.RecordBatch], writer: PartWriter) -> None:
    """Rows of several files, in order."""
    if not loaded:
        return
    table = pa.Table.from_batches(loaded, TABLE_FORM.columns).combine_chunks()
    some = max(1, table.num_rows * BATCH_BYTES // max(1, table.nbytes))
    for batch in table.sort_by([(name, "ascending") for name in LINK]).to_batches(some):
        writer.add(batch, ticks_of(batch))


def _with_all_ticks(task: Merge, parts: list[Part]) -> tuple[Part, ...]:
    """The files have all ticks that those had which they supersede, also those of rows that are left out: ranges stay
    whole, and the manifest small."""
    if not parts:
        return ()
    others: TickRanges = {}
    for source in task.sources:
        others = joined(others, source.file.ticks)
    for part in parts[:-1]:
        others = without(others, part.ticks)
    return (*parts[:-1], attrs.evolve(parts[-1], ticks=joined(others, parts[-1].ticks)))
