"""What comes late: the two sides of a split that heals, and a node that joins, to a stream and an archive that run.

Knows: Spark, nodes beside Serf agents, and what they acknowledged.  Does not know how an offset is made
(tests/property).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from distkv.client.addresses import read_address
from distkv.spark.archive import Archived, Stopping, Wishes, archive
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import wait_until
from tests.spark.exact import Links, check_exact, held_by, root_of, rows_in, written
from tests.spark.tables import ticks_in

EQUAL_S = 60.0


@contextmanager
def archiving(spark: SparkSession, cluster: Cluster, table: Path) -> Iterator[list[Archived]]:
    """A job that goes on until the end of the block; then its result is there."""
    stopping, results = Stopping(), list[Archived]()
    wishes = Wishes(tuple(read_address(server.address) for server in cluster))

    def run() -> None:
        results.append(archive(spark, str(table), wishes, stopping=stopping, every_s=0.5))

    job = threading.Thread(target=run)
    job.start()
    try:
        yield results
    finally:
        stopping.stop()
        job.join(600)
    assert results


@contextmanager
def streaming(spark: SparkSession, cluster: Cluster, folder: Path) -> Iterator[dict[int, list[tuple[str, int, str]]]]:
    """(node, tick, kind) of each row of each batch of a stream that goes on until the end of the block."""
    batches: dict[int, list[tuple[str, int, str]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        batches[number] = [(row.node, row.tick, row.kind) for row in batch.select("node", "tick", "kind").collect()]

    hosts = ",".join(server.address for server in cluster)
    events = spark.readStream.format("distkv").option("hosts", hosts).load()
    query = events.writeStream.option("checkpointLocation", str(folder)).foreachBatch(take).start()
    try:
        yield batches
        assert query.exception() is None
    finally:
        query.stop()


def test_events_of_a_healed_split_and_of_a_node_that_joins_come_once_without_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """*c* hears nothing while all write; *d* is new, and was not named."""
    table = tmp_path / "table"
    with open_cluster(tmp_path / "cluster") as cluster:
        acknowledged = root_of(cluster["a"])
        with archiving(spark, cluster, table), streaming(spark, cluster, tmp_path / "checkpoint") as batches:

            def came() -> Links:
                return {(node, tick) for rows in list(batches.values()) for node, tick, _ in rows}

            def have_all() -> bool:
                return acknowledged <= came() and acknowledged <= set(ticks_in(table))

            cluster.agent("c").freeze()
            try:
                for name in "abc":
                    acknowledged |= written(cluster[name], 150, f"{name}.k")
                wait_until(have_all, "all that the two sides wrote came", 60, pause_s=0.2)
            finally:
                cluster.agent("c").thaw()
            cluster.wait_equal(EQUAL_S)
            cluster.add("d").start().wait_ready()
            acknowledged |= written(cluster["d"], 150, "d.k") | written(cluster["a"], 50, "a.k")
            cluster.wait_equal(EQUAL_S)
            wait_until(have_all, "what the new node wrote came", 60, pause_s=0.2)
        assert check_exact(table, acknowledged, held_by(cluster)) == set()
    assert rows_in(table) == acknowledged
    rows = [row for some in batches.values() for row in some]
    assert sorted((node, tick) for node, tick, _ in rows) == sorted(acknowledged)
