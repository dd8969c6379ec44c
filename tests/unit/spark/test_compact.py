"""Which files of an event table are merged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distkv.cli.jobs.compact import ROWS_MAX
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.spark.compact import FILE_BYTES, FILE_ROWS_MAX, chosen
from distkv.spark.table.manifest import DataFile, file_name

ROWS = 100
SMALL = 10_000


def file(number: int, rows: int, size_bytes: int = SMALL) -> DataFile:
    return DataFile(file_name(number, 0), rows, size_bytes, {NodeName("a"): Ranges([(1, rows + 1)])})


def numbers(groups: Sequence[Sequence[DataFile]]) -> list[list[int]]:
    """The commits of the files in each group."""
    return [[int(one.name[7:15]) for one in group] for group in groups]


def merged(*rows: int, sizes: Sequence[int] | None = None, dropped: dict[int, int] | None = None) -> list[list[int]]:
    """What is merged of files of so many rows each, from commit 1 on."""
    files = [file(at, *both) for at, both in enumerate(zip(rows, sizes or [SMALL] * len(rows), strict=True), 1)]
    return numbers(chosen(files, {file_name(at, 0): gone for at, gone in (dropped or {}).items()}, ROWS))


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([], []),
        ([5], []),
        ([5, 5], [[1, 2]]),
        ([50, 49, 50], []),
        ([49, 50, 49], [[1, 3]]),
        ([100, 5, 100, 5], [[2, 4]]),
        ([40, 40, 40, 40], [[1, 2], [3, 4]]),
        ([40, 40, 20, 1], [[1, 2, 3]]),
        ([1000, 99, 50], []),
    ],
    ids=str,
)
def test_small_files_are_merged_in_the_order_of_their_commits(rows: list[int], groups: list[list[int]]) -> None:
    assert merged(*rows) == groups


def test_files_of_large_rows_are_as_large_as_they_should_be() -> None:
    half = FILE_BYTES // 2
    assert merged(1, 1, 1, sizes=[half, half - 1, half - 1]) == [[2, 3]]
    assert merged(1, 1, 1, sizes=[half - 1, half - 1, half - 1]) == [[1, 2]]


def test_file_of_which_rows_go_is_written_again_even_when_it_is_large_or_alone() -> None:
    assert merged(90, 10, dropped={1: 1}) == [[1]]
    assert merged(90, 10, dropped={2: 1}) == [[2]]
    assert merged(90, 10, 10, dropped={1: 41}) == [[1, 2, 3]]
    assert merged(10, 10, dropped={1: 10, 2: 10}) == [[1, 2]]


@pytest.mark.parametrize("step", [1, 7, 33, 49])
def test_night_by_night_only_what_is_new_and_one_file_is_written_again(step: int) -> None:
    files: list[DataFile] = []
    for night in range(1, 60):
        files += [file(2 * night - 1, step) for _ in range(1)]
        groups = chosen(files, {}, ROWS)
        again = [one for group in groups for one in group]
        assert sum(one.rows for one in again) <= ROWS
        for group in groups:
            files = [one for one in files if one not in group]
            files.append(file(2 * night, sum(one.rows for one in group)))
    assert len(files) <= 2 * 59 * step / ROWS + 1
    assert all(ROWS // 2 <= one.rows <= ROWS for one in files[:-1])


def test_command_takes_as_many_rows_as_the_function() -> None:
    assert ROWS_MAX == FILE_ROWS_MAX
