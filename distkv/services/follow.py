"""Follows: being told of what some nodes made, as it comes to be held here.

Knows: which follows a connection has, and how one waits for disk, stream and silence.  Does not know in which order the
parts of a follow are sent (`streaming`), nor how commits find their followers (`engine.followers`).

Invariant: whatever ends a follow, it is told of nothing more; nothing is told before the node is ready: until then it
may have to void what it holds, and download (docs/protocol, LIFE-8).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, assert_never

import trio

from distkv.engine.driver import Driver
from distkv.engine.hub import wait
from distkv.errors import BusyError
from distkv.model.event import NodeName, Tick
from distkv.services.parts import foreign_error, is_foreign
from distkv.services.streaming import StreamEffect, Streaming
from distkv.services.telling import Durable, Send, SendNowait, Wait
from distkv.wire.following import encode_alive
from distkv.wire.replies import addressed, encode_end, encode_error, encode_start
from distkv.wire.request import Follow

SIGNS: Final = 3
"""A node of which nothing was heard while it should have given so many signs of life counts as gone."""

SendAll: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole frames, between others of the connection; returns when they have left."""


class Follows:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: SendAll, send_nowait: SendNowait, heard: Callable[[], int]) -> None:
        """`heard` gives the last `seq` that came on the connection."""
        self._driver = driver
        self._heard = heard
        self._send = send
        self._send_nowait = send_nowait
        self._open: dict[int, OpenFollow] = {}

    def begin(self, request: Follow) -> OpenFollow:
        """Take on a follow; what is returned is to be `run`.

        Raises:
            BusyError: this connection, or all clients, have too many already.
        """
        limit = self._driver.limits.event_waits
        if len(self._open) >= limit:
            raise BusyError(f"this connection has {len(self._open)} follows already: stop one, or open another one")
        self._driver.follow_limits.check(request.node)
        found = self._open[request.seq] = OpenFollow(
            self._driver, request, self._send, self._send_nowait, self._heard, self._forget
        )
        self._driver.follow_limits.begin(request.node, found)
        return found

    def stop(self, seq: int) -> bool:
        """End the follow that this request began; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.stop()
        return found is not None

    def held(self, seq: int, ticks: Mapping[NodeName, Tick]) -> bool:
        """The follower that began this follow says what it holds; whether that counts."""
        found = self._open.get(seq)
        return found is not None and found.held(ticks)

    def _forget(self, seq: int) -> None:
        del self._open[seq]


class OpenFollow:
    """One follow."""

    def __init__(
        self,
        driver: Driver,
        request: Follow,
        send: SendAll,
        send_nowait: SendNowait,
        heard: Callable[[], int],
        ended: Callable[[int], None],
    ) -> None:
        self._driver: Final = driver
        self._request: Final = request
        self._send_all: Final = send
        self._push: Final = send_nowait
        self._ended: Final = ended
        self._alive: Final = addressed(encode_alive(), request.seq)
        self._sent_at = trio.current_time()
        self._streaming: Streaming | None = None
        self._stopped: Final = trio.Event()
        self._heard: Final = heard

    def stop(self) -> None:
        """Let it come to its end, as soon as what is being sent has left."""
        self._stopped.set()
        if self._streaming is not None:
            self._streaming.follower.stop()

    def held(self, ticks: Mapping[NodeName, Tick]) -> bool:
        """The follower says that it holds what these nodes made up to these ticks. It counts if it is a registered node
        in its present life; whether such a node is ready it knows itself: else it follows nobody (LINK-1)."""
        name, holders = self._request.node, self._driver.hub.followers.holders
        registered = self._driver.replica.registry.nodes.get(name) if name is not None else None
        if name is None or registered is None or registered.life != self._request.life:
            return False
        holders.said(name, ticks)
        return True

    async def run(self) -> None:
        """Tell everything, until stopped or cancelled."""
        driver, request = self._driver, self._request
        try:
            await self._send(encode_start(request.seq))
            await self._while_silent(driver.wait_ready)
            if self._stopped.is_set():
                await self._send(encode_end(request.seq))
                return
            if is_foreign(request.network, driver.replica):  # (docs/protocol, LINK-1)
                driver.counters["follow_foreign"] += 1
                await self._send(encode_error(request.seq, foreign_error(driver.replica)))
                return
            followers = driver.hub.followers
            streaming = self._streaming = Streaming(driver, followers, request, self._send_nowait, self._told_events)
            async with trio.open_nursery() as nursery:
                if request.node is not None and driver.replica.name in request.nodes:
                    nursery.start_soon(self._see_node, request.node)
                while (effect := streaming.go_on()) is not None:
                    await self._do(effect, streaming)
                nursery.cancel_scope.cancel()
        finally:
            if self._streaming is not None:
                driver.hub.followers.remove(self._streaming.follower)
            driver.follow_limits.end(request.node, self)
            self._ended(request.seq)

    def _told_events(self, count: int) -> None:
        if self._request.node is not None:
            self._driver.traffic(self._request.node).events_out += count

    async def _see_node(self, name: NodeName) -> None:
        """Say that a node follows this one for what it makes, while something is heard of it."""
        driver, heard = self._driver, -1
        is_seen = False
        try:
            while True:
                before, heard = heard, self._heard()
                if (heard > before) != is_seen:
                    is_seen = not is_seen
                    (driver.follower_came if is_seen else driver.follower_went)(name)
                await trio.sleep(SIGNS * self._request.silent_s)
        finally:
            if is_seen:
                driver.follower_went(name)

    async def _do(self, effect: StreamEffect, streaming: Streaming) -> None:
        match effect:
            case Send(data=data):
                await self._send(data)
            case Durable(position=position):
                await self._driver.committer.wait_durable(position)
            case Wait():
                await self._while_silent(lambda: wait(streaming.follower))
            case _:
                assert_never(effect)

    async def _while_silent(self, wait_on: Callable[[], Awaitable[object]]) -> None:
        """Wait for something, or to be stopped; give signs of life meanwhile."""
        while not self._stopped.is_set():
            with trio.move_on_at(self._sent_at + self._request.silent_s):
                await wait_on()
                return
            if trio.current_time() >= self._sent_at + self._request.silent_s:
                await self._send(self._alive)

    async def _send(self, data: bytes) -> None:
        await self._send_all(data)
        self._sent_at = trio.current_time()

    def _send_nowait(self, data: bytes) -> bool:
        is_sent = self._push(data)
        if is_sent:
            self._sent_at = trio.current_time()
        return is_sent
