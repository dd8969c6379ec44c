"""Queues that many read at their own pace: what comes is kept once, each reader has a place in it.

Knows: who was told how much, and what may be forgotten.  Does not know what is told, nor without an event loop when
its readers have time (`engine.hub`).

Invariant: a reader is told of everything behind its place, in order, or is marked as lost. Each queue has bounds in
number and bytes, and what one reader leaves lying slows nobody. Queues take turns, the one that waited longest first,
each with one batch: so one that never ends keeps no other waiting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

BATCH_BYTES: Final = 64 << 10
"""About so much is told at once."""
TURN: Final = 64
"""After so many readers whoever tells them lets others work."""


class Queued(Protocol):
    """What is told."""

    @property
    def position(self) -> int:
        """It is durable as soon as so many records are."""

    @property
    def size(self) -> int:
        """What it counts against the bounds, in bytes."""


Item = TypeVar("Item", bound=Queued)


@attrs.define(slots=True, eq=False)
class SharedBatch(Generic[Item]):
    """What is told together, to one reader or to many."""

    items: list[Item]
    sent_as: dict[Any, Any] = attrs.field(factory=dict)
    """For who sends them: what they are as frames, by what differs from reader to reader."""


class Subscriber(Generic[Item]):
    """One reader's place in a queue that it shares with others.

    `push` sends a batch at once, whole, or does nothing and returns False.
    """

    def __init__(self, queue: SharedQueue[Item], begin: int, push: Callable[[SharedBatch[Item]], bool]) -> None:
        self.is_stopped = False
        self.queue: Final = queue
        self.push: Final = push
        self.is_waiting = False
        """Whether it may be pushed to: what it was told before has left."""
        self.next = queue.end
        """Where in the queue that begins which it has not been told, but for what is older than its beginning."""
        self.woken: Callable[[], None] = _nobody
        """Called when it should see for itself what there is."""
        self._begin = begin
        self._failure: Exception | None = None

    @property
    def is_lost(self) -> bool:
        """Something was dropped: it has to be told everything anew."""
        return self.next < self.queue.first

    def lose(self) -> None:
        """Forget what waits, and let it begin anew."""
        self.next = -1
        self.wake()

    def begin_again(self, begin: int = 0) -> None:
        """It will be told by other means what is behind the first `begin` records or waits now; what comes from now on
        waits again."""
        self.next = self.queue.end
        self._begin = max(self._begin, begin)

    def stop(self) -> None:
        """Let it come to its end."""
        self.is_stopped = True
        self.wake()

    def contain(self, failure: Exception) -> None:
        """Keep what happened when it was pushed to, for its own task to raise (`check`)."""
        self._failure = failure
        self.wake()

    def check(self) -> None:
        """Raises what happened when it was pushed to, if anything did."""
        if self._failure is not None:
            raise self._failure

    def place(self) -> int:
        """Where in the queue that begins which it has not been told, and has to be."""
        queue = self.queue
        while self.next < queue.end and queue[self.next].position <= self._begin:
            self.next += 1
        return self.next

    def go_on(self, batch: SharedBatch[Item]) -> None:
        """It was told this."""
        self.next += len(batch.items)

    def take(self) -> SharedBatch[Item]:
        """What waits, in order, or the beginning of it; something if there is something."""
        if self.is_lost:
            return SharedBatch([])
        begin = self.place()
        found = self.queue.batch(begin)
        self.go_on(found)
        if begin == self.queue.first:
            self.queue.forget_told()
        return found

    def wake(self) -> None:
        """Let it see for itself what there is."""
        self.woken()

    @property
    def has_news(self) -> bool:
        """Whether there is something to see at once."""
        return self.is_lost or self.is_stopped or self.place() < self.queue.end


def _nobody() -> None:
    """It does not wait."""


class SharedQueue(Generic[Item]):
    """What one of those who read it was not told yet.

    Items are numbered without end: `first` is the oldest that is kept, `end` the next that will come.
    """

    def __init__(self, items_max: int, bytes_max: int) -> None:
        self.subscribers: Final = dict[Subscriber[Item], None]()
        self.first = 0
        self.size = 0
        """How many bytes wait."""
        self._items_max: Final = items_max
        self._bytes_max: Final = bytes_max
        self._queue = deque[Item]()

    @property
    def end(self) -> int:
        return self.first + len(self._queue)

    def __getitem__(self, number: int) -> Item:
        return self._queue[number - self.first]

    def offer(self, item: Item) -> None:
        """Something durable. Whoever is too far behind is lost."""
        self._queue.append(item)
        self.size += item.size
        while len(self._queue) > self._items_max or self.size > self._bytes_max:
            self._forget_first()

    def lose_all(self) -> None:
        """Whatever was told holds no more."""
        self.first = self.end + 1
        self._queue.clear()
        self.size = 0

    def batch(self, begin: int) -> SharedBatch[Item]:
        """The items from a place on, up to some size; at least one if there is one."""
        found, size = [], 0
        for item in islice(self._queue, begin - self.first, None):
            found.append(item)
            size += item.size
            if size >= BATCH_BYTES:
                break
        return SharedBatch(found)

    def forget_told(self) -> None:
        """Drop what everybody was told who is not lost."""
        first = self.first
        least = min((one.next for one in self.subscribers if one.next >= first), default=self.end)
        while self.first < least:
            self._forget_first()

    def tell_all(self) -> Iterator[bool]:
        """Push to each who waits what there is, up to one batch; whether there is more for him."""
        batches = dict[int, SharedBatch[Item]]()
        for subscriber in list(self.subscribers):
            yield subscriber.is_waiting and self.tell(subscriber, batches)
        self.forget_told()

    def tell(self, subscriber: Subscriber[Item], batches: dict[int, SharedBatch[Item]]) -> bool:
        """Push to one who waits what there is, up to one batch; whether it has more to be told."""
        if subscriber.is_lost:
            subscriber.wake()
            return False
        begin = subscriber.place()
        if begin == self.end:
            return False
        batch = batches.get(begin)
        if batch is None:
            batch = batches[begin] = self.batch(begin)
        try:
            is_pushed = subscriber.push(batch)
        except Exception as error:  # the others are told all the same
            subscriber.contain(error)
            return False
        if not is_pushed:
            subscriber.wake()
            return False
        subscriber.go_on(batch)
        return begin + len(batch.items) < self.end

    def _forget_first(self) -> None:
        self.size -= self._queue.popleft().size
        self.first += 1


_AnyQueue: TypeAlias = SharedQueue[Any]


class News:
    """The queues in which something waits for those who have time, the oldest news first."""

    def __init__(self) -> None:
        self._queues: Final = OrderedDict[_AnyQueue, None]()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, queue: _AnyQueue) -> None:
        """Something waits there."""
        self._queues[queue] = None

    def tell_now(self, queue: _AnyQueue) -> None:
        """Push a batch to all who wait there, who are few; what is left has its turn later."""
        if any(list(queue.tell_all())):
            self._queues[queue] = None

    def turns(self) -> Iterator[None]:
        """Push what there is to all who wait, a batch of each queue in turn; pauses now and then to let others work."""
        count = 0
        while self._queues:
            queue, _ = self._queues.popitem(last=False)
            for has_more in queue.tell_all():
                if has_more:
                    self._queues[queue] = None
                count += 1
                if count % TURN == 0:
                    yield
