"""Who holds what: what this node tells those whom it follows, and what its followers tell it, for who waits for that.

Knows: who waits for which event, and what was said.  Does not know connections, nor who may be believed.

Invariant: what is said is kept once for each writer, the newest of it, until it leaves: so a peer that does not read
costs nothing. A follower is counted for an event only after it said that it holds all of that writer's last life up to
that tick, or further.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from distkv.model.event import Link, NodeName, Tick, life_of


@attrs.define(eq=False)
class AwaitedEvent:
    """An event that so many followers are to hold."""

    node: NodeName
    tick: Tick
    wanted: int
    holders: set[NodeName] = attrs.field(factory=set)
    """Who said so."""
    are_enough: trio.Event = attrs.field(factory=trio.Event)

    def add(self, holder: NodeName) -> None:
        """It said so."""
        self.holders.add(holder)
        if len(self.holders) >= self.wanted:
            self.are_enough.set()


class Holders:
    """The followers of a node, as far as somebody waits for them."""

    def __init__(self) -> None:
        self._awaited: Final = dict[NodeName, dict[AwaitedEvent, None]]()

    @property
    def are_awaited(self) -> bool:
        """Whether followers are to say what they hold."""
        return bool(self._awaited)

    def begin(self, link: Link, wanted: int) -> AwaitedEvent:
        """Somebody waits, until `end`, for so many who hold an event; what was said before does not count."""
        found = AwaitedEvent(*link, wanted)
        self._awaited.setdefault(found.node, {})[found] = None
        return found

    def end(self, awaited: AwaitedEvent) -> None:
        """Nobody waits for it any more."""
        del self._awaited[awaited.node][awaited]
        if not self._awaited[awaited.node]:
            del self._awaited[awaited.node]

    def said(self, follower: NodeName, nodes: Mapping[NodeName, Tick]) -> None:
        """A follower durably holds all that these nodes made in the lives of these ticks, up to them."""
        for node, tick in nodes.items():
            for awaited in self._awaited.get(node, ()):
                if awaited.tick <= tick and life_of(awaited.tick) == life_of(tick):
                    awaited.add(follower)


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
