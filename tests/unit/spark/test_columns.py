"""The columns of events: their order, and how a form grows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distkv.errors import FormatVersionError, LogDamagedError, StorageFailedError
from distkv.model.fence import Fence
from distkv.spark.table.columns import (
    EVENT_COLUMNS,
    FENCE_COLUMNS,
    FENCELESS_FORM,
    FORM_KEY,
    TABLE_FORM,
    EventsForm,
    form_of,
    read_batches,
)
from distkv.spark.table.store import open_table
from tests.unit.spark.event_files import NETWORK, Row, event_row, rows_table, write_rows

MORE = pa.field("more", pa.struct([("name", pa.string()), ("size", pa.int64())]))
NEWER = EventsForm(TABLE_FORM.number + 1, TABLE_FORM.columns.append(MORE))
ROWS: list[Row] = [event_row("a", 1), event_row("a", 2, kind="delete")]
FENCED: list[Row] = [*ROWS, event_row("a", 3, fence=Fence(1, 7, 2, "t"))]
FIRST_COLUMNS = (
    "path", "path_str", "root", "system", "kind", "value", "value_msgpack", "node", "tick", "tock", "chain",
    "truncated", "ttl", "time", "time_s", "arrived", "read_from",
)  # fmt: skip
"""Those of form 1, which never change."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A data file without fences."""
    with open_table(tmp_path / "table", network=NETWORK, create=True) as table:
        return table.new_place(write_rows(table, 0, ROWS).name)


def rewritten(file: str, schema: pa.Schema) -> str:
    pq.write_table(pa.Table.from_pylist(ROWS, schema=schema), file)
    return file


def test_table_has_the_columns_of_events_without_the_end_of_gaps() -> None:
    assert TABLE_FORM.columns.names == [name for name in EVENT_COLUMNS.names if name != "tick_end"]


def test_fences_are_the_last_columns_and_the_first_form_has_none() -> None:
    assert TABLE_FORM.columns.names == [*FIRST_COLUMNS, *FENCE_COLUMNS.names]
    assert (FENCELESS_FORM.number, FENCELESS_FORM.columns.names) == (1, [*FIRST_COLUMNS])


@pytest.mark.parametrize(("rows", "number"), [(ROWS, 1), (FENCED, 2), ([], 1)], ids=["none", "one", "no-rows"])
def test_form_of_rows_is_the_oldest_that_has_room_for_them(rows: list[Row], number: int) -> None:
    assert form_of(pa.Table.from_pylist(rows, schema=TABLE_FORM.columns)).number == number


def test_file_is_read_as_it_was_written(file: str) -> None:
    (batch,) = read_batches(file)
    assert batch == pa.RecordBatch.from_pylist(ROWS, schema=TABLE_FORM.columns)


def test_file_of_the_first_form_is_read_with_fences_that_are_null(file: str) -> None:
    (batch,) = read_batches(file, [*FENCE_COLUMNS.names, "tick"])
    assert batch.to_pylist() == [{**dict.fromkeys(FENCE_COLUMNS.names), "tick": tick} for tick in (1, 2)]


def test_file_with_a_fence_is_refused_by_a_release_that_does_not_know_fences(file: str) -> None:
    pq.write_table(rows_table(FENCED), file)
    with pytest.raises(FormatVersionError, match="has events of form 2, this release knows 1: upgrade distkv"):
        list(read_batches(file, form=FENCELESS_FORM))


def test_file_tells_its_form(file: str) -> None:
    assert pq.read_schema(file).metadata[FORM_KEY] == b"1"


def test_few_columns_are_read_in_their_order(file: str) -> None:
    (batch,) = read_batches(file, ["tick", "node"])
    assert batch.to_pylist() == [{"tick": 1, "node": "a"}, {"tick": 2, "node": "a"}]


def test_new_column_is_null_in_an_old_file(file: str) -> None:
    (batch,) = read_batches(file, form=NEWER)
    assert (batch.schema, batch["more"].to_pylist()) == (NEWER.columns, [None, None])


def test_new_column_alone_is_null_in_an_old_file(file: str) -> None:
    (batch,) = read_batches(file, ["more"], NEWER)
    assert batch["more"].to_pylist() == [None, None]


def test_newer_file_is_refused(file: str) -> None:
    with pytest.raises(FormatVersionError, match="events of form 3, this release knows 2: upgrade distkv"):
        list(read_batches(rewritten(file, NEWER.schema)))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (TABLE_FORM.columns, "holds no events of distkv"),
        (TABLE_FORM.columns.with_metadata({FORM_KEY: b"one"}), "holds no events of distkv"),
        (TABLE_FORM.schema.append(pa.field("more", pa.int64())), "a column 'more' that events have not"),
        (TABLE_FORM.schema.set(0, pa.field("path", pa.list_(pa.binary()))), "a column 'path' that events have not"),
    ],
    ids=["no-form", "no-number", "more", "type"],
)
def test_file_with_other_columns_is_refused(file: str, schema: pa.Schema, words: str) -> None:
    with pytest.raises(LogDamagedError, match=words):
        list(read_batches(rewritten(file, schema)))


@pytest.mark.parametrize("length", [0, 3, 100, 2000])
def test_file_that_was_cut_is_damaged(file: str, length: int) -> None:
    content = Path(file).read_bytes()
    assert length < len(content)
    Path(file).write_bytes(content[:length])
    with pytest.raises(LogDamagedError, match=r"parquet.new is damaged: .*take the table from a copy$"):
        list(read_batches(file))


def test_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageFailedError, match="No such file"):
        list(read_batches(str(tmp_path / "x.parquet")))
