"""One connection to another node, which requests share: exchanges, pulls, follows.

Knows: how to connect, which reply belongs to which request, deadlines.  Does not know what is asked or why, nor when a
connection is wanted (`pull`).

Invariant: a request ends within bounded time of the last that came for it, with an answer, with the error with which
the peer refused, or with one `PeerError`. What breaks one request breaks the connection, and all requests on it: so
nobody waits on half of one. Items are taken one after the other, so a peer cannot send more than is taken.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import attrs
import trio

from distkv.errors import DecodeError, DistkvError, PeerError, RequestError, SettingsError, TooLargeError
from distkv.model.event import NodeName
from distkv.naming import parse_address
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import Hello, decode_reply, is_end, is_start, read_hello, reply_error
from distkv.wire.request import Request

CONNECT_S: Final = 3.0
IDLE_S: Final = 10.0
"""How long a peer may be silent in the midst of an answer, or take nothing in."""
LINGER_S: Final = 10.0
"""How long a connection is kept on which nothing is asked or told."""
PROBE_S: Final = 5.0
"""How often a connection on which something is told, and nothing is asked, is seen to be good."""
RECEIVE_BYTES: Final = 1 << 18

Connect: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Host and port to a connection; raises OSError, or ValueError for a host that cannot be looked up."""
BREAKS: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)

Take: TypeAlias = Callable[[Fields], Awaitable[None]]


@attrs.define(eq=False)
class PeerCall:
    """One request, and what becomes of it."""

    take: Take
    idle_s: float = IDLE_S
    began: Callable[[], object] = lambda: None
    """Called when it is answered by a long result."""
    rested: Callable[[], object] = lambda: None
    """Called when all that came was taken, and something was for this."""
    seq: int = 0
    """Its number on the connection; 0: it was not sent yet."""
    deadline: float = 0.0
    """When it fails, if nothing more comes for it."""
    lasts: bool = False
    """Whether it goes on until somebody ends it."""
    node: NodeName | None = None
    """Who is to answer; None: whoever is there. Another node's answer fails this call, and no other one."""
    is_long: bool = False
    has_news: bool = False
    """Whether something was taken since it last rested."""
    is_wanted: bool = True
    """False: nobody waits for it any more; what comes for it is thrown away."""
    failure: DistkvError | None = None
    _ended: trio.Event = attrs.field(factory=trio.Event)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set()

    def end(self, failure: DistkvError | None) -> None:
        """Nothing more comes."""
        self.failure = failure
        self._ended.set()

    async def wait(self) -> None:
        """Until it has ended.

        Raises:
            RequestError, PeerError: with the failure that ended it.
        """
        await self._ended.wait()
        if self.failure is not None:
            raise self.failure


class PeerLine:
    """A connection to a node, from the attempt to open it to its end."""

    def __init__(
        self,
        addr: str,
        connect: Connect,
        answer_bytes_max: int,
        greeted: Callable[[Hello], object] = lambda _: None,
    ) -> None:
        """`greeted` is called when the peer has greeted; it may raise PeerError, which ends the connection."""
        self.addr: Final = addr
        self.greeting: Hello | None = None
        """What the peer said of itself."""
        self.is_over = False
        """Whether nothing can be asked on it any more."""
        self._connect: Final = connect
        self._reader: Final = FrameReader(answer_bytes_max)
        self._opened: Final = trio.Event()
        self._turn: Final = trio.Lock()
        self._reading: Final = trio.CancelScope()
        self._calls: Final = dict[int, PeerCall]()
        self._stream: trio.abc.Stream | None = None
        self._failure: DistkvError | None = None
        self._greeted: Final = greeted
        self._seq = 0
        self._rest_bytes = b""  # of what the socket took in part; it leaves before what is sent next
        self._unused_since = trio.current_time()
        self._probed_at = -PROBE_S
        self._pause = trio.CancelScope()

    @property
    def is_open(self) -> bool:
        """Whether the attempt to open it is over, and something can be said on it."""
        return self._stream is not None and not self.is_over

    async def run(self) -> None:
        """Open it, and read from it until it breaks, or nothing was asked for some time."""
        try:
            async with connected(self.addr, self._connect) as stream:
                self._stream = stream
                self._opened.set()
                with self._reading:
                    await self._read(stream)
        except (PeerError, RequestError) as error:
            self._failure = self._failure or error
        finally:
            self.is_over = True
            self._opened.set()
            for call in self._calls.values():
                call.end(self._no_more())
            self._calls.clear()

    @asynccontextmanager
    async def asking(self, request: Callable[[int], Request], call: PeerCall) -> AsyncIterator[None]:
        """Send what `request` makes of the number that it gets. When the block is left, nobody waits for `call` any
        more.

        Raises:
            RequestError, PeerError: it cannot be sent.
        """
        try:
            await self._send(request, call)
            yield
        finally:
            call.is_wanted = False

    async def say(self, request: Callable[[int], Request], call: PeerCall | None = None) -> None:
        """Send something whose answer nobody waits for. When that fails, the connection breaks."""
        with suppress(PeerError, RequestError):
            await self._send(request, call)

    def is_answering(self, call: PeerCall) -> bool:
        """Whether more may come for it, wanted or not."""
        return call.seq in self._calls

    def say_nowait(self, request: Callable[[int], Request]) -> bool:
        """Say something whose answer nobody waits for, if the socket takes it at once; False: it was not said."""
        return self._write_nowait(request, None)

    def tell_nowait(self, request: Callable[[int], Request]) -> bool:
        """The same, and it counts as a use of the connection, which is kept for a while longer. Now and then a sign of
        life is asked for: else nobody would see that the other end is gone."""
        is_said = self._write_nowait(request, self._probe())
        if is_said:
            self.keep()
        return is_said

    def keep(self) -> None:
        """It was used just now."""
        self._unused_since = trio.current_time()

    def _probe(self) -> PeerCall | None:
        """Of what is under way already it is seen, too, that the other end is gone."""
        if self._calls or trio.current_time() < self._probed_at + PROBE_S:
            return None
        return PeerCall(_take_nothing)

    def _write_nowait(self, request: Callable[[int], Request], probe: PeerCall | None) -> bool:
        """In one write, with a ping behind it if there is a `probe` to take the answer."""
        stream = self._stream
        if not isinstance(stream, trio.SocketStream) or self.is_over or self._rest_bytes or self._turn.locked():
            return False
        self._seq += 1
        data = encode_request(request(self._seq))
        if probe is not None:
            self._seq += 1
            data += encode_request(PingRequest(self._seq))
        try:
            sent = os.write(stream.socket.fileno(), data)
        except OSError:  # it is full, or broken: who reads it sees that
            return False
        if probe is not None:
            self._expect(probe)
            self._probed_at = trio.current_time()
        self._rest_bytes = data[sent:]
        return True

    def leave(self, why: PeerError) -> None:
        """Nothing more is to be asked on it: what lasts ends with this error, and it closes when the rest is
        answered."""
        self.is_over = True
        self._failure = self._failure or why
        for call in [call for call in self._calls.values() if call.lasts]:
            self._end(call, why)
        self._close_if_done()

    # -- out

    async def _send(self, request: Callable[[int], Request], call: PeerCall | None) -> None:
        await self._opened.wait()
        async with self._turn:
            if self.is_over or self._stream is None:
                raise self._no_more()
            self._seq += 1
            if call is not None:
                self._expect(call)
            try:
                rest, self._rest_bytes = self._rest_bytes, b""
                with trio.fail_after(IDLE_S):
                    await self._stream.send_all(rest + encode_request(request(self._seq)))
            except BaseException as error:  # it may have been sent in part
                self._failure = self._failure or _broken(self.addr, error)
                self._reading.cancel()
                if isinstance(error, BREAKS):
                    raise self._failure from error
                raise

    def _expect(self, call: PeerCall) -> None:
        call.seq, call.deadline = self._seq, trio.current_time() + call.idle_s
        self._calls[call.seq] = call
        self._pause.deadline = min(self._pause.deadline, call.deadline)

    def _no_more(self) -> DistkvError:
        return self._failure or PeerError(f"{self.addr}: the connection was ended")

    # -- in

    async def _read(self, stream: trio.abc.Stream) -> None:
        while True:
            data: bytes | None = None
            with trio.CancelScope(deadline=self._next_deadline()) as self._pause:
                data = await receive(stream)
            if data is None:
                if self._is_done_waiting():
                    return
            elif not data:
                if self._calls:
                    raise PeerError(f"{self.addr}: closed the connection before the answer was complete")
                return
            else:
                self._reader.feed(data)
                for frame in self._reader:
                    await self._take(decode_reply(frame))
                    if not self._reader.is_between_frames:
                        await trio.lowlevel.checkpoint()  # many may have come at once, and others want their turn
                self._rest()

    def _next_deadline(self) -> float:
        if not self._calls:
            return self._unused_since + LINGER_S
        return min(call.deadline for call in self._calls.values())

    def _is_done_waiting(self) -> bool:
        """Whether the connection is not used any more, now that a deadline was there; a request that is late fails."""
        now = trio.current_time()
        if any(now >= call.deadline for call in self._calls.values()):
            raise trio.TooSlowError
        return not self._calls and now >= self._unused_since + LINGER_S

    async def _take(self, fields: Fields) -> None:
        refusal = reply_error(fields)
        if self.greeting is None and refusal is None:
            self.greeting = read_hello(fields)
            self._greeted(self.greeting)
            for waiting in self._calls.values():
                waiting.deadline = trio.current_time() + waiting.idle_s
            return
        seq = fields["seq"]
        if seq == 0 and refusal is not None:
            self._failure = refusal
            raise PeerError(f"{self.addr}: refused the connection")
        call = self._calls.get(seq) if type(seq) is int else None
        if call is None:
            if type(seq) is not int or not 0 < seq <= self._seq:
                raise PeerError(f"{self.addr}: it answers what it was not asked")
            return  # the answer does not matter
        self._check_name(call)
        if refusal is not None or is_end(fields):
            self._end(call, refusal)
        elif is_start(fields):
            call.is_long = True
            if call.is_wanted:
                call.began()
        else:
            began = trio.current_time()
            if call.is_wanted:
                await call.take(dict(fields))
                call.has_news = True
            self._wait_longer(trio.current_time() - began)
            if not call.is_long:
                self._end(call, None)
        call.deadline = trio.current_time() + call.idle_s

    def _check_name(self, call: PeerCall) -> None:
        """Whoever answers at the address may be another node than the one that was asked. The call stays known here
        until its answer ends, or is stopped."""
        there = None if self.greeting is None else self.greeting.node
        if call.is_wanted and call.node is not None and call.node != there:
            call.is_wanted = False
            call.end(PeerError(f"{self.addr}: {there} answers there, and not {call.node}"))

    def _rest(self) -> None:
        for call in self._calls.values():
            if call.has_news:
                call.has_news = False
                call.rested()

    def _wait_longer(self, taken_s: float) -> None:
        """We read nothing for so long ourselves."""
        for call in self._calls.values():
            call.deadline += taken_s

    def _end(self, call: PeerCall, failure: DistkvError | None) -> None:
        del self._calls[call.seq]
        if not call.is_over:
            call.end(failure)
        self._unused_since = trio.current_time()
        self._close_if_done()

    def _close_if_done(self) -> None:
        """Whether it was left shows in that it is over while somebody reads from it."""
        if self.is_over and not self._calls:
            self._reading.cancel()


async def _take_nothing(_: Fields) -> None:
    """What comes does not matter, only that it does."""
    await trio.lowlevel.checkpoint()


async def receive(stream: trio.abc.Stream) -> bytes:
    """What has come, once something has.

    The stream itself would first try whether something has come: nearly always in vain, and not for nothing.
    """
    if not isinstance(stream, trio.SocketStream):
        return bytes(await stream.receive_some(RECEIVE_BYTES))
    while True:
        await trio.lowlevel.wait_readable(stream.socket)
        try:
            return os.read(stream.socket.fileno(), RECEIVE_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            raise trio.BrokenResourceError(f"receiving failed: {error}") from error


@asynccontextmanager
async def connected(addr: str, connect: Connect) -> AsyncIterator[trio.abc.Stream]:
    """A connection; what breaks it within the block is a PeerError."""
    try:
        host, port = parse_address(addr, "a peer's address")
        with trio.fail_after(CONNECT_S):
            stream = await connect(host, port)
    except trio.TooSlowError as error:
        raise PeerError(f"{addr}: cannot connect: no answer within {CONNECT_S:g} s") from error
    except (OSError, ValueError, SettingsError) as error:  # ValueError: the peer sent us to no possible host
        raise PeerError(f"{addr}: cannot connect: {_reason(error)}") from error
    async with stream:
        try:
            yield stream
        except BREAKS as error:
            raise _broken(addr, error) from error
        except (DecodeError, TooLargeError) as error:
            raise PeerError(f"{addr}: the answer cannot be read: {error}") from error


def _reason(error: Exception) -> str:
    """Why there is no connection. Of its attempts, one for each address of the host, trio says in the cause how they
    failed."""
    tries = error.__cause__
    if not isinstance(tries, ExceptionGroup):
        return str(error)
    numbers = {one.errno for one in tries.exceptions if isinstance(one, OSError) and one.errno is not None}
    return ", ".join(sorted(map(os.strerror, numbers))) or str(error)


def _broken(addr: str, error: BaseException) -> PeerError:
    why = "it is silent" if isinstance(error, trio.TooSlowError) else f"{type(error).__name__}: {error}"
    return PeerError(f"{addr}: the connection broke: {why}")
