"""Jobs on a standalone cluster of Spark: with a worker that is killed, and sent along by `spark-submit`.

Knows: a cluster of two workers, one node, and what that acknowledged.  Does not know what a job does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.servers import Server, wait_until
from tests.spark.exact import check_exact, held_by, root_of, written
from tests.spark.jobs import end_of, kill_tree, running, start_job
from tests.spark.links import Link
from tests.spark.standalone import Standalone, open_standalone


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with open_standalone(tmp_path_factory.mktemp("standalone") / "cluster") as found:
        yield found


def test_archive_whose_worker_is_killed_in_mid_read_is_exact(
    standalone: Standalone, solo: Server, tmp_path: Path
) -> None:
    acknowledged = root_of(solo) | written(solo, 900, "k", filler=lambda: "v" * 3000)
    table = tmp_path / "table"
    words = ("--conf", "spark.driver.host=127.0.0.1", "archive", "--to", str(table), "--once", "-o", "json")
    with (
        Link(solo, hold_bytes=1_500_000) as link,
        running(start_job([link.address], *words, master=standalone.master)) as job,
    ):
        wait_until(lambda: link.wait_held(1) or job.poll() is not None, "the read stands still", 60)
        (busy,) = standalone.busy_workers()
        kill_tree(busy.pid)
        link.let_go()
        found = end_of(job).result
    assert link.reads >= 2
    assert found["gaps"] == 0
    assert check_exact(table, acknowledged, held_by([solo])) == set()
