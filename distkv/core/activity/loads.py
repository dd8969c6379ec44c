"""How many clients each node has, and where one of this node is to go so that they have alike.

Knows: what was announced, and who was sent where since.  Does not know which client goes.

Invariant: no client is sent to a node that would have as many as this one then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.core.activity.other_listeners import AnnouncedPlace, OtherListeners
from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must

CLOSE: Final = 2
"""Loads that differ by less are alike."""
PART: Final = 0.05
"""So are those that differ by less than this part of their mean, where a client is not just logging in."""
LATE_MS: Final = 1000
"""A client that was sent on is there at the latest, and the next word of that node counts it."""
LOST_MS: Final = 3000
"""Without any word it is not counted any more."""


@attrs.frozen(slots=True)
class Target:
    """A node to which a client goes."""

    node: NodeName
    place: AnnouncedPlace


class Loads:
    """As one node sees them."""

    def __init__(self, others: OtherListeners, rng: Rng) -> None:
        self._others: Final = others
        self._rng: Final = rng
        self._sent_ms: Final = dict[NodeName, list[int]]()
        """When clients were sent to a node, of which it did not speak yet."""

    def announced(self, node: NodeName, now_ms: int) -> None:
        """A node says how many it has: those that were sent there a while ago are among them."""
        left = [ms for ms in self._sent_ms.pop(node, []) if ms + LATE_MS > now_ms]
        if left:
            self._sent_ms[node] = left

    def sent(self, node: NodeName, now_ms: int) -> None:
        """A client was sent there."""
        self._sent_ms.setdefault(node, []).append(now_ms)

    def all_loads(self, now_ms: int) -> dict[NodeName, int]:
        """Those of all others."""
        places = self._others.places
        return {node: place.load + self._on_the_way(node, now_ms) for node, place in places.items()}

    def target_at_login(self, own: int, now_ms: int) -> Target | None:
        """Where a client that just logged in is to go, one of `own`; None: it stays."""
        loads = self.all_loads(now_ms)
        return self._drawn({node: own - load for node, load in loads.items() if own - load >= CLOSE})

    def target_later(self, own: int, now_ms: int) -> Target | None:
        """Where a client is to go that has been here for a while; None: it stays."""
        loads = self.all_loads(now_ms)
        mean = (own + sum(loads.values())) / (1 + len(loads))
        if own <= mean:
            return None
        far = max(CLOSE, PART * mean)
        return self._drawn({node: own - load for node, load in loads.items() if own - load >= far and load < mean})

    def target_at_end(self, now_ms: int) -> Target | None:
        """Where a client of a node that ends is to go; None: there is no other node."""
        loads = self.all_loads(now_ms)
        most = max(loads.values(), default=0)
        return self._drawn({node: most - load + 1 for node, load in loads.items()})

    # -- inside

    def _on_the_way(self, node: NodeName, now_ms: int) -> int:
        return sum(ms + LOST_MS > now_ms for ms in self._sent_ms.get(node, ()))

    def _drawn(self, weights: Mapping[NodeName, int]) -> Target | None:
        """One at random, by weight."""
        drawn = self._rng.random() * sum(weights.values()) if weights else 0.0
        for node, weight in weights.items():
            drawn -= weight
            place = self._others.places.get(node)
            if drawn < 0 and place is not None:
                return Target(node, place)
        return None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(self._sent_ms.values()), "only nodes are remembered to which a client was sent")
