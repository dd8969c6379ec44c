"""`distkv sim` as a process: the same digest under any hash seed, the same sum with any number of processes.

Knows: the command.  Starts no server.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _sim(*words: str, hash_seed: str = "0") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "distkv", "sim", *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("seed", ["3", "5"])
def test_digest_is_the_same_under_every_hash_seed(seed: str) -> None:
    assert len({_sim("--seed", seed, "--digest", hash_seed=hash_seed) for hash_seed in ("0", "1", "77")}) == 1


@pytest.mark.slow
def test_sum_is_the_same_with_any_number_of_processes() -> None:
    words = ["--first-seed", "3", "--seeds", "3", "-o", "json"]
    assert _sim(*words, "--jobs", "2") == _sim(*words)
