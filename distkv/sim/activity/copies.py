"""Which nodes have which activity, as far as a run showed it.

Knows: what nodes gave out, and what they had when one was echoed.  Does not know who must hear it (`rules`).

Invariant: who had an activity has it until it ends, or the activity is older than it is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Final, TypeAlias

from distkv.sim.activity.moments import ActivityGivenOut
from distkv.sim.activity.reach import CALM_MS, ActivityReach, NodeStart
from distkv.sim.rule import Observed, Observer

KEPT_MS: Final = 56_000
"""So long each activity is kept, by a clock that runs up to 5 % fast."""

Place: TypeAlias = tuple[str, int]
"""An activity, by its origin and number."""


def node_of(origin: str) -> str:
    """The node of an origin."""
    return origin.rpartition(".")[0]


class ActivityCopies(Observer):
    """It breaks nothing; rules ask it."""

    def __init__(self, reach: ActivityReach) -> None:
        self._reach: Final = reach
        self._had_ms: Final = defaultdict[Place, dict[NodeStart, int]](dict)
        """When each start of a node was seen to have an activity first."""
        self._young: Final = dict[Place, int]()
        """When each activity came that may still spread."""
        self._spread: Final = set[Place]()

    # -- questions

    def holders(self, place: Place, at_ms: int, since_ms: int) -> list[NodeStart]:
        """Who runs, and has it since then."""
        had = self._had_ms.get(place, {})
        return [one for one, ms in had.items() if ms <= since_ms and at_ms - ms < KEPT_MS
                and self._reach.is_running(one)]  # fmt: skip

    def could_have(self, node: str, place: Place, at_ms: int, seen: Collection[str] = ()) -> bool:
        """Whether a node has an activity, or could ask one that has it. `seen`: who has it now, besides those that
        were seen to have it before."""
        names = {name for name, _ in self.holders(place, at_ms, at_ms)} | {*seen}
        return any(self._reach.could_ask(node, name, at_ms - CALM_MS) for name in names)

    def has_spread(self, place: Place) -> bool:
        """Whether a node without any trouble had it so long that all others have it, or know of it."""
        return place in self._spread

    # -- what happens

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ActivityGivenOut):
            place = what.origin, what.number
            for node in (what.node, *what.holders):
                self._had_ms[place].setdefault(self._reach.start_of(node), at_ms)
            self._young.setdefault(place, at_ms)

    def second(self, fleet: Observed) -> None:
        now_ms = fleet.now_ms
        for place, came_ms in [*self._young.items()]:
            if now_ms - came_ms > KEPT_MS:
                del self._young[place]
            elif any(self._reach.is_calm(name, now_ms - CALM_MS)
                     for name, _ in self.holders(place, now_ms, now_ms - CALM_MS)):  # fmt: skip
                self._spread.add(place)
                del self._young[place]
