"""The job `archive` on a fleet of which parts are gone: killed, wiped, forgetful or talking nonsense.

Knows: the command, real nodes beside Serf agents, and what they acknowledged.  Does not know how a plan is made, nor
how a read goes on elsewhere (tests/unit/spark, tests/property).

Every table is compared with what was acknowledged, change for change.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.errors import BusyError, NotReadyError
from distkv.model.event import NodeName
from distkv.spark.archive import Archived, Wishes, archive_once
from distkv.wire.replies import encode_changes, encode_end, encode_error, encode_start
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server, wait_until
from tests.spark.exact import check_exact, content_of, gaps_in, held_by, root_of, rows_in, written
from tests.spark.jobs import run_here
from tests.spark.links import Link, Spoiled

EQUAL_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster", links="follow: false") as found:
        yield found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def archive(spark: SparkSession, table: Path, hosts: Iterable[str]) -> Archived:
    return archive_once(spark, str(table), Wishes(tuple(map(read_address, hosts))))


def some_text() -> str:
    """Some hundred of these are several pages."""
    return "v" * 3000


def addresses(servers: Iterable[Server]) -> list[str]:
    return [server.address for server in servers]


# -- a node that goes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["abc", "cba"])
def test_node_killed_in_mid_read_costs_nothing_that_others_have_and_the_rest_comes_later(
    spark: SparkSession, cluster: Cluster, table: Path, order: str
) -> None:
    """*c* has sent one page and some of the next when it is killed; most of it was overwritten at once."""
    acknowledged = root_of(cluster["a"])
    for name in "abc":
        acknowledged |= written(cluster[name], 900, f"{name}.k", paths=50, filler=some_text)
    cluster.wait_equal(EQUAL_S)
    held = held_by(cluster)
    with ThreadPoolExecutor(1) as beside, Link(cluster["c"], hold_bytes=1_500_000) as link:
        hosts = [link.address if name == "c" else cluster[name].address for name in order]
        job = beside.submit(archive, spark, table, hosts)
        wait_until(lambda: link.wait_held(1) or job.done(), "the read of c stands still")
        cluster["c"].kill()
        link.let_go()
        first = job.result()
    left_over = {link for name in "ab" for link in content_of(cluster[name], acknowledged)}
    there = rows_in(table)
    own = {link for link in there if link[0] == "c"} - left_over
    assert own, "nothing was read before the kill"
    assert left_over <= there < acknowledged
    assert (first.gaps, gaps_in(table)) == (0, set())

    second = archive(spark, table, hosts)
    assert second.events == 0
    gaps = check_exact(table, acknowledged, held)
    assert {node for node, _ in gaps} == {"c"}
    cluster.start("c")
    third = archive(spark, table, addresses(cluster))
    assert (third.filled, third.total_gaps) == (len(gaps), 0)
    assert check_exact(table, acknowledged, held) | (acknowledged - rows_in(table)) == set()


def test_writer_that_is_away_leaves_gaps_which_the_next_run_fills(
    spark: SparkSession, cluster: Cluster, table: Path
) -> None:
    acknowledged = root_of(cluster["a"])
    for name in "abc":
        acknowledged |= written(cluster[name], 400, f"{name}.k")
    cluster.wait_equal(EQUAL_S)
    held = held_by(cluster)
    cluster["c"].kill()
    words = ("archive", "--to", str(table), "--once", "-o", "json")
    first = run_here(spark, addresses(cluster), *words).result
    gaps = check_exact(table, acknowledged, held)
    assert {node for node, _ in gaps} == {"c"}
    assert (first["gaps"], first["total_gaps"]) == (len(gaps), len(gaps))
    cluster.start("c")
    again = run_here(spark, addresses(cluster), *words).result
    assert (again["filled"], again["total_gaps"]) == (len(gaps), 0)
    assert check_exact(table, acknowledged, held) == set()


def test_wiped_node_is_in_the_table_with_both_of_its_lives(
    spark: SparkSession, cluster: Cluster, table: Path
) -> None:
    first_life = written(cluster["c"], 300, "c.k")
    cluster.wait_equal(EQUAL_S)
    held = held_by(cluster)
    cluster["c"].kill()
    shutil.rmtree(cluster["c"].data_dir)
    cluster.start("c")
    second_life = written(cluster["c"], 300, "c.k")
    cluster.wait_equal(EQUAL_S)
    found = archive(spark, table, addresses(cluster))
    gaps = check_exact(table, root_of(cluster["a"]) | first_life | second_life, held | held_by(cluster))
    assert second_life <= rows_in(table)
    assert len(rows_in(table) & first_life) >= 70  # those that nothing overwrote were elsewhere, too
    assert (found.gaps, found.total_gaps) == (len(gaps), len(gaps))


def test_history_that_went_before_is_gaps_and_the_summary_says_how_many(
    spark: SparkSession, cluster: Cluster, table: Path
) -> None:
    """*a* keeps a few rows, the others all; so what others pulled in time comes from them."""
    acknowledged = root_of(cluster["a"])
    for name in "ab":
        acknowledged |= written(cluster[name], 400, f"{name}.k")
    cluster.wait_equal(EQUAL_S)
    a = cluster["a"]
    config = a.directory / "config.yaml"
    config.write_text(f"{config.read_text()}history: {{keep: 20}}\n")
    a.terminate()
    cluster.start("a")
    wait_until(lambda: a.storage()["history_rows"] <= 20, "a lets go of its history", 60, a.dump)
    found = archive(spark, table, addresses(cluster))
    gaps = check_exact(table, acknowledged, held_by(cluster))
    assert {node for node, _ in gaps} == {"a"}
    assert gaps & acknowledged
    assert (found.gaps, found.total_gaps) == (len(gaps), len(gaps))


# -- a host that answers with something else ----------------------------------------------------------------------


def refusing(error: BusyError | NotReadyError) -> Spoiled:
    return lambda seq: encode_error(seq, error)


def of_another_node(seq: int) -> bytes:
    return encode_start(seq) + encode_changes(seq, NodeName("z"), b"\1", b"\xc1") + encode_end(seq)


SPOILED: dict[str, Spoiled] = {
    "busy": refusing(BusyError("too many: try again later")),
    "not ready": refusing(NotReadyError("it looks for others")),
    "another server": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "no frame": lambda _: b"\xc1" * 100,
    "no answer of mine": lambda seq: encode_error(seq + 7, BusyError("not to you")),
    "changes of another node": of_another_node,
    "the end at once": lambda seq: encode_start(seq) + encode_end(seq),
}


def test_read_goes_on_elsewhere_when_a_host_answers_with_something_else(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    acknowledged = root_of(cluster["a"]) | written(cluster["c"], 100, "c.k", paths=100)
    cluster.wait_equal(EQUAL_S)
    held = held_by(cluster)
    for name, spoiled in SPOILED.items():
        with Link(cluster["c"], spoiled=spoiled) as link:
            found = archive(spark, tmp_path / name, [link.address, cluster["a"].address])
            assert link.reads > 0, name
        assert rows_in(tmp_path / name) == acknowledged, name
        assert (found.gaps, check_exact(tmp_path / name, acknowledged, held)) == (0, set()), name
