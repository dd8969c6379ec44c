"""Data files that become one: its rows, what is checked before, and what is told of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distkv.errors import DistkvError, FormatVersionError, LogDamagedError
from distkv.model.event import NodeName, Tick
from distkv.model.fence import Fence
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined, ranges_of
from distkv.spark.forgetting import DROPPED, FILE
from distkv.spark.table.columns import FENCELESS_FORM, FORM_KEY, TABLE_FORM
from distkv.spark.table.contents import check_whole
from distkv.spark.table.manifest import DataFile
from distkv.spark.table.merging import Merge, Merged, Source, merge
from distkv.spark.table.parts import GROUP_ROWS, PartWriter
from distkv.spark.table.store import Table, open_table
from tests.unit.spark.event_files import NETWORK, Row, event_row, rows_table, write_rows

Links = list[tuple[str, int]]

FIRST: Links = [("a", 1), ("a", 2), ("b", 1)]
SECOND: Links = [("a", 3), ("b", 2), ("b", 4)]
THIRD: Links = [("a", 4), ("b", 3), ("c", 1)]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """A table whose folder takes files."""
    with open_table(tmp_path / "table", network=NETWORK, create=True) as table:
        yield table


def source(table: Table, part: int, links: Links, dropped: Links | None = None) -> Source:
    """A file of a table, of which some rows are to go."""
    file = write_rows(table, part, [event_row(node, tick, value=tick) for node, tick in links])
    places = ()
    if dropped is not None:
        places = (os.path.join(table.directory, f"dropped-{part}.parquet"),)
        rows = [{FILE: file.name, "node": node, "tick": tick} for node, tick in dropped]
        pq.write_table(pa.Table.from_pylist(rows, schema=DROPPED), places[0])
    return Source(file, table.new_place(file.name), places)


def unsealed(source: Source) -> Source:
    """The same as of a release that kept no checksums."""
    return attrs.evolve(source, file=attrs.evolve(source.file, crc32=None))


def merged(table: Table, *sources: Source, **options: int) -> Merged:
    (told,) = merge(Merge(sources, table.directory, **options))
    assert isinstance(told, Merged), told
    return told


def failure(table: Table, *sources: Source) -> DistkvError:
    (told,) = merge(Merge(sources, table.directory))
    assert isinstance(told, DistkvError)
    return told


def rows_in(place: str) -> Links:
    return [(row["node"], row["tick"]) for row in pq.read_table(place, partitioning=None).to_pylist()]


def ticks(links: Links) -> dict[NodeName, Ranges]:
    return ranges_of((NodeName(node), Tick(tick)) for node, tick in links)


def test_rows_of_all_files_are_in_one_in_order_and_as_they_were(table: Table) -> None:
    told = merged(table, *(source(table, at, links) for at, links in enumerate((FIRST, SECOND, THIRD))))
    (part,) = told.parts
    every = sorted(FIRST + SECOND + THIRD)
    wanted = rows_table(event_row(*link, value=link[1]) for link in every)
    found = pq.read_table(part.place, partitioning=None)
    assert found.equals(wanted)
    assert found.schema.metadata[FORM_KEY] == b"1"
    assert (part.rows, part.size_bytes, part.ticks) == (9, os.path.getsize(part.place), ticks(every))
    assert pq.ParquetFile(part.place).metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_that_are_dropped_are_gone_and_their_ticks_stay(table: Table) -> None:
    told = merged(table, source(table, 0, FIRST, [("a", 1), ("b", 1)]), source(table, 1, SECOND, [("b", 4)]))
    (part,) = told.parts
    assert rows_in(part.place) == [("a", 2), ("a", 3), ("b", 2)]
    assert part.ticks == ticks(FIRST + SECOND)


def test_files_of_which_all_is_dropped_leave_none(table: Table) -> None:
    first = source(table, 0, FIRST, FIRST)
    assert merged(table, first) == Merged((first.file.name,), ())


def test_more_than_fits_into_memory_goes_into_several_files_each_in_order(table: Table) -> None:
    sources = [source(table, at, links) for at, links in enumerate((FIRST, SECOND, THIRD))]
    told = merged(table, *sources, bytes_max=1)
    assert [rows_in(part.place) for part in told.parts] == [FIRST, SECOND, THIRD]
    assert [part.ticks for part in told.parts] == [ticks(FIRST), ticks(SECOND), ticks(THIRD)]


def test_ticks_of_dropped_rows_are_those_of_one_of_several_files(table: Table) -> None:
    sources = [source(table, 0, FIRST, [("a", 1)]), source(table, 1, SECOND, [("b", 4)])]
    parts = merged(table, *sources, bytes_max=1).parts
    assert [rows_in(part.place) for part in parts] == [FIRST[1:], SECOND[:-1]]
    assert joined(parts[0].ticks, parts[1].ticks) == ticks(FIRST + SECOND)
    assert sum(len(some) for part in parts for some in part.ticks.values()) == 6


def test_older_file_lacks_columns_and_gets_them(table: Table) -> None:
    first, second = unsealed(source(table, 0, FIRST)), source(table, 1, SECOND)
    older = pq.read_table(first.place, partitioning=None).drop_columns(["arrived", "read_from"])
    pq.write_table(older, first.place)
    (part,) = merged(table, first, second).parts
    found = pq.read_table(part.place, partitioning=None)
    assert found.schema.equals(FENCELESS_FORM.schema)
    assert [row["read_from"] for row in found.to_pylist()] == [None, None, "a", None, "b", "b"]


def fenced_source(table: Table, part: int, links: Links) -> Source:
    """A file, the last row of which has a fence."""
    *rows, last = links
    row = event_row(*last, fence=Fence(0, 7, 1, "t"))
    file = write_rows(table, part, [*(event_row(*link) for link in rows), row])
    return Source(file, table.new_place(file.name))


def test_fences_of_some_files_stay_and_those_of_the_first_form_have_none(table: Table) -> None:
    (part,) = merged(table, source(table, 0, FIRST), fenced_source(table, 1, SECOND)).parts
    found = pq.read_table(part.place, partitioning=None)
    assert found.schema.equals(TABLE_FORM.schema)
    assert (part.form, found["fence_token"].to_pylist()) == (2, [None, None, None, None, None, "t"])


def test_fence_that_comes_when_a_file_was_begun_goes_into_another_one(tmp_path: Path) -> None:
    """What was written of a file has no room for it."""

    def batch(rows: list[Row]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=TABLE_FORM.columns)

    writer = PartWriter(str(tmp_path))
    many = [("a", tick) for tick in range(1, GROUP_ROWS + 1)]
    more = [("a", GROUP_ROWS + 1), ("a", GROUP_ROWS + 2)]
    writer.add(batch([event_row(*link) for link in many]), ticks(many))
    writer.add(batch([event_row(*more[0], fence=Fence(0, 7, 1, "t"))]), ticks(more[:1]))
    writer.add(batch([event_row(*more[1])]), ticks(more[1:]))
    parts = writer.finish()
    assert [(part.rows, part.form, part.ticks) for part in parts] == [
        (GROUP_ROWS, 1, ticks(many)), (2, 2, ticks(more)),
    ]  # fmt: skip
    assert [pq.read_schema(part.place).names for part in parts] == [
        FENCELESS_FORM.columns.names, TABLE_FORM.columns.names,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([("a", 1), ("a", 2)], "it has 2 rows instead of 3"),
        ([("a", 1), ("a", 2), ("a", 2)], "it has a change twice"),
        ([("a", 1), ("a", 3), ("b", 1)], "does not give it: a [3]"),
        ([("a", 1), ("a", 2), ("b", 1), ("c", 1)], "does not give it: c [1]"),
    ],
    ids=["fewer", "twice", "another", "more"],
)
def test_file_with_other_rows_than_the_manifest_says_is_damaged(table: Table, there: Links, says: str) -> None:
    wrong = unsealed(source(table, 0, FIRST))
    rows = [event_row(node, tick) for node, tick in there]
    pq.write_table(rows_table(rows), wrong.place)
    told = failure(table, source(table, 1, SECOND), wrong)
    with pytest.raises(LogDamagedError) as found:
        check_whole(wrong.file, wrong.place)
    assert isinstance(told, LogDamagedError)
    assert str(told) == str(found.value)
    assert f"{wrong.place} is damaged" in str(told)
    assert says in str(told)


def test_file_with_fewer_rows_than_ticks_is_whole_when_the_manifest_says_so(table: Table) -> None:
    written = source(table, 0, [("a", 2), ("b", 1)])
    file = DataFile(written.file.name, 2, written.file.size_bytes, ticks(FIRST))
    (part,) = merged(table, attrs.evolve(written, file=file)).parts
    assert (part.rows, part.ticks) == (2, ticks(FIRST))


def test_file_whose_bytes_are_damaged_is_named(table: Table) -> None:
    written = source(table, 0, FIRST)
    data = bytearray(Path(written.place).read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    Path(written.place).write_bytes(data)
    for one, says in ((written, "its checksum is"), (unsealed(written), "")):
        error = failure(table, one)
        assert isinstance(error, LogDamagedError)
        assert f"{written.place} is damaged: {says}" in str(error)


def test_file_of_a_newer_form_is_refused(table: Table) -> None:
    written = unsealed(source(table, 0, FIRST))
    newer = pq.read_table(written.place, partitioning=None).replace_schema_metadata({FORM_KEY: b"3"})
    pq.write_table(newer, written.place)
    assert isinstance(failure(table, written), FormatVersionError)
    with pytest.raises(FormatVersionError):
        check_whole(written.file, written.place)


def test_rows_without_a_node_are_damage(table: Table) -> None:
    written = unsealed(source(table, 0, FIRST))
    rows = pq.read_table(written.place, partitioning=None)
    at = rows.schema.get_field_index("node")
    nulls = rows.set_column(at, rows.schema.field(at), pa.array(["a", None, "b"]))
    pq.write_table(nulls.replace_schema_metadata(FENCELESS_FORM.schema.metadata), written.place)
    error = failure(table, written)
    assert isinstance(error, LogDamagedError)
    assert "or one without its tick" in str(error)
