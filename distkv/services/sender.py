"""What leaves a connection: replies in their order, and parts of long answers between them.

Knows: when a reply may leave, and how bytes get into the connection.  Does not know what they say.

Invariant: replies leave in the order in which they were added; what shows an own event leaves only when that event is
durable; whole frames of one part are never torn by those of another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

import trio

from distkv.engine.commit import Committer
from distkv.services.origin import HERE, origin_of
from distkv.wire.codec import Payload, encode_payload

Part: TypeAlias = Payload | bytes | Callable[[], bytes]
"""Of a long answer; the last form is for what shall be looked up when it leaves, and not before."""


class Sender:
    """The way out of one connection. Beside the stream it writes straight into a plain socket that takes it at once."""

    def __init__(self, committer: Committer, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        self.socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        """None when the stream is none, or not only that (TLS)."""
        self.position = 0
        """What must be durable before the replies leave."""
        self.size = 0
        """How many bytes of replies have not left yet."""
        self._committer = committer
        self._stream = stream
        self._nursery = nursery  # of the connection
        self._replies: list[bytes] = []
        self._rest = b""  # of a frame that the socket took in part
        self._turn = trio.Lock()

    @property
    def peer_name(self) -> str:
        """The other end, for people."""
        try:
            name = None if self.socket is None else self.socket.getpeername()
        except OSError:
            name = None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a local socket"

    @property
    def origin(self) -> int:
        """From where the other end comes, as a number (see `origin_of`)."""
        try:
            return HERE if self.socket is None else origin_of(self.socket.getpeername(), self.socket.getsockname())
        except OSError:  # it has just ended
            return HERE

    def add(self, reply: bytes, position: int) -> None:
        """A reply; it leaves with the next flush, when so many records are durable (0: it shows nothing of our own)."""
        self._replies.append(reply)
        self.size += len(reply)
        if position > self.position:
            self.position = position

    def flush_nowait(self) -> bool:
        """Let the replies go, which may leave, if the socket takes all at once; False: `flush` has to go on."""
        if not self._replies:
            return not self._rest
        if not self._is_free:
            return False
        data = self._take()
        self._rest = data[self._write(data) :]
        return not self._rest

    def send_nowait(self, data: bytes) -> bool:
        """Send whole frames, whose content is durable, if the socket takes some of it at once; the rest follows.

        False: nothing was sent; `send` can wait. So a watcher is told of a change without a task that wakes up for it,
        which would cost twice the sending.
        """
        sent = self._write(data) if self._is_free else 0
        if 0 < sent < len(data):
            self._rest = data[sent:]
            self._nursery.start_soon(self.send, b"")
        return sent > 0

    async def flush(self) -> None:
        """Let the replies go, once what they show is durable.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: the other side is gone.
        """
        if not self._replies and not self._rest:
            return
        if self._committer.durable < self.position:
            await self._committer.wait_durable(self.position, self)
        await self.send(self._take())

    async def send(self, data: bytes) -> None:
        """Send whole frames, whose content is durable, between others; returns when they have left.

        A lock that is free is taken without the scheduler, which sending visits anyway: a profile showed that trip as a
        third of what a read costs.
        """
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            await self._send_all(data)
        finally:
            self._turn.release()

    async def send_part(self, seq: int, part: Part) -> None:
        """Send a part of a long answer between other replies; waits until what it shows is durable.

        It becomes bytes when its turn has come: of all open answers of a connection one part at a time is in memory.
        """
        committer = self._committer
        await committer.wait_durable(committer.appended, self)
        async with self._turn:
            if isinstance(part, bytes):
                data = part
            elif callable(part):
                data = part()
                await committer.wait_durable(committer.appended, self)
            else:
                data = encode_payload(seq, part)
            await self._send_all(data)

    async def _send_all(self, data: bytes) -> None:
        rest, self._rest = self._rest, b""
        await self._stream.send_all(rest + data)

    @property
    def _is_free(self) -> bool:
        return self.socket is not None and not self._rest and not self._turn.locked()

    def _write(self, data: bytes) -> int:
        """How much of it the socket takes now."""
        if self.socket is None:
            return 0
        try:
            return os.write(self.socket.fileno(), data)
        except OSError:  # it is full, or broken; whoever waits for it will see
            return 0

    def _take(self) -> bytes:
        data = self._replies[0] if len(self._replies) == 1 else b"".join(self._replies)
        self._replies.clear()
        self.size = 0
        return data
