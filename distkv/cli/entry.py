"""What people are shown of an entry besides its value.

Knows: which change, which earlier ones, when.  Does not know where it is printed.

Invariant: ticks are text, because as numbers they are larger than what many readers of JSON keep exactly.
"""

from __future__ import annotations

from distkv.cli.output import Form
from distkv.client.questions import Entry
from distkv.model.event import tick_text
from distkv.text.moment import utc


def shown(entry: Entry, form: Form) -> dict[str, object]:
    """The value, and what `-m` adds to it."""
    return {
        "value": entry.value,
        "chain": [tick_text(node, tick) for node, tick in entry.chain],
        "tock": entry.tock,
        "time": utc(entry.time) if form is Form.TEXT else entry.time,
        **({} if entry.ttl is None else {"ttl": entry.ttl}),
    }
