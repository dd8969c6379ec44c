"""Stretches of time, axes and words of a report, for any times and numbers there may be."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distkv.spark.reporting.scale import (
    BUCKETS_MAX,
    DAY_S,
    LABELS_MAX,
    WIDTHS_S,
    buckets_of,
    counted,
    duration,
    main_days,
    moment,
    period,
    share,
    size,
    steps,
    width_name,
)

TIMES = st.floats(-1e11, 1e11)
ANY = st.floats(allow_nan=True, allow_infinity=True)


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


@given(TIMES, TIMES)
def test_every_time_is_in_one_of_few_stretches(one: float, other: float) -> None:
    first, last = sorted((one, other))
    found = buckets_of(first, last)
    assert 1 <= found.count <= BUCKETS_MAX
    assert found.begin_s <= first
    assert last < found.end_s
    assert found.begin_s % found.width_s == 0


@given(st.floats(0, 2e9), st.floats(0, 1e9))
def test_stretches_are_the_narrowest_that_are_few(first: float, length: float) -> None:
    found = buckets_of(first, first + length)
    narrower = [width for width in WIDTHS_S if width < found.width_s]
    if narrower:
        assert (first + length) // narrower[-1] - first // narrower[-1] + 1 > BUCKETS_MAX


@given(st.floats(0, 1e11), st.floats(0, 1e11))
def test_labels_are_round_few_and_inside(one: float, other: float) -> None:
    found = buckets_of(*sorted((one, other)))
    labels = found.labels()
    assert 1 <= len(labels) <= LABELS_MAX
    assert all(0 <= label.place < 1 for label in labels)
    assert [label.place for label in labels] == sorted({label.place for label in labels})
    assert not all(label.is_minor for label in labels)


def test_labels_of_some_days_keep_the_days_where_there_is_little_room() -> None:
    labels = buckets_of(1_795_168_800, 1_795_168_800 + 3 * DAY_S).labels()
    assert [label.text for label in labels if not label.is_minor] == ["11-21", "11-22", "11-23"]
    assert {label.text for label in labels if label.is_minor} == {"12:00"}


@pytest.mark.parametrize(
    ("length_s", "text"), [(30, "10:00:00"), (3600, "10:10"), (20 * DAY_S, "2026-11-26"), (900 * DAY_S, "2027-01-21")]
)
def test_labels_say_what_the_length_needs(length_s: int, text: str) -> None:
    labels = [label.text for label in buckets_of(1_795_168_800, 1_795_168_800 + length_s).labels()]
    assert re.fullmatch(re.sub(r"\d", r"\\d", text), labels[-1])


@given(st.dictionaries(st.integers(-(10**4), 10**5), st.integers(1, 1000), min_size=1))
def test_days_that_are_drawn_are_most_of_all(counts: dict[int, int]) -> None:
    days = list(counts.items())
    first, last = main_days(days)
    assert {first, last} <= {day for day, _ in days}
    total, drawn = sum(count for _, count in days), sum(count for day, count in days if first <= day <= last)
    assert drawn > total * 0.5


@pytest.mark.parametrize(
    ("days", "drawn"),
    [
        ([(20_000, 5)], (20_000, 20_000)),
        ([(11_000, 1), (20_000, 99), (20_003, 1)], (20_000, 20_003)),
        ([(20_000, 99), (20_003, 1), (29_000, 1)], (20_000, 20_003)),
        ([(11_000, 10), (20_000, 90)], (11_000, 20_000)),
        ([(20_000 + n, 1) for n in range(100)] + [(20_050, 10**6)], (20_000, 20_099)),
    ],
    ids=["one", "before", "behind", "not few", "a burst in a trickle"],
)
def test_days_far_from_the_rest_are_cut_off_when_they_have_little(
    days: list[tuple[int, int]], drawn: tuple[int, int]
) -> None:
    assert main_days(days) == drawn


@given(st.floats(0, 1e18))
def test_axis_has_few_round_steps_up_to_the_top(top: float) -> None:
    found = steps(top)
    assert found[0] == 0
    assert found[-1] >= top
    assert 2 <= len(found) <= 5
    assert found[-2] < max(top, 1)
    assert len({after - before for before, after in pairwise(found)}) == 1
    assert str(found[1]).rstrip("0") in ("1", "2", "5")


@given(ANY)
@example(-3.5e10)  # the year 860
def test_any_number_of_seconds_has_words(seconds: float) -> None:
    assert duration(seconds)
    assert re.fullmatch(r"–|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", moment(None if math.isnan(seconds) else seconds))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.00 ms"), (0.0031, "3.1 ms"), (0.9996, "1.0 s"), (-0.002, "−2.0 ms"), (59.4, "59 s"), (60, "1.0 min"),
        (90 * 60, "1.5 h"), (3 * DAY_S, "3.0 d"), (math.inf, "–"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_length_of_time_is_told_in_few_digits(seconds: float, words: str) -> None:
    assert plain(duration(seconds)) == words


def test_numbers_are_told_so_that_people_can_read_them() -> None:
    assert plain(counted(1_234_567)) == "1 234 567"
    assert [plain(size(n)) for n in (0, 1023, 1024, 1_048_524, 1 << 20, 1 << 62)] == [
        "0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "4.0 EiB",
    ]  # fmt: skip
    assert [plain(share(part, 1000)) for part in (0, 1, 123, 1000)] == ["0.0 %", "0.1 %", "12.3 %", "100.0 %"]
    assert [plain(share(*pair)) for pair in ((1, 10**6), (10**6 - 1, 10**6), (0, 0))] == ["< 0.1 %", "> 99.9 %", "–"]
    assert [plain(width_name(width)) for width in (1, 90, 300, 7200, 604_800)] == ["1 s", "90 s", "5 min", "2 h", "7 d"]
    assert period(1_795_168_800, 1_795_168_830) == "2026-11-20 10:00:00 to 10:00:30 UTC"
    assert period(1_795_168_800, 1_795_268_830) == "2026-11-20 10:00:00 to 2026-11-21 13:47:10 UTC"
