"""Whose turn it is: what is run next, given all that was run.

Knows: which kind waited longest, where it goes on, how much of it fits into the time that is left.  Does not run it.

Invariant: a pure choice; the same record, time and day give the same slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from testing.kinds import DAY, Draws, Kind, Slice
from testing.record import Row

TURN_S: Final = 180.0
"""A slice should take so long."""
LATE: Final = 3.0
"""It is ended after so many times what it should take,"""
SPARE_S: Final = 900.0
"""and so much more: the machine may have become slow, and some seeds take much longer than others."""
UNKNOWN_S: Final = 3600.0
"""What was never run on such a machine gets so much more."""
LOOKED_BACK: Final = 3
"""What a kind takes is learned from so many of its last slices."""


@attrs.frozen
class Turn:
    """A slice, and how long it may take."""

    slice: Slice
    expected_s: float
    is_known: bool
    """Something like it was run on such a machine."""

    @property
    def within_s(self) -> float:
        """It is ended after so long."""
        return LATE * self.expected_s + SPARE_S + (0 if self.is_known else UNKNOWN_S)


def next_turn(
    kinds: Iterable[Kind], rows: Sequence[Row], left_s: float, machine: str, day: int, *, is_first: bool
) -> Turn | None:
    """The next slice; None when none fits into the time that is left. The first one of a soak need not fit."""
    rows = sorted(rows, key=lambda row: row.began)
    order = sorted(kinds, key=lambda kind: max((row.began for row in rows if row.kind == kind.name), default=""))
    turns = [_turn(kind, [row for row in rows if row.kind == kind.name], left_s, machine, day) for kind in order]
    fitting = (turn for turn in turns if turn.expected_s <= left_s)
    return next(fitting, turns[0] if is_first else None)


def _turn(kind: Kind, rows: Sequence[Row], left_s: float, machine: str, day: int) -> Turn:
    begin = first(kind, rows, day)
    known = [row for row in rows if row.is_finished and row.machine == machine]
    if kind.list_items is not None:
        took = {item: item_s for row in known for item, item_s in row.items.items()}
        items = following(kind.list_items(), [item for row in rows for item in row.items])
        some = _some(kind, items, took, left_s)
        is_known = all(item in took for item in some)
        return Turn(Slice(kind.name, begin, len(some), tuple(some)), sum(some.values()), is_known)
    each_s = each(kind, known)
    size = max(kind.least, min(kind.most, int(min(TURN_S, left_s) / each_s)))
    return Turn(Slice(kind.name, begin, size), size * each_s, bool(known))


def _some(kind: Kind, items: Sequence[str], took: Mapping[str, float], left_s: float) -> dict[str, float]:
    """The first item that there is time for, and those of the next ones that a turn has room for; the first one of all
    when there is time for none. Who is known to take too long lets others pass."""
    found = dict[str, float]()
    for item in items:
        item_s, room_s = took.get(item, kind.each_s), left_s
        if found:
            room_s = min(TURN_S, left_s) - sum(found.values())
        if item_s <= room_s and len(found) < kind.most:
            found[item] = item_s
        elif item not in took:
            break
    return found or {item: took.get(item, kind.each_s) for item in items[:1]}


def each(kind: Kind, known: Sequence[Row]) -> float:
    """What a unit of a slice takes, in seconds; by what it took, if that is known."""
    last = [row for row in known if row.size > 0][-LOOKED_BACK:]
    return max(0.001, sum(row.wall_s for row in last) / sum(row.size for row in last)) if last else kind.each_s


def first(kind: Kind, rows: Sequence[Row], day: int) -> int:
    """The first seed that nobody drew, or the first number of this day that nobody drew from."""
    begin = day * DAY if kind.draws is Draws.DATED else kind.begin
    return max([begin, *(row.after for row in rows)])


def following(items: Sequence[str], done: Sequence[str]) -> list[str]:
    """In the order of their turns: those that had none, then those whose turn was longest ago."""
    last = {item: at for at, item in enumerate(done)}
    return sorted(items, key=lambda item: last.get(item, -1))
