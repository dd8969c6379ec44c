"""The figures of an event table, counted by Spark.

Knows: the SQL expressions, and how many rows each of them brings to the driver.  Does not know files, nodes or pages.

Events are looked at several times, each time few columns of them. The one step that sorts all of them is what knows
which event of a path is next below which: it is made of the paths' own order (docs/protocol, ORDER-2), and Spark puts
on disk what memory does not hold. Only paths on which something was not known are folded, in Python: no other one can
have an open loser.

Invariant: what comes to the driver is bounded by the number of writers and days, and by the limits of
`spark.reporting.figures`, never by the number of events or paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from distkv.spark.asof import entries_of
from distkv.spark.folding import IS_EXPIRY, RISING
from distkv.spark.reporting.figures import (
    LARGEST_MAX,
    LIFE_LIMITS_S,
    PATHS_MAX,
    ROOTS_MAX,
    SIZE_LIMITS,
    WRITERS_MAX,
    Conflicts,
    Figures,
    LargeValue,
    PathFigures,
    RootFigures,
    TimeBucket,
    WriterFigures,
)
from distkv.spark.reporting.scale import DAY_S, FUTURE_S, PLAUSIBLE_FROM_S, Buckets, buckets_of, main_days

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_NO_CLASS: Final = -1


def figures_of(spark: SparkSession, events: DataFrame, made_s: float) -> Figures:
    """The figures of a table's events; `made_s` is now: what is later than that, and a day, is no time."""
    from pyspark.sql import functions as sql

    known = events.withColumn("at", _possible_time(made_s)).withColumn("size", _size())
    own = known.where(~sql.col("system"))
    found = _by_writer(known)
    buckets = _buckets(own)
    found = attrs.evolve(found, buckets=buckets, **_rates(own, buckets, found.writers))
    found = attrs.evolve(found, largest=_largest(own))
    return attrs.evolve(found, **_by_path(spark, own, buckets, found.stretches))


# -- columns ------------------------------------------------------------------------------------------------------


def _possible_time(made_s: float) -> Column:
    """When an event was made; null when its writer's clock showed what cannot be."""
    from pyspark.sql import functions as sql

    time_s = sql.col("time_s")
    return sql.when((time_s >= PLAUSIBLE_FROM_S) & (time_s <= made_s + FUTURE_S), time_s)


def _size() -> Column:
    """Of the value, in bytes; null when the event has none."""
    from pyspark.sql import functions as sql

    return sql.when(sql.col("kind") == "set", sql.octet_length("value_msgpack"))


def _class(column: Column, limits: Sequence[float]) -> Column:
    """In which class a number is: how many limits it is above."""
    from pyspark.sql import functions as sql

    return sum((sql.when(column > limit, 1).otherwise(0) for limit in limits), sql.lit(0))


def _sum(column: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.coalesce(sql.sum(column.cast("bigint")), sql.lit(0))


# -- writers and times --------------------------------------------------------------------------------------------


def _by_writer(known: DataFrame) -> Figures:
    from pyspark.sql import functions as sql

    own = ~sql.col("system")
    size_class = _class(sql.col("size"), SIZE_LIMITS)
    classes = range(len(SIZE_LIMITS) + 1)
    rows = (
        known.groupBy("node")
        .agg(
            _sum(~own).alias("system"),
            _sum(own).alias("events"),
            _sum(own & (sql.col("kind") == "set")).alias("sets"),
            _sum(sql.when(own, sql.col("size"))).alias("bytes"),
            _sum(own & sql.col("at").isNull()).alias("odd"),
            sql.min(sql.when(own, sql.col("at"))).alias("first"),
            sql.max(sql.when(own, sql.col("at"))).alias("last"),
            *(_sum(own & sql.col("size").isNotNull() & (size_class == n)).alias(f"class{n}") for n in classes),
        )
        .collect()
    )
    rows.sort(key=lambda row: (-row["events"], row["node"]))
    firsts = [row["first"] for row in rows if row["first"] is not None]
    return Figures(
        system=sum(row["system"] for row in rows),
        events=sum(row["events"] for row in rows),
        values=sum(row["sets"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        odd_times=sum(row["odd"] for row in rows),
        first_s=min(firsts, default=None),
        last_s=max((row["last"] for row in rows if row["last"] is not None), default=None),
        writer_count=sum(row["events"] > 0 for row in rows),
        writers=tuple(
            WriterFigures(row["node"], row["events"], row["first"], row["last"], row["odd"])
            for row in rows[:WRITERS_MAX]
        ),
        sizes=tuple(sum(row[f"class{n}"] for row in rows) for n in classes),
    )


def _buckets(own: DataFrame) -> Buckets | None:
    from pyspark.sql import functions as sql

    day = sql.floor(sql.col("at") / DAY_S).alias("day")
    counts = (sql.count("*").alias("events"), sql.min("at").alias("first"), sql.max("at").alias("last"))
    days = own.where(sql.col("at").isNotNull()).groupBy(day).agg(*counts).collect()
    if not days:
        return None
    first, last = main_days((row["day"], row["events"]) for row in days)
    drawn = [row for row in days if first <= row["day"] <= last]
    return buckets_of(min(row["first"] for row in drawn), max(row["last"] for row in drawn))


def _bucket(buckets: Buckets) -> Column:
    """The number of the stretch in which an event was made; null: in none of them."""
    from pyspark.sql import functions as sql

    number = sql.floor((sql.col("at") - buckets.begin_s) / buckets.width_s)
    return sql.when((number >= 0) & (number < buckets.count), number)


def _rates(own: DataFrame, buckets: Buckets | None, writers: Sequence[WriterFigures]) -> dict[str, Any]:
    """What happened in each stretch, of all and of each writer that is shown."""
    from pyspark.sql import functions as sql

    if buckets is None:
        return {}
    names = {writer.node: number for number, writer in enumerate(writers)}
    node = sql.when(sql.col("node").isin(*names), sql.col("node")).alias("node")
    rows = (
        own.select(_bucket(buckets).alias("bucket"), node, "kind")
        .where(sql.col("bucket").isNotNull())
        .groupBy("bucket", "node", "kind")
        .count()
        .collect()
    )
    kinds = {kind: [0] * buckets.count for kind in ("set", "delete", "expire")}
    series = [[0] * buckets.count for _ in writers]
    for bucket, name, kind, count in rows:
        kinds[kind][bucket] += count
        if name is not None:
            series[names[name]][bucket] += count
    return {
        "stretches": tuple(map(TimeBucket, kinds["set"], kinds["delete"], kinds["expire"])),
        "writers": tuple(
            attrs.evolve(writer, series=tuple(counts)) for writer, counts in zip(writers, series, strict=True)
        ),
    }


# -- paths --------------------------------------------------------------------------------------------------------


def _largest(own: DataFrame) -> tuple[LargeValue, ...]:
    from pyspark.sql import functions as sql

    rows = (
        own.where(sql.col("size").isNotNull())
        .select("path_str", "size", "node", "tick", "at")
        .orderBy(sql.desc("size"), "path_str", "node", sql.desc("tick"))
        .limit(LARGEST_MAX)
    )
    return tuple(LargeValue(*row) for row in rows.collect())


def _linked(own: DataFrame) -> DataFrame:
    """Each event with what it says of the one next below it on its path; docs: `figures.Conflicts`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    orders = [sql.col(name).asc() if way == "ascending" else sql.col(name).desc() for name, way in RISING[1:]]
    on_path = Window.partitionBy("path_str").orderBy(*orders)
    below = sql.lag(sql.struct("node", "tick", "kind", "at")).over(on_path)

    def names(link: Column) -> Column:
        # As `model.event.contains`: the same writer, which is a node in one life, at that tick or later.
        node, tick = sql.col("below.node"), sql.col("below.tick")
        is_of_life = sql.shiftright(link["tick"], 32) == sql.shiftright(tick, 32)
        return (link["node"] == node) & (link["tick"] >= tick) & is_of_life

    is_unknown = sql.col("below").isNotNull() & ~sql.exists("chain", names)
    is_over_value = sql.col("below.kind") == "set"
    is_over_deletion = (sql.col("below.kind") == "delete") & (sql.col("kind") == "set")
    life_s = sql.when(is_over_value, sql.col("at") - sql.col("below.at"))
    life = sql.when(life_s < 0, _NO_CLASS).when(life_s.isNotNull(), _class(life_s, LIFE_LIMITS_S))
    return (
        own.withColumn(IS_EXPIRY, sql.col("kind") == "expire")
        .withColumn("below", below)
        .withColumn("unknown", sql.coalesce(is_unknown, sql.lit(False)))
        .select(
            "path_str", "root", "size", "at", "unknown",
            (sql.col("unknown") & (is_over_value | is_over_deletion)).alias("conflict"),
            (sql.col("unknown") & is_over_deletion).alias("over_deletion"),
            life.alias("class"),
        )
    )  # fmt: skip


def _by_path(
    spark: SparkSession, own: DataFrame, buckets: Buckets | None, stretches: Sequence[TimeBucket]
) -> dict[str, Any]:
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    # As many parts as there are workers: Spark's own 200 cost more to begin than a small table to count.
    linked = _linked(own.repartition(max(2, spark.sparkContext.defaultParallelism), "path_str"))
    paths = (
        linked.groupBy("path_str")
        .agg(
            sql.first("root").alias("root"),
            sql.count("*").alias("events"),
            _sum(sql.col("size")).alias("bytes"),
            _sum(sql.col("unknown")).alias("unknown"),
            _sum(sql.col("conflict")).alias("conflicts"),
            _sum(sql.col("over_deletion")).alias("over_deletions"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        found = _of_paths(spark, own, paths)
    finally:
        paths.unpersist()
    return {**found, **_lives(linked, buckets, stretches)}


def _of_paths(spark: SparkSession, own: DataFrame, paths: DataFrame) -> dict[str, Any]:
    from pyspark.sql import functions as sql

    sums = [_sum(sql.col(name)).alias(name) for name in ("events", "bytes", "conflicts")]
    of_all = paths.agg(
        sql.count("*").alias("paths"),
        # A path of no name has no root, and counts as one.
        (sql.count_distinct("root") + sql.max(sql.col("root").isNull().cast("int"))).alias("roots"),
        _sum(sql.col("unknown")).alias("unknown"),
        _sum(sql.col("conflicts")).alias("conflicts"),
        _sum(sql.col("over_deletions")).alias("over_deletions"),
        _sum(sql.col("conflicts") > 0).alias("disputed"),
    ).collect()[0]
    by_root = paths.groupBy("root").agg(sql.count("*").alias("paths"), *sums)
    roots = by_root.orderBy(sql.desc("events"), "root").limit(ROOTS_MAX).collect()
    return {
        "path_count": of_all["paths"],
        "hot_paths": _most(paths, "events", PATHS_MAX),
        "root_count": of_all["roots"] or 0,
        "roots": tuple(RootFigures(*row) for row in roots),
        "conflicts": _conflicts(spark, own, paths, of_all) if of_all["unknown"] else Conflicts(),
    }


def _most(paths: DataFrame, column: str, count_max: int) -> tuple[PathFigures, ...]:
    from pyspark.sql import functions as sql

    rows = paths.where(sql.col(column) > 0).orderBy(sql.desc(column), "path_str").limit(count_max)
    return tuple(PathFigures(*row) for row in rows.select("path_str", "events", "bytes", "conflicts").collect())


def _conflicts(spark: SparkSession, own: DataFrame, paths: DataFrame, of_all: Row) -> Conflicts:
    from pyspark.sql import functions as sql

    disputed = paths.where(sql.col("unknown") > 0).select("path_str")
    entries = entries_of(spark, own.join(disputed, "path_str", "left_semi"))
    sums = entries.where(sql.col("path_str").isNull())  # a row of each worker
    open_all, open_deletions = sums.agg(_sum(sql.col("conflicts")), _sum(sql.col("deletions"))).collect()[0]
    top = _most(paths, "conflicts", PATHS_MAX)
    counts = (of_all["conflicts"], of_all["over_deletions"], of_all["disputed"])
    return Conflicts(*counts, open_all, open_deletions, top)


def _lives(linked: DataFrame, buckets: Buckets | None, stretches: Sequence[TimeBucket]) -> dict[str, Any]:
    """How long values lasted, and in which stretches the conflicts were."""
    from pyspark.sql import functions as sql

    bucket = sql.lit(None).cast("bigint") if buckets is None else _bucket(buckets)
    rows = (
        linked.select(bucket.alias("bucket"), "class", "conflict")
        .where(sql.col("class").isNotNull() | sql.col("conflict"))
        .groupBy("bucket", "class")
        .agg(sql.count("*").alias("count"), _sum(sql.col("conflict")).alias("conflicts"))
        .collect()
    )
    lives = [0] * (len(LIFE_LIMITS_S) + 1)
    conflicts = [0] * len(stretches)
    backward = 0
    for number, life, count, disputed in rows:
        if number is not None:
            conflicts[number] += disputed
        if life == _NO_CLASS:
            backward += count
        elif life is not None:
            lives[life] += count
    told = tuple(attrs.evolve(stretch, conflicts=n) for stretch, n in zip(stretches, conflicts, strict=True))
    return {"lives": tuple(lives), "backward": backward, "stretches": told}
