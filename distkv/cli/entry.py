"""What people are shown of an entry besides its value.

Knows: which change, which earlier ones, when.  Does not know where it is printed.

Invariant: ticks are text, because as numbers they are larger than what many readers of JSON keep exactly.
"""

from __future__ import annotations

from distkv.cli.output import Form, text_of
from distkv.client.questions import Entry
from distkv.model.event import tick_text
from distkv.wire.json_form import to_json


def shown(entry: Entry, form: Form) -> dict[str, object]:
    """The value, and what `-m` adds to it."""
    return {
        "value": entry.value,
        "chain": [tick_text(node, tick) for node, tick in entry.chain],
        "tock": entry.tock,
        "time": utc(entry.time) if form is Form.TEXT else entry.time,
        **({} if entry.ttl is None else {"ttl": entry.ttl}),
    }


def utc(seconds: float) -> str:
    """ISO 8601."""
    import datetime

    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # the writer's clock showed no year that there is
        return repr(seconds)


def word(value: object) -> str:
    """A value in one line, whatever it is: a scalar bare; what would take several lines, or cannot be seen, as JSON."""
    if isinstance(value, str):
        return value if value.isprintable() else to_json(value)
    return text_of(value) if isinstance(value, int | float | None) else to_json(value)
