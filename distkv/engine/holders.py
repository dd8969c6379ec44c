"""Which followers hold an event for which somebody waits.

Knows: who waits for which event, and what followers said.  Does not know connections, who may be believed, nor how one
waits.

Invariant: a follower is counted for an event only after it said that it holds all of that writer's life up to that
tick, or further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from distkv.model.event import Link, NodeName, Tick, life_of


@attrs.define(eq=False)
class AwaitedEvent:
    """An event that so many followers are to hold."""

    node: NodeName
    tick: Tick
    wanted: int
    enough: Callable[[], object]
    """Called when so many hold it; may be called again."""
    holders: set[NodeName] = attrs.field(factory=set)
    """Who said so."""

    def add(self, holder: NodeName) -> None:
        """It said so."""
        self.holders.add(holder)
        if len(self.holders) >= self.wanted:
            self.enough()


class Holders:
    """The followers of a node, as far as somebody waits for them."""

    def __init__(self) -> None:
        self._awaited: Final = dict[NodeName, dict[AwaitedEvent, None]]()

    @property
    def are_awaited(self) -> bool:
        """Whether followers are to say what they hold."""
        return bool(self._awaited)

    def begin(self, link: Link, wanted: int, enough: Callable[[], object]) -> AwaitedEvent:
        """Somebody waits, until `end`, for so many who hold an event; `enough` tells. What was said before does not
        count."""
        found = AwaitedEvent(*link, wanted, enough)
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
            for awaited in list(self._awaited.get(node, ())):  # who has enough is answered, and waits no more
                if awaited.tick <= tick and life_of(awaited.tick) == life_of(tick):
                    awaited.add(follower)
