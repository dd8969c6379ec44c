"""Times as people write and read them."""

from __future__ import annotations

import pytest

from distkv.errors import SettingsError
from distkv.text.moment import read_moment, utc


@pytest.mark.parametrize(
    "text", ["1790000000.5", "2026-09-21T14:13:20.500", "2026-09-21T14:13:20.500Z", "2026-09-21T16:13:20.500+02:00"]
)
def test_moment_is_read_in_each_form(text: str) -> None:
    assert read_moment(text) == 1790000000.5


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="write 2026-01-31T12:00:00Z"):
        read_moment(text)


def test_moment_that_is_shown_is_read_as_it_was() -> None:
    assert read_moment(utc(1790000000.25)) == 1790000000.25


def test_year_that_there_is_not_is_shown_in_seconds() -> None:
    assert utc(1e300) == "1e+300"
