"""`spark.read.format("distkv")` on real nodes: which rows come, and how a read ends.

Knows: Spark and servers.  Does not know how a plan is made (tests/property/test_spark_planning).
"""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from distkv.client.blocking import Client
from distkv.client.questions import Delete, Set
from distkv.model.path import Path
from distkv.wire.values import unpack_value
from tests.process.servers import Server, wait_until


def events(spark: SparkSession, server: Server, **options: str) -> DataFrame:
    return spark.read.format("distkv").option("hosts", server.address).options(**options).load()


def test_every_change_is_a_row_with_what_was_superseded(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        first = client.set("x.y", {"v": 1}).link
        client.set("x.y", [1, b"\x01", float("inf")], ttl=1000)
        client.delete("x.y")
    assert first is not None
    rows = events(spark, node, path="x", value="both").orderBy("tick").collect()
    assert [(row.kind, row.path_str, row.path, row.root, row.tick - first[1]) for row in rows] == [
        ("set", "x.y", ["x", "y"], "x", 0),
        ("set", "x.y", ["x", "y"], "x", 1),
        ("delete", "x.y", ["x", "y"], "x", 2),
    ]
    assert [row.value for row in rows] == ['{"v": 1}', '[1, {"$bytes": "AQ=="}, {"$float": "inf"}]', None]
    assert unpack_value(rows[0].value_msgpack) == {"v": 1}
    assert [row.ttl for row in rows] == [None, 1000.0, None]
    assert [[(link.node, link.tick) for link in row.chain] for row in rows] == [[("a", row.tick)] for row in rows]
    assert {(row.node, row.read_from, row.system, row.truncated, row.tick_end) for row in rows} == {
        ("a", "a", False, False, None)
    }
    assert all(abs(row.time.timestamp() - row.time_s) < 1e-5 for row in rows)
    assert all(row.arrived >= row.time for row in rows)


def test_paths_of_every_kind_of_name_come_in_their_text_form(spark: SparkSession, node: Server) -> None:
    paths = [Path(["k", name]) for name in (None, True, False, 0, -5, 2**63, 1.5, b"\xff\x00", "", "a.b", ":x y", "ü")]
    with node.client() as client:
        for number, path in enumerate(paths):
            client.set(path, number)
        client.set(Path(), "root")
    rows = events(spark, node).orderBy("tick").collect()[-len(paths) - 1 :]
    assert [Path.parse(row.path_str) for row in rows] == [*paths, Path()]
    assert [row.path for row in rows[:-1]] == [["k", str(Path([path.names[1]]))] for path in paths]
    assert (rows[-1].path, rows[-1].root, rows[-1].path_str) == ([], None, ":")


def test_system_s_own_paths_come_only_when_they_are_asked_for(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        held = client.state()["held"]
    assert events(spark, node, system="true").count() == sum(
        end - begin if isinstance(part, list) else 1
        for part in held["a"]  # type: ignore[index]
        for begin, end in [part if isinstance(part, list) else (part, part + 1)]
    )
    assert events(spark, node).where("system").count() == 0


def test_ticks_bound_what_is_read(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        ticks = [client.set("bound", number).link[1] for number in range(4)]  # type: ignore[index]
    known = json.dumps({"a": [[1, ticks[1]]]})
    up_to = json.dumps({"a": [[1, ticks[3]]]})
    found = events(spark, node, startingTicks=known, endingTicks=up_to).orderBy("tick").collect()
    assert [row.tick for row in found] == ticks[1:3]
    assert events(spark, node, startingTicks="latest").count() == 0
    assert events(spark, node, nodes="b,c").count() == 0


def test_read_is_cut_into_partitions(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        client.batch([Set(f"k{number}", number) for number in range(500)])
        client.batch([Delete(f"k{number}") for number in range(500)])
    found = events(spark, node, rowsPerPartition="100")
    assert found.rdd.getNumPartitions() >= 10
    assert found.select("tick").distinct().count() == found.count() >= 1000


def test_what_nobody_has_is_a_gap(spark: SparkSession, solo: Server) -> None:
    """History that is let go takes superseded values with it; what is present stays."""
    with solo.client() as client:
        ticks = [client.set("x", number).link[1] for number in range(4)]  # type: ignore[index]
    solo.terminate()
    solo.environment = {**solo.environment, "DISTKV_CONFIG": str(_config(solo))}
    solo.start("--transport", "solo").wait_ready()
    with solo.client() as client:
        _wait_forgotten(client)
    found = events(spark, solo, path="x").orderBy("tick").collect()
    assert [(row.kind, row.tick, row.tick_end) for row in found if row.tick <= ticks[3]][-2:] == [
        ("gap", found[0].tick, found[0].tick_end),
        ("set", ticks[3], None),
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"bogus": "1"}, "there is no option 'bogus'"),
        ({"view": "bogus"}, "view is 'bogus': it can be events"),
        ({"value": "xml"}, "value is 'xml': it can be json, msgpack, both"),
        ({"rowsPerPartition": "0"}, "rowsPerPartition is '0'"),
        ({"startingTicks": "{"}, "startingTicks cannot be read"),
        ({"system": "perhaps"}, "system is 'perhaps': it can be true, false"),
        ({"nodes": "a b"}, "nodes is 'a b'"),
        ({"path": "a..b"}, "path"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_option_that_is_wrong_is_refused_with_what_would_be_right(
    spark: SparkSession, node: Server, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        events(spark, node, **options)
    assert complaint in str(refused.value)


def test_columns_of_others_are_refused_in_a_line(spark: SparkSession, node: Server) -> None:
    for schema in ("path_str string, value int", "path string"):
        with pytest.raises(PySparkException) as refused:
            spark.read.format("distkv").option("hosts", node.address).schema(schema).load().collect()
        assert "SettingsError: the columns of the view events are given: leave out schema()" in str(refused.value)


def test_view_of_sql_has_the_options_that_it_was_made_with(spark: SparkSession, node: Server) -> None:
    with node.client() as client:
        client.set("of_sql", 7)
    options = f"hosts '{node.address}', path 'of_sql', view 'state'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_sql USING distkv OPTIONS ({options})")
    found = spark.sql("SELECT path_str, value FROM of_sql").collect()
    assert [(row.path_str, row.value) for row in found] == [("of_sql", "7")]


@pytest.mark.parametrize("options", ["", "OPTIONS (hosts '127.0.0.1:1')"])
def test_table_of_sql_whose_options_spark_would_forget_is_refused(spark: SparkSession, options: str) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.sql(f"CREATE TABLE of_sql USING distkv {options}")
    assert "make a view instead, with CREATE TEMPORARY VIEW name USING distkv OPTIONS" in str(refused.value)


def test_host_that_is_away_ends_the_read_in_a_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.read.format("distkv").option("hosts", "127.0.0.1:1").load().count()
    assert "UnreachableError: no host answers" in str(refused.value)


def _config(server: Server) -> str:
    file = server.directory / "keep.yaml"
    file.write_text("history: {keep: 0}\n")
    return str(file)


def _wait_forgotten(client: Client) -> None:
    wait_until(lambda: client.state()["storage"]["history_rows"] == 0, "history is let go")  # type: ignore[index]
