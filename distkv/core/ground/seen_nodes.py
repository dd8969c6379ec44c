"""Who belongs to the network, and who of them seems alive, as services see it.

Knows: what was seen last.  Does not know how a node finds that out (`footing`).

Invariant: it is looked at whenever the registry may have changed, and once a second at the most for who is alive.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.footing import Footing
from distkv.model.event import NodeName

LOOK_MS: Final = 1000


class SeenNodes:
    """See `NetworkNodes`."""

    def __init__(self, footing: Footing) -> None:
        self._footing: Final = footing
        self._changes = -1
        """`Footing.registry_changes`, when it was looked at last."""
        self._look_ms = 0
        """When it is looked at next, by the monotonic clock."""
        self.registered: frozenset[NodeName] = frozenset()
        self.alive: frozenset[NodeName] = frozenset()

    def look(self, now_ms: int) -> bool:
        """Look, if it is time for that; whether something has changed."""
        footing = self._footing
        if footing.registry_changes == self._changes and now_ms < self._look_ms:
            return False
        self._changes, self._look_ms = footing.registry_changes, now_ms + LOOK_MS
        before = self.registered, self.alive
        self.registered = footing.registered()
        self.alive = footing.alive(self.registered, now_ms)
        return before != (self.registered, self.alive)
