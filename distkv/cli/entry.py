"""What people are shown of an entry besides its value.

Knows: which change, which earlier ones, when, under which fence.  Does not know where it is printed.

Invariant: ticks are text, because as numbers they are larger than what many readers of JSON keep exactly.
"""

from __future__ import annotations

from distkv.cli.output import Form
from distkv.client.questions import Entry
from distkv.model.event import tick_text
from distkv.model.fence import Fence
from distkv.text.display import word
from distkv.text.moment import utc


def shown(entry: Entry, form: Form) -> dict[str, object]:
    """The value, and what `-m` adds to it."""
    return {
        "value": entry.value,
        "chain": [tick_text(node, tick) for node, tick in entry.chain],
        "tock": entry.tock,
        "time": utc(entry.time) if form is Form.TEXT else entry.time,
        **({} if entry.ttl is None else {"ttl": entry.ttl}),
        **fence_map(entry.fence),
    }


def fence_map(fence: Fence | None) -> dict[str, object]:
    """The fence as text if a token holds the path, and how often fences were lifted there; each only if it says
    something."""
    found: dict[str, object] = {}
    if fence is not None and fence.holds:
        found["fence"] = str(fence)
    if fence is not None and fence.base:
        found["base"] = fence.base
    return found


def fence_words(fence: Fence | None) -> str:
    """The same behind other words of a line."""
    return "".join(f" {name}={word(value)}" for name, value in fence_map(fence).items())
