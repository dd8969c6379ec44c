"""The jobs `archive` and `compact`, killed with their whole process tree in the middle."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.spark.table.store import open_table
from tests.process.servers import wait_until
from tests.spark.jobs import JOB_S, kill, run_job, start_job
from tests.spark.kills import hunt
from tests.spark.tables import check_whole, manifest, ticks_in
from tests.unit.spark.event_files import NETWORK, write_events

FILES = 200
FILE_ROWS = 10


def test_archive_killed_at_random_moments_has_each_event_once(
    machine: Mapping[str, str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    told = hunt(tmp_path, count=2, seed=1, environment=machine)
    record_property("told", told)
    assert told.startswith("2 kills")


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of many commits."""
    place = tmp_path_factory.mktemp("small") / "table"
    with open_table(place, network=NETWORK, create=True) as table:
        for at in range(1, FILES * FILE_ROWS, FILE_ROWS):
            file = write_events(table, 0, [("a", tick) for tick in range(at, at + FILE_ROWS)])
            table.commit([file], ticks={NodeName("a"): Ranges([(1, at + FILE_ROWS)])}, gaps={})
    return place


@pytest.fixture
def job(small_files: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A compaction into forty files, under way in `table` below the folder of the test."""
    shutil.copytree(small_files, tmp_path / "table")
    found = start_job((), "compact", str(tmp_path / "table"), "--rows", "50", "-o", "json")
    yield found
    kill(found)


@pytest.mark.parametrize(
    ("sign", "is_committed"),
    [("parts/*.parquet", False), ("events/*.new", None), ("events/00000201-03?.parquet", True)],
    ids=["written", "moved", "renamed"],
)
def test_compaction_killed_in_the_middle_has_no_event_twice_and_the_next_job_finishes_or_undoes_it(
    job: subprocess.Popen[bytes], tmp_path: Path, sign: str, is_committed: bool | None
) -> None:
    """It is killed as soon as there is something of a name."""
    table = tmp_path / "table"
    wait_until(lambda: any(table.glob(sign)) or job.poll() is not None, sign, JOB_S, pause_s=0.001)
    kill(job)
    check_whole(table)
    commit = manifest(table)["commit"]
    assert is_committed in (None, commit == FILES + 1)
    listing = run_job((), "files", str(table))
    assert (listing.code, listing.err) == (0, "")
    assert all(map(os.path.exists, listing.out.splitlines()))  # also under names that the commit was to change
    assert run_job((), "settle", str(table), "--why", "to open it").code == 0
    names = [Path(line).name for line in run_job((), "files", str(table)).out.splitlines()]
    assert names == sorted(os.listdir(table / "events"))
    assert len(names) == (40 if commit == FILES + 1 else FILES)
    assert ticks_in(table) == [("a", tick) for tick in range(1, FILES * FILE_ROWS + 1)]
