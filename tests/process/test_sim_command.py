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

import pytest

from tests.process.servers import wait_until


def _sim(*words: str, hash_seed: str = "0") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "distkv", "sim", *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    return done.stdout


# Short ones. In the second one writers are followed through others, in the last one there are tokens.
@pytest.mark.parametrize("seed", ["3", "80", "42"])
def test_digest_is_the_same_under_every_hash_seed(seed: str) -> None:
    assert len({_sim("--seed", seed, "--digest", hash_seed=hash_seed) for hash_seed in ("0", "1", "77")}) == 1


@pytest.mark.slow
def test_sum_is_the_same_with_any_number_of_processes() -> None:
    words = ["--first-seed", "3", "--seeds", "3", "-o", "json"]
    assert _sim(*words, "--jobs", "2") == _sim(*words)


@pytest.fixture
def campaign() -> Iterator[subprocess.Popen[bytes]]:
    """A thousand seeds in two processes, both of them at work, in a process group of their own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distkv", "sim", "--seeds", "1000", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: len(_busy_workers(process.pid)) == 2, "both processes run seeds", 60)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_interrupt_ends_all_processes_soon_and_in_silence(campaign: subprocess.Popen[bytes]) -> None:
    workers = _busy_workers(campaign.pid)
    os.killpg(campaign.pid, signal.SIGINT)  # as the terminal does
    said = campaign.communicate(timeout=300)
    assert (campaign.returncode, said) == (130, (b"", b""))
    assert not _alive(workers)


def test_workers_end_when_their_parent_is_killed(campaign: subprocess.Popen[bytes]) -> None:
    workers = _busy_workers(campaign.pid)
    campaign.kill()
    wait_until(lambda: not _alive(workers), "both workers end", 20)


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _busy_workers(pid: int) -> list[int]:
    """Its children that took so much of the processor that all is loaded."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    ticks = os.sysconf("SC_CLK_TCK")
    return [child for child in children if int(_stat(child)[13]) > 3 * ticks]


def _stat(pid: int) -> list[str]:
    """The fields of `proc_pid_stat`; the second one, in parentheses, may hold blanks."""
    head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return [*head.split(" (", 1), *rest.split()]
