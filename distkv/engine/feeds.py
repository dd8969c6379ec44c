"""From changes to those who watch them: who is told what, without an event loop.

Knows: who watches which part of the tree, and what each of them has still to be told.  Does not know what they are told
it in (services), when a change is durable (whoever drives it says so), nor when its watchers have time (`engine.hub`).

Watchers are found by path prefix: a change looks up each prefix of its own path, whatever the number of watchers. Those
who watch the same path to the same depths share one queue, in which each has its place: so a change costs one step for
all of them, and what it is in bytes is made once.

Invariant: a watcher gets every change at or below its path whose position is above the one it began at, in order and
not before it is durable; or it is marked as lost. Each queue has bounds in number and bytes, and what one watcher
leaves lying slows nobody. Queues take turns, the one that waited longest first, each with one batch: so one that never
ends keeps no other waiting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import attrs

from distkv.config import Limits
from distkv.core.ready import PathChange
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, is_above
from distkv.model.path import Path, PathKey
from distkv.model.tree import Tree
from distkv.wire.message import EventRecord, Record, ResetRecord

CHANGE_BYTES: Final = 256
"""What a waiting change counts besides its value."""
BATCH_BYTES: Final = 64 << 10
"""About so much is told at once."""
TURN: Final = 64
"""After so many watchers whoever tells them lets others work."""


@attrs.define(slots=True, eq=False)
class SharedChange:
    """A change on its way to the watchers, shared by all of them."""

    position: int
    """It is durable as soon as so many records are."""
    at: int
    """So many records there are up to and with its own; 0 when it has none."""
    event: Event
    won: bool
    """Whether `event` is the winner of its path now."""
    conflicts: tuple[Event, ...] | None
    """The open losers of the path that people are told of; None when they are the same as before."""
    frames: tuple[bytes, ...] = ()
    """For who sends it: what it is in bytes, made once for all watchers."""

    @property
    def size(self) -> int:
        return 2 * len(self.event.value) + CHANGE_BYTES  # once in the event, once in the frames


def open_losers(change: PathChange, entry: Entry | None) -> tuple[Event, ...] | None:
    """The listed open losers of an entry after a change; None when the change left them as they were.

    An event that wins over a winner it knew closes that one and nothing else: so it is with nearly all of them.
    """
    losers = () if entry is None else entry.losers
    closed = change.closed
    if change.won and len(closed) == 1:
        # Which deletions among the losers are listed depends on whether the winner is one.
        is_listed_alike = closed[0].kind is change.event.kind or all(loser.kind is Kind.SET for loser in losers)
        is_same = is_listed_alike and all(is_above(closed[0], loser) for loser in losers)
    elif change.won:
        is_same = not (closed or losers)
    else:
        is_same = not closed and change.event not in losers
    return None if is_same else () if entry is None else entry.conflicts()


@attrs.define(slots=True, eq=False)
class ChangeBatch:
    """Changes that are told together, to one watcher or to many."""

    changes: list[SharedChange]
    sent_as: dict[int, bytes] = attrs.field(factory=dict)
    """For who sends them: what they are in bytes, by what differs from watcher to watcher."""


Push: TypeAlias = Callable[[ChangeBatch], bool]
"""Sends a batch at once, whole, or does nothing and returns False."""


class Watcher:
    """One watch: its place in the queue that it shares with others."""

    def __init__(self, feed: Feed, begin: int, push: Push) -> None:
        self.is_stopped = False
        self.feed: Final = feed
        self.push: Final = push
        self.is_waiting = False
        """Whether it may be pushed to: what it was told before has left."""
        self.next = feed.end
        """Where in the queue that begins which it has not been told, but for what is older than the watch."""
        self.woken: Callable[[], None] = _nobody
        """Called when it should see for itself what there is."""
        self._begin: Final = begin

    @property
    def is_lost(self) -> bool:
        """Changes were dropped: it has to be told everything anew."""
        return self.next < self.feed.first

    def takes(self, path: Path) -> bool:
        """Whether a path at or below its own is not too near or too deep."""
        return len(path) in self.feed.depths

    def lose(self) -> None:
        """Forget what waits, and let it begin anew."""
        self.next = -1
        self.wake()

    def begin_again(self) -> None:
        """It will be told everything as it is now; what comes from now on waits again."""
        self.next = self.feed.end

    def stop(self) -> None:
        """Let it come to its end."""
        self.is_stopped = True
        self.wake()

    def place(self) -> int:
        """Where in the queue that begins which it has not been told, and has to be."""
        feed = self.feed
        while self.next < feed.end and feed[self.next].position <= self._begin:
            self.next += 1
        return self.next

    def go_on(self, batch: ChangeBatch) -> None:
        """It was told this."""
        self.next += len(batch.changes)

    def take(self) -> ChangeBatch:
        """What waits, in order, or the beginning of it; at least one change if there is one."""
        if self.is_lost:
            return ChangeBatch([])
        begin = self.place()
        found = self.feed.batch(begin)
        self.go_on(found)
        if begin == self.feed.first:
            self.feed.forget_told()
        return found

    def wake(self) -> None:
        """Let it see for itself what there is."""
        self.woken()

    @property
    def has_news(self) -> bool:
        """Whether there is something to see at once."""
        return self.is_lost or self.is_stopped or self.place() < self.feed.end


def _nobody() -> None:
    """It does not wait."""


class Feed:
    """The changes at and below one path, within some depths, that one of those who watch just this was not told yet.

    They are numbered without end: `first` is the oldest that is kept, `end` the next that will come.
    """

    def __init__(self, depths: range, limits: Limits) -> None:
        self.depths: Final = depths
        self.watchers: Final = dict[Watcher, None]()
        self.first = 0
        self._limits: Final = limits
        self.size = 0
        """How many bytes wait."""
        self._queue = deque[SharedChange]()

    @property
    def end(self) -> int:
        return self.first + len(self._queue)

    def __getitem__(self, number: int) -> SharedChange:
        return self._queue[number - self.first]

    def offer(self, seen: SharedChange) -> None:
        """A durable change at or below its path. Whoever is too far behind is lost."""
        self._queue.append(seen)
        self.size += seen.size
        while len(self._queue) > self._limits.watch_changes or self.size > self._limits.watch_bytes:
            self._forget_first()

    def lose_all(self) -> None:
        """Whatever was told holds no more."""
        self.first = self.end + 1
        self._queue.clear()
        self.size = 0

    def batch(self, begin: int) -> ChangeBatch:
        """The changes from a place on, up to some size; at least one if there is one."""
        found, size = [], 0
        for seen in islice(self._queue, begin - self.first, None):
            found.append(seen)
            size += seen.size
            if size >= BATCH_BYTES:
                break
        return ChangeBatch(found)

    def forget_told(self) -> None:
        """Drop what everybody was told who is not lost."""
        first = self.first
        least = min((watcher.next for watcher in self.watchers if watcher.next >= first), default=self.end)
        while self.first < least:
            self._forget_first()

    def tell(self, watcher: Watcher, batches: dict[int, ChangeBatch]) -> bool:
        """Push to one who waits what there is, up to one batch; whether it has more to be told."""
        if watcher.is_lost:
            watcher.wake()
            return False
        begin = watcher.place()
        if begin == self.end:
            return False
        batch = batches.get(begin)
        if batch is None:
            batch = batches[begin] = self.batch(begin)
        if not watcher.push(batch):
            watcher.wake()
            return False
        watcher.go_on(batch)
        return begin + len(batch.changes) < self.end

    def _forget_first(self) -> None:
        self.size -= self._queue.popleft().size
        self.first += 1


class Feeds:
    """All watchers of a node."""

    def __init__(self, limits: Limits) -> None:
        self.count = 0
        """How many watchers there are."""
        self._limits: Final = limits
        self._news: Final = OrderedDict[Feed, None]()
        """Where something waits for those who have time, the oldest first."""
        self._feeds: Final = dict[PathKey, dict[range, Feed]]()
        self._pending = deque[SharedChange]()  # not durable yet: the records that wait for the disk bound it

    def add(self, path: Path, min_depth: int, max_depth: int, begin: int, push: Push) -> Watcher:
        """Somebody who is to be told of what changes behind the position `begin`."""
        depths = range(len(path) + min_depth, len(path) + max_depth + 1)
        feeds = self._feeds.setdefault(path.key, {})
        feed = feeds.get(depths)
        if feed is None:
            feed = feeds[depths] = Feed(depths, self._limits)
        watcher = Watcher(feed, begin, push)
        feed.watchers[watcher] = None
        self.count += 1
        return watcher

    def all(self) -> Iterable[Feed]:
        """Every queue there is."""
        return [feed for feeds in self._feeds.values() for feed in feeds.values()]

    def remove(self, path: Path, watcher: Watcher) -> None:
        """May be called again."""
        feed = watcher.feed
        if watcher not in feed.watchers:
            return
        del feed.watchers[watcher]
        self.count -= 1
        feed.forget_told()
        if not feed.watchers:
            del self._feeds[path.key][feed.depths]
            if not self._feeds[path.key]:
                del self._feeds[path.key]
        if not self.count:
            self._pending.clear()

    def lose_all(self) -> None:
        """The tree was emptied: nothing that was told holds any more."""
        self._pending.clear()
        for feeds in self._feeds.values():
            for feed in feeds.values():
                feed.lose_all()
                self._news[feed] = None

    def note(self, records: Sequence[Record], changes: Sequence[PathChange], position: int, tree: Tree) -> None:
        """What a step changed, and its records, which are durable as soon as the first `position` of all are."""
        places, is_reset = {}, False
        for at, record in enumerate(records, position - len(records) + 1):
            if isinstance(record, EventRecord):
                places[id(record.event)] = at
            elif isinstance(record, ResetRecord):
                is_reset = True
        for change in changes:
            event = change.event
            conflicts = open_losers(change, tree.get(event.path))
            if change.won or conflicts is not None:
                self.hold(SharedChange(position, places.get(id(event), 0), event, change.won, conflicts))
        if is_reset:
            self.lose_all()

    def hold(self, seen: SharedChange) -> None:
        """A change that is told as soon as it is durable."""
        self._pending.append(seen)

    def deliver(self, durable: int) -> None:
        """So many records are durable now."""
        pending = self._pending
        while pending and pending[0].position <= durable:
            self._offer(pending.popleft())

    def turns(self) -> Iterator[None]:
        """Push what there is to all who wait, a batch of each queue in turn; pauses now and then to let others work."""
        count = 0
        while self._news:
            feed, _ = self._news.popitem(last=False)
            batches, has_more = dict[int, ChangeBatch](), False
            for watcher in list(feed.watchers):
                if watcher.is_waiting and feed.tell(watcher, batches):
                    has_more = True
                count += 1
                if count % TURN == 0:
                    yield
            feed.forget_told()
            if has_more:
                self._news[feed] = None

    def _offer(self, seen: SharedChange) -> None:
        path = seen.event.path
        key, find = path.key, self._feeds.get
        # The system's own paths are not shown to who watches the root, as they are not where a tree is read.
        for length in range(int(path.is_reserved), len(key) + 1):
            feeds = find(key[:length])
            if feeds is not None:
                for feed in feeds.values():
                    if len(key) in feed.depths:
                        feed.offer(seen)
                        self._news[feed] = None
