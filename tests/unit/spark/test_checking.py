"""A data file that something happened to: the check of it says so, whatever it was.

Knows: files as `archive` writes them, and how to spoil them.  Does not know Spark.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest

from distkv.errors import FormatVersionError, LogDamagedError
from distkv.model.event import NodeName, Tick
from distkv.model.tick_ranges import ranges_of
from distkv.spark.checking import Checked, check
from distkv.spark.table.columns import FORM_KEY, read_batches
from distkv.spark.table.folder import crc32_of
from distkv.spark.table.manifest import DataFile
from distkv.wire.json_form import to_json
from distkv.wire.values import pack_value
from tests.unit.spark.event_files import event_row, rows_table

Row = dict[str, object]
FLIPS = 400


def rows_of(count: int = 300) -> list[Row]:
    """Of two nodes, with deletions among them."""
    found = []
    for number in range(count):
        value = {"v": number, "text": "x" * (number % 7), "b": b"\xff"}
        row = event_row("ab"[number >= count // 2], number + 1, f"x.k{number % 50}")
        found.append({**row, "value": to_json(value), "value_msgpack": pack_value(value)})
    found[5] = event_row("a", 6, "x.k5", kind="delete")
    return found


def write(place: Path, rows: Sequence[Row]) -> None:
    """A file as a worker writes it."""
    pq.write_table(rows_table(rows), place, compression="zstd", write_page_checksum=True, row_group_size=100)


def written(place: Path, rows: Sequence[Row]) -> DataFile:
    """The same, and what the manifest says of it."""
    write(place, rows)
    ticks = ranges_of((NodeName(str(row["node"])), Tick(int(str(row["tick"])))) for row in rows)
    return DataFile("events/00000001-000.parquet", len(rows), os.path.getsize(place), ticks)


def checked(place: Path, file: DataFile) -> Checked:
    found = check(str(place), file)
    assert isinstance(found, Checked)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "x.parquet"


def test_whole_file_is_whole(place: Path) -> None:
    assert checked(place, written(place, rows_of())) == Checked(str(place), None)


@pytest.mark.slow
def test_bit_that_is_turned_is_found(place: Path) -> None:
    file = written(place, rows_of())
    good = place.read_bytes()
    sealed = attrs.evolve(file, crc32=crc32_of(str(place)))
    assert checked(place, sealed).damage is None
    for at in range(0, len(good), max(1, len(good) // FLIPS)):
        place.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert str(place) in (checked(place, sealed).damage or "")


def test_file_that_was_written_anew_is_damaged_but_readable(place: Path) -> None:
    write(place, rows_of())
    former = crc32_of(str(place))
    file = attrs.evolve(written(place, rows_of()[::-1]), crc32=former)
    found = checked(place, file)
    assert "its checksum is" in (found.damage or "")
    assert (found.is_readable, found.has_own_ticks) == (True, True)


@pytest.mark.slow
def test_bit_that_is_turned_where_no_checksum_is_known_is_found_or_changes_no_row(place: Path) -> None:
    file = written(place, rows_of())
    good, rows = place.read_bytes(), [batch.to_pylist() for batch in read_batches(str(place))]
    chance, found = random.Random(7), 0
    for _ in range(FLIPS):
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        place.write_bytes(bad)
        if checked(place, file).damage is None:
            assert [batch.to_pylist() for batch in read_batches(str(place))] == rows
        else:
            found += 1
    assert found > FLIPS // 2


@pytest.mark.parametrize("size", [0, 3, 1000, -1])
def test_file_that_was_cut_is_damaged_and_not_readable(place: Path, size: int) -> None:
    file = written(place, rows_of())
    place.write_bytes(place.read_bytes()[:size])
    found = checked(place, file)
    assert (found.is_readable, found.damage is None) == (False, False)


def test_file_that_is_gone_is_damaged(place: Path) -> None:
    file = written(place, rows_of())
    place.unlink()
    assert "No such file" in (checked(place, file).damage or "")


def without_a_row(rows: list[Row]) -> list[Row]:
    return rows[1:]


def with_a_row_twice(rows: list[Row]) -> list[Row]:
    return [*rows, rows[-1]]


def with_one_in_the_place_of_another(rows: list[Row]) -> list[Row]:
    return [*rows[:-1], rows[-2]]


def with_a_strange_tick(rows: list[Row]) -> list[Row]:
    return [*rows[:-1], event_row("c", 1)]


def with_no_tick(rows: list[Row]) -> list[Row]:
    return [*rows[:-1], {**rows[-1], "tick": None}]


def with_a_value_that_is_none(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "value_msgpack": b"\xc1"}, *rows[1:]]


def with_another_json(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "value": "1"}, *rows[1:]]


def with_text_that_is_no_json(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "value": "{"}, *rows[1:]]


def without_a_value(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "value": None, "value_msgpack": None}, *rows[1:]]


def with_a_value_that_was_deleted(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "kind": "delete"}, *rows[1:]]


@pytest.mark.parametrize(
    ("spoil", "says", "has_own_ticks"),
    [
        (without_a_row, "has 299 rows instead of 300", True),
        (with_a_row_twice, "has 301 rows instead of 300", False),
        (with_one_in_the_place_of_another, "has a change twice", False),
        (with_a_strange_tick, "does not give it: c [1]", False),
        (with_no_tick, "or one without its tick", False),
        (with_a_value_that_is_none, "the value of a 1 cannot be read, or differs from its JSON", True),
        (with_another_json, "the value of a 1 cannot be read, or differs from its JSON", True),
        (with_text_that_is_no_json, "the value of a 1 cannot be read, or differs from its JSON", True),
        (without_a_value, "the value of a 1 cannot be read, or differs from its JSON", True),
        (with_a_value_that_was_deleted, "the value of a 1 cannot be read, or differs from its JSON", True),
    ],
)
def test_other_rows_than_the_manifest_says_are_damage(
    place: Path, spoil: Callable[[list[Row]], list[Row]], says: str, has_own_ticks: bool
) -> None:
    file = written(place, rows_of())
    write(place, spoil(rows_of()))
    found = checked(place, file)
    assert says in (found.damage or "")
    assert (found.is_readable, found.has_own_ticks) == (True, has_own_ticks)


def test_fewer_rows_than_ticks_are_right_where_the_manifest_says_so(place: Path) -> None:
    rows = rows_of()
    file = attrs.evolve(written(place, rows), rows=299)
    write(place, rows[1:])
    assert checked(place, file).damage is None


def test_other_json_of_the_same_value_is_no_damage(place: Path) -> None:
    rows = rows_of()
    rows[0] |= {"value": '{ "v": [1] }', "value_msgpack": pack_value({"v": [1]})}
    assert checked(place, written(place, rows)).damage is None


def test_file_of_a_later_release_is_told_as_such(place: Path) -> None:
    file = written(place, rows_of(10))
    table = pq.read_table(place).replace_schema_metadata({FORM_KEY: b"3"})
    pq.write_table(table, place)
    assert isinstance(check(str(place), file), FormatVersionError)


def test_row_groups_are_not_put_together(place: Path) -> None:
    write(place, rows_of())  # a group of large values is as much as a reader may have to hold
    assert [batch.num_rows for batch in read_batches(str(place))] == [100, 100, 100]


def test_name_of_a_column_that_is_no_text_is_damage(place: Path) -> None:
    write(place, rows_of())
    place.write_bytes(place.read_bytes().replace(b"read_from", b"read\xff\xff\xff\xff\xff"))
    with pytest.raises(LogDamagedError):
        list(read_batches(str(place)))
