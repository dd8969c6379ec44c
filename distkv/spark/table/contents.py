"""What is in data files: their rows in Spark, and their ticks beside those that the manifest gives them.

Knows: how Spark reads the files of a table, and when the rows of one are those that it should have.  Does not know who
reads them, nor why.

Invariant: what is judged whole has exactly the rows that the manifest says, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count, without
from distkv.spark.table.columns import TABLE_FORM, damaged, read_batches
from distkv.spark.table.folder import crc32_of, translated
from distkv.spark.table.manifest import DataFile
from distkv.spark.table.parts import work_out
from distkv.spark.table.snapshot import Snapshot
from distkv.spark.table.store import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_EACH: Final = 4
"""Tasks for each core, since files are of any size."""
LINK: Final = ("node", "tick")
SHOWN_CHARS: Final = 200
"""So much of ticks is told."""
_PATTERN_CHARS: Final = str.maketrans({char: f"\\{char}" for char in "\\*?[]{}"})
"""Spark takes the name of a file for a pattern."""
_CHECKED: Final = "parquet.page.verify-checksum.enabled"


def read_events(spark: SparkSession, table: Table | Snapshot) -> DataFrame:
    """The rows of a table, each of whose files is looked at first.

    Raises:
        LogDamagedError: a file is not as it was written.
        FormatVersionError: a newer release wrote it.
        StorageFailedError: it cannot be read.
    """
    files = [(file, table.place_of(file)) for file in table.manifest.files]
    tasks = min(len(files), TASKS_EACH * spark.sparkContext.defaultParallelism)
    work_out(spark, _faults, [files[at::tasks] for at in range(tasks)])
    return read_files(spark, [place for _, place in files])


def read_files(spark: SparkSession, files: list[str]) -> DataFrame:
    """The rows of some files; an action on them fails where a page of a file is damaged."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(TABLE_FORM.columns)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option(_CHECKED, "true")  # a byte that rotted fails, else it is a wrong value
    return reader.parquet(*(file.translate(_PATTERN_CHARS) for file in files))


def few(ticks: TickRanges) -> str:
    """Ticks for a message: all of them, or the first `SHOWN_CHARS` characters."""
    shown = ", ".join(f"{node} {some.to_list()}" for node, some in sorted(ticks.items()))
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]} ..."


def settled_line(gaps: TickRanges) -> str:
    """How a result names the gaps that somebody settled."""
    return f"not known: {count(gaps)} changes whose content is gone, as was settled: {few(gaps)}"


def ticks_of(batch: pa.RecordBatch) -> TickRanges:
    """The ticks of rows, each once; of those that have a node and a tick."""
    contents = Contents()
    contents.add(batch)
    return contents.ticks


def check_whole(file: DataFile, place: str) -> None:
    """Whether a file is as it was written: by its checksum, or, when it has none, by its rows.

    Raises:
        LogDamagedError, FormatVersionError, StorageFailedError: see `read_events`.
    """
    if file.crc32 is None:
        for _ in whole_batches(file, place, LINK):
            pass
    elif fault := other_bytes(file, place):
        raise damaged(place, fault)


def whole_batches(file: DataFile, place: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in the present form; `columns`: only these, node and tick among them.

    Raises:
        LogDamagedError: they are not those which the manifest says, which may be seen at the end only; or it is no
            whole Parquet file.
        FormatVersionError: a newer release wrote it.
        StorageFailedError: it cannot be read.
    """
    if fault := other_bytes(file, place):
        raise damaged(place, fault)
    contents = Contents()
    for batch in read_batches(place, columns):
        contents.add(batch)
        yield batch
    if fault := contents.fault(file):
        raise damaged(place, fault)


def other_bytes(file: DataFile, place: str) -> str | None:
    """How the bytes of a file are others than those that were written; None: they are those, or nobody knows.

    Raises:
        StorageFailedError: it cannot be read.
    """
    if file.crc32 is None:
        return None
    with translated(place):
        found = crc32_of(place)
    return None if found == file.crc32 else f"its checksum is {found:08x} instead of {file.crc32:08x}"


@attrs.define
class Contents:
    """The rows of one file, as they are read."""

    rows: int = 0
    ticks: TickRanges = attrs.field(factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """More rows. Their ticks come in runs, so what is done for each is done for a run."""
        self.rows += batch.num_rows
        nodes, ticks = batch.column("node"), batch.column("tick")
        if nodes.null_count or ticks.null_count:
            is_named = pc.and_(nodes.is_valid(), ticks.is_valid())
            nodes, ticks = nodes.filter(is_named), ticks.filter(is_named)
        if not len(nodes):
            return
        codes = nodes.dictionary_encode()
        numbers, of = ticks.to_numpy(), codes.indices.to_numpy()
        ends = [*((numbers[1:] != numbers[:-1] + 1) | (of[1:] != of[:-1])).nonzero()[0].tolist(), len(numbers) - 1]
        names, begin = codes.dictionary.to_pylist(), 0
        for end in ends:
            ranges = self.ticks.setdefault(NodeName(names[of[begin]]), Ranges())
            ranges.add_range(int(numbers[begin]), int(numbers[end]) + 1)
            begin = end + 1

    def others(self, file: DataFile) -> TickRanges:
        """Ticks that the manifest does not give to this file."""
        return without(self.ticks, file.ticks)

    @property
    def are_each_once(self) -> bool:
        """Whether each row has a tick, and none has that of another."""
        return self.rows == count(self.ticks)

    def fault(self, file: DataFile) -> str | None:
        """How the rows are others than the manifest says; None: they are those.

        A file may have fewer rows than ticks: where changes were forgotten, and in a table of one path.
        """
        if others := self.others(file):
            return f"it has changes that the manifest does not give it: {few(others)}"
        if self.rows != file.rows:
            return f"it has {self.rows} rows instead of {file.rows}"
        return None if self.are_each_once else "it has a change twice, or one without its tick"


def _faults(files: Sequence[tuple[DataFile, str]]) -> list[DistkvError]:
    """What is wrong with the first file that is not as it was written."""
    try:
        for file, place in files:
            check_whole(file, place)
    except DistkvError as error:
        return [error]
    return []
