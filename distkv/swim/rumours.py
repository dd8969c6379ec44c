"""What is to be told to all: each rumour a few times, those first that were told least.

Knows: the latest rumour about each node, and how often it was told.  Does not know what is true, nor to whom it goes.

Invariant: there is one rumour about a node; each was told less often than what suffices for a fleet of its size
(docs/protocol, SWIM-35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.wire.swim_records import Rumour, rumour_bytes

TOLD_FACTOR: Final = 4
"""Each node tells a rumour so often, times the number of digits of how many there are."""
SKIPS_MAX: Final = 8
"""So many rumours that find no place are passed over before a datagram counts as full."""


def tellings(size: int) -> int:
    """How often a rumour is told in a fleet of this size: 4 x ceil(log10(n + 1))."""
    return TOLD_FACTOR * len(str(size))


@attrs.frozen(slots=True)
class _ToTell:
    rumour: Rumour
    bytes: int


class RumourQueue:
    """The rumours that one node has still to tell."""

    def __init__(self) -> None:
        self._levels = list[dict[str, _ToTell]]()
        """By how often each was told."""
        self._told = dict[str, int]()

    def __len__(self) -> int:
        return len(self._told)

    def add(self, rumour: Rumour) -> None:
        """Instead of what was to be told about that node."""
        name = rumour.id.node
        self.remove(name)
        self._place(name, _ToTell(rumour, rumour_bytes(rumour)), 0)

    def remove(self, name: str) -> None:
        told = self._told.pop(name, None)
        if told is not None:
            del self._levels[told][name]

    def take(self, room: int, size: int) -> list[Rumour]:
        """What goes into a datagram with so much room; it counts as told, in a fleet of this size."""
        limit = tellings(size)
        taken, skips = list[tuple[str, _ToTell, int]](), 0
        for name, queued, told in self._in_order():
            if queued.bytes <= room:
                taken.append((name, queued, told))
                room -= queued.bytes
            else:
                skips += 1
                if skips > SKIPS_MAX:
                    break
        for name, queued, told in taken:
            self.remove(name)
            if told + 1 < limit:
                self._place(name, queued, told + 1)
        return [queued.rumour for _, queued, _ in taken]

    def check(self) -> None:
        found = {name: told for told, level in enumerate(self._levels) for name in level}
        must(found == self._told, "each rumour is where its count says")
        must(sum(map(len, self._levels)) == len(self._told), "there is one rumour about a node")

    def _in_order(self) -> Iterator[tuple[str, _ToTell, int]]:
        for told, level in enumerate(self._levels):
            for name, queued in level.items():
                yield name, queued, told

    def _place(self, name: str, queued: _ToTell, told: int) -> None:
        while len(self._levels) <= told:
            self._levels.append({})
        self._levels[told][name] = queued
        self._told[name] = told
