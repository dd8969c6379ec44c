"""A node that lost values says so to every job, and none takes what is left for all.

Knows: a real node whose disk rotted, and Spark.  Does not know how the damage is found (tests/process/test_scrub.py).
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distkv.errors import DamagedError
from distkv.model.path import Path as KvPath
from distkv.spark.asof import Cut
from distkv.spark.restore import restore
from tests.process.rotten import lose, rot
from tests.process.servers import Server
from tests.spark.jobs import Ended, run_here
from tests.spark.moments import archived
from tests.spark.test_restore import addresses

OTHERS = 5


@pytest.fixture
def damaged(solo: Server) -> Server:
    """It has lost heating.night, and has heating.day and some others."""
    with solo.client() as client:
        client.set("heating.night", 16)
        client.set("heating.day", 21)
        for number in range(OTHERS):
            client.set(f"other.{number}", number)
    lose(solo, "night")
    return solo


def run(spark: SparkSession, server: Server, *words: str) -> Ended:
    return run_here(spark, [server.address], *words)


def test_what_is_lost_is_a_gap_of_the_table_until_it_is_settled(
    spark: SparkSession, damaged: Server, tmp_path: Path
) -> None:
    table, tree = str(tmp_path / "table"), tmp_path / "tree"
    first = run(spark, damaged, "archive", "--to", table, "--once", "-o", "json").result
    assert (first["gaps"], first["total_gaps"]) == (1, 1)
    for moment in (("--latest",), ("--at", str(time.time()))):
        refused = run(spark, damaged, "asof", table, *moment).complaint
        assert "1 ticks that the table has not (a [4])" in refused or "the table may lack changes" in refused
        assert run(spark, damaged, "export", "--to", str(tree), "--format", "json", "--table", table, *moment).code == 1
    assert not tree.exists()
    allowed = run(spark, damaged, "asof", table, "--latest", "--allow-gaps")
    assert (allowed.code, len(allowed.out.splitlines())) == (0, OTHERS + 2)
    assert "not known: 1 changes that the table has not: a [4]" in allowed.err
    assert run(spark, damaged, "settle", table, "--why", "the disk of a").code == 0
    settled = run(spark, damaged, "asof", table, "--latest")
    assert (settled.code, "settled" in settled.err) == (0, True)


def test_moment_of_a_node_that_lacks_own_changes_is_refused_until_they_are_gaps(
    spark: SparkSession, damaged: Server, tmp_path: Path
) -> None:
    """Whether the gap is known, or not yet: it is never shown as a whole tree."""
    table = archived(spark, damaged, tmp_path / "table")
    with damaged.client() as client:
        client.set("late", 1)
        late = client.get("late")
        assert late is not None
    archived(spark, damaged, tmp_path / "table")
    assert "a [4]" in run(spark, damaged, "asof", table, "--at", str(late.time)).complaint


def test_value_that_is_set_again_ends_the_loss_for_tables_too(
    spark: SparkSession, damaged: Server, tmp_path: Path
) -> None:
    table = archived(spark, damaged, tmp_path / "table")
    with damaged.client() as client:
        client.set("heating.night", 17)
    again = run(spark, damaged, "archive", "--to", table, "--once", "-o", "json").result
    assert again["total_gaps"] in (0, 1)  # the change may be in the history, or be superseded
    shown = run(spark, damaged, "asof", table, "--latest", "--allow-gaps", "--path", "heating")
    assert json.loads(shown.out.splitlines()[-1]) == {"path": "night", "value": 17}


def test_table_that_was_archived_before_the_damage_lacks_nothing(
    spark: SparkSession, solo: Server, tmp_path: Path
) -> None:
    with solo.client() as client:
        client.set("heating.night", 16)
    table = archived(spark, solo, tmp_path / "table")
    lose(solo, "night")
    assert run(spark, solo, "archive", "--to", table, "--once", "-o", "json").result["total_gaps"] == 0
    shown = run(spark, solo, "asof", table, "--latest", "--path", "heating")
    assert (json.loads(shown.out), shown.err) == ({"path": "night", "value": 16}, "")


@pytest.mark.parametrize("path", [":", "heating"])
def test_restore_to_a_node_that_lost_values_writes_nothing(
    spark: SparkSession, damaged: Server, tmp_path: Path, path: str
) -> None:
    table = archived(spark, damaged, tmp_path / "table")
    with damaged.client() as client:
        client.set("heating.day", 22)
        words = ("restore", table, "--latest", "--allow-gaps", "--path", path, "--apply")
        refused = run(spark, damaged, *words)
        assert (refused.code, refused.out) == (7, "")
        assert "the disk damaged what these held: heating.night" in refused.err
        day = client.get("heating.day")
        assert day is not None
        assert day.value == 22
        restore(spark, addresses(damaged), table, Cut(), path=KvPath(["other"]), apply=True, allow_gaps=True)


def test_export_of_the_live_tree_writes_nothing_when_some_is_lost(
    spark: SparkSession, damaged: Server, tmp_path: Path
) -> None:
    to = tmp_path / "live"
    words = ("export", "--to", str(to), "--format", "csv")
    refused = run(spark, damaged, *words)
    assert (refused.code, refused.out, to.exists()) == (7, "", False)
    assert "the disk damaged what these held: heating.night" in refused.err
    assert run(spark, damaged, *words, "--path", "other").out == f"{OTHERS} values written\n"


def test_view_of_the_state_is_refused_when_some_is_lost(spark: SparkSession, damaged: Server) -> None:
    read = spark.read.format("distkv").option("hosts", damaged.address).option("view", "state")
    with pytest.raises(PySparkException, match=r"the disk damaged what these held: heating\.night"):
        read.load().count()
    assert read.option("path", "other").load().count() == OTHERS


def test_events_have_a_gap_for_what_is_lost(spark: SparkSession, damaged: Server) -> None:
    events = spark.read.format("distkv").option("hosts", damaged.address)
    rows = events.load().where("kind = 'gap'").collect()
    assert [(row.node, row.tick, row.tick_end) for row in rows] == [("a", 4, 5)]
    assert events.option("startingTicks", "latest").load().count() == 0


def test_audit_names_what_is_lost(spark: SparkSession, damaged: Server) -> None:
    ran = run(spark, damaged, "audit")
    assert (ran.code, "a [4] missing" in ran.err) == (4, True)
    with damaged.client() as client, pytest.raises(DamagedError):
        client.get("heating.night")


def test_change_whose_content_rotted_is_a_gap_at_once(spark: SparkSession, solo: Server, tmp_path: Path) -> None:
    """It is superseded, so only the history had it; that it does not check is seen when it is read."""
    table = str(tmp_path / "table")
    with solo.client() as client:
        client.set("heating.night", 16)
        client.set("heating.night", 17)
    assert solo.terminate() == 0
    rot(solo, "history", "night", "tick = 4")
    solo.start("--transport", "solo").wait_ready()
    assert run(spark, solo, "archive", "--to", table, "--once", "-o", "json").result["gaps"] == 1
    assert "a [4]" in run(spark, solo, "asof", table, "--latest").complaint
    events = spark.read.format("distkv").option("hosts", solo.address).load()
    assert [row.tick for row in events.where("kind = 'gap'").collect()] == [4]


def test_time_of_which_no_node_was_asked_is_shown_with_a_word_about_it(
    spark: SparkSession, solo: Server, tmp_path: Path
) -> None:
    table, says = archived(spark, solo, tmp_path / "table"), "whether a clock was set back after the last"
    with solo.client() as client:
        root = client.get(":")
    assert root is not None
    at = ("--at", str(root.time))
    shown = run(spark, solo, "asof", table, *at)
    assert (shown.code, says in shown.err) == (0, True)
    where = ("--to", str(tmp_path / "out"), "--format", "csv", "--table", table)
    [unknown] = run(spark, solo, "export", *where, *at, "-o", "json").result["unknown"]  # type: ignore[misc]
    assert says in unknown
    assert run(spark, solo, "asof", table, "--latest").err == ""
