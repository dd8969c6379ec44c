"""What the tests cost: kept after each run, printed, and written as tables into tests/README.rst.

Knows: seconds of the clock and of the processor, for each command and each file of tests.  Does not measure them
(`steps`, tests/conftest.py).

Invariant: what is kept is of one whole run, or of the parts that ran later one by one, each as it ran last.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from testing.steps import ROOT
from testing.tables import table

KEPT: Final = ROOT / "build" / "times.json"
PAGE: Final = ROOT / "tests" / "README.rst"
BEGIN: Final = ".. times: what stands from here to the end is written by ``packaging/test.sh times``\n"
DEAREST: Final = 20
"""So many files are shown."""


@attrs.frozen
class FileCost:
    """One file of tests."""

    file: str
    tests: int
    wall_s: float
    cpu_s: float


@attrs.frozen
class Cost:
    """One command."""

    part: str
    step: str
    wall_s: float
    cpu_s: float
    files: Sequence[FileCost]


def keep(costs: Sequence[Cost], whole_s: float | None) -> None:
    """Remember what a run cost; of parts that did not run what they cost before.

    `whole_s`: what a whole run took; None of one that was not whole. It is less than its parts took: some run at once.
    """
    ran = {one.part for one in costs}
    before = [one for one in load() if one.part not in ran] if whole_s is None else []
    kept = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "whole_s": _kept().get("whole_s") if whole_s is None else whole_s,
        "costs": [attrs.asdict(one) for one in [*before, *costs]],
    }
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept), "utf-8")


def load() -> list[Cost]:
    """What is kept; empty before the first run."""
    rows = _kept().get("costs", [])
    return [Cost(**{**row, "files": [FileCost(**file) for file in row["files"]]}) for row in rows]


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    return found


def machine() -> str:
    """Its processors, for people."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else 'unknown'}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text("utf-8").splitlines() if path.exists() else []


# -- for people ---------------------------------------------------------------------------------------------------


def show() -> int:
    """Print the tables, and write them into tests/README.rst; 1 when nothing is kept."""
    costs = load()
    if not costs:
        print("no times are kept yet: run make test")
        return 1
    kept = _kept()
    parts = lines_of_parts(costs, kept.get("whole_s"))
    lines = [f"Measured on {kept['date']}, {kept['machine']}.", "", *parts, "", *_dearest(costs)]
    print(*lines, sep="\n")
    before, found, _ = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text("\n".join([before + (found or BEGIN), *lines, ""]), "utf-8")
    return 0


def lines_of_parts(costs: Sequence[Cost], whole_s: float | None) -> Iterator[str]:
    """A table of the parts, of which some may have run at once: `whole_s` is what all took; None when none knows."""
    parts = dict.fromkeys(one.part for one in costs)
    rows = [_sum(part, [one for one in costs if one.part == part]) for part in parts]
    return table(("part", "tests", "seconds", "of processor"), [*rows, _sum("all", costs, whole_s)])


def _sum(name: str, costs: Sequence[Cost], whole_s: float | None = None) -> tuple[str, ...]:
    tests = sum(file.tests for one in costs for file in one.files)
    wall_s = sum(one.wall_s for one in costs) if whole_s is None else whole_s
    return name, f"{tests:,}", _seconds(wall_s), _seconds(sum(one.cpu_s for one in costs))


def _dearest(costs: Sequence[Cost]) -> Iterator[str]:
    """A table of the files that cost most of the processor, each with the part that runs it.

    Its names are no links: a file may have gone since.
    """
    files = sorted(((file, one.part) for one in costs for file in one.files), key=lambda pair: -pair[0].cpu_s)
    rows = [
        (file.file.removeprefix("tests/"), part, f"{file.tests:,}", _seconds(file.wall_s), _seconds(file.cpu_s))
        for file, part in files[:DEAREST]
    ]
    return table(("file", "part", "tests", "seconds", "of processor"), rows)


def _seconds(value: float) -> str:
    return f"{value:,.0f}"
