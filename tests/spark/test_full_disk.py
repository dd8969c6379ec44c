"""The job `archive` on a file system that runs full during a commit, and has room again.

Knows: what was acknowledged.  Does not know the steps of a commit (tests/unit/spark).

Only the job that meets the full disk is one of its own: what it says is what users see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.process.forks import CHECKOUT
from tests.process.mounts import SmallFileSystem, small_file_system
from tests.process.servers import Server
from tests.spark.exact import check_exact, held_by, root_of, written
from tests.spark.jobs import run_here, run_job
from tests.spark.tables import manifest

DISK_MIB = 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallFileSystem]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_file_system(place, DISK_MIB) as found:
        yield found


def test_disk_that_runs_full_in_a_worker_leaves_the_table_and_the_next_run_goes_on(
    spark: SparkSession, solo: Server, disk: SmallFileSystem
) -> None:
    table, ballast = disk.seen_from_here / "table", disk.seen_from_here / "ballast"
    words = ("archive", "--once", "-o", "json", "--to")
    acknowledged = root_of(solo) | written(solo, 100, "k")
    assert run_here(spark, [solo.address], *words, str(table)).result["gaps"] == 0
    check_exact(table, acknowledged, held_by([solo]))
    before = manifest(table)

    acknowledged |= written(solo, 300, "r", filler=lambda: os.urandom(10_000))  # it cannot be compressed
    ballast.write_bytes(bytes((DISK_MIB - 2) << 20))
    program = (*disk.entering, *CHECKOUT)
    told = run_job([solo.address], *words, str(disk.place / "table"), program=program).complaint
    assert "No space left on device: make space, then start this again; the table is whole" in told
    assert manifest(table) == before

    ballast.unlink()
    assert run_here(spark, [solo.address], *words, str(table)).result["events"] == 300
    assert check_exact(table, acknowledged, held_by([solo])) == set()
