"""What a call to the Serf agent can come to, and the stream of records that some calls open.

Knows: the typed errors, and a bounded queue that marks its losses.  Does not know connections or bytes.

Invariant: `put` never waits; records come out in order, and an `Overflow` stands exactly where some were dropped.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

import attrs
import trio

from distkv.errors import TransportError
from distkv.wire.serf_frames import Record

RECORDS_MAX: Final = 4096
"""Records that wait for the consumer of one stream."""


class RpcTimeoutError(TransportError):
    """The agent did not answer in time. It may still do what was asked."""


class RpcRefusedError(TransportError):
    """The agent answered with an error; `text` is what it said."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class RpcLostError(TransportError):
    """The connection is gone; so are all its calls and streams."""


class AuthRefusedError(TransportError):
    """The agent wants another key, one where we have none, or none where we have one. Retrying does not help."""


@attrs.frozen(slots=True)
class Overflow:
    """In a stream: at this place so many records were dropped."""

    count: int


Item: TypeAlias = Record | Overflow


class RecordStream:
    """What an agent sends after `stream`, in order, with a mark where records were dropped."""

    def __init__(self, seq: int, records_max: int) -> None:
        self.seq = seq
        self._records_max = records_max
        self._items: deque[Item] = deque()
        self._dropped = 0
        self._news = trio.Event()
        self._end: str | None = None

    async def receive(self) -> Item:
        """The next record; waits for it.

        Raises:
            RpcLostError: nothing comes any more, as the connection is gone, and all that had come before is read.
        """
        while True:
            if self._items:
                await trio.lowlevel.checkpoint()
                return self._items.popleft()
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                await trio.lowlevel.checkpoint()
                return Overflow(dropped)
            if self._end is not None:
                raise RpcLostError(self._end)
            await self._news.wait()
            self._news = trio.Event()

    def put(self, record: Record) -> None:
        """For the connection's reader: never waits. Once full it drops until half is read: few marks, not many."""
        if self._end is not None:
            return
        if len(self._items) >= self._records_max // (2 if self._dropped else 1):
            self._dropped += 1
            return
        if self._dropped:
            self._items.append(Overflow(self._dropped))
            self._dropped = 0
        self._items.append(record)
        self._news.set()

    def end(self, reason: str) -> None:
        """For the connection's reader: nothing comes any more."""
        self._end = reason
        self._news.set()
