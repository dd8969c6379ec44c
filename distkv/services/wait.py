"""Long polls: a peer is told as soon as this node holds later events than it knows of.

Knows: how many of them a connection may have, and what each is told at its end.  Does not know sessions, nor how an
event finds who waits for it (`engine.arrivals`).

Invariant: a wait has one reply: when there is something, when its time is over, or when it is stopped, whichever comes
first; what the reply shows is durable, and is not told before the node is ready: until then it may have to void what it
holds, and download (docs/protocol, LIFE-8).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from distkv.engine.driver import Driver
from distkv.errors import BusyError
from distkv.model.tick_ranges import TickRanges
from distkv.wire.fields import range_map
from distkv.wire.replies import encode_reply
from distkv.wire.request import EventsWait

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole frames, between others of the connection; returns when they have left."""


class ConnectionWaits:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: Send) -> None:
        self._driver = driver
        self._send = send
        self._open: dict[int, trio.CancelScope] = {}

    def begin(self, request: EventsWait) -> None:
        """Take on a wait, which is to be `run` then.

        Raises:
            BusyError: this connection has too many already.
        """
        if len(self._open) >= self._driver.limits.event_waits:
            raise BusyError(f"this connection waits {len(self._open)} times already: stop one, or open another one")
        self._open[request.seq] = trio.CancelScope()

    async def run(self, request: EventsWait) -> None:
        """Wait, and answer."""
        driver, scope = self._driver, self._open[request.seq]
        scope.deadline = trio.current_time() + request.timeout_s
        try:
            with scope:
                await driver.wait_ready()
                with driver.arrivals.expect(request.nodes, others=request.others) as expectation:
                    while not self._held(request):
                        await expectation.wait()
            held = self._held(request) if driver.replica.is_serving else {}
            if held:
                await driver.committer.wait_durable(driver.position)
            await self._send(encode_reply(request.seq, {"held": range_map(held)}))
        finally:
            del self._open[request.seq]  # only now: of who reads no replies no more of them may pile up

    def stop(self, seq: int) -> bool:
        """Let the wait that this request began answer at once; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.cancel()
        return found is not None

    def _held(self, request: EventsWait) -> TickRanges:
        return self._driver.replica.tree.ledger.held_beside(request.nodes, others=request.others)
