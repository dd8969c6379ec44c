"""An event table that is read while others commit to it, compact it, or after it was damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from distkv.errors import LogDamagedError, WrongDirectoryError
from distkv.model.event import NodeName
from distkv.model.tick_ranges import joined
from distkv.spark.table import snapshot as module
from distkv.spark.table.snapshot import Snapshot, read_table
from distkv.spark.table.store import Table, open_table
from tests.unit.spark.event_files import NETWORK, CountedFolders, CutError, write_events

LINKS = [("a", 1), ("a", 2)]


def append(table: Table, *links: tuple[str, int]) -> None:
    file = write_events(table, 0, links)
    table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})


def compact(folder: Path, keep_s: float) -> None:
    """One file in the place of all."""
    with open_table(folder, network=None) as table:
        links = [(node, tick) for node, ranges in table.manifest.ticks.items() for tick in ranges]
        names = [file.name for file in table.manifest.files]
        table.commit([write_events(table, 0, links)], names, ticks=table.manifest.ticks, gaps={}, keep_s=keep_s)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two commits of a file each."""
    with open_table(tmp_path / "table", network=NETWORK, create=True) as table:
        for link in LINKS:
            append(table, link)
    return tmp_path / "table"


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(place): place.read_bytes()
        for place in folder.rglob("*")
        if place.is_file() and place.name != "lock" and module.READERS not in place.parts
    }


def rows_of(table: Snapshot) -> list[tuple[str, int]]:
    columns = ["node", "tick"]
    found = [pq.read_table(table.place_of(file), columns=columns).to_pylist() for file in table.manifest.files]
    return [(row["node"], row["tick"]) for rows in found for row in rows]


# -- beside others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_s", [0.0, 3600.0])
def test_snapshot_stays_while_the_table_grows_and_is_compacted(folder: Path, keep_s: float) -> None:
    with read_table(folder) as table:
        with open_table(folder, network=None) as other:
            append(other, ("a", 3))
        compact(folder, keep_s)
        assert rows_of(table) == LINKS
        with read_table(folder) as later:
            assert (len(later.manifest.files), rows_of(later)) == (1, [*LINKS, ("a", 3)])
    assert len(list((folder / "events").iterdir())) == 1


def test_snapshot_needs_no_lock_and_leaves_nothing(folder: Path) -> None:
    before = content(folder)
    with open_table(folder, network=None), read_table(folder) as table:
        assert rows_of(table) == LINKS
    assert (content(folder), (folder / module.READERS).exists()) == (before, False)


def test_reader_that_can_have_no_names_of_its_own_reads_where_files_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "makedirs", refuse)
    with read_table(folder) as table:
        assert rows_of(table) == LINKS
        assert [table.place_of(file) for file in table.manifest.files] == table.files()


def test_disk_without_second_names_is_read_where_files_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    with read_table(folder) as table:
        assert (rows_of(table), [table.place_of(file) for file in table.manifest.files]) == (LINKS, table.files())


def test_replaced_files_are_found_by_who_has_the_older_manifest(folder: Path) -> None:
    older = (folder / "manifest.json").read_bytes()
    compact(folder, 3600.0)
    (folder / "manifest.json").write_bytes(older)
    with read_table(folder) as table:
        assert rows_of(table) == LINKS


def test_replaced_files_go_when_their_time_is_over(folder: Path) -> None:
    compact(folder, 3600.0)
    (kept,) = (folder / module.READERS).iterdir()
    assert len(list(kept.iterdir())) == 2
    with open_table(folder, network=None):
        assert kept.exists()
    kept.rename(kept.with_name(f"{module.KEPT}1"))
    with open_table(folder, network=None):
        assert not (folder / module.READERS).exists()


def test_job_that_runs_on_removes_replaced_files_with_its_next_commit(folder: Path) -> None:
    compact(folder, 3600.0)
    (kept,) = (folder / module.READERS).iterdir()
    with open_table(folder, network=None) as table:
        over = kept.rename(kept.with_name(f"{module.KEPT}1"))
        table.note(until={NodeName("a"): 5.0})
        assert not over.exists()


def test_folder_of_a_reader_that_was_killed_goes_and_of_one_that_lives_stays(folder: Path) -> None:
    dead = folder / module.READERS / "dead"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    with read_table(folder) as table:
        for place in (folder / module.READERS).iterdir():
            os.utime(place, (1, 1))
        with open_table(folder, network=None):
            assert not dead.exists()
        assert rows_of(table) == LINKS


def test_young_folder_may_be_of_a_reader_that_begins(folder: Path) -> None:
    young = folder / module.READERS / "young"
    young.mkdir(parents=True)
    with open_table(folder, network=None):
        assert young.exists()


def test_message_names_a_file_as_all_see_it(folder: Path) -> None:
    public = str(folder / "events" / "00000001-000.parquet")

    def fail() -> None:
        with read_table(folder) as table:
            place = table.place_of(table.manifest.files[0])
            assert place != public
            raise LogDamagedError(f"{place} is damaged")

    with pytest.raises(LogDamagedError) as caught:
        fail()
    assert str(caught.value) == f"{public} is damaged"


# -- damage -------------------------------------------------------------------------------------------------------


def test_every_damaged_file_is_told_and_nothing_is_touched(folder: Path) -> None:
    (folder / "events/00000001-000.parquet").unlink()
    os.truncate(folder / "events/00000002-000.parquet", 100)
    (folder / "events/00000003-000.parquet.new").touch()
    before = content(folder)
    with read_table(folder, takes_damaged=True) as table:
        damage = table.damage
        assert table.files() == []
    assert list(damage) == ["events/00000001-000.parquet", "events/00000002-000.parquet"]
    assert "has 100 bytes instead of" in damage["events/00000002-000.parquet"]
    assert content(folder) == before
    with pytest.raises(LogDamagedError, match=r"00000001-000.parquet is missing"), read_table(folder):
        pass


def test_file_of_a_commit_that_was_broken_off_is_found_where_it_lies(folder: Path) -> None:
    cut = CountedFolders(4)  # the manifest is renamed, its file is not
    with pytest.raises(CutError), open_table(folder, network=None, folders=cut) as table:
        append(table, ("a", 3))
    new = folder / "events/00000003-000.parquet.new"
    assert new.exists()
    with read_table(folder) as found:
        assert (found.files()[-1], rows_of(found)) == (str(new), [*LINKS, ("a", 3)])
    assert new.exists()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [(None, "there is no event table in"), ("mine", "is no event table, and not empty: name the folder of one")],
)
def test_folder_that_is_no_table_is_refused(tmp_path: Path, name: str | None, complaint: str) -> None:
    if name is not None:
        (tmp_path / name).touch()
    with pytest.raises(WrongDirectoryError, match=complaint), read_table(tmp_path):
        pass
