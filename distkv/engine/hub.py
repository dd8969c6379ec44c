"""Tells those who watch or follow what changed, as soon as they have time.

Knows: when there is something to tell, and when others of the loop have their turn.  Does not know who is told what,
and in which order (`feeds`, `followers`), nor what they are told it in (services).

Invariant: one task tells all who wait, and lets others work now and then; whoever cannot take a change at once is woken
and sees for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from distkv.config import Limits
from distkv.engine.feeds import Feeds
from distkv.engine.followers import Followers
from distkv.engine.shared_queue import Subscriber


class Hub(Feeds):
    """All watchers and followers of a node that runs."""

    def __init__(self, limits: Limits, contain: Callable[[Exception, str], object] | None = None) -> None:
        """`contain` logs a failure that nobody foresaw, or raises it; None: it is raised."""
        super().__init__(limits)
        self._contain = contain
        self.followers = Followers(limits, self.news)
        self._work = trio.Event()

    async def run(self) -> None:
        """Tell those who wait, until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            for _ in self.news.turns():
                await trio.lowlevel.checkpoint()

    def lose_all(self) -> None:
        super().lose_all()
        self._work.set()

    def deliver(self, durable: int) -> None:
        try:
            super().deliver(durable)
            self.followers.deliver(durable)
        except Exception as error:
            if self._contain is None:
                raise
            self._contain(error, "telling watchers and followers")
            self.followers.lose_all()
            self.lose_all()  # whoever was not told begins anew, and sees for itself
        if self.news:
            self._work.set()


async def wait(watcher: Subscriber[Any]) -> None:
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
    watcher.check()
