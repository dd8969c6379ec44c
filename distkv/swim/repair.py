"""How two tables that differ become equal: one node reads the other's, page by page.

Knows: since when others have another table, and which page comes next.  Does not know how pages travel.

Invariant: one table is read at a time. A table that agrees with one other within `DIFFERS_MS` is not read, because
rumours are still on their way (docs/protocol, SWIM-36).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.node import SwimNode
from distkv.wire.swim_records import MemberState, Rumour

DIFFERS_MS: Final = 2000
PULL_MS_MAX: Final = 2000
"""After so long without a page another node is asked."""


@attrs.define(slots=True, eq=False)
class _Pull:
    """A table that is read."""

    node: str
    until_ms: int
    after: str | None = None
    """The last name of the page before; None: there was none."""


class Repair:
    """The comparisons of one node."""

    def __init__(self, node: SwimNode) -> None:
        self._node = node
        self._differs_ms: int | None = None
        """Since when all that were heard have another table."""
        self._pull: _Pull | None = None

    def compare(self, table: int, now_ms: int) -> None:
        """A member has a table with this hash."""
        if table == self._node.table.hash:
            self._differs_ms = None
        elif self._differs_ms is None:
            self._differs_ms = now_ms

    def page(self, now_ms: int) -> int | None:
        """Which page the next one is to be asked for, if it is time for that."""
        is_reading = self._pull is not None and now_ms < self._pull.until_ms
        is_over = self._differs_ms is not None and now_ms - self._differs_ms >= DIFFERS_MS
        return 0 if is_over and not is_reading else None

    def doubt(self, now_ms: int) -> None:
        """Somebody came back, who knows what this node does not."""
        self._differs_ms = now_ms - DIFFERS_MS

    def begin(self, name: str, now_ms: int) -> None:
        """The first page was asked of this node."""
        self._pull = _Pull(name, now_ms + PULL_MS_MAX)
        self._differs_ms = None

    def heard(self, name: str, sample: tuple[Rumour, ...], next_page: int, now_ms: int) -> int | None:
        """A page came from this node; what it lacks is told to all. The next one to ask for."""
        pull = self._pull
        if pull is None or pull.node != name:
            return None
        last = sample[-1].id.node if next_page and sample else None
        self._tell_missing(pull.after, {one.id.node for one in sample}, last)
        if not next_page or not sample:
            self._pull = None
            return None
        pull.after, pull.until_ms = last, now_ms + PULL_MS_MAX
        return next_page

    def check(self) -> None:
        must(self._pull is None or self._pull.node != self._node.own.node, "nobody reads its own table")

    def _tell_missing(self, after: str | None, there: set[str], last: str | None) -> None:
        table, queue = self._node.table, self._node.queue
        for name in table.between(after or "", last):
            entry = table.entries[name]
            if name not in there and name != after and entry.state is MemberState.ALIVE:
                queue.add(entry.as_rumour())
