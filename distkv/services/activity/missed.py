"""What clients that resume are still to be told of what they lack.

Knows: how much that is, for how long it waits, and who waits longest.  Does not know what it says, nor how it leaves.

A login may lack all that the node keeps. It is not copied for each: a part becomes lines when it leaves. But whoever
does not read holds up what the node would let go.

Invariant: of all clients together at most so many bytes wait as were allowed, or those of one client; for nobody longer
than `MISSED_S` and `LOOK_S`. Who falls out is told nothing more of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import trio

from distkv.core.activity.conversation import line_of
from distkv.core.activity.requests import ActivityGap, ActivityItem

MISSED_S: Final = 60.0
"""So long a client may take for all that it lacks."""
LOOK_S: Final = 5.0
PART_BYTES: Final = 1 << 16
ITEM_BYTES: Final = 256
"""What each costs besides."""


class MissedByOne:
    """What one client is still to be told."""

    def __init__(self, items: Iterable[ActivityItem | ActivityGap], fell_out: Callable[[], object]) -> None:
        """`fell_out` is called when it has waited for too long, or is too much."""
        self.fell_out: Final = fell_out
        self.since_s: Final = trio.current_time()
        self.is_lost = False
        """Whether it fell out before all of it was told."""
        self._items: Final = deque(items)
        self.size = sum(map(_size_of, self._items))
        """In bytes."""

    def take(self) -> bytes:
        """The next lines; empty: there are no more."""
        lines, size = list[bytes](), 0
        while self._items and size < PART_BYTES:
            item = self._items.popleft()
            self.size -= _size_of(item)
            lines.append(line_of(item))
            size += len(lines[-1])
        return b"".join(lines)

    def drop(self) -> None:
        """Nothing more of it is told."""
        self.is_lost = bool(self._items)
        self._items.clear()
        self.size = 0


class MissedLines:
    """Those of one node."""

    def __init__(self, bytes_max: int) -> None:
        self._max: Final = bytes_max
        self._all: Final = dict[MissedByOne, None]()
        """Who began first is the first."""

    def join(self, items: Iterable[ActivityItem | ActivityGap], fell_out: Callable[[], object]) -> MissedByOne:
        """Somebody is to be told this. If it is too much with that of others, those fall out who wait longest:
        whoever reads is told within moments."""
        found = MissedByOne(items, fell_out)
        self._all[found] = None
        while len(self._all) > 1 and sum(one.size for one in self._all) > self._max:
            self._fall_out(next(iter(self._all)))
        return found

    def leave(self, one: MissedByOne) -> None:
        """He was told all, or is gone."""
        self._all.pop(one, None)

    async def run(self) -> None:
        """Let those go who do not read, until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            before_s = trio.current_time() - MISSED_S
            for one in [one for one in self._all if one.since_s <= before_s]:
                self._fall_out(one)

    # -- inside

    def _fall_out(self, one: MissedByOne) -> None:
        self.leave(one)
        one.drop()
        one.fell_out()


def _size_of(item: ActivityItem | ActivityGap) -> int:
    return ITEM_BYTES + (len(item.activity) if isinstance(item, ActivityItem) else 0)
