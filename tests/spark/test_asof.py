"""The tree as of a moment, made of archived events, is what a node held then.

Knows: real nodes and Spark.  Does not know how events fold (tests/property/test_spark_asof.py).
"""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest
from pyspark.sql import SparkSession

from distkv.cli.main import run
from distkv.cli.session import CliSession
from distkv.client.blocking import Client
from distkv.errors import RequestError, SettingsError
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined
from distkv.spark.asof import AsOf, Cut, asof, open_cut
from distkv.spark.compact import compact
from distkv.spark.table.manifest import GapDecision
from distkv.spark.table.store import open_table
from tests.process.cluster import open_cluster
from tests.process.servers import Server
from tests.spark.moments import Moment, archived, moment, write_some

DEADLINE_S = 300.0


def as_moment(found: AsOf, then: Moment) -> Moment:
    """What was found, in the words of a node; the ticks are those that were asked for."""
    return Moment(then.held, str(found.digest), found.conflicts, found.entries)


def test_ticks_of_three_moments_give_what_the_node_held(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    moments = []
    with node.client() as client:
        for seed in range(3):
            write_some(client, seed, 60)
            moments.append(moment(client))
    table = archived(spark, node, tmp_path / "table")
    assert [as_moment(asof(spark, table, Cut(then.held)), then) for then in moments] == moments


def test_cut_of_neither_is_all_that_the_table_has(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        write_some(client, 1, 60)
        now = moment(client)
    found = asof(spark, archived(spark, node, tmp_path / "table"), Cut())
    assert as_moment(found, now) == now
    assert found.ticks == sum(map(len, now.held.values()))


@pytest.mark.parametrize(
    "name", ["a [b] {c,d} * ? \\ ^!", "%20 # é:f", "node=old/tick=7"], ids=["pattern", "url", "column"]
)
def test_folder_whose_name_looks_like_something_else_is_read(
    spark: SparkSession, node: Server, tmp_path: FilePath, name: str
) -> None:
    with node.client() as client:
        now = moment(client)
    (tmp_path / name).mkdir(parents=True)
    table = archived(spark, node, tmp_path / name)
    assert as_moment(asof(spark, table, Cut()), now) == now


def test_cut_of_no_ticks_is_an_empty_tree(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    found = asof(spark, archived(spark, node, tmp_path / "table"), Cut({}))
    assert found == AsOf([], 0, 0, "0" * 16, 0, 0)


def test_time_cuts_by_the_clocks_of_the_writers(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        client.set("x", 1)
        then = moment(client)
        written = client.get("x")
        client.set("x", 2)
    assert written is not None
    found = asof(spark, archived(spark, node, tmp_path / "table"), Cut(at=written.time))
    assert as_moment(found, then) == then


def test_path_gives_what_is_at_and_below_it(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    path = Path(["t", "a.b"])
    with node.client() as client:
        for number, place in enumerate(
            (path, Path(["t", "a.b", 1]), Path(["t", "a"]), Path(["t"]), Path(["t", "a.bc"]))
        ):
            client.set(place, number)
        below = moment(client, path)
    found = asof(spark, archived(spark, node, tmp_path / "table"), Cut(below.held), path=path)
    assert (found.entries, found.digest) == (below.tree, None)


def test_table_of_one_path_gives_that_path(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        write_some(client, 3, 60)
        client.set("other", 1)
        below = moment(client, Path(["t", "k"]))
    table = archived(spark, node, tmp_path / "table", Path(["t"]))
    assert asof(spark, table, Cut(below.held), path=Path(["t", "k"])).entries == below.tree


@pytest.mark.parametrize("path", [":", "other", "tt"])
def test_table_of_one_path_is_asked_for_another_and_names_its_own(
    spark: SparkSession, node: Server, tmp_path: FilePath, path: str
) -> None:
    table = archived(spark, node, tmp_path / "table", Path(["t"]))
    with pytest.raises(SettingsError, match="the table has only t: name that, or a path below it"):
        asof(spark, table, Cut(), path=Path.parse(path))


def test_ticks_that_the_table_lacks_are_refused_by_name(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    table = archived(spark, node, tmp_path / "table")
    with pytest.raises(RequestError, match=r"covers 5 ticks that the table has not \(b \[\[3, 8\]\]\).*--allow-gaps"):
        asof(spark, table, Cut({NodeName("b"): Ranges([(3, 8)])}))


def test_ticks_that_the_table_lacks_are_left_out_when_that_is_allowed(
    spark: SparkSession, node: Server, tmp_path: FilePath
) -> None:
    with node.client() as client:
        now = moment(client)
    cut = Cut(joined(now.held, {NodeName("b"): Ranges([(3, 8)])}))
    found = asof(spark, archived(spark, node, tmp_path / "table"), cut, allow_gaps=True)
    assert (as_moment(found, now), found.gaps) == (now, 5)


def test_gaps_of_the_table_refuse_a_cut_of_everything(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    table = archived(spark, node, tmp_path / "table")
    add_gap(table)
    with pytest.raises(RequestError, match=r"covers 4 ticks that the table has not \(z \[\[1, 5\]\]\)"):
        asof(spark, table, Cut())


def test_gaps_of_the_table_refuse_a_cut_of_a_time(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    """Nothing says when they were."""
    with node.client() as client:
        before = time_of(client, "x")
    table = archived(spark, node, tmp_path / "table")
    add_gap(table)
    with pytest.raises(RequestError, match=r"covers 4 ticks .* settle what is gone for good"):
        asof(spark, table, Cut(at=before))


def test_settled_gaps_refuse_nothing_and_are_named(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        now = moment(client)
    table = archived(spark, node, tmp_path / "table")
    add_gap(table)
    add_gap(table, "y")
    session = CliSession()
    assert run(["pipeline", "settle", table, "--why", "the disk burned", "--who", "ada", "--node", "z"], session) == 0
    with pytest.raises(RequestError, match=r"covers 4 ticks that the table has not \(y \[\[1, 5\]\]\)"):
        asof(spark, table, Cut())
    assert run(["pipeline", "settle", table, "--why", "the disk burned", "--who", "ada"], session) == 0
    found = asof(spark, table, Cut())
    assert as_moment(found, now) == now
    (line,) = found.unknown
    assert line == "not known: 8 changes whose content is gone, as was settled: y [[1, 5]], z [[1, 5]]"


def test_table_that_is_written_and_compacted_meanwhile_is_read_as_of_its_last_commit(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        table = archived(spark, solo, tmp_path / "table")
        client.set("x", 1)
        archived(spark, solo, tmp_path / "table")
        now = moment(client)
        client.set("x", 2)
        with open_cut(spark, table, Cut()) as chosen:
            archived(spark, solo, tmp_path / "table")
            assert compact(spark, table, keep_s=0.0).files == 1
            assert chosen.events.count() == sum(map(len, now.held.values()))
    with open_table(table, network=None):
        assert asof(spark, table, Cut()).ticks == sum(map(len, now.held.values())) + 1


# -- up to when the table knows all -------------------------------------------------------------------------------


def test_time_before_the_last_archive_passes_and_a_later_one_is_refused_by_node(
    spark: SparkSession, node: Server, tmp_path: FilePath
) -> None:
    with node.client() as client:
        then = time_of(client, "x", 1)
        table = archived(spark, node, tmp_path / "table")
        later = time_of(client, "x", 2)
    assert asof(spark, table, Cut(at=then)).unknown == ()
    with pytest.raises(RequestError, match=r"may lack .*: it has all of a up to 20.*Archive them, choose a moment"):
        asof(spark, table, Cut(at=later))
    found = asof(spark, table, Cut(at=later), allow_gaps=True)
    (line,) = found.unknown
    assert line.startswith("not known: what came to the table no more; it has all of a up to 20")
    archived(spark, node, tmp_path / "table")
    assert asof(spark, table, Cut(at=later)).unknown == ()


def test_node_of_which_nobody_knows_is_named(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        then = time_of(client, "x")
    table = archived(spark, node, tmp_path / "table")
    add_gap(table)
    with open_table(table, network=None) as opened:
        opened.note(decision=GapDecision(1.0, "ada", "gone", opened.manifest.gaps))
    with pytest.raises(RequestError, match=r"it has .*an unknown part of z"):
        asof(spark, table, Cut(at=then))


def test_time_before_the_first_change_is_refused(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    """An empty tree would be restored, which deletes everything."""
    table = archived(spark, node, tmp_path / "table")
    for allow_gaps in (False, True):
        with pytest.raises(SettingsError, match=r"2001-09-09T01:46:40.000\+00:00 lies before the first change"):
            asof(spark, table, Cut(at=1e9), allow_gaps=allow_gaps)


def time_of(client: Client, path: str, value: object = 1) -> float:
    """Write a value; the time of its change."""
    client.set(path, value)
    found = client.get(path)
    assert found is not None
    return found.time


def test_cut_of_ticks_that_does_not_cover_the_gaps_passes(
    spark: SparkSession, node: Server, tmp_path: FilePath
) -> None:
    with node.client() as client:
        now = moment(client)
    table = archived(spark, node, tmp_path / "table")
    add_gap(table)
    assert as_moment(asof(spark, table, Cut(now.held)), now) == now


def test_cut_before_what_the_table_forgot_is_refused(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    with node.client() as client:
        client.set("x", 1)
        then = moment(client)
        client.set("x", 2)
        later = client.get("x")
        now = moment(client)
    assert later is not None
    table = archived(spark, node, tmp_path / "table")
    with open_table(table, network=None) as opened:
        opened.commit(ticks=opened.manifest.ticks, gaps={}, forgotten=later.time)
    for cut in (Cut(then.held), Cut(at=later.time - 1e-3)):
        with pytest.raises(SettingsError, match=r"dropped from the table.* choose a later moment"):
            asof(spark, table, cut)
    assert as_moment(asof(spark, table, Cut(now.held)), now) == now


def test_conflict_of_a_network_that_broke_is_open_as_of_then(spark: SparkSession, tmp_path: FilePath) -> None:
    """Three moments: before it, while it is open, and decided."""
    with open_cluster(tmp_path / "cluster", links="follow: false") as cluster:
        with cluster["a"].client() as client:
            client.set("x", "first")
            client.set("gone", 1)
        cluster.wait_equal(DEADLINE_S)
        moments = [taken(cluster["b"])]
        cluster.agent("c").freeze()
        try:
            for name in ("c", "a"):
                with cluster[name].client() as client:
                    client.set("x", f"of {name}")
                    client.delete("gone") if name == "a" else client.set("gone", 2)
        finally:
            cluster.agent("c").thaw()
        cluster.wait_equal(DEADLINE_S)
        moments.append(taken(cluster["b"]))
        with cluster["b"].client() as client:
            client.restore(client.conflicts("x")[0].id)
        cluster.wait_equal(DEADLINE_S)
        moments.append(taken(cluster["c"]))
        table = archived(spark, cluster["a"], tmp_path / "table")
    assert [then.conflicts for then in moments] == [0, 2, 1]
    assert [as_moment(asof(spark, table, Cut(then.held)), then) for then in moments] == moments


def taken(server: Server) -> Moment:
    with server.client() as client:
        return moment(client)


def add_gap(table: str, node: str = "z") -> None:
    """Four ticks of a node whose content nobody had."""
    with open_table(table, network=None) as opened:
        manifest = opened.manifest
        opened.commit(ticks=manifest.ticks, gaps=manifest.gaps | {NodeName(node): Ranges([(1, 5)])})
