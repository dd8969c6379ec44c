"""What was said on the edges of a node, and has not left it.

Knows: which edges there are, and how many items wait on each.  Does not know what is said.

Invariant: an edge on which more than `ITEMS_MAX` items wait is found at the step that says the last of them, and ends
with that step: nothing waits without bounds for a node that does not take it (docs/protocol, TREE-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from distkv.core.edges import TAKEN_ITEMS, Close, Dial, EdgeEffect, Say
from distkv.core.server_tree.flood import WINDOW_FRAMES
from distkv.model.invariant import must
from distkv.wire.edges import ServiceFrames

ITEMS_MAX: Final = WINDOW_FRAMES + TAKEN_ITEMS
"""So many items may wait on an edge: each announcement that is under way may be one, and there are few others. Frames
of services wait apart from them, and no more than their windows allow."""


class EdgeBacklog:
    """By the numbers of edges."""

    def __init__(self) -> None:
        self._waiting: Final = dict[int, int]()
        self._dialled = 0

    def new_edge(self) -> int:
        """The number of another edge on which this node asks."""
        self._dialled -= 1
        return self._dialled

    @property
    def edges(self) -> list[int]:
        """Those that are open."""
        return list(self._waiting)

    def opened(self, edge: int) -> None:
        """A node asks on it."""
        self._waiting[edge] = 0

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(0 <= count <= ITEMS_MAX for count in self._waiting.values()), "an edge that overruns ends")
        must(all(edge > 0 or edge >= self._dialled for edge in self._waiting), "no edge has a number to come")

    def taken(self, edge: int, count: int) -> None:
        """So many items have left."""
        if edge in self._waiting:
            self._waiting[edge] = max(0, self._waiting[edge] - count)

    def ended(self, edge: int) -> bool:
        """It is over; whether it was open."""
        return self._waiting.pop(edge, None) is not None

    def overrun(self, effects: Iterable[EdgeEffect]) -> Iterator[int]:
        """Count what is said, and find each edge on which too much waits then."""
        for effect in effects:
            match effect:
                case Dial(edge=edge):
                    self.opened(edge)
                case Say(item=ServiceFrames()):
                    pass
                case Say(edge=edge):
                    if edge in self._waiting:
                        self._waiting[edge] += 1
                        if self._waiting[edge] > ITEMS_MAX:
                            yield edge
                case Close(edge=edge):
                    self.ended(edge)
                case _:
                    assert_never(effect)
