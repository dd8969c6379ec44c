"""Scales of a report: stretches of time, steps of an axis, and how numbers, sizes and times are written.

Knows: arithmetic, and the calendar in UTC.  Does not know what is counted, nor how it is drawn.

Invariant: whatever times there are, there are at most `BUCKETS_MAX` stretches, all of one width, and every time from
the first to the last is in exactly one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import attrs

BUCKETS_MAX: Final = 96
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
DAY_S: Final = _DAY
WIDTHS_S: Final = (
    1, 2, 5, 10, 15, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR,
    3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY,
)  # fmt: skip
"""How wide a stretch may be; beyond a week it doubles."""
LABELS_MAX: Final = 8
"""So many times stand below a chart."""
PLAUSIBLE_FROM_S: Final = 946_684_800.0
"""The year 2000. A clock that shows less was never set."""
FUTURE_S: Final = float(_DAY)
"""So far a clock may be ahead of the one that makes the report."""
HOLE_RATIO: Final = 10
STRAY_SHARE: Final = 0.02
"""Days with less than this share of all events, behind a hole ten times as long as the rest, are not drawn."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_THIN: Final = "\u202f"
"""Between groups of digits, and before a unit: no line ends there."""


# -- time ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Label:
    """A round time below a chart."""

    place: float
    """From 0 to 1."""
    text: str
    is_minor: bool
    """It may be left out where there is little room."""


@attrs.frozen
class Buckets:
    """Stretches of time of equal width, one after another, in seconds since 1970."""

    begin_s: int
    width_s: int
    count: int

    @property
    def end_s(self) -> int:
        """The first second behind them."""
        return self.begin_s + self.count * self.width_s

    def start_s(self, number: int) -> int:
        """When one of them begins."""
        return self.begin_s + number * self.width_s

    def labels(self) -> list[Label]:
        """Up to `LABELS_MAX` round times; every second one is minor, and days are not if they can be spared that."""
        length = self.end_s - self.begin_s
        step = next(width for width in _widths() if self.width_s <= width and length <= width * LABELS_MAX)
        times = range(-(-self.begin_s // step) * step, self.end_s, step)
        is_short = self.begin_s // _DAY == (self.end_s - 1) // _DAY
        main = next((number for number, time_s in enumerate(times) if time_s % _DAY == 0), 0) % 2
        return [
            Label((time_s - self.begin_s) / length, _label(time_s, step, is_short=is_short), number % 2 != main)
            for number, time_s in enumerate(times)
        ]


def buckets_of(first_s: float, last_s: float) -> Buckets:
    """The narrowest stretches of a round width with which there are no more than `BUCKETS_MAX` of them."""
    for width in _widths():
        begin, count = int(first_s // width), int(last_s // width) - int(first_s // width) + 1
        if count <= BUCKETS_MAX:
            return Buckets(begin * width, width, count)
    raise AssertionError("widths grow without end")


def main_days(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The first and the last day of what is worth to be drawn, of (day, events) pairs; at least one.

    A few events of a clock that was wrong by years would make a chart of one column. They are cut off, as long as
    they are few, and the hole before the rest is long.
    """
    found = sorted(counts)
    total = sum(events for _, events in found)
    while len(found) > 1:
        hole, at = max((after[0] - before[0], at) for at, (before, after) in enumerate(pairwise(found), 1))
        left, right = found[:at], found[at:]
        few, rest = sorted((left, right), key=lambda part: sum(events for _, events in part))
        span = rest[-1][0] - rest[0][0] + 1
        if hole <= HOLE_RATIO * span or sum(events for _, events in few) >= STRAY_SHARE * total:
            break
        found = rest
    return found[0][0], found[-1][0]


def _widths() -> Iterator[int]:
    yield from WIDTHS_S
    width = WIDTHS_S[-1]
    while True:
        width *= 2
        yield width


def _label(time_s: int, step_s: int, *, is_short: bool) -> str:
    moment = _EPOCH + timedelta(seconds=time_s)
    if step_s >= _DAY:
        return f"{moment:%Y-%m-%d}"
    if time_s % _DAY == 0 and not is_short:
        return f"{moment:%m-%d}"
    return f"{moment:%H:%M:%S}" if step_s < _MINUTE else f"{moment:%H:%M}"


# -- axes ---------------------------------------------------------------------------------------------------------


def steps(top: float) -> list[int]:
    """Round whole numbers from 0 up to at least `top`, at most five of them."""
    most = max(1, math.ceil(top))
    unit = 10 ** max(0, len(str(most)) - 2)
    while True:
        for factor in (1, 2, 5):
            if most <= 4 * unit * factor:
                step = unit * factor
                return list(range(0, -(-most // step) * step + 1, step))
        unit *= 10


# -- words --------------------------------------------------------------------------------------------------------


def counted(number: int) -> str:
    """A whole number, its digits in groups of three."""
    return f"{number:,}".replace(",", _THIN)


def counted_as(number: int, one: str, more: str) -> str:
    """A number and what is counted."""
    return f"{counted(number)} {one if number == 1 else more}"


def share(part: int, whole: int) -> str:
    """Part of a whole in per cent; what is more than nothing never shows as nothing."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return f"<{_THIN}0.1{_THIN}%"
    if percent > 99.9 and part < whole:
        return f">{_THIN}99.9{_THIN}%"
    return f"{percent:.1f}{_THIN}%"


def size(bytes_count: int) -> str:
    """Bytes, in the unit that leaves few digits."""
    if bytes_count < 1024:
        return f"{bytes_count}{_THIN}B"
    amount = float(bytes_count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if amount < 1023.95 or unit == "EiB":
            return f"{amount:.1f}{_THIN}{unit}"
        amount /= 1024
    raise AssertionError("the last unit takes all")


_YEAR: Final = 31_556_952
_LONG: Final = ((_YEAR, "y"), (_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """A length of time, with two or three digits; shorter than a second in milliseconds."""
    if not math.isfinite(seconds):
        return "–"
    sign, length = ("−" if seconds < 0 else ""), abs(seconds)
    if length < 0.9995:
        return f"{sign}{_digits(length * 1000)}{_THIN}ms"
    # What would be written as 60 s is a minute.
    name, width = next((name, width) for width, name in _LONG if length >= width * 0.9995 or width == 1)
    return f"{sign}{_digits(length / width)}{_THIN}{name}"


def _digits(amount: float) -> str:
    if amount < 9.95:
        return f"{amount:.2f}" if amount < 0.9995 else f"{amount:.1f}"
    return counted(round(amount))


def width_name(width_s: int) -> str:
    """A width of `Buckets`, exactly."""
    unit, name = next((unit, name) for unit, name in _LONG if width_s % unit == 0)
    return f"{width_s // unit}{_THIN}{name}"


def moment(time_s: float | None) -> str:
    """A time in UTC to the second; a dash where there is none, or none that a calendar has."""
    if time_s is None:
        return "–"
    try:
        return (_EPOCH + timedelta(seconds=math.floor(time_s))).replace(tzinfo=None).isoformat(" ")
    except (OverflowError, ValueError):
        return "–"


def period(first_s: float, last_s: float) -> str:
    """From one time to another, in UTC; the day of the second only where it is another."""
    first, last = moment(first_s), moment(last_s)
    until = last[11:] if first[:10] == last[:10] else last
    return f"{first} to {until} UTC" if first != last else f"{first} UTC"


def days(buckets: Buckets) -> str:
    """The first and the last day."""
    first, last = moment(buckets.begin_s)[:10], moment(buckets.end_s - 1)[:10]
    return f"{first} (UTC)" if first == last else f"{first} to {last} (UTC)"


def classes(limits: Sequence[str]) -> list[str]:
    """Names of the classes that rising limits make: up to each, and above the last."""
    return [*(f"up to {limit}" for limit in limits), f"above {limits[-1]}"]
