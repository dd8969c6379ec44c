"""What a soak draws: ten times as much, from its number on."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from testing.steps import ROOT

from tests import profiles

SEEDS = "tests/property/test_simulated_seeds.py"


def _collected(*words: str) -> list[int]:
    """The seeds that would be played."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *words, SEEDS],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TOLD"))},
        check=True,
        capture_output=True,
        text=True,
    )
    return [int(seed) for seed in re.findall(r"^tests/.*::test_seed_passes\[(\d+)\]$", done.stdout, re.MULTILINE)]


def test_soak_draws_many_seeds_from_its_number_and_none_of_those_that_are_always_drawn() -> None:
    always, first = _collected(), 20_665_000_000
    drawn = _collected("--soak", str(first))
    assert always[:3] == [0, 1, 2]
    assert drawn == [*range(first, first + len(drawn))]
    assert len(drawn) > len(always)


def test_test_may_not_draw_so_many_seeds_that_two_soaks_have_some_in_common() -> None:
    profiles.seeds(profiles.SPAN // profiles.TIMES)
    with pytest.raises(ValueError, match="too many"):
        profiles.seeds(profiles.SPAN // profiles.TIMES + 1)
