"""The figures of a report are those of the table, and its lag is what nodes themselves know.

Knows: small tables, DuckDB and the protocol's own words to count them otherwise, and real nodes.  Does not know how the
page looks (tests/unit/spark/test_page.py, tests/browser/test_report.py).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cmp_to_key
from itertools import groupby, pairwise
from pathlib import Path as FilePath

import attrs
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.client.changes import ChangePage
from distkv.errors import RequestError
from distkv.model.event import Event, Kind, NodeName, new_event
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined
from distkv.spark.nodes.rows import ValueForm, rows_of
from distkv.spark.report import report
from distkv.spark.reporting.counting import figures_of
from distkv.spark.reporting.figures import LIFE_LIMITS_S, Figures, PathFigures, RootFigures
from distkv.spark.reporting.lag import lags
from distkv.spark.table.columns import TABLE_FORM
from distkv.spark.table.contents import read_events
from distkv.spark.table.store import open_table
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record
from tests.process.cluster import open_cluster
from tests.process.servers import Server
from tests.property.histories import compare, history_of, names, random_actions, tree_of
from tests.spark.jobs import run_here
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
        added = (
            [write_rows(table, 0, sorted(rows, key=lambda one: (str(one["node"]), str(one["tick"]))))] if rows else []
        )
        ticks = added[0].ticks if added else {}
        table.commit(added, ticks=joined(table.manifest.ticks, ticks), gaps=gaps or {}, forgotten=forgotten)
    return str(place)


def counted(spark: SparkSession, rows: Iterable[dict[str, object]]) -> Figures:
    return figures_of(spark, spark.createDataFrame(pa.Table.from_pylist([*rows], schema=TABLE_FORM.columns)), MADE_S)


# -- what is counted ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An hour of two writers: one conflict that was decided, one that is open, a value that expired."""
    gone = {"value": None, "value_msgpack": None}
    return make_table(
        tmp_path_factory.mktemp("known") / "events",
        [
            row("a", 1, "hall.light", value_msgpack=b"\xc4\x20" + bytes(32)),
            row("a", 2, "hall.light", knows=[("a", 1)], kind="delete", **gone),
            row("b", 3, "hall.light", knows=[("a", 2)]),
            row("a", 4, "hall.heat"),
            row("b", 5, "hall.heat"),
            row("a", 6, "hall.heat", NOW_S + 3600, knows=[("b", 5), ("a", 4)]),
            row("a", 7, "door", ttl=60.0),
            row("a", 8, "door", knows=[("a", 7)], kind="expire", **gone),
            row("b", 9, "door", tock=8),
            row("b", 10, "lamp"),
            row("a", 11, "lamp", value_msgpack=b"\x02"),  # else the two would say the same
            row("a", 12, ":null.node.a", root=":null", system=True),
        ],
        gaps={NodeName("b"): Ranges([(20, 23)])},
    )


@pytest.fixture(scope="module")
def figures(spark: SparkSession, known: str) -> Figures:
    with open_table(known, network=None) as table:
        return figures_of(spark, read_events(spark, table), MADE_S)


def test_page_takes_the_place_of_what_a_link_leads_to_and_the_figures_are_told(
    spark: SparkSession, known: str, tmp_path: FilePath
) -> None:
    target, link = tmp_path / "there.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    found = report(spark, known, str(link), addresses=NOBODY, made_s=MADE_S)
    assert attrs.asdict(found) == {
        "events": 11, "gaps": 3, "writers": 2, "paths": 4, "conflicts": 2, "open": 1, "lag": None,
        "bytes": 34 + 8, "file": str(target),
    }  # fmt: skip
    page = target.read_text()
    for words in ("2023-11-14 22:13:21 to 23:13:20 UTC", "0123456789abcdef", "commit 1, 1 file", "hall.light"):
        assert words in page
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.html", "there.html"]


def test_sums_are_those_of_duckdb(known: str, figures: Figures) -> None:
    events = f"(SELECT *, octet_length(value_msgpack) AS size FROM '{known}/events/*.parquet' WHERE NOT system)"

    def rows(query: str) -> list[tuple[object, ...]]:
        return duckdb.sql(query.replace("EVENTS", events)).fetchall()

    assert [(one.node, one.events, one.first_s, one.last_s) for one in figures.writers] == rows(
        "SELECT node, count(*), min(time_s), max(time_s) FROM EVENTS GROUP BY node ORDER BY count(*) DESC, node"
    )
    sums = "count(*), coalesce(sum(size), 0)::bigint"
    assert [(one.path, one.events, one.bytes) for one in figures.hot_paths] == rows(
        f"SELECT path_str, {sums} FROM EVENTS GROUP BY path_str ORDER BY count(*) DESC, path_str"
    )
    assert [(one.root, one.paths, one.events, one.bytes) for one in figures.roots] == rows(
        f"SELECT root, count(DISTINCT path_str), {sums} FROM EVENTS GROUP BY root ORDER BY count(*) DESC, root"
    )
    assert [(one.path, one.bytes, one.tick) for one in figures.largest] == rows(
        "SELECT path_str, size, tick FROM EVENTS WHERE kind = 'set' ORDER BY size DESC, path_str, node, tick DESC"
    )
    assert figures.buckets is not None
    number = f"floor((time_s - {figures.buckets.begin_s}) / {figures.buckets.width_s})::int"
    assert [(n, one.events) for n, one in enumerate(figures.stretches) if one.events] == rows(
        f"SELECT {number} AS n, count(*) FROM EVENTS GROUP BY n ORDER BY n"
    )


def test_kinds_classes_and_lifetimes_are_those_counted_by_hand(figures: Figures) -> None:
    stretches = figures.stretches
    kinds = tuple(sum(getattr(one, name) for one in stretches) for name in ("sets", "deletes", "expiries", "conflicts"))
    assert kinds == (9, 1, 1, 2)
    assert (figures.system, figures.values, figures.sizes[:3]) == (1, 9, (8, 1, 0))
    assert [sum(writer.series) for writer in figures.writers] == [7, 4]
    # Of a:1, a:4, a:7 and b:10 a second, of b:5 nearly an hour; a deletion and an expiry are no value.
    assert {LIFE_LIMITS_S[n]: count for n, count in enumerate(figures.lives) if count} == {1.0: 4, 3600.0: 1}
    assert figures.conflicts.top == (PathFigures("hall.heat", 3, 3, 1), PathFigures("lamp", 2, 2, 1))
    assert figures.roots[0] == RootFigures("hall", 2, 6, 3 + 35, 1)


def test_what_was_not_known_is_told_apart_by_what_it_is(spark: SparkSession) -> None:
    """x: over a deletion; y: a deletion of what was deleted, w: the same, and a value that knew only one of the two; z:
    another life of the writer that was known."""
    delete = {"kind": "delete", "value": None, "value_msgpack": None}
    rows = [
        row("a", 1, "x"),
        row("a", 2, "x", knows=[("a", 1)], **delete),
        row("b", 3, "x"),
        row("a", 4, "y"),
        row("a", 5, "y", knows=[("a", 4)], **delete),
        row("b", 6, "y", knows=[("a", 4)], **delete),
        row("a", 8, "w"),
        row("a", 9, "w", knows=[("a", 8)], **delete),
        row("b", 10, "w", knows=[("a", 8)], **delete),
        row("b", 11, "w", knows=[("a", 8)]),
        row("a", (1 << 32) + 5, "z", NOW_S),
        row("b", 7, "z", knows=[("a", (2 << 32) + 1)], tock=1 << 40, value_msgpack=b"\x02"),
    ]
    found = counted(spark, rows).conflicts
    assert {one.path: one.conflicts for one in found.top} == {"x": 1, "z": 1}
    assert (found.count, found.over_deletions, found.paths, found.open, found.open_deletions) == (2, 1, 2, 3, 2)


def test_order_in_which_changes_are_conflicts_goes_by_the_fence(spark: SparkSession) -> None:
    """By their tocks the write of the former holder would be above the other one, which it did not know."""
    former, holder = ({"fence_base": 0, "fence_epoch": 7, "fence_counter": n, "fence_token": "t"} for n in (1, 2))
    rows = [row("a", 1, "x", tock=9, **former), row("b", 1, "x", knows=[("a", 1)], tock=2, **holder)]
    assert counted(spark, rows).conflicts.count == 0


def conflicts_by_the_text(events: Iterable[Event]) -> int:
    """Those of `figures.Conflicts`, by the words of the protocol."""
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
    is_open = 0
    for seed in range(40):
        history = [_moved(event, seed) for event in history_of(random_actions(seed, 120), (2, 5)[seed % 2]).events]
        is_open += tree_of(history).conflict_count
        events += history
    rows = [
        rows_of(
            ChangePage(event.node, b"\0", encode_record(EventRecord(event, 1.0))),
            Ranges([(event.tick, event.tick + 1)]), ValueForm.BOTH, event.node,
        ).batch
        for event in events
    ]  # fmt: skip
    found = figures_of(spark, spark.createDataFrame(pa.Table.from_batches(rows).drop_columns("tick_end")), MADE_S)
    assert (found.conflicts.count, found.conflicts.open) == (conflicts_by_the_text(events), is_open)
    assert found.conflicts.count > 500 > is_open > 100


def _moved(event: Event, seed: int) -> Event:
    """The same on a path that no other history has, and that is not the system's."""
    path = Path(["h", seed, *map(str, event.path.names)])
    parts = event.kind, event.value, event.chain, event.tock, NOW_S, event.truncated
    return new_event(path, *parts, fence=event.fence)


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


WRONG_S = (0.0, -1e12, 12.5, 4e9, 1e15, 1e300, MADE_S + 2 * 86_400)
"""Times that cannot be."""


def test_odd_table_gives_a_page_that_says_what_is_odd(spark: SparkSession, tmp_path: FilePath) -> None:
    rows = [row("a", n, "hall.x", at_s) for n, at_s in enumerate(WRONG_S, 1)]
    rows += [row("b", n, "hall", path_str=evil, root=evil) for n, evil in enumerate(EVIL, 1)]
    page = written(spark, make_table(tmp_path / "<b>", rows, path="hall", forgotten=NOW_S), tmp_path)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert f"{len(WRONG_S)} events have times before the year 2000 or in the future" in page
    assert "The table has only what is at and below" in page
    assert "What was overwritten before 2023-11-14 22:13:20 UTC was dropped" in page


def test_many_names_bring_few_rows_and_few_wrong_clocks_do_not_squeeze_the_rest(spark: SparkSession) -> None:
    rows = [row(f"n{n}", 1, f"r{n}.x", NOW_S + n) for n in range(150)]
    rows += [row("late", n, "late", at_s) for n, at_s in enumerate((1.2e9, *WRONG_S), 1)]
    found = counted(spark, rows)
    assert (found.writer_count, found.path_count, found.root_count) == (151, 151, 151)
    assert (len(found.writers), len(found.hot_paths), len(found.roots), len(found.largest)) == (100, 20, 20, 10)
    assert (found.odd_times, found.first_s, found.last_s) == (len(WRONG_S), 1.2e9, NOW_S + 149)
    assert found.buckets is not None
    assert found.buckets.begin_s > NOW_S - 86_400
    assert sum(one.events for one in found.stretches) == 150


# -- the file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "complaint"),
    [("nowhere/x.html", "there is no folder .*nowhere"), ("folder", "is no file")],
)
def test_file_that_cannot_be_is_refused_and_leaves_nothing(
    spark: SparkSession, known: str, tmp_path: FilePath, file: str, complaint: str
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(RequestError, match=complaint):
        report(spark, known, str(tmp_path / file), addresses=NOBODY)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_command_tells_one_object_and_of_a_page_that_cannot_be_written_one_line(
    spark: SparkSession, known: str, tmp_path: FilePath
) -> None:
    file = tmp_path / "report.html"
    ran = run_here(spark, ["127.0.0.1:1"], "report", known, "--to", str(file), "-o", "json")
    assert ran.err == ""
    told = ran.result
    assert list(told) == ["events", "gaps", "writers", "paths", "conflicts", "open", "lag", "bytes", "file"]
    assert (told["events"], told["lag"], told["file"]) == (11, None, str(file))
    assert "/proc" in run_here(spark, ["127.0.0.1:1"], "report", known, "--to", "/proc/x.html").complaint


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
