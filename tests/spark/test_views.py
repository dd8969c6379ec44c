"""The views `state`, `conflicts` and `gaps`, and filters that are pushed down, on real nodes.

Knows: Spark and servers.  Does not know how values are read in bulk (tests/unit/client/test_bulk).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from distkv.client.questions import Set
from distkv.model.path import Path
from distkv.wire.json_form import to_json
from distkv.wire.packing import Timestamp
from distkv.wire.values import pack_value
from tests.process.servers import Server

VALUES: tuple[object, ...] = (
    1, "text", b"\x00\xff", 1.5, float("inf"), True, [1, [2]], {"a": 1}, {"$bytes": 1}, {1: "one", "1": "text"},
    {b"k": Timestamp(7, 9)}, Timestamp(1, 2), "", [], {},
)  # fmt: skip


def read(spark: SparkSession, server: Server, **options: str) -> DataFrame:
    return spark.read.format("distkv").option("hosts", server.address).options(**options).load()


def test_state_has_every_value_as_json_and_packed(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        links = [client.set(Path(["v", number]), value).link for number, value in enumerate(VALUES)]
        client.set("v.gone", 1)
        client.delete("v.gone")
    rows = read(spark, node, view="state", path="v", value="both").orderBy("tick").collect()
    assert [row.value for row in rows] == [to_json(value) for value in VALUES]
    assert [bytes(row.value_msgpack) for row in rows] == [pack_value(value) for value in VALUES]
    assert [(row.node, row.tick) for row in rows] == links
    assert [row.path_str for row in rows] == [f"v.:{number}" for number in range(len(VALUES))]
    assert [row.path for row in rows] == [["v", f":{number}"] for number in range(len(VALUES))]
    assert all(abs(row.time.timestamp() - row.time_s) < 1e-5 for row in rows)
    assert all(row.tock > 0 and row.ttl is None for row in rows)


def test_state_has_paths_of_every_kind_of_name(spark: SparkSession, node: Server) -> None:
    paths = [Path(["k", name]) for name in (True, 0, -5, 2**63, 1.5, b"\xff\x00", "", "a.b", ":x y", "ü")]
    with node.client() as client:
        for path in paths:
            client.set(path, 1, ttl=1000)
    rows = read(spark, node, view="state", path="k").orderBy("tick").collect()
    assert [Path.parse(row.path_str) for row in rows] == paths
    assert [row.path for row in rows] == [["k", str(Path(path.names[1:]))] for path in paths]
    assert {row.ttl for row in rows} == {1000.0}


def test_state_has_the_system_s_own_paths_when_they_are_asked_for(spark: SparkSession, solo: Server) -> None:
    plain = read(spark, solo, view="state").collect()
    both = read(spark, solo, view="state", system="true").collect()
    assert [row.path_str for row in plain] == [":"]
    assert len(both) > 1
    assert all(row.path[0] == ":n" for row in both if row.path)


def test_state_of_an_empty_path_has_no_rows(spark: SparkSession, node: Server) -> None:
    assert read(spark, node, view="state", path="nothing").count() == 0


def test_state_is_read_from_the_first_host_that_answers(spark: SparkSession, solo: Server) -> None:
    found = spark.read.format("distkv").options(hosts=f"127.0.0.1:1,{solo.address}", view="state").load()
    assert found.count() == 1


def test_state_of_hosts_that_are_away_ends_in_a_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="UnreachableError: no host answers"):
        spark.read.format("distkv").options(hosts="127.0.0.1:1", view="state").load().collect()


def test_gaps_have_what_nobody_holds_and_what_has_no_content(spark: SparkSession, node: Server) -> None:
    assert read(spark, node, view="gaps").count() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"view": "state", "startingTicks": "latest"}, "the view state has no option startingTicks"),
        ({"view": "conflicts", "nodes": "a"}, "the view conflicts has no option nodes"),
        ({"view": "gaps", "value": "both"}, "the view gaps has no option value"),
    ],
    ids=lambda value: value["view"] if isinstance(value, dict) else "",
)
def test_option_that_a_view_has_not_is_refused(
    spark: SparkSession, node: Server, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException, match=complaint):
        read(spark, node, **options)


# -- filters ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that pushes filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


CONDITIONS = {
    "node": "node = 'a'",
    "nodes": "node in ('a', 'b')",
    "other": "node = 'b'",
    "tick": "tick >= {1} and tick < {3}",
    "one": "tick = {2}",
    "path": "path_str = 'x.k1'",
    "prefix": "path_str like 'x.k1%'",
    "both": "path_str like 'x.%' and tick > {1} and kind = 'set'",
    "either": "node = 'b' or tick > {2}",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_filter_that_is_pushed_down_gives_the_same_rows(pushing: SparkSession, node: Server, condition: str) -> None:
    with node.client() as client:
        ticks = [client.set(f"x.k{number}", number).link[1] for number in range(12)]  # type: ignore[index]
    where = condition.format(*ticks)
    found = [row.tick for row in read(pushing, node).where(where).collect()]
    pushing.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert sorted(found) == sorted(row.tick for row in read(pushing, node).where(where).collect())


def test_filter_that_is_pushed_down_narrows_what_is_read(pushing: SparkSession, node: Server) -> None:
    with node.client() as client:
        ticks = [
            written.link[1]
            for written in client.batch([Set(f"x.k{number}", number) for number in range(200)])
            if written.link is not None
        ]
    found = read(pushing, node, rowsPerPartition="10").where(f"tick >= {ticks[0]} and tick < {ticks[10]}")
    assert found.count() == 10
    assert found.rdd.getNumPartitions() == 1


def test_second_query_of_a_frame_is_not_narrowed_by_the_first_one(pushing: SparkSession, solo: Server) -> None:
    with solo.client() as client:
        client.batch([Set(f"x.k{number}", number) for number in range(10)])
    found = read(pushing, solo)
    assert found.where("path_str = 'x.k1'").count() == 1
    assert found.where("path_str = 'x.k2'").count() == 1
    assert found.where("kind = 'set'").count() == 11
    assert found.count() == 11
