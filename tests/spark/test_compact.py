"""The job `compact` on event tables: the same events in fewer files, and the same trees after forgetting.

Knows: Spark, and tables whose events were made up here.  Does not know which events may be forgotten
(tests/property/test_spark_forgetting.py), nor which files are merged (tests/unit/spark/test_compact.py).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from distkv.errors import BusyError, LogDamagedError, NoSpaceError, SettingsError
from distkv.model.event import Event, NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count, joined, ranges_of, without
from distkv.spark.archive import Wishes, archive_once
from distkv.spark.asof import AsOf, Cut, asof
from distkv.spark.compact import Compacted, compact
from distkv.spark.table.columns import TABLE_FORM
from distkv.spark.table.store import open_table
from distkv.wire.fields import read_ranges
from tests.process.mounts import small_file_system
from tests.process.servers import Server
from tests.property.folds import rows_by_node
from tests.property.histories import history_of, random_actions
from tests.property.test_spark_forgetting import timed
from tests.spark.jobs import run_here
from tests.spark.moments import moment, write_some
from tests.spark.tables import check_whole, manifest, rows_in, ticks_in
from tests.unit.spark.event_files import NETWORK, event_row, form_needed, write_rows

NONE: TickRanges = {}


def made_up(seed: int, count: int = 400) -> list[Event]:
    """What four nodes with wrong clocks wrote, with conflicts, deletions, expiries and several lives."""
    return timed(history_of(random_actions(seed, count), 3), random.Random(seed))


def append(directory: FilePath, *parts: Sequence[Event], gaps: TickRanges = NONE) -> str:
    """Commit events to a table, a commit for each part."""
    with open_table(directory, network=NETWORK, create=True) as table:
        for part in parts:
            rows = [row for batch in rows_by_node(part) for row in batch.select(TABLE_FORM.columns.names).to_pylist()]
            file = write_rows(table, 0, rows)
            ticks = joined(table.manifest.ticks, file.ticks)
            now = without(joined(table.manifest.gaps, gaps), ticks)
            table.commit([file], ticks=ticks, gaps=now, form=form_needed(rows))
    return str(directory)


def pieces(events: Sequence[Event], size: int) -> list[Sequence[Event]]:
    return [events[at : at + size] for at in range(0, len(events), size)]


def tree(found: AsOf) -> tuple[object, ...]:
    return found.entries, found.conflicts, found.deletions, found.digest


def trees(spark: SparkSession, table: str, cuts: Iterable[Cut]) -> list[tuple[object, ...]]:
    return [tree(asof(spark, table, cut)) for cut in cuts]


# -- merging ------------------------------------------------------------------------------------------------------


def test_many_small_commits_become_one_file_with_the_same_rows(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", *pieces(made_up(1), 9))
    before, rows, then = manifest(tmp_path / "t"), rows_in(tmp_path / "t"), trees(spark, table, [Cut()])
    found = compact(spark, table)
    after = manifest(tmp_path / "t")
    assert found == Compacted(len(before["files"]), 1, len(rows), 0)
    assert rows_in(tmp_path / "t") == rows
    assert trees(spark, table, [Cut()]) == then
    assert (after["commit"], after["ticks"], after["forgotten"]) == (before["commit"] + 1, before["ticks"], None)
    (file,) = (tmp_path / "t" / "events").iterdir()
    links = [(row["node"], row["tick"]) for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert links == sorted(links)
    assert sorted(one.name for one in (tmp_path / "t").iterdir()) == ["events", "lock", "manifest.json", "readers"]


def test_second_run_has_nothing_to_do_and_commits_nothing(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", *pieces(made_up(2), 20))
    first = compact(spark, table, rows=100)
    before = (tmp_path / "t" / "manifest.json").read_bytes()
    assert compact(spark, table, rows=100) == Compacted(first.files, first.files, first.rows, 0)
    assert (tmp_path / "t" / "manifest.json").read_bytes() == before
    assert 1 < first.files < first.files_before


def test_table_without_events_has_nothing_to_do(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t")
    assert compact(spark, table, forget=5.0) == Compacted(0, 0, 0, 0)


def test_archive_goes_on_after_it(spark: SparkSession, solo: Server, tmp_path: FilePath) -> None:
    wishes, table = Wishes(((solo.host, solo.port),)), str(tmp_path / "t")
    with solo.client() as client:
        for seed in range(3):
            write_some(client, seed, 30)
            archive_once(spark, table, wishes)
        now = client.get("t")
        assert now is not None
        assert compact(spark, table, forget=now.time).forgotten > 0
        write_some(client, 3, 30)
        last = moment(client)
    before = manifest(tmp_path / "t")
    found = archive_once(spark, table, wishes)
    known = read_ranges(before["ticks"], "ticks")
    assert (found.events, found.total, found.total_gaps) == (count(without(last.held, known)), count(last.held), 0)
    assert found.events > 10
    assert len(manifest(tmp_path / "t")["files"]) == len(before["files"]) + 1
    assert tree(asof(spark, table, Cut()))[::3] == (last.tree, last.digest)
    assert archive_once(spark, table, wishes).events == 0
    check_whole(tmp_path / "t")


def test_table_that_another_job_uses_is_left_alone(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", *pieces(made_up(3), 50))
    with open_table(table, network=None), pytest.raises(BusyError, match="another job"):
        compact(spark, table)


@pytest.mark.parametrize("forget", [None, 5.0], ids=["merge", "forget"])
def test_file_with_other_rows_than_the_manifest_says_changes_nothing(
    spark: SparkSession, tmp_path: FilePath, forget: float | None
) -> None:
    """It has the right size, and can be read."""
    table = append(tmp_path / "t", *pieces(made_up(4), 50))
    with open_table(table, network=None) as opened:
        rows = [event_row("q", tick, value=tick) for tick in (1, 3)]
        file = write_rows(opened, 0, rows)
        wrong = type(file)(file.name, 2, file.size_bytes, {NodeName("q"): Ranges([(1, 3)])})
        opened.commit([wrong], ticks=joined(opened.manifest.ticks, wrong.ticks), gaps={})
    before = listing(tmp_path / "t")
    with pytest.raises(LogDamagedError, match=r"does not give it: q \[3\]"):
        compact(spark, table, forget=forget)
    assert listing(tmp_path / "t") == before


@pytest.mark.parametrize("free", [8_000, 60_000], ids=["at-once", "in-the-middle"])
def test_full_disk_changes_nothing_and_with_room_again_it_goes_on(
    spark: SparkSession, free: int
) -> None:
    """Values that cannot be compressed: two files of some 70 kB are to be written."""
    rows = [event_row("a", tick, value=random.Random(tick).randbytes(700).hex()) for tick in range(1, 401)]
    with small_file_system(FilePath("/mnt"), 2) as mounted:
        disk = mounted.seen_from_here
        directory = disk / "t"
        with open_table(directory, network=NETWORK, create=True) as table:
            for at in range(0, len(rows), 40):
                file = write_rows(table, 0, rows[at : at + 40])
                table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})
        before = listing(directory)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - free))
        with pytest.raises(NoSpaceError, match="make space"):
            compact(spark, str(directory), rows=200)
        ballast.unlink()
        assert listing(directory) == before
        assert compact(spark, str(directory), rows=200) == Compacted(10, 2, 400, 0)


def test_command_prints_what_it_did(spark: SparkSession, tmp_path: FilePath) -> None:
    with open_table(tmp_path / "t", network=NETWORK, create=True) as table:
        for at in range(1, 201, 10):
            file = write_rows(table, 0, [event_row("a", tick) for tick in range(at, at + 10)])
            table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps={})
    done = run_here(spark, (), "compact", str(tmp_path / "t"), "--rows", "50", "-o", "json")
    assert done.err == ""
    assert done.result == {"files_before": 20, "files": 4, "rows": 200, "forgotten": 0}
    check_whole(tmp_path / "t")


def test_number_of_rows_that_does_not_fit_into_memory_is_refused(spark: SparkSession, tmp_path: FilePath) -> None:
    with pytest.raises(SettingsError, match="choose 1 to 1000000"):
        compact(spark, append(tmp_path / "t"), rows=1_000_001)


# -- forgetting ---------------------------------------------------------------------------------------------------


def test_trees_of_later_cuts_are_the_same_after_forgetting(spark: SparkSession, tmp_path: FilePath) -> None:
    """Also with what comes later: every ninth event is in a gap, or not known at all, when the table forgets."""
    events = made_up(1)
    time = len(events) / 2
    early = [event for at, event in enumerate(events) if at % 9]
    late = [event for at, event in enumerate(events) if not at % 9]
    gaps = ranges_of(event.link for event in late[::2])
    for name in ("whole", "less"):
        append(tmp_path / name, *pieces(early, 30), gaps=gaps)
    before = manifest(tmp_path / "less")
    found = compact(spark, str(tmp_path / "less"), rows=100, forget=time)
    after = manifest(tmp_path / "less")
    assert found.forgotten == len(early) - len(rows_in(tmp_path / "less")) > 20
    assert (found.rows, after["forgotten"]) == (len(early) - found.forgotten, time)
    assert (after["ticks"], after["gaps"]) == (before["ticks"], before["gaps"])
    check_whole(tmp_path / "less")

    def of(name: str, *cuts: Cut) -> list[tuple[object, ...]]:
        return [tree(asof(spark, str(tmp_path / name), cut, allow_gaps=True)) for cut in cuts]

    assert of("less", Cut(at=time), Cut()) == of("whole", Cut(at=time), Cut())
    for name in ("whole", "less"):
        append(tmp_path / name, late)
    assert of("less", Cut(at=time), Cut(at=time + 20)) == of("whole", Cut(at=time), Cut(at=time + 20))


def test_cut_of_ticks_after_forgetting_needs_all_that_is_from_before(spark: SparkSession, tmp_path: FilePath) -> None:
    events = made_up(6)
    time = len(events) / 2
    table = append(tmp_path / "t", *pieces(events, 100))
    old = [event for event in events if event.time <= time]
    later = [event for event in events if event.time > time]
    held = [ranges_of(event.link for event in some) for some in (old, [*old, *later[::2]], [*old[1:], *later], events)]
    then = trees(spark, table, map(Cut, held))
    compact(spark, table, forget=time)
    assert trees(spark, table, map(Cut, (held[0], held[1], held[3]))) == [then[0], then[1], then[3]]
    kept = [link for link in ticks_in(tmp_path / "t", system=True) if link in {event.link for event in old}]
    less = without(held[3], ranges_of([(NodeName(kept[0][0]), Tick(kept[0][1]))]))
    with pytest.raises(SettingsError, match=r"the cut has not all .* up to then \(1 are missing\): choose a later"):
        asof(spark, table, Cut(less))
    with pytest.raises(SettingsError, match=r"what was overwritten before .* choose a later moment"):
        asof(spark, table, Cut(at=time - 1))


def test_nothing_to_forget_leaves_earlier_cuts_as_they_are(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", *pieces(made_up(7), 100))
    found = compact(spark, table, forget=-1.0)
    assert (found.forgotten, manifest(tmp_path / "t")["forgotten"]) == (0, None)


def test_time_that_is_still_to_come_is_refused(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", made_up(8))
    with pytest.raises(SettingsError, match="must be past"):
        compact(spark, table, forget=9e12)


@pytest.mark.parametrize("name", ["a [b] {c,d} * ? \\ ^!", "%20 # é:f"], ids=["pattern", "url"])
def test_folder_whose_name_looks_like_something_else_is_compacted(
    spark: SparkSession, tmp_path: FilePath, name: str
) -> None:
    table = append(tmp_path / name, *pieces(made_up(9), 50))
    then = trees(spark, table, [Cut()])
    assert compact(spark, table, forget=1e6).forgotten > 0
    assert trees(spark, table, [Cut()]) == then


# -- helpers ------------------------------------------------------------------------------------------------------


def listing(table: FilePath) -> dict[str, bytes]:
    """All files of a table, but the lock."""
    return {str(file): file.read_bytes() for file in table.rglob("*") if file.is_file() and file.name != "lock"}
