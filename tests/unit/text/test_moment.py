"""Times as people write and read them."""

from __future__ import annotations

import time

import pytest

from distkv.errors import SettingsError
from distkv.text.moment import read_moment, utc


@pytest.mark.parametrize(
    "text", ["1790000000.5", "2026-09-21T14:13:20.500", "2026-09-21T14:13:20.500Z", "2026-09-21T16:13:20.500+02:00"]
)
def test_moment_is_read_in_each_form(text: str) -> None:
    assert read_moment(text) == 1790000000.5


@pytest.mark.parametrize(
    "text",
    ["", "soon", "yesterday", "nan", "inf", "-5", "+1790000000", "1_790_000_000", " 1790000000", "1.79e9",
     "\u0661" * 10, "2026-13-01", "0000-01-01"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="write 2026-01-31T12:00:00Z"):
        read_moment(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026", "would lie before 2000"),
        ("20261126", "write a date as 2026-01-31T12:00:00Z"),
        ("202611261200", "milliseconds behind a dot"),
        ("1790000000500", "milliseconds behind a dot"),
        ("1790000000500000", "milliseconds behind a dot"),
        ("9" * 30, "milliseconds behind a dot"),
        ("0", "would lie before 2000"),
        ("1999-12-31T23:59:59Z", "no change is so old"),
        ("1970-01-01", "no change is so old"),
        ("9999-12-31", "has not come yet"),
    ],
)
def test_moment_at_which_nobody_can_have_written_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        read_moment(text)


def test_clocks_of_others_may_be_a_day_ahead() -> None:
    assert read_moment(utc(time.time() + 80_000)) > time.time()


def test_moment_that_is_shown_is_read_as_it_was() -> None:
    assert read_moment(utc(1790000000.25)) == 1790000000.25


def test_year_that_there_is_not_is_shown_in_seconds() -> None:
    assert utc(1e300) == "1e+300"
