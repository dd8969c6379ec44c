"""A folder with an event table: opened, committed to, broken off, and met by strangers."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import (
    BadPathError,
    BusyError,
    FormatVersionError,
    LogDamagedError,
    NoSpaceError,
    StorageFailedError,
    WrongDirectoryError,
)
from distkv.model.event import NodeName, Tick
from distkv.model.tick_ranges import TickRanges, joined, ranges_of
from distkv.spark.table.folder import Folders
from distkv.spark.table.manifest import DataFile, GapDecision, Manifest
from distkv.spark.table.store import Table, open_table, sync_file
from tests.profiles import examples
from tests.unit.spark.event_files import (
    NETWORK,
    CountedFolders,
    CutError,
    Links,
    LosingFolders,
    broken_disk,
    full_disk,
    resealed,
    seen_by_duckdb,
    seen_by_pyarrow,
    write_events,
)

ROOT = Path(__file__).parents[3]
OTHER = bytes.fromhex("00000000000000ff")
FIRST = [("a", 1), ("a", 2), ("b", 1)]
SECOND = [("a", 3), ("b", 5)]
THIRD = [("b", 2), ("c", 1)]


def ticks_of(links: Links) -> TickRanges:
    return ranges_of((NodeName(node), Tick(tick)) for node, tick in sorted(links))


def append(table: Table, *parts: Links, gaps: Links = ()) -> None:
    """Commit events, one file for each part."""
    files = [write_events(table, part, links) for part, links in enumerate(parts)]
    ticks = joined(table.manifest.ticks, ticks_of(link for links in parts for link in links))
    table.commit(files, ticks=ticks, gaps=ticks_of(gaps))


def compact(table: Table) -> None:
    """Commit one file in the place of all."""
    links = [(node, tick) for node, ranges in table.manifest.ticks.items() for tick in ranges]
    names = [file.name for file in table.manifest.files]
    table.commit([write_events(table, 0, links)], names, ticks=table.manifest.ticks, gaps=table.manifest.gaps)


def append_third(table: Table) -> None:
    append(table, THIRD[:1], THIRD[1:])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of two commits."""
    place = tmp_path / "table"
    with open_table(place, network=NETWORK, create=True) as table:
        append(table, FIRST)
        append(table, SECOND, gaps=[("a", 7)])
    return place


def manifest_of(
    folder: Path, network: bytes | None = None, *, path: str | None = None, create: bool = False
) -> Manifest:
    """Open a table, which finishes or undoes what was broken off, or is refused."""
    with open_table(folder, network=network, path=path, create=create) as table:
        return table.manifest


def test_what_is_noted_counts_as_no_commit_and_stays(folder: Path) -> None:
    before = manifest_of(folder)
    settlement = GapDecision(9.0, "ada", "burned", ticks_of([("a", 7)]))
    with open_table(folder, network=None) as table:
        table.note(until={NodeName("a"): 7.0, NodeName("b"): 8.0})
        table.note(until={NodeName("a"): 5.0}, decision=settlement)
        append_third(table)
    found = manifest_of(folder)
    assert (found.until, found.settled) == ({NodeName("a"): 5.0, NodeName("b"): 8.0}, (settlement,))
    assert found.commit == before.commit + 1


@pytest.mark.parametrize("steps", range(6))
def test_note_that_is_broken_off_is_there_or_not(folder: Path, steps: int) -> None:
    with suppress(CutError), open_table(folder, network=None, folders=CountedFolders(steps)) as table:
        table.note(until={NodeName("a"): 7.0})
    found = manifest_of(folder)
    assert (found.commit, names_in(folder)) == (2, WHOLE)
    assert found.until in ({}, {NodeName("a"): 7.0})


def test_note_of_nothing_new_writes_nothing(folder: Path) -> None:
    before = manifest_of(folder)
    with open_table(folder, network=None, folders=CountedFolders(0)) as table:
        table.note(until={})
        assert table.manifest == before


def names_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


WHOLE = ["events", "events/00000001-000.parquet", "events/00000002-000.parquet", "lock", "manifest.json"]


# -- opening ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
def test_create_makes_a_table_without_commits(tmp_path: Path, made: bool) -> None:
    place = tmp_path / "table"
    if made:
        place.mkdir()
    with open_table(place, network=NETWORK, create=True) as table:
        assert table.manifest == Manifest(NETWORK)
    assert names_in(place) == ["events", "lock", "manifest.json"]


@pytest.mark.parametrize("steps", range(8))
def test_creation_that_is_broken_off_can_be_done_again(tmp_path: Path, steps: int) -> None:
    with suppress(CutError), open_table(
        tmp_path / "table", network=NETWORK, create=True, folders=CountedFolders(steps)
    ):
        pass
    with open_table(tmp_path / "table", network=NETWORK, create=True) as table:
        assert table.manifest == Manifest(NETWORK)


def test_create_on_a_table_opens_it(folder: Path) -> None:
    with open_table(folder, network=NETWORK, create=True) as table:
        assert table.manifest.commit == 2


def test_table_that_is_opened_again_is_as_it_was_committed(folder: Path) -> None:
    found = manifest_of(folder)
    assert (found.ticks, found.gaps) == (ticks_of(FIRST + SECOND), ticks_of([("a", 7)]))


def test_files_are_absolute_and_in_order(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        assert table.files() == [str(folder / name) for name in WHOLE if name.endswith("parquet")]


def test_new_names_are_of_the_next_commit(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        assert [table.new_name(0), table.new_name(12)] == ["events/00000003-000.parquet", "events/00000003-012.parquet"]


def test_folder_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongDirectoryError, match="there is no event table in"):
        manifest_of(tmp_path, NETWORK)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("create", [False, True], ids=["open", "create"])
@pytest.mark.parametrize("name", ["letters.txt", "events/00000001-000.parquet", "events/notes"])
def test_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path, name: str, create: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = names_in(tmp_path)
    with pytest.raises(WrongDirectoryError, match="no event table, and not empty"):
        manifest_of(tmp_path, NETWORK, create=create)
    assert names_in(tmp_path) == before


def test_manifest_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "web app"}')
    with pytest.raises(WrongDirectoryError, match="is not of an event table"):
        manifest_of(tmp_path)


def test_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("mine")
    with pytest.raises(StorageFailedError, match="Not a directory"):
        manifest_of(tmp_path / "table", NETWORK)


def test_table_below_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageFailedError, match="No such file"):
        manifest_of(tmp_path / "x" / "table", NETWORK, create=True)


def test_table_of_another_network_is_refused(folder: Path) -> None:
    with pytest.raises(WrongDirectoryError, match="network 0123456789abcdef, not of 00000000000000ff"):
        manifest_of(folder, OTHER)


def test_creation_without_a_network_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="id of its network"):
        manifest_of(tmp_path, create=True)


@pytest.mark.parametrize(
    ("path", "asked", "words"),
    [
        ("hall", None, "of the path 'hall', not of all paths"),
        ("hall", "hall.light", "of the path 'hall', not of the path 'hall.light'"),
        (None, "hall", "of all paths, not of the path 'hall'"),
    ],
    ids=["one-for-all", "one-for-another", "all-for-one"],
)
def test_table_of_another_path_is_refused(tmp_path: Path, path: str | None, asked: str | None, words: str) -> None:
    manifest_of(tmp_path, NETWORK, path=path, create=True)
    with pytest.raises(WrongDirectoryError, match=words):
        manifest_of(tmp_path, NETWORK, path=asked)


def test_root_is_all_paths(tmp_path: Path) -> None:
    with open_table(tmp_path, network=NETWORK, path=":", create=True) as table:
        assert table.manifest.path is None


def test_path_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPathError):
        manifest_of(tmp_path, NETWORK, path="a..b", create=True)


def test_reader_takes_a_table_of_any_path(tmp_path: Path) -> None:
    manifest_of(tmp_path, NETWORK, path="hall", create=True)
    assert manifest_of(tmp_path).path == "hall"


def test_table_of_one_path_has_fewer_rows_than_ticks(tmp_path: Path) -> None:
    with open_table(tmp_path, network=NETWORK, path="hall", create=True) as table:
        table.commit([write_events(table, 0, FIRST)], ticks=ticks_of(FIRST + SECOND), gaps={})
    assert manifest_of(tmp_path).rows == len(FIRST)


def test_newer_form_is_refused_and_left_alone(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(resealed(path.read_bytes().replace(b'"distkv_table": 3', b'"distkv_table": 9')))
    with pytest.raises(FormatVersionError, match="has format 9, this release knows 3: upgrade distkv"):
        manifest_of(folder)
    assert names_in(folder) == WHOLE


# -- two at once --------------------------------------------------------------------------------------------------


def test_second_user_is_refused_at_once(folder: Path) -> None:
    words = rf"another job \(pid {os.getpid()}\) uses {folder}: wait"
    with open_table(folder, network=NETWORK), pytest.raises(BusyError, match=words):
        manifest_of(folder)


def test_table_is_free_after_a_user_that_failed(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_table(folder, network=NETWORK):
        raise ZeroDivisionError
    assert manifest_of(folder).commit == 2


def test_error_of_the_user_is_passed_on_as_it_is(folder: Path) -> None:
    with pytest.raises(FileNotFoundError), open_table(folder, network=NETWORK):
        raise FileNotFoundError("the user's")


def test_lock_is_one_that_other_programs_see(folder: Path) -> None:
    with open_table(folder, network=NETWORK), (folder / "lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_table_that_was_closed_commits_nothing(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        pass
    with pytest.raises(StorageFailedError, match="is closed"):
        append(table, THIRD)
    assert manifest_of(folder).commit == 2


KILLED = """
import os, signal, sys
from distkv.spark.table.folder import Folders
from distkv.spark.table.store import open_table
from tests.unit.spark.event_files import NETWORK
from tests.unit.spark.test_table import append_third

class Killed(Folders):
    def rename(self, file, new):
        super().rename(file, new)
        if new.endswith("manifest.json"):
            os.kill(os.getpid(), signal.SIGKILL)

with open_table(sys.argv[1], network=NETWORK, folders=Killed()) as table:
    append_third(table)
"""


def test_killed_job_leaves_the_table_free_and_its_commit_to_the_next(folder: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, check=False, capture_output=True)
    assert (ended.returncode, ended.stderr) == (-9, b"")
    assert manifest_of(folder).commit == 3
    assert seen_by_pyarrow(folder) == sorted(FIRST + SECOND + THIRD)


# -- committing ---------------------------------------------------------------------------------------------------


def test_committed_events_are_seen_by_strangers(folder: Path) -> None:
    assert seen_by_pyarrow(folder) == seen_by_duckdb(folder) == sorted(FIRST + SECOND)


def test_compaction_leaves_one_file_with_all_events(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        compact(table)
        assert table.files() == [str(folder / "events/00000003-000.parquet")]
    assert seen_by_pyarrow(folder) == sorted(FIRST + SECOND)


def test_gap_whose_content_turned_up_goes(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        append(table, [("a", 7)])
        assert table.manifest.gaps == {}


def test_form_of_a_table_rises_with_the_first_file_that_needs_it_and_never_falls(folder: Path) -> None:
    found = [manifest_of(folder).events]
    for form in (2, 1):
        with open_table(folder, network=NETWORK) as table:
            table.commit(ticks=table.manifest.ticks, gaps={}, form=form)
        found.append(manifest_of(folder).events)
    assert found == [1, 2, 2]


def test_forgotten_changes_are_fewer_rows_for_ever(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        names = [file.name for file in table.manifest.files]
        file = write_events(table, 0, SECOND)
        table.commit([file], names, ticks=table.manifest.ticks, gaps={}, forgotten=1000.5)
        append(table, THIRD)
    found = manifest_of(folder)
    assert (found.forgotten, found.rows) == (1000.5, len(SECOND + THIRD))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.commit(ticks={}, gaps={}), "all ticks that the table has"),
        (lambda table: table.commit([], ["events/00000009-000.parquet"], ticks=table.manifest.ticks, gaps={}), "no ev"),
        (lambda table: table.commit(table.manifest.files, ticks=table.manifest.ticks, gaps={}), "not a name of commit"),
        (lambda table: table.commit(ticks=table.manifest.ticks, gaps=table.manifest.ticks), "both held and a gap"),
        (lambda table: append(table, FIRST), "both have tick 1 of a"),
        (lambda table: append(table, THIRD, THIRD), "both have tick 2 of b"),
        (lambda table: table.commit(ticks=ticks_of([*FIRST, *SECOND, *THIRD]), gaps={}), "5 rows, but the table 7"),
        (lambda table: table.new_name(1000), "parts 0 to 999"),
    ],
    ids=["fewer", "unknown", "old-name", "gap", "again", "twice", "rows", "part"],
)
def test_commit_that_makes_no_table_is_a_mistake(folder: Path, change: Callable[[Table], None], words: str) -> None:
    with open_table(folder, network=NETWORK) as table:
        with pytest.raises(ValueError, match=words):
            change(table)
        append_third(table)
    assert seen_by_pyarrow(folder) == sorted(FIRST + SECOND + THIRD)


def test_new_file_that_is_missing_is_refused(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        file = DataFile(table.new_name(0), 2, 100, ticks_of(THIRD))
        with pytest.raises(StorageFailedError, match=r"00000003-000.parquet.new is missing"):
            table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})
    assert manifest_of(folder).commit == 2


def test_new_file_of_another_size_is_refused(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        file = write_events(table, 0, THIRD)
        os.truncate(table.new_place(file.name), 100)
        with pytest.raises(StorageFailedError, match="has 100 bytes instead"):
            table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})
    assert manifest_of(folder).commit == 2


def test_sync_of_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageFailedError, match="No such file"):
        sync_file(tmp_path / "missing.new")


# -- broken off ---------------------------------------------------------------------------------------------------

APPEND_STEPS, COMPACT_STEPS = 8, 10
COUNTS = {append_third: APPEND_STEPS, compact: COMPACT_STEPS}
COMMITS = [(commit, steps) for commit, count in COUNTS.items() for steps in range(count)]
COMMIT_IDS = [f"{commit.__name__}-{steps}" for commit, steps in COMMITS]


def expected(commit: Callable[[Table], None]) -> list[tuple[str, int]]:
    return sorted(FIRST + SECOND + (THIRD if commit is append_third else []))


def cut_off(folder: Path, commit: Callable[[Table], None], folders: Folders) -> None:
    """Open the table, and commit until the process ends."""
    with pytest.raises(CutError), open_table(folder, network=NETWORK, folders=folders) as table:
        commit(table)


@pytest.mark.parametrize(("commit", "steps"), COUNTS.items(), ids=["append", "compact"])
def test_steps_that_are_cut_are_all_that_there_are(
    folder: Path, commit: Callable[[Table], None], steps: int
) -> None:
    counted = CountedFolders()
    with open_table(folder, network=NETWORK, folders=counted) as table:
        commit(table)
    assert counted.taken == steps


@pytest.mark.parametrize(("commit", "steps"), COMMITS, ids=COMMIT_IDS)
def test_crash_shows_strangers_no_event_twice(folder: Path, commit: Callable[[Table], None], steps: int) -> None:
    cut_off(folder, commit, CountedFolders(steps))
    seen = seen_by_pyarrow(folder)
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(expected(commit))
    assert seen_by_duckdb(folder) == seen


@pytest.mark.parametrize(("commit", "steps"), COMMITS, ids=COMMIT_IDS)
def test_crash_leaves_the_old_or_the_new_table(folder: Path, commit: Callable[[Table], None], steps: int) -> None:
    cut_off(folder, commit, CountedFolders(steps))
    counts = steps > 3  # the fourth renames the manifest
    with open_table(folder, network=NETWORK) as table:
        assert table.manifest.commit == 2 + counts
        assert [str(file) for file in sorted(folder.glob("events/*"))] == table.files()
    assert seen_by_pyarrow(folder) == (expected(commit) if counts else sorted(FIRST + SECOND))


@pytest.mark.parametrize(("commit", "steps"), COMMITS, ids=COMMIT_IDS)
def test_recovery_may_itself_be_broken_off(folder: Path, commit: Callable[[Table], None], steps: int) -> None:
    cut_off(folder, commit, CountedFolders(steps))
    for again in range(10):
        folders = CountedFolders(again)
        with suppress(CutError), open_table(folder, network=NETWORK, folders=folders):
            pass
        seen = seen_by_pyarrow(folder)
        assert len(seen) == len(set(seen))
    assert seen_by_pyarrow(folder) == (expected(commit) if steps > 3 else sorted(FIRST + SECOND))


@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1}, {0, 1, 2}], ids=["first", "second", "two", "all"])
@pytest.mark.parametrize(("commit", "steps"), COMMITS, ids=COMMIT_IDS)
def test_power_failure_leaves_the_old_or_the_new_table(
    folder: Path, commit: Callable[[Table], None], steps: int, lost: set[int]
) -> None:
    folders = LosingFolders(steps, lost)
    cut_off(folder, commit, folders)
    folders.lose(str(folder))
    seen = seen_by_pyarrow(folder)
    assert len(seen) == len(set(seen))
    counts = manifest_of(folder).commit == 3
    assert counts <= (steps > 3)
    assert seen_by_pyarrow(folder) == (expected(commit) if counts else sorted(FIRST + SECOND))


@pytest.mark.parametrize("more", range(6))
@pytest.mark.parametrize("commit", COUNTS, ids=["append", "compact"])
def test_power_failure_in_a_recovery_leaves_the_old_or_the_new_table(
    folder: Path, commit: Callable[[Table], None], more: int
) -> None:
    folders = LosingFolders(4, set(range(9)))  # ends between the rename of the manifest and its sync
    cut_off(folder, commit, folders)
    folders.steps = 4 + more
    with suppress(CutError), open_table(folder, network=NETWORK, folders=folders):
        pass
    folders.lose(str(folder))
    counts = manifest_of(folder).commit == 3
    assert seen_by_pyarrow(folder) == (expected(commit) if counts else sorted(FIRST + SECOND))


@pytest.mark.parametrize(("commit", "steps"), COMMITS, ids=COMMIT_IDS)
def test_full_disk_leaves_the_old_or_the_new_table(folder: Path, commit: Callable[[Table], None], steps: int) -> None:
    words = r"^[^\n]* No space left on device: make space[^\n]*$"
    folders = CountedFolders(steps, full_disk)
    with open_table(folder, network=NETWORK, folders=folders) as table, pytest.raises(NoSpaceError, match=words):
        commit(table)
    assert manifest_of(folder).commit == 2 + (steps > 3)
    assert seen_by_pyarrow(folder) == (expected(commit) if steps > 3 else sorted(FIRST + SECOND))


@pytest.mark.parametrize("steps", range(3))
def test_commit_may_be_tried_again_when_there_is_space(folder: Path, steps: int) -> None:
    folders = CountedFolders(steps, full_disk)
    with open_table(folder, network=NETWORK, folders=folders) as table:
        with pytest.raises(NoSpaceError):
            append_third(table)
        folders.steps = None
        append_third(table)
    assert seen_by_pyarrow(folder) == sorted(FIRST + SECOND + THIRD)


@pytest.mark.parametrize("steps", range(APPEND_STEPS))
def test_nothing_is_committed_after_the_disk_failed(folder: Path, steps: int) -> None:
    folders = CountedFolders(steps, broken_disk)
    with open_table(folder, network=NETWORK, folders=folders) as table:
        with pytest.raises(StorageFailedError, match="Input/output error"):
            append_third(table)
        folders.steps = None
        with pytest.raises(StorageFailedError, match="open the table again"):
            table.commit(ticks=table.manifest.ticks, gaps={})
    assert manifest_of(folder).commit in (2, 3)


def test_new_files_that_were_never_committed_go(folder: Path) -> None:
    with open_table(folder, network=NETWORK) as table:
        write_events(table, 0, THIRD)
    assert manifest_of(folder).commit == 2
    assert names_in(folder) == WHOLE


def test_files_of_a_commit_that_the_manifest_does_not_have_go(folder: Path) -> None:
    former = (folder / "manifest.json").read_bytes()
    with open_table(folder, network=NETWORK) as table:
        append_third(table)
    (folder / "manifest.json").write_bytes(former)
    assert manifest_of(folder).commit == 2
    assert names_in(folder) == WHOLE


def test_file_of_somebody_else_beside_the_events_is_refused_and_left_alone(folder: Path) -> None:
    (folder / "events/mine.parquet").write_bytes(b"mine")
    with pytest.raises(WrongDirectoryError, match=r"mine.parquet is not of this table"):
        manifest_of(folder)
    assert names_in(folder) == sorted([*WHOLE, "events/mine.parquet"])


def test_file_that_is_missing_is_named(folder: Path) -> None:
    (folder / WHOLE[1]).unlink()
    with pytest.raises(LogDamagedError, match=r"00000001-000.parquet is missing"):
        manifest_of(folder)


def test_file_that_was_cut_is_named(folder: Path) -> None:
    os.truncate(folder / WHOLE[2], 100)
    with pytest.raises(LogDamagedError, match=r"00000002-000.parquet has 100 bytes instead of"):
        manifest_of(folder)


def test_nothing_is_touched_where_a_file_is_missing(folder: Path) -> None:
    cut_off(folder, compact, CountedFolders(5))  # the manifest is renamed and synced, the old files are there
    (folder / "events/00000003-000.parquet.new").unlink()
    with pytest.raises(LogDamagedError, match=r"00000003-000.parquet is missing"):
        manifest_of(folder)
    assert seen_by_pyarrow(folder) == sorted(FIRST + SECOND)


def test_manifest_that_was_changed_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"commit": 2', b'"commit": 3'))
    with pytest.raises(LogDamagedError, match=r"manifest.json is damaged: its checksum does not fit"):
        manifest_of(folder)


def test_copy_of_an_empty_table_without_its_folder_of_events_is_one(tmp_path: Path) -> None:
    manifest_of(tmp_path, NETWORK, create=True)
    (tmp_path / "events").rmdir()
    with open_table(tmp_path, network=NETWORK) as table:
        append(table, FIRST)
    assert seen_by_pyarrow(tmp_path) == sorted(FIRST)


# -- whatever happens ---------------------------------------------------------------------------------------------

cuts = st.one_of(st.none(), st.integers(0, 12))
losses = st.sets(st.integers(0, 5))
deeds = st.lists(st.tuples(st.sampled_from(["append", "compact"]), st.integers(1, 3), cuts, losses), max_size=7)


def attempt(place: Path, deed: str, parts: Iterable[Links], folders: LosingFolders) -> bool:
    """Whether all of it was done."""
    try:
        with open_table(place, network=NETWORK, folders=folders) as table:
            if deed == "append":
                append(table, *parts)
            else:
                compact(table)
    except CutError:
        folders.lose(str(place))
        return False
    return True


@pytest.mark.slow
@examples(15)
@given(deeds)
def test_crashes_and_power_failures_leave_one_of_two_tables(given: list[tuple[str, int, int | None, set[int]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with open_table(place, network=NETWORK, create=True) as table:
            append(table, [("a", 1)])
        sure, tick = {("a", 1)}, 1
        for deed, size, cut, lost in given:
            parts = [[("a", tick + part + 1), ("b", tick + part + 1)] for part in range(size)]
            tick += size
            new = sure | {link for part in parts for link in part} if deed == "append" else sure
            done = attempt(place, deed, parts, LosingFolders(cut, lost))
            shown = seen_by_pyarrow(place)
            assert len(shown) == len(set(shown))
            assert set(shown) <= new
            with open_table(place, network=NETWORK):
                found = set(seen_by_pyarrow(place))
            assert found == new if done else found in (sure, new)
            sure = found
