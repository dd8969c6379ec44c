"""The long answers of one connection: those that are sent in parts, between other replies.

Knows: how many may be open, and how many are made at a time.  Does not know what is in them.

Invariant: of all that are open, a few are being made; the others cost their request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from distkv.engine.driver import Driver
from distkv.errors import RequestError
from distkv.services.sender import Part, Sender
from distkv.wire.replies import encode_error

MADE_MAX: Final = 4
"""So many are made at a time. Each keeps a list of what is still to be sent, which a client that reads nothing must not
make us keep a thousand times; further ones wait."""

SendPart: TypeAlias = Callable[[int, Part], Awaitable[None]]
LongAnswer: TypeAlias = Callable[[SendPart], Awaitable[None]]
"""Gives an answer in parts, each with its seq."""


class LongAnswers:
    """Those of one connection, as tasks of its nursery."""

    def __init__(self, driver: Driver, sender: Sender, nursery: trio.Nursery) -> None:
        self._driver = driver
        self._sender = sender
        self._nursery = nursery
        self._open_count = 0
        self._making = trio.CapacityLimiter(MADE_MAX)
        self._ended = trio.Event()

    @property
    def are_too_many(self) -> bool:
        """Whether nothing more should be read before one of them has ended: back-pressure."""
        return self._open_count >= self._driver.limits.open_requests

    async def wait_fewer(self) -> None:
        """Wait while there are too many."""
        while self.are_too_many:
            self._ended = trio.Event()
            await self._ended.wait()

    def start(self, seq: int, answer: LongAnswer) -> None:
        """Begin to give an answer."""
        self._open_count += 1
        self._nursery.start_soon(self._run, seq, answer)

    async def _run(self, seq: int, answer: LongAnswer) -> None:
        try:
            async with self._making:
                await answer(self._sender.send_part)
        except RequestError as error:
            self._driver.counters[f"refused_{error.code}"] += 1
            await self._sender.send_part(seq, encode_error(seq, error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception as error:
            failure = self._driver.faults.contain(error, "a long answer")
            await self._sender.send_part(seq, encode_error(seq, failure))
        finally:
            self._open_count -= 1
            self._ended.set()
