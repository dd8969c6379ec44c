"""`distkv sim` as a process: the same digest under any hash seed, the same sum with any number of processes.

Knows: the command.  Starts no server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from tests.process.forks import CHECKOUT, PYTHONPATH
from tests.process.servers import wait_until
from tests.profiles import seeds

SEEDS = ("1", "3", "5")
"""The first has tokens, and writers who are followed through others; the last has a follower who is overtaken."""

HASH_SEEDS = 1 << 32
"""So many there are."""

DIGESTS = """
import sys
from distkv.cli.main import run
for seed in sys.argv[1:]:
    assert run(["sim", "--seed", seed, "--digest"]) == 0
"""


def _python(*words: str, hash_seed: str = "0") -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_digests_are_the_same_under_every_hash_seed() -> None:
    hash_seeds = [str(seed % HASH_SEEDS) for seed in seeds(2)]
    first, *others = [_python("-c", DIGESTS, *SEEDS, hash_seed=one).splitlines() for one in hash_seeds]
    assert len(first) == 2 * len(SEEDS)
    assert others == [first] * len(others)


@pytest.mark.slow
def test_sum_is_the_same_with_any_number_of_processes() -> None:
    words = ["-m", "distkv", "sim", "--first-seed", "12", "--seeds", "3", "-o", "json"]
    assert _python(*words, "--jobs", "2") == _python(*words)


@attrs.frozen
class Campaign:
    """A thousand seeds in two processes, in a process group of their own."""

    process: subprocess.Popen[bytes]
    workers: list[int]


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    """One of which both processes are at work."""
    process = subprocess.Popen(
        [*CHECKOUT, "sim", "--first-seed", "12", "--seeds", "1000", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        workers = wait_until(lambda: len(found := _workers(process.pid)) == 2 and found, "both have loaded all", 60)
        for worker in workers:
            enough = _processor_ticks(worker) + os.sysconf("SC_CLK_TCK") // 5
            wait_until(lambda: _processor_ticks(worker) > enough, "it runs a seed", 60)  # noqa: B023
        yield Campaign(process, workers)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_interrupt_ends_all_processes_with_one_line_also_when_it_comes_again(campaign: Campaign) -> None:
    os.killpg(campaign.process.pid, signal.SIGINT)  # as the terminal does
    assert campaign.process.stderr is not None
    line = campaign.process.stderr.readline()
    with suppress(ProcessLookupError):
        os.killpg(campaign.process.pid, signal.SIGINT)
    assert campaign.process.communicate(timeout=300) == (b"", b"")
    assert (campaign.process.returncode, line) == (130, b"distkv: interrupted after 0 of 1000 seeds\n")
    assert not _alive(campaign.workers)


def test_workers_end_when_their_parent_is_killed(campaign: Campaign) -> None:
    campaign.process.kill()
    assert wait_until(lambda: not _alive(campaign.workers), "both workers end", 20)


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _workers(pid: int) -> list[int]:
    """Its children that have loaded all: from then on they have a second thread, which looks after their parent."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if len(os.listdir(f"/proc/{child}/task")) > 1]


def _processor_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
