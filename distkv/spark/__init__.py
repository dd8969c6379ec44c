"""What happened in the fleet, in Spark: a data source, an event table, and jobs.

Knows: how the source is made known to a session; nothing else until it is asked.  Does not know the inside of a node:
it asks one as every client does.

Invariant: the import of this package loads neither Spark nor Arrow, which come with the extra `distkv[spark]`; neither
a node nor the base command imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("distkv")` known to a session, where `pyspark_distkv` is not installed but sent along."""
    from distkv.spark.source.source import DistkvSource

    spark.dataSource.register(DistkvSource)
