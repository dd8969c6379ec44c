"""The job `archive`, killed with its whole process tree while three nodes are written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.spark.kills import hunt


def test_archive_killed_at_random_moments_has_each_event_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    told = hunt(tmp_path, count=2, seed=1)
    record_property("told", told)
    assert told.startswith("2 kills")
