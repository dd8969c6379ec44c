"""An event table of which files are missing or cut, opened by somebody who wants to know just that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distkv.errors import StorageFailedError, WrongDirectoryError
from distkv.model.tick_ranges import joined
from distkv.spark.table.store import Table, open_table
from tests.unit.spark.event_files import NETWORK, CountedFolders, CutError, write_events


def append(table: Table, *links: tuple[str, int]) -> None:
    file = write_events(table, 0, links)
    table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two commits of a file each."""
    with open_table(tmp_path / "table", network=NETWORK, create=True) as table:
        append(table, ("a", 1))
        append(table, ("a", 2))
    return tmp_path / "table"


def content(folder: Path) -> dict[str, bytes]:
    return {str(place): place.read_bytes() for place in folder.rglob("*") if place.is_file() and place.name != "lock"}


def test_every_damaged_file_is_told_and_nothing_is_touched(folder: Path) -> None:
    (folder / "events/00000001-000.parquet").unlink()
    os.truncate(folder / "events/00000002-000.parquet", 100)
    (folder / "events/00000003-000.parquet.new").touch()
    before = content(folder)
    with open_table(folder, network=None, takes_damaged=True) as table:
        damage = table.damage
        assert table.files() == []
        with pytest.raises(StorageFailedError, match=r"00000001-000.parquet is missing"):
            table.commit(ticks=table.manifest.ticks, gaps={})
    assert list(damage) == ["events/00000001-000.parquet", "events/00000002-000.parquet"]
    assert "has 100 bytes instead of" in damage["events/00000002-000.parquet"]
    assert content(folder) == before


def test_file_of_a_commit_that_was_broken_off_is_found_where_it_lies(folder: Path) -> None:
    cut = CountedFolders(4)  # the manifest is renamed, its file is not
    with pytest.raises(CutError), open_table(folder, network=None, folders=cut) as table:
        append(table, ("a", 3))
    new = folder / "events/00000003-000.parquet.new"
    assert new.exists()
    os.truncate(folder / "events/00000001-000.parquet", 100)
    with open_table(folder, network=None, takes_damaged=True) as table:
        assert table.files() == [str(folder / "events/00000002-000.parquet"), str(new)]


def test_whole_table_is_finished_as_ever(folder: Path) -> None:
    (folder / "events/00000003-000.parquet.new").touch()
    with open_table(folder, network=None, takes_damaged=True) as table:
        assert table.damage == {}
        append(table, ("a", 3))
    assert len(list((folder / "events").iterdir())) == 3


def test_folder_that_is_no_table_is_refused_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(WrongDirectoryError), open_table(tmp_path, network=None, takes_damaged=True):
        pass
