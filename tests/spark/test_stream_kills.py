"""A stream with a checkpoint whose driver is killed between batches and in one, while nodes come and go.

Knows: the program that is killed (`following`), and what was acknowledged.  Does not know how an offset is made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.process.cluster import open_cluster
from tests.process.servers import ROOT, Server, wait_until
from tests.spark.exact import Links, root_of, written
from tests.spark.jobs import kill_tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "stream"
    found.mkdir()
    return found


@contextmanager
def following(servers: Iterable[Server], folder: Path) -> Iterator[Callable[[Callable[[], bool], str], None]]:
    """A driver of its own, which is killed with all of its tree at the end of the block; gives what waits while it
    runs."""
    hosts = ",".join(server.address for server in servers)
    with (folder / "log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.following", hosts, str(folder)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def wait(condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            assert driver.poll() is None, (folder / "log").read_text()
            return condition()

        wait_until(is_so, what, 60, pause_s=0.2)

    try:
        yield wait
    finally:
        kill_tree(driver.pid)
        driver.wait()


def delivered(folder: Path, batch: str = "*") -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The events, and the ticks of gaps, in the batches that are whole; the system's own events left out."""
    wholes = [each.parent for each in folder.glob(f"batches/{batch}/_SUCCESS")]
    files = [str(file) for whole in wholes for file in whole.glob("*.parquet")]
    if not files:
        return [], []
    query = "SELECT kind = 'gap', node, tick, tick_end FROM read_parquet(?) WHERE kind = 'gap' OR NOT system"
    rows = duckdb.execute(query, [files]).fetchall()
    events = [(node, tick) for is_gap, node, tick, _ in rows if not is_gap]
    gaps = [(node, tick) for is_gap, node, begin, end in rows if is_gap for tick in range(begin, end)]
    return sorted(events), sorted(gaps)


def has_all(folder: Path, wanted: Links) -> bool:
    """Whether these were delivered, and Spark is between two batches."""
    begun, ended = (len(list((folder / "checkpoint" / kind).glob("[0-9]*"))) for kind in ("offsets", "commits"))
    try:
        events, gaps = delivered(folder)
    except duckdb.IOException:
        return False  # a batch that is repeated has just been deleted, to be written anew
    return begun == ended and wanted <= {*events, *gaps}


def test_stream_whose_driver_is_killed_between_batches_and_in_one_delivers_each_event_once(
    tmp_path: Path, folder: Path
) -> None:
    """Meanwhile *c* is wiped, lives again, and goes away with values that only it has."""
    with open_cluster(tmp_path / "cluster", links="follow: false") as cluster:
        a, c = cluster["a"], cluster["c"]
        acknowledged = root_of(a) | written(a, 200, "a.k") | written(c, 100, "c.k")
        with following(cluster, folder) as wait:
            wait(lambda: has_all(folder, acknowledged), "the stream delivers what was acknowledged")
        assert delivered(folder) == (sorted(acknowledged), [])

        cluster.wait_equal(60)
        c.kill()
        shutil.rmtree(c.data_dir)
        cluster.start("c")
        acknowledged |= written(cluster["b"], 200, "b.k") | written(c, 100, "c.k", paths=100)
        cluster.wait_equal(60)  # else only c has some of the batch that is repeated without it
        (folder / "hold").touch()
        with following(cluster, folder) as wait:
            wait((folder / "held").exists, "a batch is written of which Spark does not know")
        (folder / "hold").unlink()
        held = (folder / "held").read_text()
        in_mid_batch = delivered(folder, held)
        assert in_mid_batch[0]

        acknowledged |= written(c, 300, "c.l", paths=50)
        cluster.wait_equal(60)
        c.kill()
        with following(reversed(list(cluster)), folder) as wait:
            wait(lambda: has_all(folder, acknowledged), "the stream goes on")
        assert delivered(folder, held) == in_mid_batch
        events, gaps = delivered(folder)
    assert len({*events, *gaps}) == len(events) + len(gaps)
    assert set(events) == acknowledged - set(gaps)
    assert gaps
