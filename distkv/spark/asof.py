"""The job `asof`: the tree as it was, made of the events of a cut.

Knows: which cut is meant, what a cut must not lack, and how its events are spread.  Does not know how a table came
about, how events become an entry (`spark.folding`), nor how a result is printed.

The events of a path are taken, in rising order, into the product's own `Entry`, as a node takes them; so winner, open
losers and the share of the state digest are those of a node that held just these ticks. Paths know nothing of each
other, so Spark spreads them. What a node did besides, no event says: a tombstone that it had forgotten before the path
was written anew (PURGE-1) is an open loser here and was none there, which is why open losers that are deletions are
counted; and of more than 16 open losers a node keeps those that it happened to hear in time (OPEN-3). Neither changes
any value.

Invariant: a result is of exactly the ticks of the cut, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from distkv.errors import RequestError, SettingsError
from distkv.model.event import NodeName
from distkv.model.index import place_of
from distkv.model.path import ROOT, Path, split_text
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, count, joined, without
from distkv.spark.folding import ENTRIES, EVENT_COLUMNS, IS_EXPIRY, RISING, fold
from distkv.spark.horizon import check_known, known_until, unknown_before, words_of
from distkv.spark.nodes.planning import View, held_by
from distkv.spark.table.contents import few, read_events, settled_line
from distkv.spark.table.manifest import Manifest
from distkv.spark.table.snapshot import read_table
from distkv.text.moment import utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANGES: Final = pa.schema([("of", pa.string()), ("begin", pa.int64()), ("behind", pa.int64())])


@attrs.frozen
class Cut:
    """Which events count: those of `ticks`, or all up to a time by their writers' clocks; neither: all.

    Raises:
        SettingsError: both are given.
    """

    ticks: TickRanges | None = None
    at: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.ticks is not None and self.at is not None:
            raise SettingsError("a cut is of ticks or of a time, not of both: give one of them")


@attrs.frozen
class AsOf:
    """The tree then."""

    entries: list[tuple[Path, bytes]]
    """The values by path, in the order of `get_tree`, packed; the system's own paths left out."""
    conflicts: int
    """How many open losers there are."""
    deletions: int
    """How many of them are deletions: a node that had forgotten one before its path was written anew has no such
    conflict, and another digest."""
    digest: str | None
    """As `get_state` shows it; None when it is not of a whole tree."""
    ticks: int
    """How many events the cut has."""
    gaps: int
    """How many ticks of it have no content in the table."""
    unknown: tuple[str, ...] = ()
    """What of the cut could not be known, in lines: gaps, and changes that may not be in the table."""


@attrs.frozen
class Chosen:
    """The events of a cut, while the table is open."""

    events: DataFrame
    lacked: TickRanges
    """Ticks of the cut that the table has not."""
    unknown: tuple[str, ...]
    """What of it could not be known, in lines."""


def asof(
    spark: SparkSession,
    directory: str,
    cut: Cut,
    *,
    path: Path = ROOT,
    allow_gaps: bool = False,
    views: Sequence[View] = (),
) -> AsOf:
    """The tree as of a cut.

    Raises:
        RequestError, SettingsError: see `open_cut`.
        WrongDirectoryError, FormatVersionError, LogDamagedError: the folder is none that can be used now.
    """
    with open_cut(spark, directory, cut, path=path, allow_gaps=allow_gaps, views=views) as chosen:
        found = entries_of(spark, chosen.events).toArrow()
    return _result(found, chosen, is_whole=path == ROOT)


@contextmanager
def open_cut(
    spark: SparkSession,
    directory: str,
    cut: Cut,
    *,
    path: Path = ROOT,
    allow_gaps: bool = False,
    views: Sequence[View] = (),
) -> Iterator[Chosen]:
    """The events of a cut at and below a path, as of the last commit; others may use the table meanwhile.

    `views` is what nodes of the table's network say now: of a time that came after the last `archive` they may say that
    the table lacks nothing all the same.

    Raises:
        RequestError: the cut covers gaps that nobody settled, or ticks that the table has not; or it is of a time up to
            which changes may not be in the table; and `allow_gaps` is False.
        SettingsError: it is of a time of which the table has forgotten some, or before its first change; or the path is
            none that the table has.
        WrongDirectoryError, FormatVersionError, LogDamagedError: the folder is none that can be used now.
    """
    with read_table(directory) as table:
        manifest = table.manifest
        if manifest.path is not None and not _is_below(path, Path.parse(manifest.path)):
            raise SettingsError(f"the table has only {manifest.path}: name that, or a path below it")
        events = read_events(spark, table)
        chosen = _chosen(spark, events, cut)
        if cut.at is not None and chosen.isEmpty():
            raise SettingsError(f"{utc(cut.at)} lies before the first change in the table: choose a later moment")
        lacked = _lacked(events, manifest, cut)
        unsettled = without(lacked, manifest.settled_gaps)
        if unsettled and not allow_gaps:
            raise RequestError(
                f"the cut covers {count(unsettled)} ticks that the table has not ({few(unsettled)}): archive them, "
                "choose another cut, settle what is gone for good (pipeline settle), or take what there is "
                "(--allow-gaps)"
            )
        _check_remembered(events, chosen, manifest, cut)
        until = {**manifest.until, **known_until(_of_network(views, manifest), manifest)}
        if cut.at is not None and not allow_gaps:
            check_known(cut.at, manifest, until)
        if path != ROOT:
            chosen = chosen.where(_is_at_or_below(split_text(str(path))))
        yield Chosen(chosen, lacked, tuple(_unknown(manifest, until, views, cut, lacked)))


def entries_of(spark: SparkSession, events: DataFrame) -> DataFrame:
    """What each path holds that has a value after these events, as `folding.ENTRIES`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return in_order(spark, events, (*EVENT_COLUMNS, IS_EXPIRY)).mapInArrow(fold, from_arrow_schema(ENTRIES))


def in_order(spark: SparkSession, events: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns of events, spread so that all of a path are in one place, in rising order."""
    from pyspark.sql import functions as sql

    orders = [sql.col(name).asc() if way == "ascending" else sql.col(name).desc() for name, way in RISING]
    return (
        events.withColumn(IS_EXPIRY, sql.col("kind") == "expire")
        .select(*columns)
        .repartition(max(2, spark.sparkContext.defaultParallelism), "path_str")
        .sortWithinPartitions(*orders)
    )


# -- the cut ------------------------------------------------------------------------------------------------------


def _chosen(spark: SparkSession, events: DataFrame, cut: Cut) -> DataFrame:
    from pyspark.sql import functions as sql

    if cut.at is not None:
        return events.where(sql.col("time_s") <= cut.at)
    if cut.ticks is None:
        return events
    return _of_ticks(spark, events, cut.ticks, "left_semi")


def _of_ticks(spark: SparkSession, events: DataFrame, ticks: TickRanges, how: str) -> DataFrame:
    """The events of these ticks (`left_semi`), or of all others (`left_anti`)."""
    from pyspark.sql import functions as sql

    rows = [(node, begin, end) for node, some in ticks.items() for begin, end in some.pairs()]
    columns = list(zip(*rows, strict=True)) or [()] * len(_RANGES)
    ranges = spark.createDataFrame(pa.table([list(column) for column in columns], schema=_RANGES))
    inside = (sql.col("node") == sql.col("of")) & (sql.col("tick") >= sql.col("begin"))
    return events.join(sql.broadcast(ranges), inside & (sql.col("tick") < sql.col("behind")), how)


def _lacked(events: DataFrame, manifest: Manifest, cut: Cut) -> TickRanges:
    """Ticks of the cut that the table has not."""
    if cut.ticks is not None:
        return without(cut.ticks, manifest.ticks)
    if cut.at is None:
        return manifest.gaps
    return _gaps_before(events, manifest.gaps, cut.at) if manifest.gaps else {}


def _check_remembered(events: DataFrame, chosen: DataFrame, manifest: Manifest, cut: Cut) -> None:
    """Whether what was dropped from the table would be no part of the tree then: what overwrote it must be in the cut.

    Raises:
        SettingsError: it may have been.
    """
    from pyspark.sql import functions as sql

    if manifest.forgotten is None or (cut.ticks is None and cut.at is None):
        return
    forgotten = f"what was overwritten before {manifest.forgotten:.3f} was dropped from the table"
    if cut.at is not None:
        if cut.at < manifest.forgotten:
            raise SettingsError(f"{forgotten}: choose a later moment")
        return
    old = sql.col("time_s") <= manifest.forgotten
    if lacking := events.where(old).count() - chosen.where(old).count():
        raise SettingsError(
            f"{forgotten}, and the cut has not all changes that were made up to then ({lacking} are missing): choose a "
            "later moment"
        )


def _of_network(views: Sequence[View], manifest: Manifest) -> Sequence[View]:
    return [view for view in views if view.network == manifest.network]


def _unknown(
    manifest: Manifest, until: Mapping[NodeName, float], views: Sequence[View], cut: Cut, lacked: TickRanges
) -> Iterator[str]:
    """What of a cut could not be known, in lines."""
    settled = common(lacked, manifest.settled_gaps)
    if settled:
        yield settled_line(settled)
    if others := without(lacked, settled):
        yield f"not known: {count(others)} changes that the table has not: {few(others)}"
    newer = without(held_by(_of_network(views, manifest)), joined(manifest.ticks, manifest.gaps))
    if newer and cut == Cut():
        yield f"not in the table, and so not kept: {count(newer)} changes that nodes hold: {few(newer)}"
    if cut.at is not None and (unknown := unknown_before(cut.at, manifest, until)):
        yield f"not known: what came to the table no more; it has {words_of(unknown)}"


def _gaps_before(events: DataFrame, gaps: TickRanges, at: float) -> TickRanges:
    """The gaps that may be of a time: those below the first tick of their life that is later."""
    from pyspark.sql import functions as sql

    life = sql.shiftright("tick", 32).alias("life")
    later = events.where(sql.col("time_s") > at).groupBy("node", life).agg(sql.min("tick").alias("first"))
    firsts = {(row["node"], row["life"]): row["first"] for row in later.collect()}
    found: TickRanges = {}
    for node, ticks in gaps.items():
        for begin, end in ticks.pairs():
            last = min(end, firsts.get((node, begin >> 32), end))
            if begin < last:
                found.setdefault(node, Ranges()).add_range(begin, last)
    return found


def _is_at_or_below(names: list[str]) -> Any:
    from pyspark.sql import functions as sql

    return sql.slice("path", 1, len(names)) == sql.array(*map(sql.lit, names))


def _is_below(path: Path, top: Path) -> bool:
    return path.key[: len(top)] == top.key


def _result(found: pa.Table, chosen: Chosen, *, is_whole: bool) -> AsOf:
    entries: list[tuple[Path, bytes]] = []
    digest = rows = conflicts = deletions = 0
    names = ("path_str", "value_msgpack", "conflicts", "deletions", "rows", "digest")
    for text, value, open_losers, deleted, row_count, part in zip(
        *(found.column(name).to_pylist() for name in names), strict=True
    ):
        if text is not None:
            entries.append((Path.parse(text), value))
            continue
        conflicts += open_losers
        deletions += deleted
        rows += row_count
        digest ^= int.from_bytes(part, "big")
    entries.sort(key=lambda entry: place_of(entry[0].key))
    shown = f"{digest:016x}" if is_whole else None
    return AsOf(entries, conflicts, deletions, shown, rows, count(chosen.lacked), chosen.unknown)
