"""The job `archive` as a function, on real nodes: what is in the table after it.

Knows: Spark, nodes, and the table as other readers see it.  Does not know how a commit becomes whole
(tests/unit/spark).
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distkv.client.questions import Set
from distkv.errors import BusyError, RequestError, UnreachableError, WrongDirectoryError
from distkv.model.path import Path as KeyPath
from distkv.spark.archive import Archived, Stopping, Wishes, archive, archive_once
from distkv.spark.asof import Cut, asof
from distkv.spark.table.store import open_table
from tests.process.cluster import open_cluster
from tests.process.servers import Server, wait_until
from tests.spark.tables import check_whole, manifest, ticks_in


def wishes(*servers: Server, path: str = ":", max_rows: int = 1_000_000) -> Wishes:
    return Wishes(tuple((server.host, server.port) for server in servers), KeyPath.parse(path), max_rows)


def written(server: Server, count: int, name: str = "k") -> set[tuple[str, int]]:
    """Write so many values, some over one another; the changes that were acknowledged."""
    found: set[tuple[str, int]] = set()
    with server.client() as client:
        for at in range(0, count, 100):
            sets = [Set(f"{name}{number % 70}", number) for number in range(at, min(at + 100, count))]
            for half in (sets[:50], sets[50:]):  # in one batch no path may be written twice
                if half:
                    found |= {(done.link[0], done.link[1]) for done in client.batch(half) if done.link is not None}
    return found


def summary(found: Archived) -> tuple[int, int, int, int]:
    return found.events, found.gaps, found.total, found.total_gaps


# -- a solo node --------------------------------------------------------------------------------------------------


def test_all_that_was_acknowledged_is_in_the_table_once_and_a_second_run_adds_nothing(
    spark: SparkSession, node: Server, tmp_path: Path
) -> None:
    acknowledged = written(node, 300)
    first = archive_once(spark, str(tmp_path / "t"), wishes(node))
    assert {link for link in ticks_in(tmp_path / "t") if link in acknowledged} == acknowledged
    assert len(ticks_in(tmp_path / "t", system=True)) == first.total == first.events
    assert (first.gaps, first.total_gaps) == (0, 0)
    check_whole(tmp_path / "t")
    second = archive_once(spark, str(tmp_path / "t"), wishes(node))
    assert (summary(second), second.commit) == ((0, 0, first.total, 0), first.commit)


def test_what_came_meanwhile_comes_with_the_next_run(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    archive_once(spark, str(tmp_path / "t"), wishes(node))
    acknowledged = written(node, 120)
    found = archive_once(spark, str(tmp_path / "t"), wishes(node))
    assert found.events == 120
    assert set(ticks_in(tmp_path / "t")) >= acknowledged


def test_many_commits_come_to_the_same(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    acknowledged = written(node, 300)
    found = archive_once(spark, str(tmp_path / "t"), wishes(node, max_rows=90))
    assert found.commit >= 4
    assert set(ticks_in(tmp_path / "t")) >= acknowledged
    check_whole(tmp_path / "t")


def test_table_of_a_path_has_its_events_and_knows_the_ticks_of_others(
    spark: SparkSession, node: Server, tmp_path: Path
) -> None:
    ours = written(node, 50, "s.k")
    written(node, 50, "t.k")
    found = archive_once(spark, str(tmp_path / "t"), wishes(node, path="s"))
    assert (set(ticks_in(tmp_path / "t", system=True)), found.events) == (ours, 50)
    assert found.total == 50
    assert len(flat(manifest(tmp_path / "t")["ticks"])) > 100
    assert archive_once(spark, str(tmp_path / "t"), wishes(node, path="s")).events == 0
    with pytest.raises(WrongDirectoryError, match="is an event table of the path 's'"):
        archive_once(spark, str(tmp_path / "t"), wishes(node))


def test_what_nobody_has_is_a_gap_and_the_rest_comes(
    spark: SparkSession, solo: Server, tmp_path: Path
) -> None:
    acknowledged = written(solo, 300)
    forget_history(solo)
    found = archive_once(spark, str(tmp_path / "t"), wishes(solo))
    there = {link for link in ticks_in(tmp_path / "t") if link in acknowledged}
    assert len(there) == 70  # the last one of each path is present
    assert found.gaps == found.total_gaps
    gaps = manifest(tmp_path / "t")["gaps"]
    assert there | {("a", tick) for tick in flat(gaps)} >= acknowledged
    assert not {("a", tick) for tick in flat(gaps)} & set(ticks_in(tmp_path / "t", system=True))


def test_two_jobs_on_one_table_are_one_too_many(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    archive_once(spark, str(tmp_path / "t"), wishes(node))
    with open_table(str(tmp_path / "t"), network=None), pytest.raises(BusyError, match="another job"):
        archive_once(spark, str(tmp_path / "t"), wishes(node))


def test_no_host_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError):
        archive_once(spark, str(tmp_path / "t"), Wishes((("127.0.0.1", 1),)))
    assert not (tmp_path / "t").exists()


def test_running_archive_has_an_event_within_two_commits_and_ends_when_told(
    spark: SparkSession, node: Server, tmp_path: Path
) -> None:
    stopping, results = Stopping(), list[Archived]()
    job = threading.Thread(
        target=lambda: results.append(
            archive(spark, str(tmp_path / "t"), wishes(node), stopping=stopping, every_s=0.5)
        )
    )
    job.start()
    try:
        for round_number in range(3):
            acknowledged = written(node, 20, f"r{round_number}")
            wait_until(partial(has_all, tmp_path / "t", acknowledged), "the events are in the table")
    finally:
        stopping.stop()
        job.join(60)
    assert not job.is_alive()
    assert results[0].total == len(ticks_in(tmp_path / "t", system=True))


# -- three nodes --------------------------------------------------------------------------------------------------


def test_superseded_values_of_a_writer_that_is_away_are_gaps_until_it_is_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    with open_cluster(tmp_path / "cluster") as cluster:
        acknowledged = {link for name in "abc" for link in written(cluster[name], 200, f"{name}.k")}
        cluster.wait_equal(60)
        cluster["c"].kill()
        first = archive_once(spark, str(tmp_path / "t"), wishes(*cluster))
        there = set(ticks_in(tmp_path / "t"))
        of_others = {link for link in acknowledged if link[0] != "c"}
        assert of_others <= there
        gaps = manifest(tmp_path / "t")["gaps"]
        assert {link[1] for link in acknowledged - there} == set(flat(gaps, "c"))
        cluster.start("c")
        again = archive_once(spark, str(tmp_path / "t"), wishes(*cluster))
        assert (again.total_gaps, again.filled) == (0, first.total_gaps)
        assert set(ticks_in(tmp_path / "t")) >= acknowledged
        check_whole(tmp_path / "t")


def test_table_says_of_each_node_up_to_when_it_has_all_and_of_one_that_is_away_up_to_its_last_word(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nodes that nobody named are asked, too."""
    table = str(tmp_path / "t")
    with open_cluster(tmp_path / "cluster") as cluster:
        for name in "abc":
            written(cluster[name], 5, f"{name}.k")
        cluster.wait_equal(60)
        archive_once(spark, table, wishes(cluster["a"]))
        first = manifest(tmp_path / "t")["until"]
        cluster["c"].kill()
        written(cluster["a"], 5, "later")
        archive_once(spark, table, wishes(cluster["a"]))
        second = manifest(tmp_path / "t")["until"]
        assert (sorted(first), sorted(second)) == (["a", "b", "c"], ["a", "b", "c"])
        assert second["a"] > first["a"]
        assert second["c"] == first["c"]
        assert asof(spark, table, Cut(at=first["c"])).unknown == ()
        with pytest.raises(RequestError, match="it has all of c up to"):
            asof(spark, table, Cut(at=second["a"]))


def has_all(table: Path, acknowledged: set[tuple[str, int]]) -> bool:
    return acknowledged <= set(ticks_in(table))


# -- helpers ------------------------------------------------------------------------------------------------------


def forget_history(server: Server) -> None:
    """Have a node let go of all its history, by a restart with other settings."""
    file = server.directory / "keep.yaml"
    file.write_text("history: {keep: 0}\n")
    server.terminate()
    server.environment = {**server.environment, "DISTKV_CONFIG": str(file)}
    server.start("--transport", "solo").wait_ready()

    def is_forgotten() -> bool:
        with server.client() as client:
            storage = client.state()["storage"]
            return isinstance(storage, dict) and storage["history_rows"] == 0

    wait_until(is_forgotten, "history is let go")


def flat(gaps: object, node: str = "a") -> list[int]:
    """The ticks in a node's ranges, as JSON has them."""
    assert isinstance(gaps, dict)
    found: list[int] = []
    for part in gaps.get(node, []):
        found += range(*part) if isinstance(part, list) else [part]
    return found
