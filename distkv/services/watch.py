"""Watches: being told of every change at and below a path, or that one has to begin anew.

Knows: which watches a connection has, and how one waits for disk, stream and archive.  Does not know in which order
the parts of a watch are sent (`telling`), nor how changes find their watchers (`engine.feeds`).

Invariant: whatever ends a watch, it is told of nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, assert_never

from distkv.engine.driver import Driver
from distkv.engine.hub import wait
from distkv.errors import BusyError, RequestError
from distkv.services.telling import Answer, Durable, Effect, Rows, Send, SendNowait, Telling, Wait
from distkv.wire.replies import encode_error
from distkv.wire.subtrees import Watch

SendAll: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole frames, between others of the connection; returns when they have left."""


class Watches:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: SendAll, send_nowait: SendNowait) -> None:
        self._driver = driver
        self._send = send
        self._send_nowait = send_nowait
        self._open: dict[int, OpenWatch] = {}

    def begin(self, request: Watch) -> OpenWatch:
        """Watch from this moment on; what is returned is to be `run`.

        Raises:
            BusyError: this connection has too many already.
        """
        if len(self._open) >= self._driver.limits.watches:
            raise BusyError(f"this connection has {len(self._open)} watches already: stop one, or open another one")
        found = self._open[request.seq] = OpenWatch(self._driver, request, self._send, self._send_nowait, self._forget)
        return found

    def stop(self, seq: int) -> bool:
        """End the watch that this request began; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.stop()
        return found is not None

    def _forget(self, seq: int) -> None:
        del self._open[seq]


class OpenWatch:
    """One watch."""

    def __init__(
        self, driver: Driver, request: Watch, send: SendAll, send_nowait: SendNowait, ended: Callable[[int], None]
    ) -> None:
        self._driver: Final = driver
        self._request: Final = request
        self._send: Final = send
        self._ended: Final = ended
        self._telling: Final = Telling(driver, driver.hub, request, send_nowait)

    def stop(self) -> None:
        """Let it come to its end, as soon as what is being sent has left."""
        self._telling.watcher.stop()

    async def run(self) -> None:
        """Tell everything, until stopped or cancelled."""
        try:
            answer = None
            while (effect := self._telling.go_on(answer)) is not None:
                answer = await self._do(effect)
        except RequestError as error:  # the archive is busy, say: the watcher may ask again
            self._driver.counters[f"refused_{error.code}"] += 1
            await self._send(encode_error(self._request.seq, error))
        finally:
            self._driver.hub.remove(self._request.path, self._telling.watcher)
            self._ended(self._request.seq)

    async def _do(self, effect: Effect) -> Answer:
        driver = self._driver
        match effect:
            case Send(data=data):
                await self._send(data)
            case Durable(position=position):
                await driver.committer.wait_durable(position)
            case Wait():
                await wait(self._telling.watcher)
            case Rows(lsn=lsn, limit=limit):
                return None if driver.settler is None else await driver.settler.won_since(lsn, limit)
            case _:
                assert_never(effect)
        return None
