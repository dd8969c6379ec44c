"""What clients of the activity network are told, kept once for all of them.

Knows: the lines, and who reads slowly.  Does not know what they say, nor how bytes leave.

Invariant: what `SharedQueue` says; whoever falls out of it hears of that at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import trio

from distkv.core.activity.conversation import line_of
from distkv.core.activity.requests import ActivityGap, ActivityItem
from distkv.engine.shared_queue import TURN, SharedBatch, SharedQueue, Subscriber


@attrs.frozen(slots=True, eq=False)
class ToldLine:
    """A line for everybody."""

    line: bytes
    is_gap: bool
    """Only who resumes is told of it."""
    position: int = 0
    """It waits for no disk."""

    @property
    def size(self) -> int:
        return len(self.line) + ITEM_BYTES


BEFORE_ALL: Final = -1
"""Before the first of all records."""
GATHER_S: Final = 0.003
"""After all were told, what comes gathers for as long as that took, or so long, and leaves in one go: to write to a
client costs ten times as much as all else that is done for it. What comes while nobody was told for so long leaves at
once."""
ITEM_BYTES: Final = 128
"""What each costs besides."""
ToldBatch: TypeAlias = SharedBatch[ToldLine]
Listening: TypeAlias = Subscriber[ToldLine]


class ToldLines:
    """Those of one node."""

    def __init__(self, items_max: int, bytes_max: int) -> None:
        self._queue: Final = SharedQueue[ToldLine](items_max, bytes_max)
        self._work = trio.Event()
        self._fell_out: Final = dict[Listening, Callable[[], object]]()

    def join(self, push: Callable[[ToldBatch], bool], fell_out: Callable[[], object]) -> Listening:
        """Somebody is told all that comes from now on; `fell_out` is called when too much waits for him."""
        found = Subscriber(self._queue, BEFORE_ALL, push)
        self._queue.subscribers[found] = None
        self._fell_out[found] = fell_out
        return found

    def leave(self, one: Listening) -> None:
        """He is gone."""
        self._queue.subscribers.pop(one, None)
        self._fell_out.pop(one, None)

    def offer(self, item: ActivityItem | ActivityGap) -> None:
        """Something for everybody."""
        first = self._queue.first
        self._queue.offer(ToldLine(line_of(item), isinstance(item, ActivityGap)))
        if self._queue.first > first:
            self._see_who_fell_out()
        self._work.set()

    async def run(self) -> None:
        """Tell those who wait, until cancelled."""
        while True:
            await self._work.wait()
            self._work, began_s = trio.Event(), trio.current_time()
            for count, has_more in enumerate(self._queue.tell_all(), 1):
                if has_more:
                    self._work.set()
                if count % TURN == 0:
                    await trio.lowlevel.checkpoint()
            await trio.sleep(min(trio.current_time() - began_s, GATHER_S))

    def _see_who_fell_out(self) -> None:
        for one in [one for one in self._fell_out if one.is_lost]:
            self._fell_out.pop(one)()


def lines_of(batch: ToldBatch, *, resumes: bool) -> bytes:
    """A batch as bytes, made once for all who get the same."""
    found: bytes | None = batch.sent_as.get(resumes)
    if found is None:
        found = batch.sent_as[resumes] = b"".join([one.line for one in batch.items if resumes or not one.is_gap])
    return found
