"""Whose turn it is: what is run next, given all that was run.

Knows: which kind waited longest, where it goes on, how much of it fits into the time that is left.  Does not run it.

Invariant: a pure choice; the same record, time and day give the same slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from testing.kinds import DAY, Draws, Kind, Slice
from testing.record import Row

TURN_S: Final = 180.0
"""A slice should take so long."""
LATE: Final = 3.0
"""It is ended after so many times what it should take,"""
SPARE_S: Final = 300.0
"""and so much more: the machine may have become slow."""
LOOKED_BACK: Final = 3
"""What a kind takes is learned from so many of its last slices."""


@attrs.frozen
class Turn:
    """A slice, and how long it may take."""

    slice: Slice
    expected_s: float

    @property
    def within_s(self) -> float:
        """It is ended after so long."""
        return LATE * self.expected_s + SPARE_S


def next_turn(
    kinds: Iterable[Kind], rows: Sequence[Row], left_s: float, machine: str, day: int, *, is_first: bool
) -> Turn | None:
    """The next slice; None when none fits into the time that is left. The first one of a soak need not fit."""
    order = sorted(kinds, key=lambda kind: max((row.began for row in rows if row.kind == kind.name), default=""))
    turns = [_turn(kind, [row for row in rows if row.kind == kind.name], left_s, machine, day) for kind in order]
    fitting = (turn for turn in turns if turn.expected_s <= left_s)
    return next(fitting, turns[0] if is_first and turns else None)


def _turn(kind: Kind, rows: Sequence[Row], left_s: float, machine: str, day: int) -> Turn:
    each_s = each(kind, rows, machine)
    size = max(kind.least, min(kind.most, int(min(TURN_S, left_s) / each_s)))
    items: tuple[str, ...] = ()
    if kind.list_items is not None:
        items = following(kind.list_items(), [item for row in rows for item in row.items], size)
        size = len(items)
    return Turn(Slice(kind.name, first(kind, rows, day), size, items), size * each_s)


def each(kind: Kind, rows: Sequence[Row], machine: str) -> float:
    """What a unit of a slice takes, in seconds; by what it took on a machine like this, if that is known."""
    known = [row for row in rows if row.is_finished and row.machine == machine and row.size > 0][-LOOKED_BACK:]
    if not known:
        return kind.each_s
    return max(0.001, sum(row.wall_s for row in known) / sum(row.size for row in known))


def first(kind: Kind, rows: Sequence[Row], day: int) -> int:
    """The first seed that nobody drew, or the first number of this day that nobody drew from."""
    begin = day * DAY if kind.draws is Draws.DATED else kind.begin
    return max([begin, *(row.after for row in rows)])


def following(items: Sequence[str], done: Sequence[str], size: int) -> tuple[str, ...]:
    """So many that come next. Those of a list that never had their turn come before those that had it longest ago."""
    last = {item: at for at, item in enumerate(done)}
    return tuple(sorted(items, key=lambda item: last.get(item, -1))[:size])
