"""What a node that follows has to say to the node that it follows: what it holds.

Knows: what was not said yet, and whether it can be said at once.  Does not know connections.

Invariant: for each writer only the newest is kept until it leaves: so a peer that does not read costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from distkv.model.event import NodeName, Tick


class HeldTicks:
    """What a follower has to say to one peer."""

    def __init__(self) -> None:
        self._say_now: Callable[[Mapping[NodeName, Tick]], bool] = _cannot
        self._ticks = dict[NodeName, Tick]()
        self._came = trio.Event()

    def speaks(self, say_now: Callable[[Mapping[NodeName, Tick]], bool]) -> None:
        """This says it at once, if the connection takes it: a client waits, and a task would have to wake up first."""
        self._say_now = say_now

    def say(self, ticks: Mapping[NodeName, Tick]) -> None:
        """All that these nodes made in the lives of these ticks, up to them, is durable here."""
        if not ticks or (not self._ticks and self._say_now(ticks)):
            return
        self._ticks |= ticks
        self._came.set()

    async def next(self) -> dict[NodeName, Tick]:
        """What is to be said now; waits for it, and forgets it."""
        await self._came.wait()
        self._came = trio.Event()
        found, self._ticks = self._ticks, {}
        return found


def _cannot(_: Mapping[NodeName, Tick]) -> bool:
    return False
