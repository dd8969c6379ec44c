"""The job `import`: rows of files become values.

Knows: how Spark brings the rows of one path together, and what is done with the rejects.  Does not know what a row is
(`import_rows`), nor what stands in a file (`records`).

Files pass through the workers only: those read them, and Spark sends each row to the one task that writes its path. A
task has one connection; as many tasks as Spark runs at a time keep as many connections busy.

Invariant: each row is counted once; a row that was not written is `same`, or a reject with a reason.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from distkv.client.addresses import Address
from distkv.client.arguments import check_ttl
from distkv.errors import RequestError, SettingsError
from distkv.spark.importing.import_rows import Done, ImportRow, Wanted, lane, parse, write
from distkv.spark.importing.records import ImportForm, Piece, pieces_of
from distkv.spark.importing.templates import read_template
from distkv.spark.nodes.hosts import Hosts
from distkv.spark.places import check_empty, save

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen
class Imported:
    """What an import did; of a dry run, what it would do. `rows` is the sum of the other three."""

    rows: int
    written: int
    same: int
    """Rows whose path had the value already."""
    rejected: int
    seconds: float
    first_reject: str | None = None
    """FILE, line and reason; None: there is none."""


def import_files(
    spark: SparkSession,
    files: Sequence[str],
    form: ImportForm,
    to: str,
    addresses: Sequence[Address],
    *,
    value: str | None = None,
    columns: Sequence[str] = (),
    as_text: bool = False,
    ttl: float | None = None,
    rejects: str | None = None,
    dry_run: bool = False,
) -> Imported:
    """Write a value for each row of some files, unless it is there already.

    Args:
        spark: the session; its workers read the files, too.
        files: CSV with a header, an object of JSON in each line, or Parquet; all in one form.
        form: which.
        to: the path, in which a column in braces is a name: `site.{room}.{sensor}`.
        addresses: nodes, of which each task uses the first that takes its rows.
        value: the column that is the value; or instead
        columns: those of which the value is a map.
        as_text: what stands in CSV is text; else it is read as `distkv client set` reads a value.
        ttl: values go by themselves after so many seconds. All are written then, also those that are there already.
        rejects: a folder, empty or missing, for the rows that are none: JSON lines of file, line, reason and text.
        dry_run: write nothing, and count what would be done.

    Raises:
        SettingsError: an argument is none, or a file cannot be read, or lacks a column.
        UnreachableError, BusyError, NotReadyError, NoSpaceError: no node takes the rows. What was written stays.
    """
    from pyspark import StorageLevel

    begun = time.monotonic()
    wanted = _wanted(form, to, value, columns, as_text, ttl)
    if rejects is not None:
        check_empty(rejects)
    pieces = pieces_of([os.path.abspath(file) for file in files], form, wanted.all_columns)
    Hosts(addresses).views()
    outcomes = _outcomes(spark, pieces, files, wanted, addresses, dry_run=dry_run)
    if rejects is not None:
        outcomes.persist(StorageLevel.DISK_ONLY)  # who asks twice would have all done again
    try:
        done = _done(outcomes)
        written, same = sum(one.written for one in done), sum(one.same for one in done)
        rejected = sum(one.rejected for one in done)
        if rejected and rejects is not None:
            save(_shown_rejects(spark, outcomes, files), rejects, "json", {})
    finally:
        outcomes.unpersist()
    seconds = round(time.monotonic() - begun, 3)
    return Imported(written + same + rejected, written, same, rejected, seconds, _first_reject(done, files))


# -- inside -------------------------------------------------------------------------------------------------------


def _wanted(
    form: ImportForm, to: str, value: str | None, columns: Sequence[str], as_text: bool, ttl: float | None
) -> Wanted:
    if (value is None) == (not columns):
        raise SettingsError("say what the value is: either one column, or the columns of a map")
    if len(set(columns)) < len(columns) or "" in columns:
        raise SettingsError(f"the columns are {','.join(columns)!r}: name each once, with commas")
    if as_text and form is not ImportForm.CSV:
        raise SettingsError("that all is text can be said of CSV only: in other files values have their types")
    try:
        check_ttl(ttl)
    except RequestError as error:
        raise SettingsError(str(error)) from None
    return Wanted(form, read_template(to), value, tuple(columns), as_text, ttl)


def _outcomes(
    spark: SparkSession,
    pieces: Sequence[Piece],
    files: Sequence[str],
    wanted: Wanted,
    addresses: Sequence[Address],
    *,
    dry_run: bool,
) -> RDD[ImportRow | Done]:
    """Rejects, and what each task did; all is done when somebody asks for them.

    Not by way of data frames: to compile their queries takes Spark longer than all the rest of 50,000 rows.
    """
    context = spark.sparkContext
    rows = context.parallelize(pieces, max(1, len(pieces))).flatMap(partial(parse, wanted=wanted))
    lanes = rows.repartitionAndSortWithinPartitions(context.defaultParallelism, lane)
    return lanes.mapPartitions(partial(write, addresses=addresses, wanted=wanted, names=files, dry=dry_run))


def _done(outcomes: RDD[ImportRow | Done]) -> list[Done]:
    """What each task did.

    Raises:
        DistkvError: what ended one of them.
    """
    done = [one for one in outcomes.filter(_is_done).collect() if isinstance(one, Done)]
    for one in done:
        if one.error is not None:
            raise one.error
    return done


def _is_done(outcome: ImportRow | Done) -> bool:
    return isinstance(outcome, Done)


def _first_reject(done: Sequence[Done], files: Sequence[str]) -> str | None:
    found = [one.first for one in done if one.first is not None]
    first = min(found, key=lambda row: (row.file, row.line), default=None)
    return None if first is None else f"{files[first.file]}, line {first.line}: {first.reason}"


def _shown_rejects(spark: SparkSession, outcomes: RDD[ImportRow | Done], files: Sequence[str]) -> DataFrame:
    """In the order of the files, each with its name, as one file."""

    def shown(outcome: ImportRow | Done) -> list[tuple[object, ...]]:
        if isinstance(outcome, Done):
            return []
        return [(outcome.file, files[outcome.file], outcome.line, outcome.reason, outcome.text)]

    columns = "number int, file string, line long, reason string, text string"
    found = spark.createDataFrame(outcomes.flatMap(shown), columns)
    return found.repartition(1).sortWithinPartitions("number", "line").drop("number")
