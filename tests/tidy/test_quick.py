"""`make quick` leaves out what it says it leaves out, and installs anew only when an install would be another one.

Knows: the option `--quick` of tests/conftest.py, and what packaging/venv.sh compares.  Does not run `make quick`.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = "tests/property/test_simulated_seeds.py"


@functools.cache
def _collected(*words: str) -> tuple[int, str]:
    """How many seeds would be run, and all that is said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *words, SEEDS],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.count(f"{SEEDS}::"), done.stdout


def test_quick_runs_some_seeds_and_counts_the_others() -> None:
    total, _ = _collected()
    some, said = _collected("--quick")
    assert 0 < some < total
    assert f"\n{total - some} slow ones of {SEEDS}\n" in said


def test_quick_names_the_folders_that_were_not_asked_for() -> None:
    _, said = _collected("--quick")
    (line,) = re.findall(r"^tests/\{(.*)\}$", said, re.MULTILINE)
    assert {"node", "process", "unit"} <= {*line.split(",")}
    assert "property" not in line.split(",")


def test_what_decides_an_install_stands_above_the_settings_of_tools() -> None:
    above, _, below = (ROOT / "pyproject.toml").read_text("utf-8").partition("\n[tool.ruff]\n")
    decides = re.compile(r"^\[(?:build-system|project|tool\.setuptools)", re.MULTILINE)
    assert "\n[project]\n" in above
    assert decides.findall(below) == []
