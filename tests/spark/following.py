"""A program that follows the events of a fleet into Parquet files, as a user writes one: killed and started by tests.

    python -m tests.spark.following HOSTS FOLDER

Knows: Spark's own ways, checkpoint included.  Does not know who kills it.

Each batch becomes a folder of its own, which is written anew when Spark repeats the batch. While FOLDER/hold exists, it
stands still with a batch written that Spark does not know of yet, and says so with FOLDER/held.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.process.servers import wait_until
from tests.spark.jobs import INTERPRETED


def main(hosts: str, folder: Path) -> None:
    """Until it is killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable

    def take(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "batches" / str(number)))
        if (folder / "hold").exists():
            (folder / "held").write_text(str(number))
            wait_until(lambda: not (folder / "hold").exists(), "it may go on, or is killed")

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config(map=INTERPRETED)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    events = spark.readStream.format("distkv").options(hosts=hosts, gapWait="2").load()
    query = (
        events.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(take).start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
