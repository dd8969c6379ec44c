"""The job `compact`: few files instead of many, and without what was overwritten long ago, if that is wished.

Knows: which files are worth to be merged, and in which steps a table is made smaller.  Does not know how files are
merged (`spark.table.merging`), which events may be dropped (`spark.forgetting`), nor how a commit becomes whole
(`table`).

A file is small below half of the size that is aimed at. Only small ones are merged, in the order of their commits, as
many as fit into one; so all but the last file that comes of it are no longer small, and are never read again.

Invariant: the table has the same events after it, each once; fewer only by those that `forget` drops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import escape, glob
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow.parquet as pq

from distkv.errors import SettingsError
from distkv.model.event import NodeName, Tick, Writer
from distkv.spark.asof import in_order
from distkv.spark.forgetting import DROPPED, FILE, ROW_COLUMNS, Settled, forgetter, settled
from distkv.spark.table.contents import read_events
from distkv.spark.table.folder import translated
from distkv.spark.table.manifest import EVENTS_FOLDER, PART_MAX, DataFile
from distkv.spark.table.merging import Merge, Merged, Source, merge
from distkv.spark.table.parts import FILE_ROWS, newest_form, parts_folder, taken_in, work_out
from distkv.spark.table.store import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_ROWS_MAX: Final = 1_000_000
"""So many are sorted in memory by one worker, if they are not large."""
FILE_BYTES: Final = 128 << 20
"""A good size of a file whose rows are large: what Spark reads as one piece."""
KEEP_S: Final = 3600.0
ROUND_TASKS: Final = 4
"""So many for each worker are carried out before progress is told."""

Tell = Callable[[int, int], None]
"""How far it is: events that were read and written again, of so many."""


@attrs.frozen
class Compacted:
    """What it did."""

    files_before: int
    files: int
    """As many as before, and nothing forgotten: nothing was changed."""
    rows: int
    """Events that the table has now."""
    forgotten: int
    """Events that it has no longer."""


def compact(
    spark: SparkSession,
    directory: str,
    *,
    rows: int = FILE_ROWS,
    forget: float | None = None,
    keep_s: float = KEEP_S,
    tell: Tell = lambda _done, _all: None,
) -> Compacted:
    """Merge the small files of an event table into files of about `rows` events.

    Args:
        spark: the session.
        directory: the event table.
        rows: how many events a file is to have, up to `FILE_ROWS_MAX`.
        forget: drop also what was overwritten up to this time, in seconds since 1970, by the clocks of the nodes that
            wrote. The tree as of any later cut stays what it is; earlier cuts are refused from then on.
        keep_s: so long the files that are replaced are kept for those who read them.
        tell: how far it is.

    Raises:
        SettingsError: `rows` is out of range, or `forget` is still to come.
        WrongDirectoryError, BusyError, FormatVersionError, LogDamagedError: the folder is none that can be used now, or
            a file has not what the manifest says; nothing was changed.
        NoSpaceError, StorageFailedError: the disk; of a large table some files may be merged already, each whole.
    """
    if not 0 < rows <= FILE_ROWS_MAX:
        raise SettingsError(f"a file cannot have {rows} rows: choose 1 to {FILE_ROWS_MAX}")
    if forget is not None and forget > time.time():
        raise SettingsError("what is to be forgotten must be past: name an earlier time")
    with open_table(directory, network=None) as table, parts_folder(table) as parts:
        before = table.manifest
        dropped = {} if forget is None else _dropped(spark, table, parts, forget)
        with translated(parts):
            groups = chosen(before.files, _counts(dropped), rows)
        _Compaction(spark, table, parts, dropped, forget, keep_s, tell).carry_out(groups)
        after = table.manifest
    return Compacted(len(before.files), len(after.files), after.rows, before.rows - after.rows)


def chosen(files: Sequence[DataFile], dropped: Mapping[str, int], rows: int) -> list[tuple[DataFile, ...]]:
    """Which files are read together, and written again as one; `dropped` says how many rows go, by the file's name."""
    groups: list[list[DataFile]] = []
    alone: list[tuple[DataFile, ...]] = []
    room_rows = room_bytes = 0
    for file in files:
        left = file.rows - dropped.get(file.name, 0)
        size = file.size_bytes * left // file.rows
        if 2 * left >= rows or 2 * size >= FILE_BYTES:
            if file.name in dropped:
                alone.append((file,))
            continue
        if not groups or left > room_rows or size > room_bytes:
            groups.append([])
            room_rows, room_bytes = rows, FILE_BYTES
        groups[-1].append(file)
        room_rows -= left
        room_bytes -= size
    merged = [tuple(some) for some in groups if len(some) > 1 or some[0].name in dropped]
    return sorted(alone + merged, key=lambda group: group[0].name)


# -- a run --------------------------------------------------------------------------------------------------------


@attrs.define
class _Compaction:
    """From what was chosen to the last commit."""

    _spark: SparkSession
    _table: Table
    _parts: str
    _dropped: Mapping[str, tuple[str, ...]]
    _forget: float | None
    _keep_s: float
    _tell: Tell

    def carry_out(self, groups: Sequence[tuple[DataFile, ...]]) -> None:
        """One commit, when its files have names enough; nothing, when nothing is gained."""
        tasks = [Merge(tuple(map(self._source, group)), self._parts) for group in groups]
        waiting: list[Merged] = []
        for merged in self._merged(tasks):
            if len(merged.parts) >= len(merged.names) and not self._dropped.keys() & set(merged.names):
                continue  # their rows are so large that they were not sorted at once
            if sum(len(one.parts) for one in [*waiting, merged]) > PART_MAX:
                self._commit(waiting)
                waiting = []
            waiting.append(merged)
        if waiting:
            self._commit(waiting)

    def _source(self, file: DataFile) -> Source:
        return Source(file, os.path.join(self._table.directory, file.name), self._dropped.get(file.name, ()))

    def _merged(self, tasks: Sequence[Merge]) -> Iterator[Merged]:
        size = ROUND_TASKS * self._spark.sparkContext.defaultParallelism
        done, rows = 0, [sum(source.file.rows for source in task.sources) for task in tasks]
        for at in range(0, len(tasks), size):
            yield from work_out(self._spark, merge, tasks[at : at + size])
            done += sum(rows[at : at + size])
            self._tell(done, sum(rows))

    def _commit(self, merged: Sequence[Merged]) -> None:
        table = self._table
        names = [name for one in merged for name in one.names]
        manifest = table.manifest
        parts = [part for one in merged for part in one.parts]
        table.commit(
            taken_in(table, parts),
            names,
            ticks=manifest.ticks,
            gaps=manifest.gaps,
            forgotten=self._forget if self._dropped else None,
            form=newest_form(parts),
            keep_s=self._keep_s,
        )


# -- what is forgotten --------------------------------------------------------------------------------------------


def _dropped(spark: SparkSession, table: Table, parts: str, forget: float) -> dict[str, tuple[str, ...]]:
    """Find what may be dropped; by the name of a data file the files in which its rows are named."""
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import from_arrow_schema

    manifest = table.manifest
    if not manifest.files:
        return {}
    events = read_events(spark, table).withColumn(FILE, sql.col("_metadata.file_name"))
    known = settled(manifest.ticks, _first_later(events, forget))
    old = in_order(spark, events.where(sql.col("time_s") <= forget), ROW_COLUMNS)
    found = old.mapInArrow(forgetter(known), from_arrow_schema(DROPPED))
    folder = os.path.join(parts, "dropped")
    found.repartition(FILE).write.partitionBy(FILE).parquet(folder)
    with translated(folder):
        names = [name for name in os.listdir(folder) if name.startswith(f"{FILE}=")]
        return {
            f"{EVENTS_FOLDER}/{name.partition('=')[2]}": tuple(glob(f"{escape(os.path.join(folder, name))}/*.parquet"))
            for name in names
        }


def _first_later(events: DataFrame, time_s: float) -> Settled:
    """The first tick of each writer that was written after a time."""
    from pyspark.sql import functions as sql

    life = sql.shiftright("tick", 32).alias("life")
    is_later = sql.col("time_s").isNull() | (sql.col("time_s") > time_s)
    found = events.where(is_later).groupBy("node", life).agg(sql.min("tick").alias("first"))
    return {_writer(row["node"], row["life"]): Tick(row["first"]) for row in found.collect()}


def _writer(node: str, life: int) -> Writer:
    return NodeName(node), life


def _counts(dropped: Mapping[str, Sequence[str]]) -> dict[str, int]:
    return {name: sum(pq.read_metadata(place).num_rows for place in places) for name, places in dropped.items()}
