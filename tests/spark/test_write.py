"""`df.write.format("distkv")` and `df.writeStream` on a real node: what is stored, and how a write ends.

Knows: Spark and a server.  Does not know which rows are refused (tests/unit/spark/test_row_writes.py), nor what another
host is asked for (tests/unit/spark/test_sending.py).
"""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from distkv.client.questions import Set
from distkv.wire.json_form import to_json
from tests.process.servers import Server

VALUES = "path_str string, value string"


def write(frame: DataFrame, server: Server, mode: str = "append", **options: str) -> None:
    frame.write.format("distkv").option("hosts", server.address).options(**options).mode(mode).save()


def state(spark: SparkSession, server: Server, path: str = "x") -> DataFrame:
    return spark.read.format("distkv").options(hosts=server.address, view="state", path=path, value="both").load()


def tree(server: Server, path: str = "x") -> dict[str, str]:
    with server.client() as client:
        return {str(place): to_json(entry.value) for place, entry in client.get_tree(path)}


def tick(server: Server) -> int:
    """How many changes it made."""
    with server.client() as client:
        return int(client.state()["tick"])  # type: ignore[call-overload]


def complaint(error: PySparkException) -> str:
    """The last line that is ours."""
    return [line for line in str(error).splitlines() if line.startswith("distkv.")][-1]


def test_rows_set_and_delete_and_a_second_time_nothing_happens(spark: SparkSession, solo: Server) -> None:
    with solo.client() as client:
        client.set("x.old", 1)
    rows = [("x.a", '{"k": [1, {"$float": "nan"}]}'), ("x.b:.c", '"text"'), ("x.old", None), ("x.:7", "1.5")]
    frame = spark.createDataFrame(rows, VALUES)
    write(frame, solo)
    assert tree(solo) == {"x.:7": "1.5", "x.a": '{"k": [1, {"$float": "nan"}]}', "x.b:.c": '"text"'}
    before = tick(solo)
    write(frame, solo)
    assert tick(solo) == before


def test_what_was_read_is_written_elsewhere_as_it_was(spark: SparkSession, solo: Server) -> None:
    with solo.client() as client:
        client.batch([Set("x.a", {1: b"\0"}), Set("x.b", float("nan")), Set("x.c", 1, ttl=1000)])
    found = state(spark, solo)
    moved = found.selectExpr("concat('y', substr(path_str, 2)) as path_str", "value_msgpack", "ttl")
    write(moved, solo, batchSize="2")
    assert list(tree(solo, "y").values()) == list(tree(solo, "x").values())
    with solo.client() as client:
        assert [client.get(f"y.{name}").ttl for name in "abc"] == [None, None, 1000.0]  # type: ignore[union-attr]


def test_if_unchanged_leaves_what_changed_and_names_it(spark: SparkSession, solo: Server) -> None:
    """And a write that comes again, as that of a task that is tried again, finds its own values."""
    with solo.client() as client:
        client.batch([Set("x.a", 1), Set("x.b", 1), Set("x.c", 1)])
        frame = state(spark, solo).selectExpr("path_str", "'2' as value", "node", "tick").localCheckpoint()
        client.set("x.b", 3)
        for _ in range(2):
            with pytest.raises(PySparkException) as refused:
                write(frame, solo, ifUnchanged="true")
            assert "1 of 3 rows were not written, since their paths have changed: the first is x.b" in str(
                refused.value
            )
            assert tree(solo) == {"x.a": "2", "x.b": "3", "x.c": "2"}
            assert len(list(client.history("x.a"))) == 2
        client.set("x.b", 2)
    write(frame, solo, ifUnchanged="true")


def test_overwrite_deletes_what_is_in_no_row_at_and_below_its_path(spark: SparkSession, solo: Server) -> None:
    with solo.client() as client:
        client.batch([Set("x", 0), Set("x.a", 1), Set("x.b", 1), Set("y", 1)])
        client.batch([Set(f"x.many.{number}", 1) for number in range(900)])
    frame = spark.createDataFrame([("x.a", "1"), ("x.c", "2")], VALUES)
    write(frame, solo, "overwrite", path="x", confirmOverwrite="true")
    assert tree(solo) == {"x.a": "1", "x.c": "2"}
    assert tree(solo, "y") == {"y": "1"}
    with solo.client() as client:
        assert len(list(client.history("x.a"))) == 1


def test_bad_row_ends_the_write_before_anything_of_its_batch_is_written(spark: SparkSession, solo: Server) -> None:
    rows = [("x.a", "1"), ("x.b", "1"), ("x.c", "1"), ("x.d", "{")]
    frame = spark.createDataFrame(rows, VALUES).coalesce(1)
    with pytest.raises(PySparkException) as refused:
        write(frame, solo, batchSize="2")
    assert complaint(refused.value).startswith(
        "distkv.errors.BadValueError: the row of x.d cannot be written: the value is no JSON"
    )
    assert tree(solo) == {"x.a": "1", "x.b": "1"}


@pytest.mark.parametrize(
    ("columns", "options", "mode", "expected"),
    [
        (VALUES, {"bogus": "1"}, "append", "SettingsError: there is no option 'bogus'; a write has hosts, path"),
        (VALUES, {}, "overwrite", "SettingsError: mode overwrite needs the option path"),
        ("path_str string, value int", {}, "append", "SettingsError: the column value is of type int32"),
        (VALUES, {"hosts": "127.0.0.1:1"}, "append", "UnreachableError: no host answers"),
    ],
    ids=["option", "overwrite", "column", "host"],
)
def test_write_that_cannot_be_meant_is_refused_before_it_begins(
    spark: SparkSession, node: Server, columns: str, options: dict[str, str], mode: str, expected: str
) -> None:
    frame = spark.createDataFrame([], columns)
    with pytest.raises(PySparkException) as refused:
        write(frame, node, mode, **options)
    assert complaint(refused.value).startswith(f"distkv.errors.{expected}")


def test_stream_writes_its_batches_and_goes_on_behind_them(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.batch([Set(f"x.k{number}", number) for number in range(5)])
    for expected in (5, 6):
        copied = (
            spark.readStream.format("distkv").options(hosts=solo.address, path="x").load()
            .selectExpr("concat('y', substr(path_str, 2)) as path_str", "value")
            .writeStream.format("distkv").option("hosts", solo.address)
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert copied.awaitTermination(600)
        assert list(tree(solo, "y").values()) == [str(number) for number in range(expected)]
        with solo.client() as client:
            assert [len(list(client.history(path))) for path in tree(solo, "y")] == [1] * expected
            client.set("x.k5", 5)
