"""Who belongs to the network, and who of them seems alive, as services see it.

Knows: what was seen last, neighbours in the server tree included.  Does not know how a node finds that out (`footing`).

Invariant: it is looked at whenever the registry may have changed, and once a second at the most for who is alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.ground.footing import Footing
from distkv.model.event import NodeName
from distkv.model.invariant import must

LOOK_MS: Final = 1000


class SeenNodes:
    """See `NetworkNodes`."""

    def __init__(self, footing: Footing) -> None:
        self._footing: Final = footing
        self.as_of = -1
        """What had changed in the registry when services were told of it last."""
        self.look_ms = 0
        """When it is looked at next, by the monotonic clock."""
        self.lives: Mapping[NodeName, int] = {}
        self.registered: frozenset[NodeName] = frozenset()
        self.alive: frozenset[NodeName] = frozenset()
        self.neighbours: tuple[NodeName, ...] = ()

    def look(self, now_ms: int) -> bool:
        """Look; whether something has changed."""
        footing = self._footing
        self.look_ms = now_ms + LOOK_MS
        footing.note_announced()
        before = self.lives, self.alive, self.neighbours
        self.lives = footing.lives()
        self.registered = frozenset(self.lives)
        self.alive = footing.alive(self.registered, now_ms)
        self.neighbours = footing.neighbours()
        return before != (self.lives, self.alive, self.neighbours)

    def life_of(self, node: NodeName) -> int | None:
        return self.lives.get(node)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.registered == self.lives.keys(), "who is registered has a life")
        must(self.alive <= self.registered, "who seems alive is registered")
