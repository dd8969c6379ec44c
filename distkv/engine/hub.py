"""Tells those who watch what changed, as soon as they have time.

Knows: whose turn it is.  Does not know who is told what (`feeds`), nor what they are told it in (services).

Invariant: one task tells all who wait, and lets others work now and then; whoever cannot take a change at once is woken
and sees for itself.
"""

from __future__ import annotations

from typing import Final

import trio

from distkv.config import Limits
from distkv.engine.feeds import Batch, Feed, Feeds, Watcher

TURN: Final = 64
"""After so many watchers the others of the loop have their turn."""


class Hub(Feeds):
    """All watchers of a node that runs."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._work = trio.Event()

    async def run(self) -> None:
        """Tell those who wait, until cancelled."""
        count = 0
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self.news:
                feed, _ = self.news.popitem()
                if await _tell(feed):
                    self.news[feed] = None
                count += len(feed.watchers) or 1
                if count >= TURN:
                    count = 0
                    await trio.lowlevel.checkpoint()

    def lose_all(self) -> None:
        super().lose_all()
        self._work.set()

    def deliver(self, durable: int) -> None:
        super().deliver(durable)
        if self.news:
            self._work.set()


async def wait(watcher: Watcher) -> None:
    """Be pushed to, until it was lost or stopped or could not take what there is."""
    if watcher.has_news:
        return
    something = trio.Event()
    watcher.woken = something.set
    watcher.is_waiting = True
    try:
        await something.wait()
    finally:
        watcher.is_waiting = False


async def _tell(feed: Feed) -> bool:
    """Push what there is to all who wait, up to one batch; whether one of them has more to be told."""
    batches: dict[int, Batch] = {}
    has_more = False
    for number, watcher in enumerate(list(feed.watchers), 1):
        if watcher.is_waiting and feed.tell(watcher, batches):
            has_more = True
        if number % TURN == 0:
            await trio.lowlevel.checkpoint()
    feed.forget_told()
    return has_more
