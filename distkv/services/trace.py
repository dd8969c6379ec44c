"""Traces: being told of every step of the node, as a long result that only `stop` ends.

Knows: what one is sent.  Does not know what a step shows (`graph.recorder`), nor what waits for whom (`engine.trace`).

Invariant: answered in every state; nothing is told that is not durable, and what was not told is counted there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from distkv.engine.driver import Driver
from distkv.engine.trace import Listener
from distkv.wire.node_requests import TraceSteps
from distkv.wire.replies import encode_end, encode_reply

PART_MOMENTS: Final = 100
"""Sent at a time."""

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole frames, between others of the connection; returns when they have left."""


class Traces:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: Send) -> None:
        self._driver = driver
        self._send = send
        self._open: dict[int, Listener] = {}

    def begin(self, request: TraceSteps) -> None:
        """Listen from this moment on; it is to be `run` then.

        Raises:
            BusyError: the node has too many listeners already.
        """
        self._open[request.seq] = self._driver.tracing.listen(self._driver.position)

    async def run(self, request: TraceSteps) -> None:
        """Tell everything, until stopped or cancelled."""
        seq, listener = request.seq, self._open[request.seq]
        try:
            start = {"state": "start", "node": self._driver.replica.name, "time": time.time()}
            await self._send(encode_reply(seq, start))
            while listener.has_news or not listener.is_stopped:
                await listener.wait()
                await self._tell(seq, listener)
            await self._send(encode_end(seq))
        finally:
            self._driver.tracing.forget(listener)
            del self._open[seq]

    def stop(self, seq: int) -> bool:
        """End the trace that this request began; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.stop()
        return found is not None

    async def _tell(self, seq: int, listener: Listener) -> None:
        taken, lost = listener.take(PART_MOMENTS)
        if taken:
            await self._driver.committer.wait_durable(taken[-1][0])
            await self._send(b"".join(encode_reply(seq, {"moment": moment.to_dict()}) for _, moment in taken))
        if lost:
            await self._send(encode_reply(seq, {"lost": lost, "time": time.time()}))
