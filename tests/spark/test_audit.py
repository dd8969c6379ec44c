"""The job `audit`: what is sound is called so, and what is not is counted and named.

Knows: real nodes, Spark, and how to spoil a table.  Does not know when a difference counts (tests/unit/spark).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.client.questions import Set
from distkv.errors import LogDamagedError, PeerError, UnreachableError, WrongDirectoryError
from distkv.model.event import NodeName, first_tick
from distkv.model.path import Path as KeyPath
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import count
from distkv.spark.archive import Wishes, archive_once
from distkv.spark.audit import Audited, audit
from distkv.spark.checking import Checked, check
from distkv.spark.table.manifest import DataFile, GapDecision, Manifest, decode_manifest
from distkv.spark.table.store import open_table
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import Load
from tests.process.servers import Server, Servers
from tests.spark.jobs import run_here
from tests.spark.moments import archived
from tests.spark.test_archive import forget_history, written

SOUND = Audited(1, 0, 0, 0, 0, 0, 0, 0, 0)
"""Of one node, and a table that has all."""
FLIPS = 300
AT_ONCE = 0.0
"""For tests in which nothing is on its way."""
PATIENCE_S = 60.0
"""For those in which something is."""


def audited(
    spark: SparkSession, *servers: Server, table: Path | None = None, patience_s: float = AT_ONCE
) -> Audited:
    addresses = [read_address(server.address) for server in servers]
    return audit(spark, addresses, None if table is None else str(table), patience_s=patience_s)


def counts(found: Audited) -> Audited:
    """Without the lines."""
    return attrs.evolve(found, silent=(), told=())


@pytest.fixture
def table(spark: SparkSession, node: Server, tmp_path: Path) -> Path:
    """Two commits of what a node has."""
    return made_of(spark, node, tmp_path)


def made_of(spark: SparkSession, server: Server, folder: Path) -> Path:
    place = folder / "table"
    for name in ("x", "y"):
        written(server, 100, name)
        archived(spark, server, place)
    return place


def files(table: Path) -> list[Path]:
    return sorted((table / "events").iterdir())


# -- the table ----------------------------------------------------------------------------------------------------


def test_node_and_table_that_are_sound_are(spark: SparkSession, node: Server, table: Path) -> None:
    found = audited(spark, node, table=table)
    assert (found, found.is_sound) == (SOUND, True)
    alone = audited(spark, node)
    assert (alone, alone.is_sound) == (Audited(1, 0, 0, 0, 0, None, None, None, None), True)


def test_table_without_events_is_sound(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    with open_table(tmp_path / "t", network=bytes.fromhex(str(node.state()["network"])), create=True):
        pass
    found = audited(spark, node, table=tmp_path / "t")
    assert (attrs.evolve(found, behind=0), found.is_sound) == (SOUND, True)
    assert found.behind


def test_table_of_one_path_is_sound(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    written(node, 50, "s.k")
    written(node, 50, "t.k")
    archived(spark, node, tmp_path / "t", KeyPath.parse("s"))
    assert audited(spark, node, table=tmp_path / "t") == SOUND


def test_what_the_next_archive_brings_is_no_fault(spark: SparkSession, node: Server, table: Path) -> None:
    written(node, 30, "z")
    found = audited(spark, node, table=table)
    assert (found, found.is_sound) == (attrs.evolve(SOUND, behind=30), True)


def test_gap_is_no_fault(spark: SparkSession, solo: Server, tmp_path: Path) -> None:
    written(solo, 300)
    forget_history(solo)
    alone = audited(spark, solo)
    gaps = archive_once(spark, str(tmp_path / "t"), Wishes((read_address(solo.address),))).gaps
    found = audited(spark, solo, table=tmp_path / "t")
    assert (found, alone.gaps, found.is_sound) == (attrs.evolve(SOUND, gaps=gaps), gaps, True)
    assert gaps >= 230


def test_bit_that_was_turned_in_a_value_is_damage(spark: SparkSession, node: Server, table: Path) -> None:
    before = files(table)[1].read_bytes()
    bad = bytearray(before)
    bad[len(bad) // 4] ^= 4
    files(table)[1].write_bytes(bad)
    found = audited(spark, node, table=table)
    assert (counts(found), found.is_sound) == (attrs.evolve(SOUND, damaged=1), False)
    (line,) = found.told
    assert f"{files(table)[1]} is damaged" in line


def test_whatever_bit_of_a_file_is_turned_is_found(table: Path) -> None:
    place, file = files(table)[1], decode_manifest((table / "manifest.json").read_bytes(), "").files[1]
    good, chance = place.read_bytes(), random.Random(5)
    for _ in range(FLIPS):
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        place.write_bytes(bad)
        checked = check(str(place), file)
        assert isinstance(checked, Checked)
        assert checked.damage is not None


def test_all_files_that_are_damaged_are_named(spark: SparkSession, node: Server, table: Path) -> None:
    written(node, 10, "z")
    archived(spark, node, table)
    one, other, _ = files(table)
    os.truncate(one, 1000)
    other.write_bytes(b"\0" * other.stat().st_size)
    found = audited(spark, node, table=table)
    assert (counts(found), found.is_sound) == (attrs.evolve(SOUND, damaged=2), False)
    assert f"{one} has 1000 bytes instead of" in found.told[0]
    assert f"{other} is damaged" in found.told[1]
    with pytest.raises(LogDamagedError):  # for others the table is as damaged as before
        archived(spark, node, table)


def test_file_that_is_missing_is_damage(spark: SparkSession, node: Server, table: Path) -> None:
    files(table)[0].unlink()
    found = audited(spark, node, table=table)
    assert (counts(found), found.is_sound) == (attrs.evolve(SOUND, damaged=1), False)


def test_events_that_are_there_twice_are_counted(spark: SparkSession, node: Server, table: Path) -> None:
    first = change_manifest(table, lambda manifest: with_copy_of_the_first(table, manifest))
    found = audited(spark, node, table=table)
    rows = first.rows
    assert counts(found) == attrs.evolve(SOUND, doubles=rows, damaged=1, only_table=rows)
    assert not found.is_sound
    damage = next(line for line in found.told if "00000003-000.parquet" in line)
    assert "it has changes that the manifest does not give it: a [" in damage


def test_event_that_is_twice_in_one_file_is_counted(spark: SparkSession, node: Server, table: Path) -> None:
    place = files(table)[0]
    rows = pq.read_table(place)
    twice = pa.concat_tables([rows.slice(0, rows.num_rows - 1), rows.slice(0, 1)])
    pq.write_table(twice, place, compression="zstd")
    size = place.stat().st_size
    change_manifest(table, lambda manifest: attrs.evolve(
        manifest, files=(attrs.evolve(manifest.files[0], size_bytes=size), *manifest.files[1:])
    ))  # fmt: skip
    found = audited(spark, node, table=table)
    assert counts(found) == attrs.evolve(SOUND, doubles=1, damaged=1)


def test_ticks_that_a_node_forgot_are_only_in_the_table(spark: SparkSession, solo: Server, tmp_path: Path) -> None:
    table = made_of(spark, solo, tmp_path)
    solo.terminate()
    shutil.copytree(solo.data_dir, tmp_path / "copy")
    solo.start("--transport", "solo").wait_ready()
    written(solo, 40, "z")
    archived(spark, solo, table)
    solo.kill()
    shutil.rmtree(solo.data_dir)
    shutil.copytree(tmp_path / "copy", solo.data_dir)
    solo.start("--transport", "solo").wait_ready()
    found = audited(spark, solo, table=table)
    assert found.only_table is not None
    assert found.only_table >= 40
    assert (counts(found), found.is_sound) == (
        attrs.evolve(SOUND, only_table=found.only_table, behind=found.behind), False
    )  # fmt: skip
    (line,) = found.told
    assert line.startswith("a [")
    assert line.endswith("only in the table: no node holds them any more")


def test_table_that_is_in_use_is_audited_all_the_same(spark: SparkSession, node: Server, table: Path) -> None:
    with open_table(table, network=None):
        assert audited(spark, node, table=table).is_sound


def test_gaps_that_were_settled_are_named_and_are_no_fault(spark: SparkSession, node: Server, table: Path) -> None:
    gaps = {NodeName("z"): Ranges([(1, 5)])}
    with open_table(table, network=None) as opened:
        opened.commit(ticks=opened.manifest.ticks, gaps=gaps)
        opened.note(decision=GapDecision(9.0, "ada", "gone", gaps))
    found = audited(spark, node, table=table)
    assert (found.is_sound, found.told) == (
        True, ("not known: 4 changes whose content is gone, as was settled: z [[1, 5]]",)
    )  # fmt: skip


def test_table_that_is_none_or_damaged_is_an_error(
    spark: SparkSession, node: Server, table: Path, tmp_path: Path
) -> None:
    with pytest.raises(WrongDirectoryError, match="no event table"):
        audited(spark, node, table=tmp_path / "nothing")
    (table / "manifest.json").write_bytes(b"{")
    with pytest.raises(LogDamagedError, match=r"manifest.json is damaged"):
        audited(spark, node, table=table)


def test_table_and_node_of_other_networks_are_refused(
    spark: SparkSession, node: Server, table: Path, servers: Servers
) -> None:
    other = servers.add("b").start("--transport", "solo", "--init", "other")
    other.wait_ready()
    with pytest.raises(WrongDirectoryError, match=r"is the event table of network .* and the hosts are of"):
        audited(spark, other, table=table)
    with pytest.raises(PeerError, match="name hosts of one network"):
        audited(spark, node, other)


# -- nodes --------------------------------------------------------------------------------------------------------


def test_host_that_does_not_answer_is_no_sound_fleet(spark: SparkSession, node: Server) -> None:
    found = audit(spark, [read_address(node.address), ("127.0.0.1", 1)], patience_s=AT_ONCE)
    assert (found.nodes, found.differs, found.is_sound) == (1, 0, False)
    assert "127.0.0.1:1 is not compared: no server answers" in found.silent[0]
    with pytest.raises(UnreachableError, match="no host answers"):
        audit(spark, [("127.0.0.1", 1)], patience_s=AT_ONCE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes; every test leaves both ready."""
    with open_cluster(tmp_path_factory.mktemp("cluster"), ("a", "b"), links="follow: false") as found:
        yield found


def test_nodes_that_are_written_to_are_sound(spark: SparkSession, cluster: Cluster) -> None:
    a, b = cluster["a"], cluster["b"]
    with Load(a, "busy.a", depth=5, pause_s=0.01), Load(b, "busy.b", depth=5, pause_s=0.01):
        found = audited(spark, a, b, patience_s=2.0)
    assert (found.nodes, found.differs, found.missing, found.told, found.is_sound) == (2, 0, 0, (), True)


def test_node_that_lacks_a_write_is_named_and_the_command_ends_with_4(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    a, b = cluster["a"], cluster["b"]
    with a.client() as client:
        client.batch([Set("hall.light", 20), Set("hall.heat", 19)])
    cluster.wait_equal(30)
    archive_once(spark, str(tmp_path / "t"), Wishes((read_address(a.address),)))
    sound = run_here(spark, [a.address, b.address], "audit", "-o", "json", str(tmp_path / "t"))
    assert (sound.err, sound.result) == ("", {
        "nodes": 2, "differs": 0, "missing": 0, "lost": 0, "gaps": 0, "doubles": 0, "damaged": 0, "only_table": 0,
        "behind": 0,
    })  # fmt: skip
    cluster.agent("b").kill()
    try:
        cluster.wait_state("b", "cut-off", 30)
        with a.client() as client:
            client.set("hall.light", 80)
            client.delete("hall.heat")
            client.batch([Set(f"more.k{number}", number) for number in range(25)])
        told = run_here(spark, [a.address, b.address], "audit", "-o", "json")
    finally:
        cluster.agent("b").launch()
    assert (told.code, told.printed["differs"]) == (4, 27)
    lines = told.err.splitlines()
    assert (len(lines), lines[-1]) == (21, "distkv: 7 more paths differ")
    assert lines[0].startswith("distkv: hall.heat: a has nothing, b has 19 (a:")
    assert lines[1].startswith("distkv: hall.light: a has 80 (a:")
    cluster.wait_state("b", "ready", 30)
    found = audited(spark, a, b, patience_s=PATIENCE_S)  # b learns of it meanwhile
    assert (found.differs, found.is_sound) == (0, True)


# -- spoiling a table ---------------------------------------------------------------------------------------------


def change_manifest(table: Path, change: Callable[[Manifest], Manifest]) -> DataFile:
    """Write another manifest, which is consistent; the first file of the old one."""
    place = table / "manifest.json"
    manifest = decode_manifest(place.read_bytes(), str(place))
    place.write_bytes(change(manifest).encode())
    return manifest.files[0]


def with_copy_of_the_first(table: Path, manifest: Manifest) -> Manifest:
    """One more file, which is a copy, and is said to have as many ticks of a life that is none."""
    first = manifest.files[0]
    name = "events/00000003-000.parquet"
    shutil.copy(table / first.name, table / name)
    (node,) = first.ticks
    begin = first_tick(5)
    ticks = {node: Ranges([(begin, begin + count(first.ticks))])}
    copy = attrs.evolve(first, name=name, ticks=ticks)
    return attrs.evolve(
        manifest, commit=3, files=(*manifest.files, copy), ticks={node: manifest.ticks[node] | ticks[node]}
    )
