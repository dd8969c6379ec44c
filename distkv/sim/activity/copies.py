"""Which nodes have which activity, as far as a run showed it.

Knows: what nodes gave out, and what they had when one was echoed.  Does not know who must hear it (`rules`).

Invariant: who had an activity has it until it ends or begins anew, or the activity is older than it is kept. (A node
that lives and was said to be gone for good begins anew in its process: it speaks under a new origin.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Final, TypeAlias

from distkv.sim.activity.moments import ActivityGivenOut, PassedOver
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
        self._own: Final = dict[NodeStart, str]()
        """Under which origin each start of a node spoke last."""
        self._reached: Final = dict[tuple[NodeStart, str], int]()
        """How far each start of a node was seen to be with each origin."""
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

    def could_give(self, node: str, place: Place, at_ms: int) -> bool:
        """Whether a node could have an activity, and all earlier ones of its origin that others have lately had: it
        waits for those."""
        origin, number = place
        reached = self._reached.get((self._reach.start_of(node), origin), 0)
        before = [(origin, one) for one in range(reached + 1, number)]
        return self.could_have(node, place, at_ms) and all(
            self.could_have(node, one, at_ms) for one in before if self._is_kept(one, at_ms)
        )

    def has_spread(self, place: Place) -> bool:
        """Whether a node without any trouble had it so long that all others have it, or know of it."""
        return place in self._spread

    # -- what happens

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ActivityGivenOut):
            place, start = (what.origin, what.number), self._reach.start_of(what.node)
            if what.node == node_of(what.origin):
                self._spoke(start, what.origin)
            for node in (what.node, *what.holders):
                self._had_ms[place].setdefault(self._reach.start_of(node), at_ms)
            self._young.setdefault(place, at_ms)
            self._reached[start, what.origin] = what.number
        elif isinstance(what, PassedOver):
            self._reached[self._reach.start_of(what.node), what.origin] = what.last

    def second(self, fleet: Observed) -> None:
        now_ms = fleet.now_ms
        for place, came_ms in [*self._young.items()]:
            if now_ms - came_ms > KEPT_MS:
                del self._young[place]
            elif any(self._reach.is_calm(name, now_ms - CALM_MS)
                     for name, _ in self.holders(place, now_ms, now_ms - CALM_MS)):  # fmt: skip
                self._spread.add(place)
                del self._young[place]

    # -- inside

    def _spoke(self, start: NodeStart, origin: str) -> None:
        """A node gave out something of its own. Under a new origin it has nothing of what it had before."""
        if self._own.setdefault(start, origin) != origin:
            self._own[start] = origin
            for had in self._had_ms.values():
                had.pop(start, None)
            for key in [key for key in self._reached if key[0] == start]:
                del self._reached[key]

    def _is_kept(self, place: Place, at_ms: int) -> bool:
        """Whether somebody had it so lately that it would be kept yet."""
        return at_ms - min(self._had_ms.get(place, {}).values(), default=at_ms - KEPT_MS) < KEPT_MS
