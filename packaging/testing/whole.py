"""Parts run one after another, or at once, and what is said at the end: what failed, and why.

Knows: that every part runs, also after one that failed, and which commands run at once.  Does not know what a part has.

Invariant: the last `END_LINES` lines of a run that failed name what failed, and say why, as far as there is room.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias

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

PartStep: TypeAlias = tuple[str, Step]
"""A command with the part that it is of."""
Stage: TypeAlias = Sequence[PartStep]
"""Commands that run at once."""


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
    began = time.monotonic()
    failures, costs = run_stages(stages([(part, one) for part in names for one in PARTS[part]()]))
    wall_s = time.monotonic() - began
    keep(costs, wall_s if list(names) == list(PARTS) else None)
    return _say(failures, costs, wall_s, f"passed: {' '.join(names)}")


def run_quick(only: str) -> int:
    """Run what is nearest to a change; 1 when something failed.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        ValueError: `only` names a package that is not there.
    """
    began = time.monotonic()
    failures, costs = run_stages([("quick", one)] for one in quick.steps(only))
    return _say(failures, costs, time.monotonic() - began, "passed, but for what was left out")


def stages(steps: Sequence[PartStep]) -> Iterator[Stage]:
    """Those that wait run all at once, where the first of them stands; all others one by one."""
    waiting = [one for one in steps if one[1].waits]
    for one in steps:
        if not one[1].waits:
            yield [one]
        elif one is waiting[0]:
            yield waiting


def run_stages(stages: Iterable[Stage]) -> tuple[list[Failure], list[Cost]]:
    """Run commands, each of a part, also after one that failed; what failed, and what each cost.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    failures: list[Failure] = []
    costs: list[Cost] = []
    for stage in stages:
        for failed, cost in _run_stage(stage):
            failures += failed
            costs.append(cost)
    return failures, costs


def _run_stage(stage: Stage) -> list[tuple[list[Failure], Cost]]:
    """What the first prints is shown as it comes, and what the others print when all have ended."""
    (part, first), *others = stage
    with ThreadPoolExecutor(max(1, len(others))) as threads:
        print(f"\n== {first.text}", *(f"   beside {one.text}" for _, one in others), sep="\n", flush=True)
        printed: list[list[str]] = [[] for _ in others]
        begun = [threads.submit(_run, *one, said.append) for one, said in zip(others, printed, strict=True)]
        ran = [_run(part, first, _show), *(one.result() for one in begun)]
    for (_, one), said in zip(others, printed, strict=True):
        print(f"\n== {one.text}", "".join(said), sep="\n", flush=True)
    return ran


def _show(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _run(part: str, one: Step, show: Callable[[str], object]) -> tuple[list[Failure], Cost]:
    with tempfile.TemporaryDirectory(prefix="distkv-tests-") as folder:
        told = Path(folder) / "told"
        ended = run(one, environment(told), show)
        failures, files = _read(told)
    if ended.code and not failures:  # no test, or the tests did not come to an end
        failures.append(Failure(f"{one.text} ended with {ended.code}", ended.last))
    return failures, Cost(part, one.text, ended.wall_s, ended.cpu_s, files)


def _say(failures: Sequence[Failure], costs: Sequence[Cost], wall_s: float, well: str) -> int:
    print("", *lines_of_parts(costs, wall_s), "", sep="\n")
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
