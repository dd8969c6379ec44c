"""Conflicts as rows, of a server that says what the test wants, and filters that narrow a read.

Knows: the rows of `conflict_rows`, and what `narrowed` makes of filters.  Does not know Spark's session (tests/spark).
"""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.spark.nodes.rows import ValueForm
from distkv.spark.source.pushdown import Narrowing, is_offered, narrowed
from distkv.spark.source.views import CONFLICT_COLUMNS, conflict_rows
from distkv.spark.table.columns import FENCE_COLUMNS
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import open_server, reply

LOST = {"path": ["x", 1], "node": "a", "tick": 5, "tock": 7, "time": 1.5, "winner": {"node": "b", "tick": 9}}


def test_conflicts_are_rows_with_the_value_that_lost_and_the_winner() -> None:
    with open_server(reply({"items": [{**LOST, "value": {"v": b"x"}}, LOST]})) as server:
        (batch,) = conflict_rows(server.address, ROOT, ValueForm.BOTH)
    assert batch.schema == CONFLICT_COLUMNS
    first, second = batch.to_pylist()
    assert (first["value"], first["value_msgpack"]) == ('{"v": {"$bytes": "eA=="}}', pack_value({"v": b"x"}))
    assert (second["value"], second["value_msgpack"]) == (None, None)
    assert {key: first[key] for key in ("path", "path_str", "node", "tick", "tock", "time_s", "ttl")} == {
        "path": ["x", ":1"], "path_str": "x.:1", "node": "a", "tick": 5, "tock": 7, "time_s": 1.5, "ttl": None,
    }  # fmt: skip
    assert (first["winner_node"], first["winner_tick"]) == ("b", 9)


def test_conflict_shows_the_fence_of_what_lost() -> None:
    fences: list[dict[str, object]] = [{"fence": ["t", 4, 1], "base": 2}, {"base": 1}, {}]
    with open_server(reply({"items": [{**LOST, **fence} for fence in fences]})) as server:
        (batch,) = conflict_rows(server.address, ROOT, ValueForm.JSON)
    assert [tuple(row[name] for name in FENCE_COLUMNS.names) for row in batch.to_pylist()] == [
        (2, 4, 1, "t"), (1, 0, 0, ""), (None, None, None, None),
    ]  # fmt: skip


def test_conflict_with_an_empty_value_is_no_deletion() -> None:
    with open_server(reply({"items": [{**LOST, "value": 0}]})) as server:
        (batch,) = conflict_rows(server.address, ROOT, ValueForm.JSON)
    assert batch.column("value").to_pylist() == ["0"]


def test_no_conflicts_are_no_rows() -> None:
    with open_server(reply({"items": []})) as server:
        assert list(conflict_rows(server.address, ROOT, ValueForm.JSON)) == []


TICK, NODE, PATH = ("tick",), ("node",), ("path_str",)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Narrowing()),
        ([EqualTo(NODE, "a")], Narrowing(frozenset("a"))),
        ([In(NODE, ("a", "b")), In(NODE, ("b", "c"))], Narrowing(frozenset("b"))),
        ([GreaterThan(TICK, 5), LessThan(TICK, 9)], Narrowing(begin=6, end=9)),
        ([GreaterThanOrEqual(TICK, 5), LessThanOrEqual(TICK, 9)], Narrowing(begin=5, end=10)),
        ([EqualTo(TICK, 5), GreaterThan(TICK, 2)], Narrowing(begin=5, end=6)),
        ([EqualTo(PATH, "x.y")], Narrowing(path=Path(["x", "y"]))),
        ([StringStartsWith(PATH, "x.y")], Narrowing(path=Path(["x"]))),
        ([StringStartsWith(PATH, "x.y.")], Narrowing(path=Path(["x", "y"]))),
        ([StringStartsWith(PATH, "x:.y")], Narrowing()),
        ([StringStartsWith(PATH, "")], Narrowing()),
        ([StringStartsWith(PATH, "x."), EqualTo(PATH, "x.y")], Narrowing(path=Path(["x", "y"]))),
        ([EqualTo(PATH, "x..y")], Narrowing()),
        ([EqualTo(PATH, ":")], Narrowing()),
        ([Not(EqualTo(NODE, "a")), IsNotNull(NODE), EqualTo(("kind",), "set")], Narrowing()),
    ],
    ids=lambda value: repr(value) if isinstance(value, list) else "",
)
def test_filters_narrow_what_is_read(filters: list[Filter], expected: Narrowing) -> None:
    assert narrowed(filters) == expected


def test_ticks_are_narrowed_by_node_and_bounds() -> None:
    found = Narrowing(frozenset("a"), begin=3, end=6)
    assert found.ticks("a", Ranges([(1, 10)])) == Ranges([(3, 6)])
    assert found.ticks("b", Ranges([(1, 10)])) == Ranges()


@pytest.mark.parametrize(
    ("option", "filtered", "expected"),
    [("x", "x.y", "x.y"), ("x", "y", "x"), (":", "y", "y"), ("x", ":", "x")],
)
def test_path_of_a_filter_narrows_only_below_that_of_the_option(option: str, filtered: str, expected: str) -> None:
    assert Narrowing(path=Path.parse(filtered)).below(Path.parse(option)) == Path.parse(expected)


def test_filters_are_not_taken_where_spark_would_refuse_them() -> None:
    assert not is_offered()
