"""`make soak`: all that repeats, in turns, for a given time, from where it was the last time.

Knows: the time that was given, what is written down of each slice, and what is printed in the end.  Does not know
whose turn it is (`turns`), nor what is run (`kinds`).

Invariant: each slice that was begun has a row in the record, also one that was ended; what fails here has a command
that repeats it.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from testing.bounded import Stopped, run_bounded
from testing.kinds import KINDS, Kind
from testing.outcome import failures, read_told, seconds
from testing.parts import packages
from testing.record import RECORD, Failure, RecordError, Row, alone, append, commit, load, now
from testing.tables import table
from testing.times import machine
from testing.turns import Turn, next_turn
from testing.whole import environment

HOUR_S: Final = 3600
DAY_S: Final = 86_400
AT_ONCE_S: Final = 5.0
"""What fails so soon cannot be run at all, mostly: it would fail all the time."""


@attrs.frozen
class Wish:
    """What somebody asked for."""

    hours: float
    kinds: tuple[Kind, ...]


class WishError(Exception):
    """It cannot be done; the message says why."""


def main(variables: Mapping[str, str], record: Path = RECORD) -> int:
    """The exit code: 1 when something failed, 2 when nothing could be begun."""
    try:
        wish = read_wish(variables)
        with alone(record):
            return soak(wish, record)
    except (WishError, RecordError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2


def read_wish(variables: Mapping[str, str]) -> Wish:
    """HOURS and ONLY, as `make` passes them on.

    Raises:
        WishError: one of them is wrong.
    """
    hours, only = variables.get("HOURS", "2"), variables.get("ONLY", "")
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise WishError(f"nothing is called {', '.join(unknown)}: ONLY takes some of {','.join(KINDS)}")
    try:
        found = float(hours)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise WishError(f"HOURS={hours}: give a number above 0, such as 2 or 0.5")
    return Wish(found, tuple(KINDS[name] for name in dict.fromkeys(names)) or tuple(KINDS.values()))


def possible(wish: Wish) -> Wish:
    """What of it can be run here; what is missing is installed first, if this user may.

    Raises:
        WishError: nothing of it.
    """
    packages(*dict.fromkeys(need for kind in wish.kinds for need in kind.needs))
    lacks = {kind.name: why for kind in wish.kinds if (why := kind.lacks())}
    said = "; ".join(f"{name}: {why}" for name, why in lacks.items())
    if len(lacks) == len(wish.kinds):
        raise WishError(f"nothing of this can be run here: {said}")
    if lacks:
        print(f"soak: left out: {said}")
    return attrs.evolve(wish, kinds=tuple(kind for kind in wish.kinds if kind.name not in lacks))


def soak(wish: Wish, record: Path) -> int:
    """Run slices until the time is over, or somebody says so.

    Raises:
        RecordError: a line of the record cannot be read; nothing was run.
        WishError: nothing of the wish can be run here.
    """
    rows, own = load(record), list[Row]()
    kinds = {kind.name: kind for kind in possible(wish).kinds}
    end_s = time.monotonic() + wish.hours * HOUR_S
    print(f"soak: {wish.hours:g} h of {','.join(kinds)}; record: {record}")
    is_asked = False
    try:
        while not is_asked:
            left_s = end_s - time.monotonic()
            turn = next_turn(kinds.values(), rows + own, left_s, machine(), _day(), is_first=not own)
            if turn is None:
                break
            kind = kinds[turn.slice.kind]
            row, is_asked = run_turn(kind, turn)
            append(row, record)
            own.append(row)
            print(_line(kind, row), flush=True)
            if row.failed and row.wall_s < AT_ONCE_S:
                del kinds[kind.name]
                print(f"-- {kind.name}: fails at once, and has no more turns in this soak")
    except KeyboardInterrupt:  # between two slices
        pass
    print("", *lines_of_record(rows + own), *lines_of_failures(own), sep="\n")
    return int(any(row.failed for row in own))


def run_turn(kind: Kind, turn: Turn) -> tuple[Row, bool]:
    """Run a slice; its row, and whether Ctrl-C ended it."""
    one = turn.slice
    step = kind.command(one)
    print(f"\n== {kind.name}: {step.text}  # some {turn.expected_s:.0f} s", flush=True)
    began, here = now(), commit()
    with tempfile.TemporaryDirectory(prefix="distkv-soak-") as folder:
        told_path = Path(folder) / "told"
        ran = run_bounded(step, _environment(told_path), turn.within_s)
        told = read_told(told_path)
    is_finished = ran.stopped is None
    done = told.tests if told else one.size if is_finished else 0
    row = Row(
        began=began,
        commit=here,
        machine=machine(),
        kind=kind.name,
        first=one.first,
        after=kind.after(one),
        size=one.size,
        items={} if ran.stopped is Stopped.ASKED else seconds(one.items, ran, told),
        count=done,
        wall_s=round(ran.wall_s, 1),
        cpu_s=round(ran.cpu_s, 1),
        is_finished=is_finished,
        failed=failures(step, ran, told),
    )
    return row, ran.stopped is Stopped.ASKED


def _environment(told: Path) -> dict[str, str]:
    """Of each command: programs are those beside this Python."""
    kept = environment(told)
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"}


def _day() -> int:
    return int(time.time() // DAY_S)


# -- for people ---------------------------------------------------------------------------------------------------


def _line(kind: Kind, row: Row) -> str:
    state = "" if row.is_finished else ", unfinished"
    return f"-- {row.kind}: {row.count} {kind.counts}, {len(row.failed)} failed, {row.wall_s:.0f} s{state}"


def lines_of_record(rows: Sequence[Row]) -> Iterator[str]:
    """A table of all that was ever run."""
    yield "all that was ever run:"
    kinds = dict.fromkeys([*KINDS, *(row.kind for row in rows)])
    cells = [_cells(kind, some) for kind in kinds if (some := [row for row in rows if row.kind == kind])]
    if cells:
        yield from table(("kind", "slices", "unfinished", "done", "hours", "failed", "last"), cells)


def _cells(kind: str, rows: Sequence[Row]) -> tuple[str, ...]:
    counts = KINDS[kind].counts if kind in KINDS else ""
    return (
        kind,
        f"{len(rows):,}",
        f"{sum(not row.is_finished for row in rows):,}",
        f"{sum(row.count for row in rows):,} {counts}".rstrip(),
        f"{sum(row.wall_s for row in rows) / HOUR_S:.2f}",
        f"{sum(len(row.failed) for row in rows):,}",
        max(row.began for row in rows)[:10],
    )


def lines_of_failures(own: Sequence[Row]) -> Iterator[str]:
    """What failed in this soak, and how it is repeated."""
    found: list[tuple[str, Failure]] = [(row.kind, failure) for row in own for failure in row.failed]
    yield ""
    if not found:
        yield f"nothing failed in {len(own)} slices" if own else "nothing was run"
        return
    yield f"failed: {len(found)}"
    for kind, failure in found:
        yield f"  {kind}: {failure.what}"
        yield f"  again: {failure.again}"
