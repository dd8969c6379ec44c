"""From changes to those who watch them.

Knows: who watches which part of the tree, and what each of them has still to be told.  Does not know what they are told
it in (services), nor when a change is durable: the driver says so.

Watchers are found by path prefix: a change looks up each prefix of its own path, whatever the number of watchers.

Invariant: a watcher gets every change at or below its path whose position is above the one it began at, in order and
not before it is durable; or it is marked as lost, with an empty queue. Its queue has bounds in number and bytes, and
what one watcher leaves lying slows nobody.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import trio

from distkv.config import Limits
from distkv.core.ready import Change
from distkv.model.entry import Entry
from distkv.model.event import Event, is_above
from distkv.model.path import Path, PathKey

CHANGE_BYTES: Final = 256
"""What a waiting change counts besides its value."""


@attrs.define(slots=True, eq=False)
class Seen:
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


def open_losers(change: Change, entry: Entry | None) -> tuple[Event, ...] | None:
    """The listed open losers of an entry after a change; None when the change left them as they were.

    An event that wins over a winner it knew closes that one and nothing else: so it is with nearly all of them.
    """
    losers = () if entry is None else entry.losers
    closed = change.closed
    if change.won:
        is_same = all(is_above(closed[0], loser) for loser in losers) if len(closed) == 1 else not (closed or losers)
    else:
        is_same = not closed and change.event not in losers
    return None if is_same else () if entry is None else entry.conflicts()


class Watcher:
    """What one watch has still to be told. `begin` is the position from which on changes are new to it."""

    def __init__(self, path: Path, min_depth: int, max_depth: int, begin: int, limits: Limits) -> None:
        self.path: Final = path
        self.is_lost = False
        """Changes were dropped: it has to be told everything anew."""
        self.is_stopped = False
        self._depths: Final = range(len(path) + min_depth, len(path) + max_depth + 1)
        self._begin = begin
        self._limits: Final = limits
        self._queue: deque[Seen] = deque()
        self._size = 0
        self._something = trio.Event()

    def takes(self, path: Path) -> bool:
        """Whether a path at or below its own is not too near or too deep."""
        return len(path) in self._depths

    def offer(self, seen: Seen) -> None:
        """A durable change at or below its path."""
        if self.is_lost or seen.position <= self._begin or len(seen.event.path) not in self._depths:
            return
        self._size += seen.size
        self._queue.append(seen)
        if len(self._queue) > self._limits.watch_changes or self._size > self._limits.watch_bytes:
            self.lose()
        self._something.set()

    def lose(self) -> None:
        """Forget what waits, and let it begin anew."""
        self._queue.clear()
        self._size = 0
        self.is_lost = True
        self._something.set()

    def begin_again(self) -> None:
        """It will be told everything as it is now; what comes from now on waits again."""
        self.is_lost = False

    def stop(self) -> None:
        """Let it come to its end."""
        self.is_stopped = True
        self._something.set()

    def take(self, bytes_max: int) -> list[Seen]:
        """What waits, in order, up to some size; at least one if there is one."""
        found: list[Seen] = []
        size = 0
        while self._queue and size < bytes_max:
            seen = self._queue.popleft()
            size += seen.size
            found.append(seen)
        self._size -= size
        return found

    async def wait(self) -> None:
        """Until something waits, or it was lost or stopped."""
        if not (self._queue or self.is_lost or self.is_stopped):
            self._something = trio.Event()
            await self._something.wait()


class Hub:
    """All watchers of a node."""

    def __init__(self) -> None:
        self.count = 0
        """How many watchers there are."""
        self._by_prefix: dict[PathKey, list[Watcher]] = {}
        self._pending: deque[Seen] = deque()  # not durable yet: the records that wait for the disk bound it

    def add(self, watcher: Watcher) -> None:
        self._by_prefix.setdefault(watcher.path.key, []).append(watcher)
        self.count += 1

    def remove(self, watcher: Watcher) -> None:
        """May be called again."""
        found = self._by_prefix.get(watcher.path.key, [])
        if watcher not in found:
            return
        found.remove(watcher)
        self.count -= 1
        if not found:
            del self._by_prefix[watcher.path.key]
        if not self.count:
            self._pending.clear()

    def lose_all(self) -> None:
        """The tree was emptied: nothing that was told holds any more."""
        self._pending.clear()
        for watchers in self._by_prefix.values():
            for watcher in watchers:
                watcher.lose()

    def hold(self, seen: Seen) -> None:
        """A change that is told as soon as it is durable."""
        self._pending.append(seen)

    def deliver(self, durable: int) -> None:
        """So many records are durable now."""
        pending = self._pending
        while pending and pending[0].position <= durable:
            self._offer(pending.popleft())

    def _offer(self, seen: Seen) -> None:
        path = seen.event.path
        key, find = path.key, self._by_prefix.get
        # The system's own paths are not shown to who watches the root, as they are not where a tree is read.
        for length in range(int(path.is_reserved), len(key) + 1):
            for watcher in find(key[:length], ()):
                watcher.offer(seen)
