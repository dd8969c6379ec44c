"""What came of a slice: what failed, each with the command that repeats it, and what each of its items took.

Knows: how our own commands say it (a line that says what failed, and one below it that begins with `  again: `; lines
of `ITEM | SECONDS s |`), and what tests/conftest.py tells.  Does not know what was run.

Invariant: a command that failed has at least one failure here, and one that was ended by its bound, too.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from testing.bounded import Ran, Stopped
from testing.record import Failure
from testing.steps import Step

AGAIN: Final = "  again: "
TOOK: Final = re.compile(r"(\S+) +\| +([0-9.]+) s \|")
WHAT_MAX: Final = 300
"""Of what failed so much is kept."""


@attrs.frozen
class Told:
    """What pytest said of its tests."""

    tests: int
    failed: tuple[tuple[str, str], ...] = ()
    """Its name, and the line that says why."""
    files: Mapping[str, float] = attrs.field(factory=dict)
    """How many seconds the tests of each file took."""


def read_told(path: Path) -> Told | None:
    """None of a command that ran no test."""
    if not path.exists():
        return None
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    failed = tuple((str(row["failed"]), _why(row["last"])) for row in rows if "failed" in row)
    files = [row for row in rows if "file" in row]
    return Told(sum(row["tests"] for row in files), failed, {row["file"]: row["wall_s"] for row in files})


def _why(last: Sequence[str]) -> str:
    errors = [line[1:].strip() for line in last if line.startswith("E ")]
    return next(iter(errors), last[-1] if last else "")


def failures(one: Step, ran: Ran, told: Told | None) -> tuple[Failure, ...]:
    """All that failed."""
    found = [*(_of_tests(one, told) if told else ()), *_of_lines(ran.lines)]
    if ran.stopped is Stopped.LATE:
        found.append(Failure(f"did not end within {ran.wall_s:.0f} s: {_last(ran.lines)}"[:WHAT_MAX], one.text))
    elif not found and not ran.stopped and (ran.code or (told and not told.tests)):
        found.append(Failure(f"ended with {ran.code}: {_last(ran.lines)}"[:WHAT_MAX], one.text))
    return tuple(found)


def _of_tests(one: Step, told: Told) -> Iterator[Failure]:
    before, at = one.words[: one.words.index("pytest")], one.words.index("--soak")
    for name, why in told.failed:
        again = [*before, "pytest", name, *one.words[at : at + 2]]
        yield Failure(f"{name}: {why}"[:WHAT_MAX], shlex.join(again))


def _of_lines(lines: Sequence[str]) -> Iterator[Failure]:
    for before, line in zip(("", *lines), lines, strict=False):
        if line.startswith(AGAIN):
            yield Failure(before.strip()[:WHAT_MAX], line.removeprefix(AGAIN))


def _last(lines: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def seconds(items: Sequence[str], ran: Ran, told: Told | None) -> dict[str, float]:
    """What each item had of the time of a slice; the same each, if nothing is known of them."""
    lines = (TOOK.match(line) for line in ran.lines)
    found = told.files if told else {line[1]: float(line[2]) for line in lines if line}
    whole = sum(found.get(item, 0.0) for item in items)
    shares = {item: found.get(item, 0.0) / whole if whole else 1 / len(items) for item in items}
    return {item: round(ran.wall_s * share, 1) for item, share in shares.items()}
