"""The figures of a report are those of the table, and its lag is what nodes themselves know.

Knows: small tables, DuckDB and the protocol's own words to count them otherwise, and real nodes.  Does not know how the
page looks (tests/unit/spark/test_page.py, tests/browser/test_report.py).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path as FilePath

import attrs
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.client.changes import ChangePage
from distkv.errors import RequestError
from distkv.model.event import Event, Kind, NodeName
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined
from distkv.spark.counting import figures_of
from distkv.spark.figures import LIFE_LIMITS_S, SIZE_LIMITS, Figures, PathFigures, RootFigures
from distkv.spark.folding import EVENT_COLUMNS
from distkv.spark.lag import lags
from distkv.spark.report import report
from distkv.spark.rows import ValueForm, rows_of
from distkv.spark.table import open_table
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record
from tests.process.cluster import open_cluster
from tests.process.servers import Server
from tests.property.histories import compare, history_of, names, random_actions, tree_of
from tests.spark.moments import archived
from tests.unit.spark.event_files import NETWORK, event_row, write_rows
from tests.unit.spark.reports import EVIL

DEADLINE_S = 300.0
MADE_S = 1_700_000_000.0 + 86_400
NOW_S = 1_700_000_000.0
NOBODY = (read_address("127.0.0.1:1"),)


def row(node: str, tick: int, path: str, at_s: float | None = None, knows: Sequence[tuple[str, int]] = (),
        **fields: object) -> dict[str, object]:  # fmt: skip
    """An event at a time, that knew others."""
    time_s = NOW_S + tick if at_s is None else at_s
    return {
        **event_row(node, tick, path),
        "chain": [{"node": node, "tick": tick}, *({"node": name, "tick": known} for name, known in knows)],
        "time_s": time_s,
        "time": datetime.fromtimestamp(time_s, UTC) if 0 <= time_s < 1e11 else None,
        **fields,
    }


def make_table(
    place: FilePath,
    rows: list[dict[str, object]],
    *,
    gaps: dict[NodeName, Ranges] | None = None,
    path: str | None = None,
    forgotten: float | None = None,
) -> str:
    with open_table(place, network=NETWORK, path=path, create=True) as table:
        added = [write_rows(table, 0, sorted(rows, key=lambda one: (str(one["node"]), str(one["tick"]))))] if rows else []
        ticks = added[0].ticks if added else {}
        table.commit(added, ticks=joined(table.manifest.ticks, ticks), gaps=gaps or {}, forgotten=forgotten)
    return str(place)


def counted(spark: SparkSession, rows: Iterable[dict[str, object]]) -> Figures:
    from distkv.spark.columns import TABLE_FORM

    return figures_of(spark, spark.createDataFrame(pa.Table.from_pylist([*rows], schema=TABLE_FORM.columns)), MADE_S)


# -- what is counted ----------------------------------------------------------------------------------------------


@pytest.fixture
def known(tmp_path: FilePath) -> str:
    """A day of two writers: one conflict that was decided, one that is open, a value that expired."""
    return make_table(
        tmp_path / "events",
        [
            row("a", 1, "hall.light", value_msgpack=b"\xc4\x20" + bytes(32)),
            row("a", 2, "hall.light", knows=[("a", 1)], kind="delete", value=None, value_msgpack=None, tock=2),
            row("b", 3, "hall.light", knows=[("a", 2)], tock=3),
            row("a", 4, "hall.heat", NOW_S + 4),
            row("b", 5, "hall.heat", NOW_S + 5, tock=5),
            row("a", 6, "hall.heat", NOW_S + 3600, knows=[("b", 5), ("a", 4)], tock=6),
            row("a", 7, "door", ttl=60.0),
            row("a", 8, "door", knows=[("a", 7)], kind="expire", value=None, value_msgpack=None, tock=8),
            row("b", 9, "door", tock=8),
            row("b", 10, "lamp", tock=10),
            row("a", 11, "lamp", tock=11),
            row("a", 12, ":null.node.a", root=":null", system=True),
        ],
        gaps={NodeName("b"): Ranges([(20, 23)])},
    )  # fmt: skip


def test_figures_of_a_known_table_are_those_counted_by_hand(
    spark: SparkSession, known: str, tmp_path: FilePath
) -> None:
    file = tmp_path / "report.html"
    found = report(spark, known, str(file), addresses=NOBODY, made_s=MADE_S)
    assert attrs.asdict(found) == {
        "events": 11, "gaps": 3, "writers": 2, "paths": 4, "conflicts": 2, "open": 1, "lag": None,
        "bytes": 34 + 8, "file": str(file),
    }  # fmt: skip
    page = file.read_text()
    for words in ("2023-11-14 22:13:21 to 23:13:20 UTC", "0123456789abcdef", "commit 1, 1 file", "hall.light"):
        assert words in page
    assert sorted(one.name for one in tmp_path.iterdir()) == ["events", "report.html"]


def test_figures_in_detail_are_those_of_duckdb(spark: SparkSession, known: str) -> None:
    with open_table(known, network=None) as table:
        files = table.files()
    found = figures_of(spark, spark.read.parquet(*files), MADE_S)
    events = f"(SELECT *, octet_length(value_msgpack) AS size FROM '{known}/events/*.parquet' WHERE NOT system)"

    def rows(query: str) -> list[tuple[object, ...]]:
        return duckdb.sql(query.replace("EVENTS", events)).fetchall()

    assert [(one.node, one.events, one.first_s, one.last_s) for one in found.writers] == rows(
        "SELECT node, count(*), min(time_s), max(time_s) FROM EVENTS GROUP BY node ORDER BY count(*) DESC, node"
    )
    sums = "count(*), coalesce(sum(size), 0)::bigint"
    assert [(one.path, one.events, one.bytes) for one in found.hot_paths] == rows(
        f"SELECT path_str, {sums} FROM EVENTS GROUP BY path_str ORDER BY count(*) DESC, path_str"
    )
    assert [(one.root, one.paths, one.events, one.bytes) for one in found.roots] == rows(
        f"SELECT root, count(DISTINCT path_str), {sums} FROM EVENTS GROUP BY root ORDER BY count(*) DESC, root"
    )
    assert [(one.path, one.bytes, one.tick) for one in found.largest] == rows(
        "SELECT path_str, size, tick FROM EVENTS WHERE kind = 'set' ORDER BY size DESC, path_str, node, tick DESC LIMIT 10"
    )
    assert found.buckets is not None
    begin, width = found.buckets.begin_s, found.buckets.width_s
    told = {n: one.sets + one.deletes + one.expiries for n, one in enumerate(found.stretches) if one.events}
    assert list(told.items()) == rows(
        f"SELECT floor((time_s - {begin}) / {width})::int AS n, count(*) FROM EVENTS GROUP BY n ORDER BY n"
    )
    assert found.sizes == (8, 0) + (0,) * (len(SIZE_LIMITS) - 1) or sum(found.sizes) == found.values


def test_kinds_classes_and_lifetimes_are_those_counted_by_hand(spark: SparkSession, known: str) -> None:
    with open_table(known, network=None) as table:
        found = figures_of(spark, spark.read.parquet(*table.files()), MADE_S)
    stretches = found.stretches
    kinds = tuple(sum(getattr(one, name) for one in stretches) for name in ("sets", "deletes", "expiries", "conflicts"))
    assert kinds == (9, 1, 1, 2)
    assert (found.system, found.values, found.sizes[:3]) == (1, 9, (8, 1, 0))
    assert [sum(writer.series) for writer in found.writers] == [7, 4]
    # a:1 1 s, a:4 1 s, b:5 3595 s, a:7 1 s, b:10 1 s; what was deleted or expired is no value
    assert {LIFE_LIMITS_S[n]: count for n, count in enumerate(found.lives) if count} == {1.0: 4, 3600.0: 1}
    assert found.conflicts.top == (PathFigures("hall.heat", 3, 3, 1), PathFigures("lamp", 2, 2, 1))
    assert found.roots[0] == RootFigures("hall", 2, 6, 3 + 35, 1)


def test_deletion_that_was_not_known_is_told_apart_and_two_are_no_conflict(spark: SparkSession) -> None:
    delete = {"kind": "delete", "value": None, "value_msgpack": None}
    rows = [
        row("a", 1, "x"),
        row("a", 2, "x", knows=[("a", 1)], tock=2, **delete),
        row("b", 3, "x", tock=3),
        row("a", 4, "y"),
        row("a", 5, "y", knows=[("a", 4)], tock=5, **delete),
        row("b", 6, "y", knows=[("a", 4)], tock=6, **delete),
    ]
    found = counted(spark, rows).conflicts
    assert (found.count, found.over_deletions, found.paths, found.open, found.open_deletions) == (1, 1, 1, 1, 1)


def test_another_life_of_the_writer_before_is_not_the_one_that_was_known(spark: SparkSession) -> None:
    rows = [row("a", (1 << 32) + 5, "x", NOW_S), row("b", 1, "x", NOW_S, knows=[("a", (2 << 32) + 1)], tock=1 << 40)]
    assert counted(spark, rows).conflicts.count == 1


def conflicts_by_the_text(events: Iterable[Event]) -> int:
    """Those of `figures.Conflicts`, by the words of the protocol."""
    from functools import cmp_to_key
    from itertools import groupby, pairwise

    found = 0
    by_path = sorted(events, key=lambda event: str(event.path))
    for _, some in groupby(by_path, key=lambda event: str(event.path)):
        for below, event in pairwise(sorted(some, key=cmp_to_key(compare))):
            is_told = below.kind is Kind.SET or (below.kind is Kind.DELETE and event.kind is Kind.SET)
            found += is_told and not names(event, below)
    return found


def test_conflicts_of_random_histories_are_those_of_the_protocol(spark: SparkSession) -> None:
    """Of short chains and of long ones; what is open at the end is what a node would show."""
    events: list[Event] = []
    for seed in range(40):
        for event in history_of(random_actions(seed, 120), (2, 5)[seed % 2]).events:
            path = Path(["h", seed, *map(str, event.path.names)])
            events.append(
                Event(path, event.kind, event.value, event.chain, event.tock, NOW_S, event.truncated)
            )
    wanted = conflicts_by_the_text(events)
    rows = []
    for at, event in enumerate(events):
        page = ChangePage(event.node, b"\0", encode_record(EventRecord(event, 1.0)))
        rows.append(rows_of(page, Ranges([(event.tick, event.tick + 1)]), ValueForm.BOTH, f"n{at}").batch)
    found = figures_of(spark, spark.createDataFrame(pa.Table.from_batches(rows).drop_columns("tick_end")), MADE_S)
    assert wanted > 100
    assert found.conflicts.count == wanted
    assert found.conflicts.open == tree_of(events).conflict_count > 10
    assert set(EVENT_COLUMNS) <= set(rows[0].schema.names)


# -- tables that are odd ------------------------------------------------------------------------------------------


def written(spark: SparkSession, table: str, tmp_path: FilePath) -> str:
    file = tmp_path / "page.html"
    report(spark, table, str(file), addresses=NOBODY, made_s=MADE_S)
    return file.read_text()


def test_table_without_events_gives_a_page(spark: SparkSession, tmp_path: FilePath) -> None:
    page = written(spark, make_table(tmp_path / "events", [], gaps={NodeName("z"): Ranges([(1, 5)])}), tmp_path)
    assert "There is no event with a time." in page
    assert "no node answered" in page
    assert "4 events are not in the table" in page


def test_one_event_gives_a_page(spark: SparkSession, tmp_path: FilePath) -> None:
    page = written(spark, make_table(tmp_path / "events", [row("a", 1, "x")]), tmp_path)
    assert "2023-11-14 22:13:21 UTC" in page


def test_times_that_cannot_be_are_counted_and_not_drawn(spark: SparkSession, tmp_path: FilePath) -> None:
    wrong = [0.0, -1e12, 12.5, 4e9, 1e15, 1e300, MADE_S + 2 * 86_400]
    rows = [row("a", n, "x", at_s) for n, at_s in enumerate(wrong, 1)]
    table = make_table(tmp_path / "events", [*rows, row("b", 1, "x", NOW_S)])
    found = counted(spark, [*rows, row("b", 1, "x", NOW_S)])
    assert (found.odd_times, found.first_s, found.last_s) == (len(wrong), NOW_S, NOW_S)
    assert found.buckets is not None
    assert found.buckets.count == 1
    assert f"{len(wrong)} events have times before the year 2000 or in the future" in written(spark, table, tmp_path)


def test_few_events_of_a_clock_that_was_years_behind_do_not_squeeze_the_rest(spark: SparkSession) -> None:
    rows = [row("a", n, "x", NOW_S + n) for n in range(1, 100)]
    found = counted(spark, [row("b", 1, "x", 1.2e9), *rows])
    assert found.buckets is not None
    assert found.buckets.begin_s > NOW_S - 86_400
    assert sum(one.events for one in found.stretches) == 99
    assert found.first_s == 1.2e9


def test_table_of_one_path_that_forgot_says_so(spark: SparkSession, tmp_path: FilePath) -> None:
    table = make_table(tmp_path / "events", [row("a", 1, "hall.x")], path="hall", forgotten=NOW_S)
    page = written(spark, table, tmp_path)
    assert "The table has only what is at and below" in page
    assert "What was overwritten before 2023-11-14 22:13:20 UTC was dropped" in page


def test_many_paths_and_writers_bring_few_rows(spark: SparkSession) -> None:
    rows = [row(f"n{n}", 1, f"r{n}.x", NOW_S + n) for n in range(150)]
    found = counted(spark, rows)
    assert (found.writer_count, found.path_count, found.root_count) == (150, 150, 150)
    assert (len(found.writers), len(found.hot_paths), len(found.roots), len(found.largest)) == (100, 20, 20, 10)
    assert sum(one.events for one in found.stretches) == 150


def test_paths_that_look_like_markup_are_text(spark: SparkSession, tmp_path: FilePath) -> None:
    rows = [row("a", n, "x", path_str=evil, root=evil) for n, evil in enumerate(EVIL, 1)]
    page = written(spark, make_table(tmp_path / "<b>", rows), tmp_path)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


# -- the file -----------------------------------------------------------------------------------------------------


def test_page_takes_the_place_of_what_was_there_also_through_a_link(
    spark: SparkSession, known: str, tmp_path: FilePath
) -> None:
    target, link = tmp_path / "there.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    report(spark, known, str(link), addresses=NOBODY, made_s=MADE_S)
    assert link.is_symlink()
    assert target.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("file", "complaint"),
    [("nowhere/x.html", "there is no folder .*nowhere"), ("folder", "is no file"), ("events", "is no file")],
)
def test_file_that_cannot_be_is_refused_and_leaves_nothing(
    spark: SparkSession, known: str, tmp_path: FilePath, file: str, complaint: str
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(RequestError, match=complaint):
        report(spark, known, str(tmp_path / file), addresses=NOBODY)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


# -- lag ----------------------------------------------------------------------------------------------------------


def test_lag_of_a_network_is_told_of_each_writer_at_each_node(spark: SparkSession, tmp_path: FilePath) -> None:
    with open_cluster(tmp_path / "cluster") as cluster:
        for name in ("a", "b"):
            with cluster[name].client() as client:
                for number in range(50):
                    client.set(f"{name}.{random.Random(number).random()}", number)
        cluster.wait_equal(DEADLINE_S)
        addresses = [read_address(cluster[name].address) for name in ("a", "b")]
        table = archived(spark, cluster["a"], tmp_path / "table")
        found = report(spark, table, str(tmp_path / "page.html"), addresses=[*addresses, *NOBODY])
        network = bytes.fromhex(json.loads((tmp_path / "table" / "manifest.json").read_text())["network"])
        told = lags([*addresses, *NOBODY], network)
        few = lags(addresses, network, events_max=8)
    pairs = {(row.node, row.writer): row for row in told.rows}
    assert {("a", "b"), ("b", "a")} <= pairs.keys()
    assert ("a", "a") not in pairs
    for one in (pairs["a", "b"], pairs["b", "a"]):
        assert 50 <= one.events < 100
        assert -1 < one.median_s <= one.p90_s <= one.p99_s <= one.max_s < DEADLINE_S
    assert (told.nodes, len(told.failures)) == (("a", "b"), 1)
    assert "127.0.0.1:1" in told.failures[0]
    assert found.lag is not None
    assert found.lag == told.worst_s
    assert sum(one.events for one in few.rows if one.node == "a") + few.unknown <= 16


def test_node_alone_has_no_lag_and_one_of_another_network_is_not_asked(solo: Server) -> None:
    with solo.client() as client:
        client.set("x", 1)
        network = bytes.fromhex(str(client.state()["network"]))
    address = (read_address(solo.address),)
    assert (lags(address, network).rows, lags(address, network).nodes) == ((), ("a",))
    other = lags(address, NETWORK)
    assert (other.rows, other.nodes) == ((), ())
    assert "is of the network" in other.failures[0]
