"""The clients of the activity network at one node.

Knows: how many there are, and that the service is told of the listener.  Does not know what a client says (`client`).

Invariant: a fault of one connection ends that one; when the service is away its clients are told so, and the listener
says that it is there again until it is heard.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from distkv.core.activity.config import ActivityLimits
from distkv.core.activity.conversation import TOGETHER_MAX, ActivityTalk, Ending, SayLines
from distkv.core.activity.requests import ActivityGiven, Attend
from distkv.core.activity.settings import ACTIVITY
from distkv.core.ready import ServiceResult
from distkv.engine.driver import Driver
from distkv.errors import BusyError, DistkvError, NoSpaceError
from distkv.services.activity.client import ActivityClient
from distkv.services.activity.missed import MissedLines
from distkv.services.activity.place import ListenerPlace
from distkv.services.activity.queue import ToldLines
from distkv.services.idle import RECEIVE_BYTES, IdleConnections

log = logging.getLogger("distkv.daemon")

LINGER_S: Final = 1.0
"""How long a connection that is over is still read, so that the last word arrives."""
REFUSED_MAX: Final = 8
"""So many are told at a time that there are too many; those beyond are closed without a word."""
ATTEND_AGAIN_S: Final = 1.0


class ActivityListener:
    """That of one node."""

    def __init__(
        self,
        driver: Driver,
        limits: ActivityLimits,
        listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
        place: ListenerPlace,
        together_max: int = TOGETHER_MAX,
    ) -> None:
        """`place`: where the clients of other nodes are sent to. `together_max`: so many activities that a client sends
        together are given together."""
        self._together_max: Final = together_max
        self._driver: Final = driver
        self._limits: Final = limits
        self._listeners: Final = listeners
        self._place: Final = place
        self._told: Final = ToldLines(limits.activity_queue, limits.activity_queue_bytes)
        self._missed: Final = MissedLines(limits.activity_missed_bytes)
        self._open = 0
        self._refused = 0

    async def run(self) -> None:
        """Serve clients until cancelled."""
        driver = self._driver
        await driver.wait_ready()
        with IdleConnections(driver.committer, driver.work, self._limits.activity_half_bytes) as idle:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(idle.run)
                nursery.start_soon(idle.halves.run)
                nursery.start_soon(self._told.run)
                nursery.start_soon(self._missed.run)
                nursery.start_soon(self._attend)

                async def handle(stream: trio.abc.HalfCloseableStream) -> None:
                    await self._handle(stream, idle)

                log.info("activity_listens host=%s port=%d", *self._place)
                await trio.serve_listeners(handle, list(self._listeners))

    # -- the service

    async def _attend(self) -> None:
        """SayLines that the listener is there, again whenever the service began anew."""
        while True:
            over = trio.Event()

            def given(result: ServiceResult, over: trio.Event = over) -> None:
                if isinstance(result, ActivityGiven):
                    self._told.offer(result.item)
                    self._driver.services.when_given(self._told.tell)
                elif isinstance(result, DistkvError):
                    over.set()

            try:
                self._driver.services.ask(ACTIVITY, Attend(0, *self._place), given)
                self._driver.commit()
                await over.wait()
            except (BusyError, NoSpaceError):
                pass
            await trio.sleep(ATTEND_AGAIN_S)

    # -- connections

    async def _handle(self, stream: trio.abc.HalfCloseableStream, idle: IdleConnections) -> None:
        driver = self._driver
        if self._open >= self._limits.activity_connections:
            driver.counters["activity_connections_refused"] += 1
            await self._turn_away(stream)
            return
        self._open += 1
        driver.counters["activity_connections"] = self._open
        try:
            async with stream:
                async with trio.open_nursery() as nursery:
                    client = ActivityClient(
                        driver, stream, idle, self._told, self._missed, nursery, self._together_max
                    )
                    await client.serve()
                    nursery.cancel_scope.cancel()
                if client.ending not in (None, Ending.LOGOUT):
                    await _linger(stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            driver.counters["activity_connection_lost"] += 1
        except* Exception as group:
            driver.faults.contain(group, "a connection of the activity network")
        finally:
            self._open -= 1
            driver.counters["activity_connections"] = self._open

    async def _turn_away(self, stream: trio.abc.HalfCloseableStream) -> None:
        if self._refused >= REFUSED_MAX:
            await trio.aclose_forcefully(stream)
            return
        self._refused += 1
        try:
            async with stream:
                what = f"{self._open} clients are connected here: go to another node, or try again later"
                said = [effect.lines for effect in ActivityTalk().refuse(what) if isinstance(effect, SayLines)]
                with trio.move_on_after(LINGER_S):
                    await stream.send_all(b"".join(said))
                    await _linger(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._refused -= 1


async def _linger(stream: trio.abc.HalfCloseableStream) -> None:
    """Read what is still under way and forget it: closing in the face of unread data could destroy the last word."""
    with trio.move_on_after(LINGER_S):
        await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass
