"""The rings of a network as one node sees them: for each writer, who stands where, and through whom to follow it.

Knows: the names that seem alive, and this node's own.  Does not know connections, nor what became of them.

Up to `fanout` others, everybody follows each writer itself. In a larger network the names, in their order, are a ring
that begins behind the writer, which is place 0. The node at place d > `fanout` follows it through the node at place
1 + (d - 1) % s, where s is the largest power of `fanout` that is not above d - 1. So each writer has a shallow tree of
its own, nothing is agreed upon, and a node has few connections: to the `fanout` nodes just before it, and to every s-th
one before it, each of which brings the s writers before itself.

Invariant: whom it names for a writer stands before this node in that writer's ring (docs/protocol, LINK-2, LINK-12). A
question about one writer takes steps for its depth, never for the size of the network.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from distkv.model.event import NodeName

WAYS_MAX: Final = 4096
"""So many ways from a place to a writer are kept: they are the same in all rings."""


class Rings:
    """All rings, for one node and one set of names. It does not change."""

    def __init__(self, me: NodeName, others: Iterable[NodeName], fanout: int) -> None:
        names = sorted([*others, me])
        self._names: Final[Sequence[NodeName]] = names
        self._at: Final = {name: at for at, name in enumerate(names)}
        self._me: Final = self._at[me]
        self._fanout: Final = fanout
        count = len(names)
        self._ways: Final = {
            names[(self._me - place) % count]: [(self._me - place + at) % count for at in _way(place, fanout)]
            for place in range(1, count)
        }
        """For each writer who stands between it and this node, by their numbers, the nearest to this node first."""
        writers = dict[NodeName, list[NodeName]]()
        for writer, way in self._ways.items():
            writers.setdefault(names[way[0]], []).append(writer)
        self.best: Final = {name: frozenset(some) for name, some in writers.items()}
        """Through whom to follow which writers, if everybody can be followed."""

    def is_as_good(self, name: NodeName, writer: NodeName) -> bool:
        """Whether a node may remain the parent for a while: it stands before us, and in fewer steps from the writer."""
        mine, place = self._place(self._me, writer), self._place(self._at.get(name), writer)
        return place is not None and mine is not None and place < mine and self._steps(place) < self._steps(mine)

    def choice(self, blocked: Iterable[NodeName]) -> RingChoice:
        """Through whom to follow whom while some cannot be followed."""
        return RingChoice(self._names, self._ways, self._me, {self._at[name] for name in blocked if name in self._at})

    def order(self, name: NodeName, writer: NodeName) -> tuple[int, int] | None:
        """The lower, the earlier `RingChoice.first` would name this node for the writer; None: never."""
        mine, place = self._place(self._me, writer), self._place(self._at.get(name), writer)
        if mine is None or place is None or place >= mine:
            return None
        way = _way(mine, self._fanout)
        return (0, way.index(place)) if place in way else (1, place)

    # -- inside

    def _place(self, at: int | None, writer: NodeName) -> int | None:
        """The place of a node in a writer's ring; None: one of them is in none."""
        begin = self._at.get(writer)
        return None if at is None or begin is None else (at - begin) % len(self._names)

    def _steps(self, place: int) -> int:
        """How far from the writer a place is."""
        return len(_way(place, self._fanout))


class RingChoice:
    """Whom to follow for each writer, while some cannot be followed."""

    def __init__(
        self, names: Sequence[NodeName], ways: Mapping[NodeName, Sequence[int]], me: int, blocked: set[int]
    ) -> None:
        self._names, self._ways, self._me, self._blocked = names, ways, me, blocked
        self._usable = [at for at in range(len(names)) if at not in blocked]
        """The others, in the order of the ring, and this node."""

    def first(self, writer: NodeName) -> NodeName | None:
        """The best through whom to follow a writer: the parent in its tree, the parent's parent, and so on to the
        writer; then whoever else stands before us, as near to the writer as can be."""
        begin = -1
        for begin in self._ways[writer]:  # its last one is the writer
            if begin not in self._blocked:
                return self._names[begin]
        usable, count = self._usable, len(self._names)
        at = usable[bisect_left(usable, (begin + 1) % count) % len(usable)]
        return self._names[at] if 0 < (at - begin) % count < (self._me - begin) % count else None


def above(place: int, fanout: int) -> int:
    """The place of the parent."""
    if place <= fanout:
        return 0
    size = base = max(fanout, 2)  # the powers of 1 lead nowhere
    if place <= base:
        return 1
    while place > size * base:
        size *= base
    return 1 + (place - 1) % size


@lru_cache(WAYS_MAX)
def _way(place: int, fanout: int) -> tuple[int, ...]:
    """The places above one, up to the writer."""
    found = list[int]()
    while place:
        place = above(place, fanout)
        found.append(place)
    return tuple(found)
