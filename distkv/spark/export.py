"""The job `export`: a tree as files that other programs read.

Knows: the two columns, and how each form is written so that every path and value comes back as it was.  Does not know
how a tree is found (`spark.asof`, a node), nor how files are written, which Spark does.

Invariant: a folder that has something in it is left as it is; a value is the JSON text that the command prints.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from distkv.client.addresses import Address
from distkv.client.blocking import Client
from distkv.errors import SettingsError
from distkv.model.path import ROOT, Path
from distkv.spark.asof import Cut, entries_of, open_cut
from distkv.spark.places import check_empty, save
from distkv.wire.json_form import packed_to_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = pa.schema([("path", pa.string()), ("value", pa.string())])
CHUNK_ROWS: Final = 10_000


class ExportForm(enum.Enum):
    """How files are written. `csv` has a header, quotes every field, and doubles quotes within."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_OPTIONS: Final = {
    # Spark's own way of CSV trims fields and puts backslashes before quotes, which other readers take for text.
    ExportForm.CSV: {
        "header": "true", "quoteAll": "true", "escape": '"',
        "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false",
    },
    ExportForm.JSON: {},
    ExportForm.PARQUET: {},
}  # fmt: skip


@attrs.frozen
class Exported:
    """What an export did."""

    rows: int
    unknown: tuple[str, ...] = ()
    """What of the moment could not be known, in lines."""


def export(
    spark: SparkSession,
    directory_to: str,
    form: ExportForm,
    *,
    addresses: Sequence[Address] | None = None,
    table: str | None = None,
    cut: Cut | None = None,
    path: Path = ROOT,
    allow_gaps: bool = False,
) -> Exported:
    """Write the values at and below `path` as files of the columns `path` and `value`, into a folder.

    Args:
        spark: the session.
        directory_to: a folder that is empty or missing; Spark writes there, a file for each task.
        form: how.
        addresses: the live tree, of the first node that answers; it passes through the driver's memory.
        table: instead, the tree as of a cut, of this event table.
        cut: which; None: all that the table has.
        path: only what is there and below. The paths that are written are whole all the same.
        allow_gaps: also when the table lacks events of the cut.

    Raises:
        SettingsError: the folder has something in it; or not exactly one of `addresses` and `table` is given; or see
            `asof.open_cut`.
        UnreachableError: no node answers, or the one that did is gone.
        WrongDirectoryError, FormatVersionError, LogDamagedError: the table is none that can be used now.
    """
    if (addresses is None) == (table is None) or (cut is not None and table is None):
        raise SettingsError("an export is of the live tree or of a table: name hosts, or a table and a cut of it")
    check_empty(directory_to)
    if addresses is not None:
        live = _live(addresses, path)
        save(spark.createDataFrame(live), directory_to, form.value, _OPTIONS[form])
        return Exported(live.num_rows)
    assert table is not None
    with open_cut(spark, table, cut or Cut(), path=path, allow_gaps=allow_gaps) as chosen:
        rows = _write_counted(entries_of(spark, chosen.events), directory_to, form)
    return Exported(rows, chosen.unknown)


# -- what is written ----------------------------------------------------------------------------------------------


def _live(addresses: Sequence[Address], path: Path) -> pa.Table:
    """The tree of the first node that answers."""
    chunks: list[pa.RecordBatch] = []
    rows: list[tuple[str, str]] = []
    with Client(addresses) as client:
        for place, entry in client.get_tree(path):
            rows.append((str(place), to_json(entry.value)))
            if len(rows) == CHUNK_ROWS:
                chunks.append(_chunk(rows))
                rows = []
    return pa.Table.from_batches([*chunks, _chunk(rows)], COLUMNS)


def _texts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A worker's: of what `folding.fold` gives, the rows of paths."""
    for batch in batches:
        pairs = zip(batch.column("path_str").to_pylist(), batch.column("value_msgpack").to_pylist(), strict=True)
        yield _chunk([(text, packed_to_json(value)) for text, value in pairs if text is not None])


def _chunk(rows: list[tuple[str, str]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=COLUMNS)


def _write_counted(entries: DataFrame, directory_to: str, form: ExportForm) -> int:
    """Write them; how many there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import from_arrow_schema

    seen = Observation()
    values = entries.mapInArrow(_texts, from_arrow_schema(COLUMNS))
    save(values.observe(seen, sql.count(sql.lit(1)).alias("rows")), directory_to, form.value, _OPTIONS[form])
    return int(seen.get["rows"])
