"""Requests to other nodes over TCP: exchanges, pulls, downloads.

Knows: how to connect, ask one thing, and read the answer with deadlines.  Does not know what is asked or why.

Invariant: a call ends within bounded time of the last sign of life of the peer, and every failure is one `PeerError`
or the error with which the peer refused.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import trio

from distkv.errors import DecodeError, DistkvError, PeerError, SettingsError, TooLargeError
from distkv.model.event import NodeName, Tick
from distkv.model.tick_ranges import TickRanges, up_to
from distkv.naming import parse_address
from distkv.wire.asking import encode_request
from distkv.wire.codec import Payload, read_payload
from distkv.wire.fields import Fields, read_ranges
from distkv.wire.following import FollowItem, read_item
from distkv.wire.framing import FrameReader
from distkv.wire.replies import decode_reply, is_end, is_start, read_hello, reply_error
from distkv.wire.request import EventsWait, Follow, PingRequest, Request

CONNECT_S: Final = 3.0
IDLE_S: Final = 10.0
"""How long a peer may be silent in the midst of an answer."""
ANSWER_BYTES_MAX: Final = 64 << 20
"""The largest single frame of an answer: the ledger of a snapshot."""
RECEIVE_BYTES: Final = 1 << 18
SEQ: Final = 1
"""Of the request for which a connection is opened."""

Connect: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Host and port to a connection; raises OSError, or ValueError for a host that cannot be looked up."""
Take: TypeAlias = Callable[[Fields], Awaitable[None]]
TakeItem: TypeAlias = Callable[[FollowItem], Awaitable[None]]
Measured: TypeAlias = Callable[[float], None]
"""Is told how long a round trip took, in seconds."""


class PeerCaller:
    """Opens a connection per request: they are few, and a broken one then disturbs nothing else. A follow keeps its
    connection."""

    def __init__(
        self, *, connect: Connect = trio.open_tcp_stream, answer_bytes_max: int = ANSWER_BYTES_MAX
    ) -> None:
        self._connect = connect
        self._answer_bytes_max = answer_bytes_max

    async def call(self, addr: str, request: Request, take: Callable[[Payload], Awaitable[None]]) -> None:
        """Send `request` (whose seq is 1) to `addr` (HOST:PORT) and hand every item of the answer to `take`.

        Raises:
            RequestError: the peer refused; it is the peer's error.
            PeerError: it cannot be reached, fell silent, or does not speak the protocol.
        """

        async def take_fields(fields: Fields) -> None:
            await take(read_payload(fields))

        await self._call(addr, request, take_fields)

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        """Wait until the node at `addr` durably holds later events than these; none after some seconds.

        Raises:
            RequestError, PeerError: as `call`.
        """
        found: TickRanges = {}

        async def take_fields(fields: Fields) -> None:
            found.update(read_ranges(fields.get("held"), "held"))

        await self._call(addr, EventsWait(1, up_to(nodes), IDLE_S / 2), take_fields)
        return found

    async def follow(
        self,
        addr: str,
        request: Follow,
        silent_s: float,
        began: Callable[[], None],
        take: TakeItem,
        measured: Measured = lambda _: None,
    ) -> None:
        """Follow the node at `addr`, and hand every item to `take`, until it ends; `began`: it answers. The node is
        told all the time that it is heard, and its answers to that are `measured`.

        Raises:
            RequestError: it refuses, or ends it.
            PeerError: it cannot be reached, was silent for `silent_s`, or does not speak the protocol.
        """

        async def take_fields(fields: Fields) -> None:
            await take(read_item(fields))
            await trio.lowlevel.checkpoint()  # many may have come at once, and others want their turn between them

        async with self._connected(addr) as stream:
            seqs, every_s = itertools.count(SEQ + 1), request.silent_s
            say_at = trio.current_time() + every_s
            timed: tuple[int, float] | None = None  # one at a time: whoever never answers costs no memory

            def answered(seq: object) -> None:
                nonlocal timed
                if timed is not None and timed[0] == seq:
                    measured(trio.current_time() - timed[1])
                    timed = None

            async def receive() -> bytes | bytearray:
                nonlocal say_at, timed
                deadline = trio.current_time() + silent_s
                while trio.current_time() < deadline:
                    if trio.current_time() >= say_at:
                        say_at = trio.current_time() + every_s
                        ping = PingRequest(next(seqs))
                        timed = timed or (ping.seq, trio.current_time())
                        await self._send(stream, ping)
                    with trio.move_on_at(min(deadline, say_at)):
                        return await stream.receive_some(RECEIVE_BYTES)
                raise trio.TooSlowError("it is silent")

            await self._send(stream, request)
            refusal = await self._read_answer(addr, receive, take_fields, began, answered)
        raise refusal or PeerError(f"{addr}: ended the follow")

    async def _call(self, addr: str, request: Request, take: Take) -> None:
        async with self._connected(addr) as stream:

            async def receive() -> bytes | bytearray:
                with trio.fail_after(IDLE_S):
                    return await stream.receive_some(RECEIVE_BYTES)

            await self._send(stream, request)
            refusal = await self._read_answer(addr, receive, take)
        if refusal is not None:
            raise refusal

    @asynccontextmanager
    async def _connected(self, addr: str) -> AsyncIterator[trio.abc.Stream]:
        """A connection; what breaks it within the block is a PeerError."""
        try:
            host, port = parse_address(addr, "a peer's address")
            with trio.fail_after(CONNECT_S):
                stream = await self._connect(host, port)
        except trio.TooSlowError as error:
            raise PeerError(f"{addr}: cannot connect: no answer within {CONNECT_S:g} s") from error
        except (OSError, ValueError, SettingsError) as error:  # ValueError: the peer sent us to no possible host
            raise PeerError(f"{addr}: cannot connect: {_reason(error)}") from error
        async with stream:
            try:
                yield stream
            except (trio.BrokenResourceError, trio.TooSlowError) as error:
                raise PeerError(f"{addr}: the connection broke: {type(error).__name__}: {error}") from error
            except (DecodeError, TooLargeError) as error:
                raise PeerError(f"{addr}: the answer cannot be read: {error}") from error

    async def _send(self, stream: trio.abc.Stream, request: Request) -> None:
        with trio.fail_after(IDLE_S):
            await stream.send_all(encode_request(request))

    async def _read_answer(
        self,
        addr: str,
        receive: Callable[[], Awaitable[bytes | bytearray]],
        take: Take,
        began: Callable[[], None] = lambda: None,
        answered: Callable[[object], None] = lambda _: None,
    ) -> DistkvError | None:
        """Take a whole answer; what is returned is the peer's refusal."""
        reader = FrameReader(self._answer_bytes_max)
        is_greeted = is_long = False
        while True:
            data = await receive()
            if not data:
                raise PeerError(f"{addr}: closed the connection before the answer was complete")
            reader.feed(bytes(data))
            for frame in reader:
                fields = decode_reply(frame)
                error = reply_error(fields)
                if error is not None:
                    return error
                if not is_greeted:
                    read_hello(fields)
                    is_greeted = True
                elif fields["seq"] != SEQ:
                    answered(fields["seq"])  # a sign of life
                elif is_start(fields):
                    is_long = True
                    began()
                elif is_end(fields):
                    return None
                else:
                    await take(dict(fields))
                    if not is_long:
                        return None


def _reason(error: Exception) -> str:
    """Why there is no connection. Of its attempts, one for each address of the host, trio says in the cause how they
    failed."""
    tries = error.__cause__
    if not isinstance(tries, ExceptionGroup):
        return str(error)
    numbers = {one.errno for one in tries.exceptions if isinstance(one, OSError) and one.errno is not None}
    return ", ".join(sorted(map(os.strerror, numbers))) or str(error)
