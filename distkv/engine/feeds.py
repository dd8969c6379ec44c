"""From changes to those who watch them: who is told what, without an event loop.

Knows: who watches which part of the tree, and what each of them has still to be told.  Does not know what they are told
it in (services), when a change is durable (whoever drives it says so), nor when its watchers have time (`engine.hub`).

Watchers are found by path prefix: a change looks up each prefix of its own path, whatever the number of watchers. Those
who watch the same path to the same depths share one queue, in which each has its place: so a change costs one step for
all of them, and what it is in bytes is made once.

Invariant: a watcher gets every change at or below its path whose position is above the one it began at, in order and
not before it is durable; or it is marked as lost (`engine.shared_queue`). Among them, in its place, is how many changes
the node missed (`engine.missed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.config import Limits
from distkv.core.ready import PathChange
from distkv.engine.missed import closed_links, tells_missed
from distkv.engine.shared_queue import News, SharedBatch, SharedQueue, Subscriber
from distkv.model.entry import Entry
from distkv.model.event import Event, NodeName, is_above
from distkv.model.path import Path, PathKey
from distkv.model.sameness import says_same
from distkv.model.tick_ranges import count_by_node
from distkv.model.tree import Tree
from distkv.wire.message import EventRecord, KnownRecord, Record, ResetRecord

CHANGE_BYTES: Final = 256
"""What a waiting change counts besides its value."""


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
        # Which of the losers are listed depends on what the winner says.
        is_listed_alike = all(says_same(loser, closed[0]) is says_same(loser, change.event) for loser in losers)
        is_same = is_listed_alike and all(is_above(closed[0], loser) for loser in losers)
    elif change.won:
        is_same = not (closed or losers)
    else:
        is_listed = entry is not None and change.event in losers and not says_same(change.event, entry.head)
        is_same = not closed and not is_listed
    return None if is_same else () if entry is None else entry.conflicts()


@attrs.define(slots=True, eq=False)
class SharedMissed:
    """That changes were superseded before they came, shared by all watchers: nobody knows their paths."""

    position: int
    """As that of a change."""
    at: int
    counts: dict[NodeName, int]
    """How many, of which node."""
    frame: bytes = b""
    """For who sends it, as those of a change."""

    @property
    def size(self) -> int:
        return CHANGE_BYTES * (1 + len(self.counts))


SharedItem: TypeAlias = SharedChange | SharedMissed
ChangeBatch: TypeAlias = SharedBatch[SharedItem]
Push: TypeAlias = Callable[[ChangeBatch], bool]
"""Sends a batch at once, whole, or does nothing and returns False."""


class Watcher(Subscriber[SharedItem]):
    """One watch: its place in the queue that it shares with others."""

    def __init__(self, feed: Feed, begin: int, push: Push) -> None:
        super().__init__(feed, begin, push)
        self.feed: Final = feed

    def takes(self, path: Path) -> bool:
        """Whether a path at or below its own is not too near or too deep."""
        return len(path) in self.feed.depths


class Feed(SharedQueue[SharedItem]):
    """The changes at and below one path, within some depths, that one of those who watch just this was not told yet."""

    def __init__(self, depths: range, limits: Limits) -> None:
        super().__init__(limits.watch_changes, limits.watch_bytes)
        self.depths: Final = depths


class Feeds:
    """All watchers of a node."""

    def __init__(self, limits: Limits) -> None:
        self.count = 0
        """How many watchers there are."""
        self._limits: Final = limits
        self.news: Final = News()
        self._feeds: Final = dict[PathKey, dict[range, Feed]]()
        self._pending = deque[SharedItem]()  # not durable yet: the records that wait for the disk bound it

    def add(self, path: Path, min_depth: int, max_depth: int, begin: int, push: Push) -> Watcher:
        """Somebody who is to be told of what changes behind the position `begin`."""
        depths = range(len(path) + min_depth, len(path) + max_depth + 1)
        feeds = self._feeds.setdefault(path.key, {})
        feed = feeds.get(depths)
        if feed is None:
            feed = feeds[depths] = Feed(depths, self._limits)
        watcher = Watcher(feed, begin, push)
        feed.subscribers[watcher] = None
        self.count += 1
        return watcher

    def all(self) -> Iterable[Feed]:
        """Every queue there is."""
        return [feed for feeds in self._feeds.values() for feed in feeds.values()]

    def remove(self, path: Path, watcher: Watcher) -> None:
        """May be called again."""
        feed = watcher.feed
        if watcher not in feed.subscribers:
            return
        del feed.subscribers[watcher]
        self.count -= 1
        feed.forget_told()
        if not feed.subscribers:
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
                self.news.add(feed)

    def note(self, records: Sequence[Record], changes: Sequence[PathChange], position: int, tree: Tree) -> None:
        """What a step changed, and its records, which are durable as soon as the first `position` of all are."""
        places, is_reset = {}, False
        known: list[tuple[int, KnownRecord]] = []
        for at, record in enumerate(records, position - len(records) + 1):
            if isinstance(record, EventRecord):
                places[id(record.event)] = at
            elif isinstance(record, KnownRecord):
                known.append((at, record))
            elif isinstance(record, ResetRecord):
                is_reset = True
        missed = _missed(known, changes, position) if known else None
        for change in changes:
            event = change.event
            at = places.get(id(event), 0)
            while missed and missed[0].at < at:  # in the order of the records, because tokens name places among them
                self.hold(missed.popleft())
            conflicts = open_losers(change, tree.get(event.path))
            if change.won or conflicts is not None:
                self.hold(SharedChange(position, at, event, change.won, conflicts))
        if missed:
            self._pending += missed
        if is_reset:
            self.lose_all()

    def hold(self, seen: SharedItem) -> None:
        """What is told as soon as it is durable."""
        self._pending.append(seen)

    def deliver(self, durable: int) -> None:
        """So many records are durable now."""
        pending = self._pending
        while pending and pending[0].position <= durable:
            self._offer(pending.popleft())

    def _offer(self, seen: SharedItem) -> None:
        if isinstance(seen, SharedMissed):
            for feed in self.all():
                feed.offer(seen)
                self.news.add(feed)
            return
        path = seen.event.path
        key, find = path.key, self._feeds.get
        # The system's own paths are not shown to who watches the root, as they are not where a tree is read.
        for length in range(int(path.is_reserved), len(key) + 1):
            feeds = find(key[:length])
            if feeds is not None:
                for feed in feeds.values():
                    if len(key) in feed.depths:
                        feed.offer(seen)
                        self.news.add(feed)


def _missed(
    known: Iterable[tuple[int, KnownRecord]], changes: Iterable[PathChange], position: int
) -> deque[SharedMissed]:
    """What these records, each with its place, say was missed."""
    closed = closed_links(changes)
    return deque(
        SharedMissed(position, at, count_by_node(record.ranges))
        for at, record in known
        if tells_missed(record, closed)
    )
