"""Events under the fences of tokens, in tables, jobs and Spark: what wins is what the fence says, not the tock.

Knows: Spark, a real node, and tables whose events were made up here.  Does not know the order of events in every detail
(tests/property/test_spark_asof.py), nor which columns a file has (tests/unit/spark/test_columns.py).
"""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from distkv.client.addresses import read_address
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.spark.asof import Cut, asof
from distkv.spark.audit import audit
from distkv.spark.compact import compact
from distkv.spark.nodes.differences import Restored
from distkv.spark.restore import restore
from distkv.spark.table.columns import FENCE_COLUMNS
from distkv.spark.table.store import open_table
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value, unpack_value
from tests.process.load import Wire
from tests.process.servers import Server
from tests.spark.moments import archived, moment
from tests.spark.tables import manifest
from tests.spark.test_compact import append

OLDER, NEWER, LIFTED = Fence(0, 7, 1, "lamp"), Fence(0, 7, 2, "lamp"), Fence(1, 0, 0, "")
X = Path(["x"])


def event(node: str, tick: int, value: int, tock: int, fence: Fence = NO_FENCE, *, time: float = 1.0) -> Event:
    chain = ((NodeName(node), Tick(tick)),)
    return new_event(X, Kind.SET, pack_value(value), chain, Tock(tock), time, fence=fence)


PLAIN = [event("a", 1, 1, 1), event("b", 1, 2, 9)]
"""What a release that knew no fences wrote."""


def values(spark: SparkSession, table: str, cut: Cut | None = None) -> dict[str, object]:
    return {str(path): unpack_value(value) for path, value in asof(spark, table, cut or Cut()).entries}


# -- tables -------------------------------------------------------------------------------------------------------


def test_value_under_a_fence_wins_as_of_a_time_although_another_one_has_a_higher_tock(
    spark: SparkSession, tmp_path: FilePath
) -> None:
    late = event("c", 1, 4, 99, OLDER, time=3.0)
    table = append(tmp_path / "t", PLAIN, [event("a", 2, 3, 5, NEWER, time=2.0), late])
    with open_table(table, network=None) as opened:
        opened.note(until=dict.fromkeys(map(NodeName, "abc"), 3.0))
    found = [(values(spark, table, Cut(at=at)), asof(spark, table, Cut(at=at)).conflicts) for at in (1.0, 2.0, 3.0)]
    assert found == [({"x": 2}, 1), ({"x": 3}, 1), ({"x": 3}, 2)]


def test_table_of_an_earlier_release_is_read_and_appended_to_without_being_written_again(
    spark: SparkSession, tmp_path: FilePath
) -> None:
    table = append(tmp_path / "t", PLAIN)
    (old,) = (tmp_path / "t" / "events").iterdir()
    before, form = old.read_bytes(), manifest(tmp_path / "t")["events"]
    assert (values(spark, table), form) == ({"x": 2}, 1)
    append(tmp_path / "t", [event("a", 2, 3, 5, NEWER)])
    assert (values(spark, table), manifest(tmp_path / "t")["events"]) == ({"x": 3}, 2)
    assert old.read_bytes() == before


def test_files_with_and_without_fences_become_one_that_has_them(spark: SparkSession, tmp_path: FilePath) -> None:
    table = append(tmp_path / "t", PLAIN, [event("a", 2, 3, 5, NEWER)], [event("a", 3, 4, 6, LIFTED)])
    before = asof(spark, table, Cut())
    assert compact(spark, table).files == 1
    assert (asof(spark, table, Cut()), manifest(tmp_path / "t")["events"]) == (before, 2)


def test_what_is_forgotten_is_what_a_higher_fence_replaced(spark: SparkSession, tmp_path: FilePath) -> None:
    """The loser that has the highest tock is forgotten, and not the winner."""
    winner = new_event(
        X, Kind.DELETE, b"", ((NodeName("b"), Tick(1)), (NodeName("a"), Tick(1))), Tock(2), 1.0, fence=NEWER
    )
    table = append(tmp_path / "t", [event("a", 1, 1, 9), winner])
    assert compact(spark, table, forget=5.0).forgotten == 1
    append(tmp_path / "t", [event("a", 2, 2, 99, OLDER)])
    assert (values(spark, table), asof(spark, table, Cut()).conflicts) == ({}, 1)


# -- a node -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fenced(solo: Server) -> Server:
    """A node with a value under a fence, one where it was lifted, a deletion under one, and a value without."""
    with Wire(solo) as wire:
        held, gone = Path(["x", "held"]), Path(["x", "gone"])
        for path, value, fence, refence in (
            (held, 1, OLDER, False), (held, 2, NEWER, False), (Path(["x", "lifted"]), 3, None, True),
            (gone, 4, OLDER, False), (gone, None, OLDER, False), (Path(["x", "free"]), 5, None, False),
        ):  # fmt: skip
            raw = None if value is None else pack_value(value)
            list(wire.ask([SetValue(wire.next_seq(), path, raw, fence=fence, refence=refence)]))
    return solo


def read(spark: SparkSession, server: Server, view: str) -> DataFrame:
    return spark.read.format("distkv").options(hosts=server.address, view=view, path="x").load()


def fences(frame: DataFrame) -> list[tuple[str, str | None, Fence | None]]:
    rows = frame.orderBy("path_str", "tick").select("path_str", "value", *FENCE_COLUMNS.names).collect()
    return [(row[0], row[1], None if row[2] is None else Fence(*row[2:])) for row in rows]


def test_table_of_a_node_has_its_fences_and_gives_its_digest(
    spark: SparkSession, fenced: Server, tmp_path: FilePath
) -> None:
    with fenced.client() as client:
        now = moment(client)
    table = archived(spark, fenced, tmp_path / "t")
    found = asof(spark, table, Cut())
    assert (found.entries, found.digest) == (now.tree, now.digest)
    assert manifest(tmp_path / "t")["events"] == 2
    assert audit(spark, (read_address(fenced.address),), table).is_sound


def test_events_and_state_show_fences(spark: SparkSession, fenced: Server) -> None:
    assert fences(read(spark, fenced, "events")) == [
        ("x.free", "5", None), ("x.gone", "4", OLDER), ("x.gone", None, OLDER), ("x.held", "1", OLDER),
        ("x.held", "2", NEWER), ("x.lifted", "3", LIFTED),
    ]  # fmt: skip
    assert fences(read(spark, fenced, "state")) == [
        ("x.free", "5", None), ("x.held", "2", NEWER), ("x.lifted", "3", LIFTED),
    ]  # fmt: skip


def test_row_of_a_path_that_a_token_holds_ends_the_write_unless_its_value_is_there(
    spark: SparkSession, fenced: Server
) -> None:
    read(spark, fenced, "state").write.format("distkv").option("hosts", fenced.address).mode("append").save()
    other = spark.createDataFrame([("x.held", "7")], "path_str string, value string")
    with pytest.raises(PySparkException, match=r"FencedError: the row of x\.held cannot be written"):
        other.write.format("distkv").option("hosts", fenced.address).mode("append").save()


def test_overwrite_names_what_it_cannot_delete(spark: SparkSession, fenced: Server) -> None:
    rows = spark.createDataFrame([("x.free", "6")], "path_str string, value string").write.format("distkv")
    with pytest.raises(PySparkException, match=r"1 values that are in no row were not deleted.* the first is x\.held"):
        rows.options(hosts=fenced.address, path="x", confirmOverwrite="true").mode("overwrite").save()
    with fenced.client() as client:
        assert {str(path): entry.value for path, entry in client.get_tree("x")} == {"x.free": 6, "x.held": 2}


def test_restore_leaves_what_tokens_hold_and_tells_it(spark: SparkSession, fenced: Server, tmp_path: FilePath) -> None:
    """Also where there is nothing but a deletion, which only the node sees."""
    table = append(
        tmp_path / "t",
        [
            new_event(Path(["x", name]), Kind.SET, pack_value(8), ((NodeName("z"), Tick(at)),), Tock(1), 1.0)
            for at, name in enumerate(("free", "gone", "held", "lifted"), 1)
        ],
    )
    found = restore(spark, (read_address(fenced.address),), table, Cut(), path=Path(["x"]), apply=True)
    paths = tuple(Path(["x", name]) for name in ("held", "gone"))
    assert found == Restored(2, 0, 0, 0, (), 2, paths)
