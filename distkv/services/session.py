"""One connection: frames in, replies out, in order and only when they are true.

Knows: the order of replies, when they may leave, and the limits of one connection.  Does not know what a request does
(`kv`, `tree`, `watch`, `status`, `peer`).

Invariant: the replies of one read leave in one send, after one wait for the commit that covers them all; a reply that
shows an own event leaves only when that event is durable.  What is not msgpack gets one error reply, then a close.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, assert_never

import trio

from distkv import __version__
from distkv.engine.driver import Driver
from distkv.errors import BusyError, DecodeError, DistkvError, RequestError, TooLargeError
from distkv.services import backup, history, kv, peer, status, tree
from distkv.services.watch import Watches
from distkv.wire.codec import Payload
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.replies import Hello, encode_error, encode_hello, encode_payload, encode_reply
from distkv.wire.request import (
    Backup,
    Batch,
    DeleteTree,
    ExchangeRequest,
    GetEvents,
    GetHistory,
    GetSnapshot,
    GetState,
    GetTree,
    GetValue,
    GetValueAt,
    ListNames,
    PingRequest,
    Request,
    SetValue,
    Stop,
    Watch,
)

RECEIVE_BYTES: Final = 1 << 16
LINGER_S: Final = 1.0
"""How long a connection that is refused is still read, so that the refusal arrives."""
LONG_ANSWERS_MAX: Final = 4
"""Long answers of one connection that are made at a time. Each keeps a list of what is still to be sent, which a client
that reads nothing must not make us keep a thousand times; further ones wait."""

Part: TypeAlias = Payload | bytes | Callable[[], bytes]
"""Of a long answer; the last form is for what shall be looked up when it leaves, and not before."""
LongAnswer: TypeAlias = Callable[[Callable[[int, Part], Awaitable[None]]], Awaitable[None]]
"""Gives an answer in parts, each with its seq."""

VERSION: Final = tuple(int(part) for part in __version__.split(".")[:3])


class Session:
    """Serves one connection until it ends."""

    def __init__(self, driver: Driver, stream: trio.abc.Stream) -> None:
        self._driver = driver
        self._stream = stream
        self._replies: list[bytes] = []
        self._reply_bytes = 0
        self._position = 0  # what must be durable before the replies leave
        self._seq = 0
        self._sending = trio.Lock()
        self._rest = b""  # what the socket did not take of what was sent without waiting: it leaves first
        self._open_count = 0
        self._answering = trio.CapacityLimiter(LONG_ANSWERS_MAX)
        self._ended = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._watches = Watches(driver, self._send, self._send_now)

    async def serve(self) -> None:
        """Greet, then answer until the other side closes or breaks the protocol."""
        try:
            async with self._stream:
                await self._greet()
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    is_sound = await self._serve_requests()
                    nursery.cancel_scope.cancel()
                if not is_sound:
                    await _linger(self._stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            self._driver.counters["connection_lost"] += 1

    async def _greet(self) -> None:
        """Say who we are; tick, life and network are own words too, and leave when they are durable."""
        hello = self._hello()
        await self._driver.committer.wait_durable(self._driver.position, self)
        await self._stream.send_all(hello)

    async def _serve_requests(self) -> bool:
        """Answer until the other side closes. False: it broke the protocol, and was told so."""
        reader = FrameReader(self._driver.limits.request_bytes)
        while data := await self._stream.receive_some(RECEIVE_BYTES):
            reader.feed(bytes(data))
            try:
                for frame in reader:
                    await self._wait_for_turn()
                    slow = self._answer(frame)
                    if slow is not None:
                        await self._answer_slowly(slow)
                    if self._reply_bytes > self._driver.limits.reply_bytes or self._is_overfull():
                        await self._flush()
            except (DecodeError, TooLargeError) as error:
                self._driver.counters[f"bad_stream_{error.code}"] += 1
                self._reply(encode_error(0, error))
                await self._flush()
                return False
            await self._flush()
        return True

    # -- one request

    def _answer(self, frame: bytes) -> DeleteTree | GetValueAt | None:
        """Answer a request; what cannot be answered at once, and must be before the next one, is given back."""
        request = decode_request(frame)
        if isinstance(request, BadRequest):
            self._refuse(request.seq, request.error)
            self._seq = max(self._seq, request.seq)
            return None
        if request.seq <= self._seq:
            self._refuse(request.seq, RequestError(f"seq must rise: {request.seq} comes after {self._seq}"))
            return None
        self._seq = request.seq
        if isinstance(request, DeleteTree | GetValueAt):
            return request
        try:
            self._dispatch(request, len(frame))
        except RequestError as error:
            self._refuse(request.seq, error)
        return None

    async def _answer_slowly(self, request: DeleteTree | GetValueAt) -> None:
        await self._flush()  # it may take long, which what came before it need not
        try:
            if isinstance(request, DeleteTree):
                self._reply(await tree.delete_tree(self._driver, request), when_durable=True)
            else:
                self._reply(await history.get_value_at(self._driver, request), when_durable=True)
        except RequestError as error:
            self._refuse(request.seq, error)

    def _dispatch(self, request: Request, size: int) -> None:
        """Answer at once, or start what answers later."""
        driver = self._driver
        match request:
            case GetValue():
                reply, is_durable = kv.get_value(driver, request)
                self._reply(reply, when_durable=not is_durable)
            case SetValue():
                self._reply(kv.set_value(driver, request, size), when_durable=True)
            case Batch():
                self._reply(kv.batch(driver, request, size), when_durable=True)
            case ListNames():
                self._reply(tree.list_names(driver, request), when_durable=True)
            case GetTree():
                self._start(request.seq, lambda send: tree.send_tree(driver, request, send))
            case GetState():
                self._reply(status.get_state(driver, request), when_durable=True)
            case PingRequest():
                self._reply(encode_reply(request.seq, {}))
            case Watch():
                self._watch(request)
            case Stop(task=task):
                self._reply(encode_reply(request.seq, {"stopped": self._watches.stop(task)}))
            case GetEvents():
                self._start(request.seq, lambda send: peer.send_events(driver, request, send))
            case GetSnapshot():
                self._start(request.seq, lambda send: peer.send_snapshot(driver, request, send))
            case ExchangeRequest():
                self._reply(peer.exchange(driver, request), when_durable=True)
            case GetHistory():
                self._start(request.seq, lambda send: history.send_history(driver, request, send))
            case Backup():
                self._start(request.seq, lambda send: backup.send_backup(driver, request, send))
            case DeleteTree() | GetValueAt():
                raise TypeError("takes its time: see _answer")
            case _:
                assert_never(request)

    def _refuse(self, seq: int, error: DistkvError) -> None:
        self._driver.counters[f"refused_{error.code}"] += 1
        self._reply(encode_error(seq, error))

    def _reply(self, reply: bytes, *, when_durable: bool = False) -> None:
        self._replies.append(reply)
        self._reply_bytes += len(reply)
        if when_durable:
            self._position = self._driver.position

    # -- long answers

    async def _wait_for_turn(self) -> None:
        """While too many long answers are open, read nothing more: back-pressure."""
        while self._open_count >= self._driver.limits.open_requests:
            await self._flush()
            self._ended = trio.Event()
            await self._ended.wait()

    def _start(self, seq: int, answer: LongAnswer) -> None:
        if self._nursery is not None:
            self._open_count += 1
            self._nursery.start_soon(self._run, seq, answer)

    async def _run(self, seq: int, answer: LongAnswer) -> None:
        try:
            async with self._answering:
                await answer(self._send_part)
        except RequestError as error:
            self._driver.counters[f"refused_{error.code}"] += 1
            await self._send_part(seq, encode_error(seq, error))
        finally:
            self._open_count -= 1
            self._ended.set()

    async def _send_part(self, seq: int, part: Part) -> None:
        """Send a part of a long answer between other replies; waits until what it shows is durable.

        It becomes bytes when its turn has come: of all open answers of a connection one part at a time is in memory.
        """
        committer = self._driver.committer
        await committer.wait_durable(self._driver.position, self)
        async with self._sending:
            if isinstance(part, bytes):
                data = part
            elif callable(part):
                data = part()
                await committer.wait_durable(self._driver.position, self)
            else:
                data = encode_payload(seq, part)
            await self._send_locked(data)

    def _watch(self, request: Watch) -> None:
        """It never ends by itself: so it does not count as an open answer, for which reading may have to wait."""
        if self._nursery is not None:
            self._nursery.start_soon(self._watches.begin(request).run)

    # -- sending

    async def _flush(self) -> None:
        """Let the replies go, once what they show is durable."""
        if not self._replies:
            return
        committer = self._driver.committer
        if committer.durable < self._position:
            await committer.wait_durable(self._position, self)
        data = b"".join(self._replies)
        self._replies.clear()
        self._reply_bytes = 0
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Send what is durable, between other answers.

        A lock that is free is taken without the scheduler, which sending visits anyway: a profile showed that trip as a
        third of what a read costs.
        """
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            await self._send_locked(data)
        finally:
            self._sending.release()

    async def _send_locked(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        await self._stream.send_all(data)

    def _send_now(self, data: bytes) -> bool:
        """Send what is durable, if nothing else is being sent and the socket takes some of it; the rest follows.

        So a watcher is told of a change without a task that wakes up for it, which would cost twice the sending.
        """
        if not isinstance(self._stream, trio.SocketStream) or self._sending.locked() or self._rest:
            return False
        try:
            sent = os.write(self._stream.socket.fileno(), data)
        except OSError:  # it takes nothing now, or is closed: whoever waits to send will see
            return False
        if sent < len(data) and self._nursery is not None:
            self._rest = data[sent:]
            self._nursery.start_soon(self._send, b"")
        return True

    def _is_overfull(self) -> bool:
        return self._driver.committer.waiting_bytes > self._driver.limits.uncommitted_bytes

    def _hello(self) -> bytes:
        replica = self._driver.replica
        network = replica.network.id if replica.network is not None else None
        return encode_hello(
            Hello((VERSION[0], VERSION[1], VERSION[2]), replica.name, replica.tick, replica.tock,
                  replica.state, network, replica.life or 0)
        )


async def serve_listeners(driver: Driver, listeners: Sequence[trio.abc.Listener[trio.abc.Stream]]) -> None:
    """Serve every connection, until cancelled; beyond the limit a connection gets `busy` and is closed."""
    open_count = 0

    async def handle(stream: trio.abc.Stream) -> None:
        nonlocal open_count
        if open_count >= driver.limits.connections:
            driver.counters["connections_refused"] += 1
            await _turn_away(
                stream,
                BusyError(f"{driver.replica.name} has {open_count} connections open already: try again later"),
            )
            return
        open_count += 1
        try:
            await Session(driver, stream).serve()
        finally:
            open_count -= 1

    await trio.serve_listeners(handle, list(listeners))


async def _turn_away(stream: trio.abc.Stream, error: BusyError) -> None:
    """Say why, and close; whoever is gone already is not missed."""
    try:
        async with stream:
            with trio.move_on_after(LINGER_S):
                await stream.send_all(encode_error(0, error))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def _linger(stream: trio.abc.Stream) -> None:
    """Read what is still under way and forget it: closing in the face of unread data could destroy the last reply."""
    with trio.move_on_after(LINGER_S):
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass
