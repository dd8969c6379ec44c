"""A tree becomes again what it was; what somebody changed meanwhile is left alone.

Knows: real nodes and Spark.  Does not know how trees are compared (tests/property/test_spark_restore.py).
"""

from __future__ import annotations

import json
import time
from pathlib import Path as FilePath

import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import Address, read_address
from distkv.client.questions import Set
from distkv.errors import RequestError, SettingsError, UnreachableError
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.spark.asof import Cut
from distkv.spark.nodes.differences import PATHS_KEPT, Difference, Restored, carry_out, differences
from distkv.spark.restore import restore
from distkv.spark.table.store import open_table
from distkv.wire.values import pack_value
from tests.process.servers import Server, Servers
from tests.spark.moments import archived, moment, write_some


def addresses(server: Server) -> list[Address]:
    return [read_address(server.address)]


def dumped(server: Server) -> list[object]:
    """What it dumps, but for the times at which values end, which a restore does not bring back."""
    ran = server.run("dump")
    assert (ran.code, ran.err) == (0, "")
    return [{key: said[key] for key in said.keys() - {"ttl", "end"}} for said in map(json.loads, ran.text.splitlines())]


@pytest.fixture
def other(servers: Servers) -> Server:
    """A ready node of a network of its own."""
    server = servers.add("b").start("--transport", "solo", "--init", "another")
    server.wait_ready()
    return server


def test_restore_into_another_network_gives_the_same_dump(
    spark: SparkSession, node: Server, other: Server, tmp_path: FilePath
) -> None:
    with node.client() as client:
        write_some(client, 1, 150)
        client.batch([Set(f"many.{number}", number) for number in range(900)])
    table = archived(spark, node, tmp_path / "table")
    found = restore(spark, addresses(other), table, Cut(), apply=True)
    assert dumped(other) == dumped(node)
    assert (found.set, found.deleted, found.changed) == (len(dumped(node)), 0, 0)


def test_restore_brings_back_an_earlier_moment(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        write_some(client, 1, 100)
        client.set("changed", 1)
        client.set("deleted", 1)
        then = moment(client)
        before = dumped(node)
        client.set("changed", 2)
        client.delete("deleted")
        client.set("added", 1)
        table = archived(spark, node, tmp_path / "table")
        found = restore(spark, addresses(node), table, Cut(then.held), apply=True)
    assert dumped(node) == before
    assert found == Restored(2, 1, len(then.tree) - 2, 0)


def test_restore_of_a_time_with_changes_that_are_not_archived_is_refused_and_changes_nothing(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.set("x", 1)
        table = archived(spark, solo, tmp_path / "table")
        client.set("x", 2)
        client.set("y", 2)
        written = client.get("y")
        assert written is not None
        client.set("x", 3)
        before = dumped(solo)
        with pytest.raises(RequestError, match="the table may lack changes up to"):
            restore(spark, addresses(solo), table, Cut(at=written.time), apply=True)
        assert dumped(solo) == before
        archived(spark, solo, tmp_path / "table")
        restore(spark, addresses(solo), table, Cut(at=written.time), apply=True)
        assert {str(path): entry.value for path, entry in client.get_tree(":") if path} == {"x": 2, "y": 2}


def test_restore_sees_what_a_clock_that_was_set_back_gave_an_earlier_time(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    """The table says that it has all of a node up to a minute from now: so does a node whose clock was right again."""
    with solo.client() as client:
        client.set("x", 1)
        table = archived(spark, solo, tmp_path / "table")
        with open_table(table, network=None) as opened:
            opened.note(until={NodeName(client.hello.node): time.time() + 60})
        client.set("elsewhere", 1)
        client.set("x", 2)
        late = client.get("x")
        client.set("x", 3)
        assert late is not None
        with pytest.raises(RequestError, match=r"2 changes that were .* not in the table, such as a:\d+: a clock"):
            restore(spark, addresses(solo), table, Cut(at=late.time), apply=True)
        with pytest.raises(RequestError, match="1 changes that were made up to"):
            restore(spark, addresses(solo), table, Cut(at=late.time), path=Path(["x"]), apply=True)
        assert restore(spark, addresses(solo), table, Cut(at=late.time), apply=False, allow_gaps=True).set == 1
        archived(spark, solo, tmp_path / "table")
        restore(spark, addresses(solo), table, Cut(at=late.time), apply=True)
        entry = client.get("x")
        assert entry is not None
        assert entry.value == 2


def test_restore_of_a_time_after_the_archive_passes_when_nodes_say_that_nothing_is_lacking(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.set("x", 1)
        table = archived(spark, solo, tmp_path / "table")
        at = time.time()
        found = restore(spark, addresses(solo), table, Cut(at=at), apply=False)
    assert (found.set, found.deleted, found.unknown) == (0, 0, ())


def test_restore_of_all_that_is_archived_names_what_is_not(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.set("x", 1)
        table = archived(spark, solo, tmp_path / "table")
        client.set("x", 2)
        found = restore(spark, addresses(solo), table, Cut(), apply=False)
    (line,) = found.unknown
    assert found.set == 1
    assert line.startswith("not in the table, and so not kept: 1 changes that nodes hold: a [")


def test_restore_into_another_network_believes_the_table_alone(
    spark: SparkSession, solo: Server, other: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.set("x", 1)
    table = archived(spark, solo, tmp_path / "table")
    with pytest.raises(RequestError, match="the table may lack changes up to"):
        restore(spark, addresses(other), table, Cut(at=time.time()), apply=True)


def test_restore_without_apply_only_counts(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        client.batch([Set("x", 1), Set("y", 1), Set("z", 1)])
        then = moment(client)
        client.set("x", 2)
        client.delete("y")
        client.set("added", 1)
        table = archived(spark, node, tmp_path / "table")
        now = moment(client)
        found = restore(spark, addresses(node), table, Cut(then.held), apply=False)
        assert moment(client) == now
    assert found == Restored(2, 1, len(then.tree) - 2, 0)


def test_restore_of_a_path_leaves_the_others(spark: SparkSession, solo: Server, tmp_path: FilePath) -> None:
    with solo.client() as client:
        client.batch([Set("x", 1), Set("x.y", 1), Set("z", 1)])
        then = moment(client)
        client.batch([Set("x", 2), Set("x.y", 2), Set("z", 2), Set("x.new", 2)])
        table = archived(spark, solo, tmp_path / "table")
        restore(spark, addresses(solo), table, Cut(then.held), path=Path(["x"]), apply=True)
        assert {str(path): entry.value for path, entry in client.get_tree(":") if path} == {"x": 1, "x.y": 1, "z": 2}


def test_restore_of_the_present_finds_all_the_same(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    """Values of every type, and those that go by themselves."""
    with node.client() as client:
        write_some(client, 2, 150)
        now = moment(client)
        found = restore(spark, addresses(node), archived(spark, node, tmp_path / "table"), Cut(), apply=True)
        assert (found, moment(client)) == (Restored(0, 0, len(now.tree), 0), now)


def test_what_changed_since_it_was_compared_is_left_and_told(solo: Server) -> None:
    """Of each way to change something one path, amid others that are restored."""
    with solo.client() as client:
        client.batch([Set(f"k{number:03}", 1) for number in range(100)])
        client.batch([Set("set", 1), Set("deleted", 1), Set("new", 1), Set("kept", 1)])
        then = moment(client)
        client.batch([Set(f"k{number:03}", 2) for number in range(100)])
        client.batch([Set("set", 2), Set("deleted", 2), Set("added", 2), Set("again", 2)])
        client.delete("new")
        compared = list(differences(then.tree, client.get_tree(":")))
        client.batch([Set("set", 3), Set("new", 3), Set("added", 3), Set("k050", 3)])
        client.delete("deleted")
        client.delete("again")
        found = carry_out(client, compared)
        tree = {str(path): entry.value for path, entry in client.get_tree(":") if path}
    left = ["added", "again", "deleted", "k050", "new", "set"]
    assert (found.set, found.deleted, found.same, found.changed) == (99, 0, 2, 6)
    assert sorted(map(str, found.changed_paths)) == left
    assert {name: tree.get(name) for name in left} == {
        "added": 3, "again": None, "deleted": None, "k050": 3, "new": 3, "set": 3
    }  # fmt: skip
    assert [tree[f"k{number:03}"] for number in range(100) if number != 50] == [1] * 99


def test_all_that_changed_is_counted_and_the_first_paths_are_told(solo: Server) -> None:
    names = [f"k{number:04}" for number in range(1500)]
    with solo.client() as client:
        for half in (names[:750], names[750:]):
            client.batch([Set(name, 1) for name in half])
        compared = [difference for difference in differences([], client.get_tree(":")) if difference.path]
        for half in (names[:600], names[600:1200]):
            client.batch([Set(name, 2) for name in half])
        found = carry_out(client, compared)
    assert (found.set, found.deleted, found.changed) == (0, 300, 1200)
    assert list(map(str, found.changed_paths)) == names[:PATHS_KEPT]


def test_value_that_the_node_refuses_is_told_with_its_path(solo: Server) -> None:
    with solo.client() as client:
        compared = [Difference(Path(["x"]), pack_value(1), None), Difference(Path([None, "x"]), pack_value(1), None)]
        with pytest.raises(RequestError, match=r"^:n\.x: .* what was written before stays"):
            carry_out(client, compared)


def test_large_values_are_restored_in_batches_that_the_node_takes(
    spark: SparkSession, solo: Server, other: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        for number in range(12):
            client.set(f"large.{number}", bytes([number]) * 900_000)
            client.set(f"middle.{number}", bytes([number]) * 200_000)
    table = archived(spark, solo, tmp_path / "table")
    restore(spark, addresses(other), table, Cut(), apply=True)
    assert dumped(other) == dumped(solo)


def test_node_that_takes_only_small_batches_gets_small_ones(
    spark: SparkSession, node: Server, servers: Servers, tmp_path: FilePath
) -> None:
    narrow = servers.add("b")
    config = narrow.directory / "config.yaml"
    config.write_text("limits: {batch_ops: 7}\n")
    narrow.environment = {**narrow.environment, "DISTKV_CONFIG": str(config)}
    narrow.start("--transport", "solo", "--init", "another").wait_ready()
    with node.client() as client:
        client.batch([Set(f"many.{number}", number) for number in range(100)])
    table = archived(spark, node, tmp_path / "table")
    restore(spark, addresses(narrow), table, Cut(), apply=True)
    assert dumped(narrow) == dumped(node)


def test_system_s_own_paths_cannot_be_restored(spark: SparkSession, tmp_path: FilePath) -> None:
    with pytest.raises(SettingsError, match=r":n\.node belongs to the system"):
        restore(spark, [], str(tmp_path), Cut(), path=Path([None, "node"]), apply=True)


def test_node_that_is_away_is_told_in_a_line(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    table = archived(spark, node, tmp_path / "table")
    with pytest.raises(UnreachableError, match="no server answers"):
        restore(spark, [("127.0.0.1", 1)], table, Cut(), apply=True)
