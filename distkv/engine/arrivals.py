"""From the records of events to those who wait for events of a node.

Knows: who waits for what.  Does not know what is held (the ledger), nor when it is durable (the committer).

Whom a record concerns is looked up by the node's name, so that who waits for others costs nothing.

Invariant: whenever the ledger comes to hold a tick that somebody waits for, he is woken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.wire.message import EventRecord, KnownRecord, Record


class Expectation:
    """What somebody waits for: an event of one of these nodes, of a tick that is not among its ticks."""

    def __init__(self, known: TickRanges) -> None:
        self.known: Final = known
        self._came = trio.Event()

    def wake(self) -> None:
        self._came.set()

    async def wait(self) -> None:
        """Until something came, since the last time that this was awaited."""
        await self._came.wait()
        self._came = trio.Event()


class Arrivals:
    """All who wait on a node."""

    def __init__(self) -> None:
        self.count = 0
        """How many they are."""
        self._by_node: dict[NodeName, dict[Expectation, None]] = {}
        self._of_any: dict[Expectation, None] = {}

    @contextmanager
    def expect(self, known: TickRanges, *, others: bool = False) -> Iterator[Expectation]:
        """Be woken until the block is left, also by nodes that are not named if `others`. What came before is for the
        caller to see."""
        found = Expectation(known)
        self.count += 1
        for node in known:
            self._by_node.setdefault(node, {})[found] = None
        if others:
            self._of_any[found] = None
        try:
            yield found
        finally:
            self.count -= 1
            self._of_any.pop(found, None)
            for node in known:
                del self._by_node[node][found]
                if not self._by_node[node]:
                    del self._by_node[node]

    def note(self, records: Iterable[Record]) -> None:
        """What these records say is held from now on: an event, and whatever it or a peer calls superseded."""
        for record in records:
            if isinstance(record, EventRecord):
                for node, tick in record.event.chain:
                    self._came(node, tick)
            elif isinstance(record, KnownRecord):
                for node, some in record.ranges.items():
                    self._came_all(node, some)

    def _came(self, node: NodeName, tick: int) -> None:
        for waiting in self._by_node.get(node, ()):
            if tick not in waiting.known[node]:
                waiting.wake()
        self._wake_others(node)

    def _came_all(self, node: NodeName, ticks: Ranges) -> None:
        for waiting in self._by_node.get(node, ()):
            if ticks - waiting.known[node]:
                waiting.wake()
        self._wake_others(node)

    def _wake_others(self, node: NodeName) -> None:
        for waiting in self._of_any:
            if node not in waiting.known:
                waiting.wake()
