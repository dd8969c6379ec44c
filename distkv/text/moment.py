"""Times as people write and read them.

Knows: ISO 8601, and seconds since 1970.  Does not know what happened then.

Invariant: a time without an offset is UTC.
"""

from __future__ import annotations

from distkv.errors import SettingsError


def utc(seconds: float) -> str:
    """ISO 8601."""
    import datetime

    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # the writer's clock showed no year that there is
        return repr(seconds)


def read_moment(text: str) -> float:
    """Seconds since 1970, or ISO 8601; without an offset that is UTC.

    Raises:
        SettingsError: it is neither.
    """
    import datetime
    import math

    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            seconds = math.nan
        else:
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    if not math.isfinite(seconds):
        raise SettingsError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or seconds since 1970")
    return seconds
