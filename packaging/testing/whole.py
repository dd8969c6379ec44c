"""Parts run one after another, and what is said at the end: what failed, and why.

Knows: that every part runs, also after one that failed.  Does not know what is in a part.

Invariant: the last `END_LINES` lines of a run that failed name what failed, and say why, as far as there is room.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from testing import quick
from testing.parts import PARTS
from testing.steps import Step, run
from testing.times import Cost, FileCost, keep, lines_of_parts

END_LINES: Final = 50
NAMED_MAX: Final = 20
"""So many that failed are named there; of more, how many they are."""
WIDTH: Final = 200
"""Of a line there: a longer one is cut."""


@attrs.frozen
class Failure:
    """A test or another command that failed, and its last lines."""

    name: str
    last: Sequence[str]


def run_parts(names: Sequence[str]) -> int:
    """Run these parts, and keep what they cost; 1 when something failed.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    failures, costs = run_steps((part, one) for part in names for one in PARTS[part]())
    keep(costs, is_whole=list(names) == list(PARTS))
    return _say(failures, costs, f"passed: {' '.join(names)}")


def run_quick(only: str) -> int:
    """Run what is nearest to a change; 1 when something failed.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        ValueError: `only` names a package that is not there.
    """
    failures, costs = run_steps(("quick", one) for one in quick.steps(only))
    return _say(failures, costs, "passed, but for what was left out")


def run_steps(steps: Iterable[tuple[str, Step]]) -> tuple[list[Failure], list[Cost]]:
    """Run commands, each of a part, also after one that failed; what failed, and what each cost.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    failures: list[Failure] = []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="distkv-tests-") as folder:
        for number, (part, one) in enumerate(steps):
            print(f"\n== {one.text}", flush=True)
            told = Path(folder) / str(number)
            ended = run(one, environment(told))
            failed, files = _read(told)
            failures += failed
            if ended.code and not failed:  # no test, or the tests did not come to an end
                failures.append(Failure(f"{one.text} ended with {ended.code}", ended.last))
            costs.append(Cost(part, one.text, ended.wall_s, ended.cpu_s, files))
    return failures, costs


def _say(failures: Sequence[Failure], costs: Sequence[Cost], well: str) -> int:
    print("", *lines_of_parts(costs), "", sep="\n")
    print(*(end(failures) if failures else [well]), sep="\n")
    return int(bool(failures))


def environment(told: Path) -> dict[str, str]:
    """Of each command; tests/conftest.py writes into the file what failed and what it cost."""
    kept = dict(os.environ)
    # Each process of tests, and each server that they start, would compile all that it imports anew.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    if sys.stdout.isatty():
        kept["PY_COLORS"] = "1"
    return kept | {"TOLD": str(told)}


def _read(told: Path) -> tuple[list[Failure], list[FileCost]]:
    """What pytest said of its tests; nothing of a command that is none."""
    rows = [json.loads(line) for line in told.read_text("utf-8").splitlines()] if told.exists() else []
    failed = [Failure(row["failed"], row["last"]) for row in rows if "failed" in row]
    return failed, [FileCost(**row) for row in rows if "file" in row]


def end(failures: Sequence[Failure]) -> Iterator[str]:
    """The last lines of a run that failed: first what failed, then why, the same room for each."""
    named = failures[:NAMED_MAX]
    names = [f"    {one.name}"[:WIDTH] for one in named]
    if len(failures) > len(named):
        names.append(f"    and {len(failures) - len(named)} more, see above")
    room = END_LINES - len(names) - 1
    shown = named[: room // 3]  # the name and two lines
    for one in shown:
        yield f"-- {one.name}"[:WIDTH]
        yield from (line[:WIDTH] for line in list(one.last)[-(room // len(shown) - 1) :])
    yield f"FAILED: {len(failures)}"
    yield from names
