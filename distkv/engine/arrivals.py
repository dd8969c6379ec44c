"""From the records of events to those who wait for events of a node.

Knows: who waits for what.  Does not know what is held (the ledger), nor when it is durable (the committer).

Whom a record concerns is looked up by the node's name, so that who waits for others costs nothing.

Invariant: whenever the ledger comes to hold a tick above the one that somebody waits behind, he is woken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import trio

from distkv.model.event import NodeName, Tick
from distkv.wire.message import EventRecord, KnownRecord, Record


class Expectation:
    """What somebody waits for: an event of one of these nodes above its tick."""

    def __init__(self, ticks: Mapping[NodeName, Tick]) -> None:
        self.ticks: Final = ticks
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

    @contextmanager
    def expect(self, ticks: Mapping[NodeName, Tick]) -> Iterator[Expectation]:
        """Be woken until the block is left. What came before is for the caller to see."""
        found = Expectation(ticks)
        self.count += 1
        for node in ticks:
            self._by_node.setdefault(node, {})[found] = None
        try:
            yield found
        finally:
            self.count -= 1
            for node in ticks:
                del self._by_node[node][found]
                if not self._by_node[node]:
                    del self._by_node[node]

    def note(self, records: Iterable[Record]) -> None:
        """What these records say is held from now on: an event, and whatever it or a peer calls superseded."""
        for record in records:
            match record:
                case EventRecord(event=event):
                    for node, tick in event.chain:
                        self._came(node, tick)
                case KnownRecord(ranges=ranges):
                    for node, some in ranges.items():
                        self._came(node, some.last())

    def _came(self, node: NodeName, tick: int) -> None:
        for waiting in self._by_node.get(node, ()):
            if tick > waiting.ticks[node]:
                waiting.wake()
