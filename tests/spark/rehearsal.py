"""A bit of everything that tests do with Spark: `python -m tests.spark.rehearsal FOLDER`.

Knows: jobs, and the data source.  Does not know why it is run (`home`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from distkv.client.questions import Set
from distkv.spark.session import session
from tests.process.servers import Server, open_servers
from tests.spark.jobs import INTERPRETED, LOCAL, run_here


def play(spark: SparkSession, node: Server, folder: Path) -> None:
    """Each kind of job and of query."""
    table, rows = str(folder / "table"), folder / "rows.csv"
    rows.write_text("k,v\na,1\n")
    with node.client() as client:
        for value in range(2):
            client.batch([Set(f"x.k{number}", value) for number in range(10)])
    for words in (
        ("archive", "--to", table, "--once"),
        ("asof", table, "--latest"),
        ("audit", table),
        ("report", table, "--to", str(folder / "page.html")),
        ("export", "--to", str(folder / "csv"), "--format", "csv"),
        ("archive", "--to", table, "--once"),
        ("restore", table, "--latest", "--apply"),
        ("import", str(rows), "--format", "csv", "--to", "y.{k}", "--value", "v", "--rejects", str(folder / "rejects")),
        ("compact", table, "--forget", "2000-01-01"),
    ):
        ended = run_here(spark, [node.address], *words)
        assert ended.code == 0, ended.err
    for view in ("events", "state", "conflicts", "gaps"):
        spark.read.format("distkv").options(hosts=node.address, view=view).load().orderBy("tick").collect()
    spark.createDataFrame([("x.k1", "2")], "path_str string, value string").write.format("distkv").option(
        "hosts", node.address
    ).mode("append").save()
    events = spark.readStream.format("distkv").option("hosts", node.address).load()
    query = (
        events.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda batch, _: batch.count())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(folder: Path) -> None:
    with open_servers(folder / "servers") as servers:
        node = servers.add("a").start("--transport", "solo", "--init", "hello")
        node.wait_ready()
        with session(LOCAL) as spark:
            for name, conf in (("compiled", {}), ("interpreted", INTERPRETED)):
                for key, value in conf.items():
                    spark.conf.set(key, value)
                (folder / name).mkdir()
                play(spark, node, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
