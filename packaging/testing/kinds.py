"""All that repeats: what each kind of it is, and the command of one slice.

Knows: which seeds a kind draws, how a slice of it is begun, what it needs.  Does not know when its turn is (`turns`),
nor how its output is read (`failures`).

Invariant: the same slice is the same command; two slices that follow each other draw no seed twice.
"""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from testing.parts import SPREAD
from testing.steps import ROOT, Step, step

JOBS: Final = str(os.cpu_count() or 1)
SPAN: Final = 10_000
"""No test draws more seeds from one number (tests/profiles.py)."""
DAY: Final = 1_000_000
"""The numbers of a day begin at so many times the days since 1970."""


class Draws(enum.Enum):
    """What a slice takes of the seeds."""

    EACH = "one seed for each unit of its size"
    ONE = "one seed, whatever its size"
    DATED = "a number of the day, from which tests draw"


@attrs.frozen
class Slice:
    """Some of a kind, to be run by one command."""

    kind: str
    first: int
    size: int
    items: tuple[str, ...] = ()


@attrs.frozen
class Kind:
    """What repeats, and how."""

    name: str
    counts: str
    """What is counted of it, in the plural."""
    command: Callable[[Slice], Step]
    each_s: float
    """A guess of what a unit of its size takes; the record knows better."""
    least: int
    most: int
    """Of the size of a slice."""
    draws: Draws = Draws.DATED
    begin: int = 0
    """The first seed of all. Those before it were run before there was a record."""
    list_items: Callable[[], Sequence[str]] | None = None
    """The list that it goes round, some in each slice: its size is how many."""
    needs: tuple[str, ...] = ()
    """Commands and their packages: `COMMAND=PACKAGE`."""

    def after(self, one: Slice) -> int:
        """Where the seeds go on after a slice."""
        match self.draws:
            case Draws.EACH:
                return one.first + one.size
            case Draws.ONE:
                return one.first + 1
            case Draws.DATED:
                return one.first + SPAN


# -- commands -----------------------------------------------------------------------------------------------------


def tests(one: Slice, *words: str) -> Step:
    """Tests that draw from the number of a slice."""
    return step("pytest", "-q", *words, "--soak", str(one.first), *one.items)


def _sim(one: Slice) -> Step:
    return step(
        *("python", "-m", "distkv", "sim", "--first-seed", str(one.first), "--seeds", str(one.size), "--jobs", JOBS)
    )


def _tokens(one: Slice) -> Step:
    words = ("--first", str(one.first), "--count", str(one.size), "--jobs", JOBS)
    return step("python", "-m", "tests.property.token_plays", *words)


def _properties(one: Slice) -> Step:
    return tests(one, *SPREAD)


def _mutants(one: Slice) -> Step:
    return step("python", "-m", "tests.mutants", *one.items)


# -- lists --------------------------------------------------------------------------------------------------------

_DRAWS: Final = re.compile(r"^@given\(|^from tests\.profiles import ", re.MULTILINE)
_OTHERS: Final = ("tests/process/", "tests/netns/", "tests/spark/", "tests/browser/", "tests/mutants/")


def property_files() -> list[str]:
    """The tests that draw something, but for those that are a kind of their own."""
    found = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py")) if _is_drawn(path)]
    return [name for name in found if not name.startswith(_OTHERS)]


def _is_drawn(path: Path) -> bool:
    return _DRAWS.search(path.read_text("utf-8")) is not None


def mutants() -> list[str]:
    """The mutants of all lists."""
    words = [sys.executable, "-m", "tests.mutants", "--names"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


# -- the table ----------------------------------------------------------------------------------------------------

KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("sim", "seeds", _sim, 1.2, 10, 2000, Draws.EACH, 60_000_000),
        Kind("tokens", "seeds of each play", _tokens, 1.0, 10, 5000, Draws.EACH, 1_000_000),
        Kind("properties", "tests", _properties, 30.0, 1, 20, list_items=property_files),
        Kind("mutants", "mutants", _mutants, 6.0, 1, 60, Draws.ONE, list_items=mutants),
    )
}
"""In the order of their first turns."""
