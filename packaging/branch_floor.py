"""Fail when the branches of a package are covered less than a floor: `branch_floor.py PERCENT PACKAGE...`.

Knows: the `coverage.json` that `slipcover --branch --json` writes.  Does not use its `--fail-under`: that adds lines to
branches and packages to each other, so that a good one hides a bad one.

Invariant: a package that was not measured fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(floor: float, packages: list[str]) -> int:
    """Print one line for each package and what it misses; 1 when one of them is below the floor."""
    report = json.loads(Path("coverage.json").read_text(encoding="utf-8"))
    if not report["meta"]["branch_coverage"]:
        print("no branches were measured: slipcover ran without --branch")
        return 1
    files = report["files"]
    below = 0
    for package in packages:
        own = {name: data for name, data in files.items() if name.startswith(f"distkv/{package}/")}
        covered = sum(len(data["executed_branches"]) for data in own.values())
        total = covered + sum(len(data["missing_branches"]) for data in own.values())
        percent = 100 * covered / total if total else 0.0
        print(f"branches of distkv/{package}: {covered} of {total} covered, {percent:.1f} % (floor {floor:g} %)")
        if percent < floor:
            below = 1
            _print_missing(own)
    return below


def _print_missing(files: dict[str, Any]) -> None:
    for name, data in sorted(files.items()):
        missing = ", ".join(f"{start}->{end}" for start, end in data["missing_branches"])
        if missing:
            print(f"    {name}: {missing}")


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
