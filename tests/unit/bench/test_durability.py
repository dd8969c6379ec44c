"""Counting the calls that strace saw, and what the counts show.

Knows: lines as `strace -f -y` writes them.  Traces nothing.
"""

from __future__ import annotations

import attrs
import pytest
from bench.durability import Proof, count_calls

SEGMENT = "/srv/data/segment-000000000001"
TRACE = f"""\
101   fdatasync(5<{SEGMENT}>) = 0
102   fdatasync(5<{SEGMENT}> <unfinished ...>
101   fsync(7</srv/data>)  = 0
102   <... fdatasync resumed>) = 0
101   fdatasync(5) = 0
101   --- SIGTERM {{si_signo=SIGTERM, si_code=SI_USER}} ---
101   +++ exited with 0 +++
"""

PROOF = Proof("distkv", 1, acknowledged=100, calls=101, commits=100, segments=1)


def test_each_call_is_counted_once_by_name_and_file() -> None:
    calls, failed = count_calls(TRACE.splitlines())
    assert calls == {("fdatasync", SEGMENT): 2, ("fsync", "/srv/data"): 1, ("fdatasync", ""): 1}
    assert failed == 0


@pytest.mark.parametrize(
    "line", ["9 fdatasync(5</x>) = -1 EIO (Input/output error)", "9 <... fsync resumed>) = -1 ENOSPC (No space)"]
)
def test_call_that_failed_is_told(line: str) -> None:
    assert count_calls([line])[1] == 1


def test_calls_that_are_commits_and_segments_prove_it() -> None:
    assert PROOF.verdict.startswith("proven")


@pytest.mark.parametrize(
    "change",
    [
        {"calls": 100},
        {"calls": 102},
        {"commits": 101},
        {"segments": 0},
        {"acknowledged": 101},
        {"failed": 1},
    ],
)
def test_any_other_count_does_not(change: dict[str, int]) -> None:
    assert attrs.evolve(PROOF, **change).verdict.startswith("NOT PROVEN")


def test_one_commit_may_cover_the_sets_of_several_connections() -> None:
    assert attrs.evolve(PROOF, connections=32, acknowledged=3_000).verdict.startswith("proven")


def test_peer_with_fewer_calls_than_sets_one_at_a_time_is_not_durable() -> None:
    assert Proof("redis-always", 1, 100, 99, None, 0).verdict.startswith("NOT PROVEN")
