"""Reading one partition, from whichever host has what is left of it.

Knows: in which order hosts are asked, when somebody else is, and how long to wait for a host that is away.  Does not
know sockets, nor what becomes of the rows.

Invariant: each tick is given once, in order of tick from each host; a reader that goes on elsewhere asks for what is
left only. What is left at the end is nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from distkv.client.changes import ChangePage
from distkv.client.protocol import Backoff
from distkv.errors import DecodeError, DistkvError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes.hosts import HOST_FAILURES
from distkv.spark.nodes.planning import Read
from distkv.spark.nodes.rows import RowPage, ValueForm, rows_of

Pages: TypeAlias = Callable[[str, TickRanges], Iterator[tuple[NodeName, ChangePage]]]
"""The content that the host at an address has of some ticks, each page with the name of the node that gave it; raises
one of `HOST_FAILURES`."""

PAUSE_MAX_S: Final = 5.0
"""Between two attempts to find a host that is back."""


@attrs.define
class Reading:
    """One partition on its way. `pages` gives its rows; then `left` is what nobody had."""

    read: Read
    form: ValueForm = ValueForm.JSON
    wait_s: float = 0.0
    """So long it is tried again when a host failed that may have what is left; anew whenever something came."""
    left: Ranges = attrs.field(init=False)
    failures: dict[str, DistkvError] = attrs.field(init=False, factory=dict)
    """Why the hosts that failed did so, by address."""

    def __attrs_post_init__(self) -> None:
        self.left = self.read.ticks.copy()

    def pages(self, pages: Pages) -> Iterator[RowPage]:
        """The rows, each once. Blocks; between two pages as long as a host takes."""
        deadline = time.monotonic() + self.wait_s
        backoff = Backoff(max_s=PAUSE_MAX_S)
        while True:
            left = self.left
            for addr in self.read.addrs:
                yield from self._from(addr, pages)
                if not self.left:
                    return
            if self.left != left:
                deadline = time.monotonic() + self.wait_s
                backoff.reset()
            rest_s = deadline - time.monotonic()
            if not self.failures or rest_s <= 0:
                return
            time.sleep(min(backoff.next_s(1.0), rest_s))

    # -- inside

    def _from(self, addr: str, pages: Pages) -> Iterator[RowPage]:
        self.failures.pop(addr, None)
        node = self.read.node
        try:
            for source, page in pages(addr, {node: self.left}):
                if page.node != node:
                    raise DecodeError(f"changes of {page.node} came, and those of {node} were asked for", "bad_node")
                found = rows_of(page, self.left, self.form, source)
                self.left = self.left - found.ticks
                yield found
        except HOST_FAILURES as error:
            self.failures[addr] = error
