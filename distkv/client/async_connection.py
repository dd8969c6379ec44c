"""One connection that many tasks use at once, made again when it breaks.

Knows: sockets and tasks as anyio shows them, under trio and under asyncio.  Does not know what is said (`protocol`)
nor what it means (`questions`).

Invariant: what a task asks is sent whole or not at all, whatever becomes of the task; a task that waits is woken by an
answer, by a break, or by its deadline.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from typing import Final, Generic

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute

from distkv.client import failures
from distkv.client.addresses import Address, UnixAddress, address_text, in_turn
from distkv.client.background import BackgroundTask
from distkv.client.protocol import Asker, Backoff, Call, ClientProtocol
from distkv.client.questions import Answer, Question, ping
from distkv.errors import DistkvError, PeerError, UnreachableError
from distkv.wire.fields import Fields
from distkv.wire.replies import Hello

RECEIVE_BYTES: Final = 1 << 16


async def open_connection(
    addresses: Sequence[Address], *, connect_s: float, reply_s: float, open_max: int
) -> AsyncConnection:
    """A connection to the first of `addresses` where a node greets, until it is closed.

    Raises:
        UnreachableError, PeerError, BusyError: as `connection.open_connection`.
    """
    link = _Link(await _open_first(addresses, connect_s))
    return AsyncConnection(addresses, link, connect_s=connect_s, reply_s=reply_s, open_max=open_max)


class AsyncConnection:
    """A connection for many tasks, which lasts."""

    def __init__(
        self, addresses: Sequence[Address], link: _Link, *, connect_s: float, reply_s: float, open_max: int
    ) -> None:
        self._addresses: Final = tuple(addresses)
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._link: _Link = link
        self._room: Final = anyio.Semaphore(open_max)
        self._backoff: Final = Backoff()
        self._need: Final = _Need()
        self._lines: Final[set[GreetedStream[None]]] = set()
        self._background: Final = BackgroundTask(self._serve)

    @property
    def hello(self) -> Hello:
        """How the node greeted, when it was connected last."""
        return self._link.line.hello

    @property
    def name(self) -> str:
        """The address of the node that was connected last."""
        return self._link.line.name

    async def aclose(self) -> None:
        """End it for good, from any task; who waits for something gets `UnreachableError`. May be called again."""
        try:
            await self._background.end()
        finally:
            await self._leave()

    async def ask(self, question: Question[Answer]) -> Answer:
        """Ask, and ask again where that is allowed, until there is an answer or the time is over.

        When it is cancelled, the question may be carried out all the same; other questions are not disturbed.

        Raises:
            UnreachableError: no node answers.
            ConnectionLostError: it is unknown whether a write took place.
            DistkvError: the refusal.
        """
        call = Call(question)
        waiter: _Waiter | None = None
        with anyio.move_on_after(self._reply_s + question.wait_s):
            while waiter is None or waiter.answer is None:
                if waiter is not None:
                    call.lose(waiter.link.failure)
                waiter = None
                waiter = await self._send(call)
                await waiter.event.wait()
        if waiter is not None and waiter.answer is not None:
            self._backoff.reset()
            return call.conclude(waiter.answer)
        if waiter is not None:
            waiter.link.stop(failures.silent(self.name))
            raise call.give_up(waiter.link.failure)
        raise call.give_up(self._need.failure or failures.silent(self.name))

    # -- long results, each on a line of its own

    async def open_line(self, question: Question[Answer]) -> GreetedStream[None]:
        """One more connection, to the same node if it can be, on which a long question was asked."""
        self._need.check(self.name)
        try:
            line: GreetedStream[None] = await _open_first(self._in_turn(), self._connect_s)
        except UnreachableError:
            await self.ask(ping())  # which waits until there is a node again
            line = await _open_first(self._in_turn(), self._connect_s)
        self._lines.add(line)
        try:
            self._need.check(self.name)  # whoever closed the client meanwhile has not seen this line
            await line.stream.send(line.conversation.ask(question, None, is_long=True))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # whoever reads will see it too
        except BaseException:
            await self.close_line(line)
            raise
        return line

    async def receive(
        self, line: GreetedStream[None], reply_s: float | None = None
    ) -> list[Fields | DistkvError | None]:
        """What comes next on it: one thing or more."""
        found: list[Fields | DistkvError | None] = []
        self._need.check(line.name)
        with anyio.move_on_after(self._reply_s if reply_s is None else reply_s):
            while not found:
                try:
                    data = await _receive(line.stream, line.name)
                except UnreachableError:
                    self._need.check(line.name)  # it is we who closed it
                    raise
                found += [answered.answer for answered in line.conversation.feed(data)]
                if line.conversation.failure is not None:
                    found.append(line.conversation.failure)
            return found
        raise failures.silent(line.name)

    async def close_line(self, line: GreetedStream[None]) -> None:
        """May be called again."""
        self._lines.discard(line)
        await _close(line.stream)

    @property
    def is_over(self) -> bool:
        """Whether the client is closed."""
        return self._need.is_over

    async def pause(self, pauses: Backoff) -> None:
        """Wait before something is tried again."""
        await anyio.sleep(pauses.next_s(random.random()))

    # -- inside

    async def _serve(self) -> None:
        """Serve those who ask, until cancelled."""
        try:
            while True:
                await self._link.serve(self._room)
                await self._connect_again()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._need.end()
        await self._link.close()
        for line in list(self._lines):
            await self.close_line(line)

    async def _send(self, call: Call[Answer]) -> _Waiter:
        """Send a question as soon as there is a connection, and room for it."""
        while True:
            while self._link.is_broken:
                self._need.check(self.name)
                await self._need.wait_met()
            await self._room.acquire()
            link = self._link
            if not link.is_broken:
                break
            self._room.release()
        try:
            call.begin(link.line.hello.node)
            return link.ask(call.question)
        except BaseException:
            self._room.release()
            raise

    async def _connect_again(self) -> None:
        """As soon as somebody needs it; with pauses that grow for as long as somebody does."""
        while True:
            await self._need.wait()
            await anyio.sleep(self._backoff.next_s(random.random()))
            try:
                self._link = _Link(await _open_first(self._in_turn(), self._connect_s))
            except DistkvError as error:  # whatever it is, it may be over soon: something starts, or makes room
                self._need.failure = UnreachableError(str(error))
            else:
                self._need.meet()
                return

    def _in_turn(self) -> Sequence[Address]:
        return in_turn(self._addresses, self._link.line.address)


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Waiter:
    """A task that waits for its answer."""

    link: _Link
    event: anyio.Event = attrs.field(factory=anyio.Event)
    answer: Fields | DistkvError | None = None
    """None when it is woken: the connection broke."""

    def wake(self, answer: Fields | DistkvError | None) -> None:
        self.answer = answer
        self.event.set()


@attrs.define(eq=False)
class _Need:
    """That some tasks wait for a connection."""

    failure: UnreachableError | None = None
    """Why the last attempt to connect was in vain."""
    _count: int = 0
    is_over: bool = False
    _arose: anyio.Event = attrs.field(factory=anyio.Event)
    _met: anyio.Event = attrs.field(factory=anyio.Event)

    async def wait(self) -> None:
        """Until somebody is in need."""
        while not self._count:
            self._arose = anyio.Event()
            await self._arose.wait()

    def check(self, name: str) -> None:
        """Raises UnreachableError when there will be none any more."""
        if self.is_over:
            raise failures.ended(name)

    async def wait_met(self) -> None:
        """Be in need until it is met, or never will be."""
        self._count += 1
        self._arose.set()
        try:
            await self._met.wait()
        finally:
            self._count -= 1

    def meet(self) -> None:
        """There is a connection."""
        self.failure = None
        self._met.set()
        self._met = anyio.Event()

    def end(self) -> None:
        """There will be none any more."""
        self.is_over = True
        self._met.set()


class _Link:
    """A connection that many tasks share, until it breaks."""

    def __init__(self, line: GreetedStream[_Waiter]) -> None:
        self.line: Final = line
        self.failure = failures.ended(line.name)
        """Why it broke."""
        self._stream: Final = line.stream
        self._conversation: Final = line.conversation
        self._outgoing: list[bytes] = []
        self._has_outgoing = anyio.Event()
        self._scope: Final = anyio.CancelScope()

    @property
    def is_broken(self) -> bool:
        return self._scope.cancel_called or self._conversation.failure is not None

    def ask(self, question: Question[Answer]) -> _Waiter:
        """Queue a question."""
        waiter = _Waiter(self)
        self._outgoing.append(self._conversation.ask(question, waiter))
        self._has_outgoing.set()
        return waiter

    def stop(self, why: UnreachableError) -> None:
        """Break it; does nothing when it is broken."""
        if not self.is_broken:
            self.failure = why
            self._scope.cancel()

    async def serve(self, room: anyio.Semaphore) -> None:
        """Send and receive until it breaks; then wake all who wait.  Each answer makes room."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    await self._read(room)
        finally:
            self._scope.cancel()
            nonsense = self._conversation.failure
            for waiter in self._conversation.lose():
                waiter.wake(nonsense if isinstance(nonsense, PeerError) else None)
                room.release()
            await self.close()

    async def close(self) -> None:
        """May be called again."""
        await _close(self._stream)

    async def _read(self, room: anyio.Semaphore) -> None:
        while not self.is_broken:
            try:
                data = await _receive(self._stream, self.line.name)
            except UnreachableError as error:
                self.stop(error)
                return
            for answered in self._conversation.feed(data):
                answered.asker.wake(answered.answer)
                room.release()
        if self._conversation.failure is not None:
            self.failure = UnreachableError(str(self._conversation.failure))
        self._scope.cancel()

    async def _write(self) -> None:
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = anyio.Event()
            data = b"".join(self._outgoing)
            self._outgoing.clear()
            try:
                await self._stream.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # whoever reads will see it too, after what the server said last


# -- connecting ---------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class GreetedStream(Generic[Asker]):
    """A connection whose greeting was heard."""

    address: Address
    stream: ByteStream
    conversation: ClientProtocol[Asker]
    hello: Hello

    @property
    def name(self) -> str:
        return address_text(self.address)


async def _open_first(addresses: Sequence[Address], connect_s: float) -> GreetedStream[Asker]:
    found: list[DistkvError] = []
    for address in addresses:
        try:
            return await _open(address, connect_s)
        except DistkvError as error:  # busy, or what is none of ours: another address may do better
            found.append(error)
    raise failures.none_of(found)


async def _open(address: Address, connect_s: float) -> GreetedStream[Asker]:
    name = address_text(address)
    with anyio.move_on_after(connect_s) as scope:
        stream = await _dial(address)
    if scope.cancelled_caught:
        raise failures.unanswered(name, TimeoutError())
    try:
        with anyio.move_on_after(connect_s):
            return await _greeted(address, stream)
        raise failures.silent(name)
    except BaseException:
        await _close(stream)
        raise


async def _dial(address: Address) -> ByteStream:
    try:
        if isinstance(address, UnixAddress):
            return await anyio.connect_unix(address.path)
        stream = await anyio.connect_tcp(*address)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
        cause = error.__cause__
        raise failures.unanswered(address_text(address), cause if isinstance(cause, OSError) else error) from None
    stream.extra(SocketAttribute.raw_socket).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


async def _greeted(address: Address, stream: ByteStream) -> GreetedStream[Asker]:
    conversation: ClientProtocol[Asker] = ClientProtocol(address_text(address))
    while conversation.hello is None:
        conversation.feed(await _receive(stream, address_text(address)))
        if conversation.failure is not None:
            raise conversation.failure
    return GreetedStream(address, stream, conversation, conversation.hello)


async def _receive(stream: ByteStream, name: str) -> bytes:
    try:
        return await stream.receive(RECEIVE_BYTES)
    except anyio.EndOfStream:
        raise failures.closed(name) from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        raise failures.closed(name, error.__cause__ if isinstance(error.__cause__, OSError) else None) from None


async def _close(stream: ByteStream) -> None:
    """At once, and to the end also when we are being cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.aclose_forcefully(stream)
