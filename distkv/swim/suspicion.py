"""How long a suspect has to speak up, and when it is dead.

Knows: who is suspected at which generation, since when, and by whom.  Does not know what is said to others.

Invariant: what others say never lengthens the time that a suspect has; only that this node was away does
(docs/protocol, SWIM-28).
Source: Dadgar, Phillips, Currey, 'Lifeguard: Local Health Awareness for More Accurate Failure Detection' (2018), IV.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import log, log10
from typing import Final

import attrs

from distkv.model.invariant import must

SUSPECTED_INTERVALS: Final = 6
"""The least that a suspect has, in intervals, times the logarithm of the fleet's size."""
LONGEST_FACTOR: Final = 6
"""While nobody confirms it, a suspect has so many times the least."""
CONFIRMATIONS_MAX: Final = 3
"""When so many others suspect it, too, the least is all that it has."""


def suspected_ms(interval_ms: int, size: int, confirmations: int) -> int:
    """How long a suspect has in a fleet of this size, when so many others confirm the suspicion."""
    least = SUSPECTED_INTERVALS * interval_ms * max(1.0, log10(size))
    needed = min(CONFIRMATIONS_MAX, size - 2)
    if needed < 1 or confirmations >= needed:
        return int(least)
    part = log(confirmations + 1) / log(needed + 1)
    return int(least * (LONGEST_FACTOR - (LONGEST_FACTOR - 1) * part))


@attrs.define(slots=True, eq=False)
class Suspicion:
    """That one node may be dead."""

    generation: int
    since_ms: int
    by: set[str]
    """Who suspects it; the first one is not counted as a confirmation."""
    due_ms: int


class Suspicions:
    """Whom one node suspects."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._open = dict[str, Suspicion]()
        self._due = list[tuple[int, str]]()
        """A heap; what it says of a node that is due at another time, or not suspected, is old."""

    def __len__(self) -> int:
        return len(self._open)

    def has(self, node: str, generation: int) -> bool:
        one = self._open.get(node)
        return one is not None and one.generation == generation

    def begin(self, node: str, generation: int, by: str, size: int, now_ms: int) -> None:
        """It is suspected from now on."""
        due_ms = now_ms + suspected_ms(self._interval_ms, size, 0)
        self._open[node] = Suspicion(generation, now_ms, {by}, due_ms)
        heappush(self._due, (due_ms, node))

    def confirm(self, node: str, by: str, size: int) -> bool:
        """Somebody suspects it, too; whether that shortens its time."""
        one = self._open[node]
        needed = min(CONFIRMATIONS_MAX, size - 2)
        if by in one.by or len(one.by) > needed:
            return False
        one.by.add(by)
        shorter_ms = suspected_ms(self._interval_ms, size, len(one.by) - 1)
        longer_ms = suspected_ms(self._interval_ms, size, len(one.by) - 2)
        one.due_ms -= max(0, longer_ms - shorter_ms)
        heappush(self._due, (one.due_ms, node))
        return True

    def end(self, node: str) -> None:
        self._open.pop(node, None)

    def ripe(self, now_ms: int) -> list[tuple[str, int]]:
        """Nodes that had their time, and at which generation; they are not suspected any more."""
        found = []
        while self._due and self._due[0][0] <= now_ms:
            due_ms, node = heappop(self._due)
            one = self._open.get(node)
            if one is not None and one.due_ms == due_ms:
                found.append((node, one.generation))
                del self._open[node]
        return found

    def put_off(self, node: str, generation: int, by: str, until_ms: int) -> None:
        """It is suspected, but known to be there: it is looked at again then."""
        self._open[node] = Suspicion(generation, until_ms, {by}, until_ms)
        heappush(self._due, (until_ms, node))

    def lengthen(self, by_ms: int) -> None:
        """This node was away: what would have been said meanwhile it could not hear."""
        for one in self._open.values():
            one.due_ms += by_ms
        self._due = [(one.due_ms, node) for node, one in self._open.items()]
        heapify(self._due)

    def due_ms(self) -> int | None:
        """When somebody may be dead."""
        return self._due[0][0] if self._due else None

    def check(self) -> None:
        due = {*self._due}
        must(all((one.due_ms, node) in due for node, one in self._open.items()), "each suspect becomes due")
        must(all(one.by for one in self._open.values()), "somebody suspects it")
