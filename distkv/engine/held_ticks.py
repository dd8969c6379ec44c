"""What a node that follows has to say to the node that it follows: what it holds.

Knows: what was not said yet.  Does not know connections.

Invariant: for each writer only the newest is kept until it leaves: so a peer that does not read costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from distkv.model.event import NodeName, Tick


class HeldTicks:
    """What a follower has to say to one peer."""

    def __init__(self) -> None:
        self._ticks = dict[NodeName, Tick]()
        self._came = trio.Event()

    def say(self, ticks: Mapping[NodeName, Tick]) -> None:
        """All that these nodes made in the lives of these ticks, up to them, is durable here."""
        self._ticks |= ticks
        if ticks:
            self._came.set()

    async def next(self) -> dict[NodeName, Tick]:
        """What is to be said now; waits for it, and forgets it."""
        await self._came.wait()
        self._came = trio.Event()
        found, self._ticks = self._ticks, {}
        return found
