"""What a node has around the machine of the activity network.

Knows: its settings.  Does not know what clients say (`core.activity.conversation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from distkv.config import Config
from distkv.core.activity.config import ActivityConfig, ActivityLimits
from distkv.core.activity.conversation import TOGETHER_MAX
from distkv.core.activity.requests import EndActivity
from distkv.core.activity.settings import ACTIVITY
from distkv.engine.driver import Driver
from distkv.errors import DistkvError
from distkv.services.activity.listener import ActivityListener
from distkv.services.activity.place import place_of


class ActivityShell:
    """That of one process."""

    name: str = ACTIVITY
    option: str = "--activity"

    def addresses(self, config: Config) -> Sequence[str]:
        """Where clients connect."""
        listen = config.of(ActivityConfig).listen
        return () if listen is None else (listen,)

    def connections(self, config: Config) -> int:
        """How many clients there may be."""
        return config.of(ActivityLimits).activity_connections

    async def serve(self, driver: Driver, config: Config, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve clients until cancelled, or until the node is retired."""
        place = place_of(config.of(ActivityConfig), listeners, driver.replica.settings.addr)
        together_max = min(TOGETHER_MAX, config.of(ActivityConfig).rate)
        await ActivityListener(driver, config.of(ActivityLimits), listeners, place, together_max).run()

    async def end(self, driver: Driver) -> None:
        """See that all clients go elsewhere."""
        ended = trio.Event()
        try:
            driver.services.ask(ACTIVITY, EndActivity(0), lambda _: ended.set())
            driver.commit()
        except DistkvError:
            return
        await ended.wait()


SHELL: Final = ActivityShell()
