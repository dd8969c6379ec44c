"""Reading from nodes beside Serf agents: what only one of them has, and what they do not agree on.

Knows: Spark and a network of two nodes.  Does not know how a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from distkv.client.questions import Set
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster", ("a", "b"), links="follow: false") as found:
        yield found


def read(spark: SparkSession, *servers: Server, **options: str) -> DataFrame:
    hosts = ",".join(server.address for server in servers)
    return spark.read.format("distkv").option("hosts", hosts).options(**options).load()


def take_all(spark: SparkSession, folder: Path, *servers: Server, **options: str) -> list[Row]:
    """The rows of a stream of what is there, from its checkpoint in the folder on."""
    hosts = ",".join(server.address for server in servers)
    found = spark.readStream.format("distkv").options(hosts=hosts, path="x", **options).load()
    rows: list[Row] = []
    query = (
        found.writeStream.option("checkpointLocation", str(folder))
        .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    return rows


def test_content_that_only_a_host_has_that_is_away_is_a_gap_after_a_while_and_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    a, b = cluster["a"], cluster["b"]
    with a.client() as client:
        for number in range(20):  # of each batch the others pull the last values, if they are quick
            client.batch([Set(f"x.k{key}", number) for key in range(20)])
    cluster.wait_equal(30)
    a.kill()
    first = take_all(spark, tmp_path / "away", b, gapWait="2")
    gaps = [row for row in first if row.kind == "gap"]
    sets = [row for row in first if row.kind == "set"]
    assert gaps
    lost = sum(row.tick_end - row.tick for row in gaps)
    assert len({row.tick for row in sets}) == len(sets)
    assert len(sets) + lost >= 400
    assert {row.value for row in sets if row.path_str == "x.k0"} >= {"19"}
    held_alone = read(spark, b, view="gaps").where("why = 'no content' and node = 'a'").collect()
    assert sum(row.tick_end - row.tick for row in held_alone) == lost
    cluster.start("a")
    assert take_all(spark, tmp_path / "away", a, b) == []
    whole = take_all(spark, tmp_path / "back", b)  # which finds the writer by itself
    assert sorted(row.value for row in whole if row.path_str == "x.k0") == sorted(map(str, range(20)))
    assert not [row for row in whole if row.kind == "gap" and row.node == "a"]


def test_changes_that_did_not_know_each_other_are_conflicts(spark: SparkSession, cluster: Cluster) -> None:
    a, b = cluster["a"], cluster["b"]

    def write_both() -> int:
        with a.client() as one, b.client() as other:
            one.set("x", "of a")
            other.set("x", "of b")
            cluster.wait_equal(30)  # else a conflict of an earlier time is seen, which the last write may have ended
            return len(one.conflicts("x"))

    cluster.wait(write_both, "two changes do not know each other", 30, pause_s=0.2)
    rows = read(spark, a, view="conflicts", path="x").collect()
    with b.client() as client:
        losers = client.conflicts("x")
    assert [(row.node, row.tick) for row in rows] == [loser.link for loser in losers]
    assert [(row.winner_node, row.winner_tick) for row in rows] == [loser.winner for loser in losers]
    assert {row.value for row in rows} <= {'"of a"', '"of b"'}
    assert {row.path_str for row in rows} == {"x"}
