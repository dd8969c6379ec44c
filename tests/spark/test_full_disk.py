"""The job `archive` on a file system that runs full during a commit, and has room again.

Knows: how a small file system is mounted for one process (root may), and what was acknowledged.  Does not know the
steps of a commit (tests/unit/spark).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.process.servers import CHECKOUT, Server, die_with_parent
from tests.spark.exact import check_exact, held_by, root_of, written
from tests.spark.jobs import run_job
from tests.spark.tables import manifest

DISK_MIB = 8


@attrs.frozen
class SmallDisk:
    """A file system that only those see who enter the process that mounted it."""

    holder: subprocess.Popen[str]
    place: Path

    @property
    def program(self) -> tuple[str, ...]:
        """`distkv`, as one who sees it."""
        return ("nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *CHECKOUT)

    @property
    def seen_from_here(self) -> Path:
        return Path(f"/proc/{self.holder.pid}/root{self.place}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mount = f"mount -t tmpfs -o size={DISK_MIB}m distkv-test '{place}' && echo mounted && exec sleep infinity"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    ) as holder:
        try:
            assert holder.stdout is not None
            said = holder.stdout.readline().strip()
            if said != "mounted":
                pytest.skip(f"no file system can be mounted here: {said}")
            yield SmallDisk(holder, place)
        finally:
            holder.kill()


def test_disk_that_runs_full_in_a_worker_leaves_the_table_and_the_next_run_goes_on(
    solo: Server, disk: SmallDisk
) -> None:
    table, ballast = disk.seen_from_here / "table", disk.seen_from_here / "ballast"
    words = ("archive", "--to", str(disk.place / "table"), "--once", "-o", "json")
    acknowledged = root_of(solo) | written(solo, 100, "k")
    assert run_job([solo.address], *words, program=disk.program).result["gaps"] == 0
    check_exact(table, acknowledged, held_by([solo]))
    before = manifest(table)

    acknowledged |= written(solo, 300, "r", filler=lambda: os.urandom(10_000))  # it cannot be compressed
    ballast.write_bytes(bytes((DISK_MIB - 2) << 20))
    told = run_job([solo.address], *words, program=disk.program).complaint
    assert "No space left on device: make space, then start this again; the table is whole" in told
    assert manifest(table) == before

    ballast.unlink()
    assert run_job([solo.address], *words, program=disk.program).result["events"] == 300
    assert check_exact(table, acknowledged, held_by([solo])) == set()
