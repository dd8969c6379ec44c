"""What clients of the activity network are told, kept once for all of them.

Knows: the lines, and who reads slowly.  Does not know what they say, nor how bytes leave.

Invariant: what `SharedQueue` says; whoever falls out of it hears of that at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
GATHER_S: Final = 0.002
"""After all were told, what comes gathers for as long as that took, or so long, and leaves in one go: to write to a
client costs ten times as much as all else that is done for it. What comes later leaves at once."""
FEW: Final = 16
"""So many are told without a task that wakes up for it."""
ITEM_BYTES: Final = 128
"""What each costs besides."""
ToldBatch: TypeAlias = SharedBatch[ToldLine]
Listening: TypeAlias = Subscriber[ToldLine]


class ToldLines:
    """Those of one node."""

    def __init__(self, items_max: int, bytes_max: int) -> None:
        self._queue: Final = SharedQueue[ToldLine](items_max, bytes_max)
        self._work = trio.Event()
        self._has_news = False
        self._is_telling = False
        self._again_s = 0.0
        """Until then it gathers."""
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
        """Something for everybody, who is told with the next `tell`."""
        first = self._queue.first
        self._queue.offer(ToldLine(line_of(item), isinstance(item, ActivityGap)))
        if self._queue.first > first:
            self._see_who_fell_out()
        self._has_news = True

    def tell(self) -> None:
        """Tell what was offered, now or soon."""
        if not self._has_news:
            return
        self._has_news = False
        is_free = not self._is_telling and not self._work.is_set() and self._again_s <= trio.current_time()
        if is_free and len(self._queue.subscribers) <= FEW:
            for _ in self._turns():
                pass
        else:
            self._work.set()

    async def run(self) -> None:
        """Tell those who wait, until cancelled."""
        while True:
            await self._work.wait()
            if self._again_s > trio.current_time():
                await trio.sleep_until(self._again_s)
            self._work = trio.Event()
            for _ in self._turns():
                await trio.lowlevel.checkpoint()

    def _turns(self) -> Iterator[None]:
        """Tell all who wait, up to a batch; pauses now and then to let others work."""
        began_s, self._is_telling = trio.current_time(), True
        for count, has_more in enumerate(self._queue.tell_all(), 1):
            if has_more:
                self._work.set()
            if count % TURN == 0:
                yield
        self._is_telling, now_s = False, trio.current_time()
        self._again_s = now_s + min(now_s - began_s, GATHER_S)

    def _see_who_fell_out(self) -> None:
        for one in [one for one in self._fell_out if one.is_lost]:
            self._fell_out.pop(one)()


def lines_of(batch: ToldBatch, *, resumes: bool) -> bytes:
    """A batch as bytes, made once for all who get the same."""
    found: bytes | None = batch.sent_as.get(resumes)
    if found is None:
        found = batch.sent_as[resumes] = b"".join([one.line for one in batch.items if resumes or not one.is_gap])
    return found
