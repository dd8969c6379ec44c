"""Followers that cannot keep a topic: their disks are full, say. They are not asked again for a while.

Knows: who refused which topic, and until when that counts.  Does not know entries, nor who follows instead.

For example, *b* and *c* both have no room for a topic. *b* refuses it, *c* takes its place, and refuses it, too. The
topic has no follower then, until a minute has passed since *c* refused. So no two nodes take each other's place again
and again.

Invariant: of at most `UNFIT_MAX` topics it is known; that which was refused longest ago is forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distkv.model.event import NodeName
from distkv.model.invariant import must

UNFIT_MS: Final = 60_000
"""So long nobody is asked again who refused a topic, from the last time on that somebody refused it."""
UNFIT_MAX: Final = 10_000


class UnfitFollowers:
    """Those of the topics of one node, since its machine began."""

    def __init__(self) -> None:
        self._nodes: Final = dict[str, frozenset[NodeName]]()
        """By topic; who was refused longest ago comes first."""
        self._until: Final = dict[str, int]()

    def refused(self, name: str, node: NodeName, now_ms: int) -> None:
        """A follower said that it cannot keep a topic."""
        nodes = self._nodes.pop(name, frozenset())
        while len(self._nodes) >= UNFIT_MAX:
            self._forget(next(iter(self._nodes)))
        self._nodes[name] = nodes | {node}
        self._until[name] = now_ms + UNFIT_MS

    def of(self, name: str) -> frozenset[NodeName]:
        """Who is not to follow a topic."""
        return self._nodes.get(name, frozenset())

    def take_over(self, now_ms: int) -> Iterator[str]:
        """The topics whose time is over: everybody may follow them again."""
        while (name := next(iter(self._nodes), None)) is not None and self._until[name] <= now_ms:
            self._forget(name)
            yield name

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._nodes) <= UNFIT_MAX, "of so many topics it is known")
        must([*self._nodes] == sorted(self._nodes, key=self._until.__getitem__), "the oldest comes first")
        must(self._nodes.keys() == self._until.keys(), "each has a time")

    def _forget(self, name: str) -> None:
        del self._nodes[name], self._until[name]
