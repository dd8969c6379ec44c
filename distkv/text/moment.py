"""Times as people write and read them.

Knows: ISO 8601, and seconds since 1970.  Does not know what happened then.

Invariant: a time without an offset is UTC; what is read lies where a node can have written.
"""

from __future__ import annotations

import re
from typing import Final

from distkv.errors import SettingsError

FIRST_S: Final = 946_684_800.0
"""2000-01-01: nobody wrote before."""
AHEAD_S: Final = 86_400.0
"""So far ahead of ours the clocks of others may be."""
DATE: Final = "2026-01-31T12:00:00Z"
_SECONDS: Final = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")


def utc(seconds: float) -> str:
    """ISO 8601."""
    import datetime

    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # the writer's clock showed no year that there is
        return repr(seconds)


def read_moment(text: str) -> float:
    """Seconds since 1970, or ISO 8601; without an offset that is UTC.

    A date without its hyphens, a year, or milliseconds would also be seconds of some moment, and a job that took them
    for such would restore an empty tree, or the latest one. So only moments are taken at which a node can have written.

    Raises:
        SettingsError: it is neither, or lies before 2000 or more than a day ahead.
    """
    import time

    is_number = _SECONDS.fullmatch(text) is not None
    seconds = float(text) if is_number else _iso_seconds(text)
    if not FIRST_S <= seconds <= time.time() + AHEAD_S:
        raise SettingsError(f"{text!r} {_why_refused(seconds, is_number=is_number)}")
    return seconds


def _iso_seconds(text: str) -> float:
    import datetime

    try:
        moment = datetime.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise SettingsError(f"{text!r} is no time: write {DATE}, or seconds since 1970") from None


def _why_refused(seconds: float, *, is_number: bool) -> str:
    if not is_number:
        return "lies before 2000: no change is so old" if seconds < FIRST_S else "has not come yet"
    if seconds < FIRST_S:
        return f"would lie before 2000, as seconds since 1970: write a date as {DATE}"
    return "has not come yet, as seconds since 1970: write milliseconds behind a dot, as in 1769860800.123"
