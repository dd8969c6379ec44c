"""One connection that many tasks use at once, made again when it breaks.

Knows: when to connect again, who waits for that, and what is asked again then.  Does not know sockets
(`shared_line`, `async_stream`), what is said (`protocol`) nor what it means (`questions`).

Invariant: a task gets an answer or an error within its time, also while there is no connection; there are never more
questions under way than there is room for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakSet

import anyio
import attrs

from distkv.client import failures, forks
from distkv.client.addresses import Address, Reach, in_turn
from distkv.client.async_stream import GreetedStream, close, open_first, receive
from distkv.client.background import BackgroundTask
from distkv.client.event_loop import home_loop
from distkv.client.node_questions import ping
from distkv.client.pages import Item, Pages
from distkv.client.protocol import Backoff, Call
from distkv.client.questions import Answer, Question, Repeat
from distkv.client.shared_line import SharedLine, Waiter, open_line
from distkv.errors import DistkvError, RequestError, UnreachableError
from distkv.wire.fields import Fields
from distkv.wire.replies import Hello


async def open_connection(
    addresses: Sequence[Address], *, connect_s: float, reply_s: float, open_max: int
) -> AsyncConnection:
    """A connection to the first of `addresses` where a node greets, until it is closed.

    Raises:
        UnreachableError, PeerError, BusyError: as `connection.open_connection`.
    """
    room = anyio.Semaphore(open_max, fast_acquire=True)
    line = await open_line(addresses, room, connect_s=connect_s, patience_s=_each_s(addresses, reply_s))
    return AsyncConnection(addresses, line, room, connect_s=connect_s, reply_s=reply_s)


class Waking(Protocol):
    """Something that others wait for."""

    def wake(self) -> None:
        """Have all who wait look again."""


class AsyncConnection:
    """A connection for many tasks, which lasts."""

    def __init__(
        self, addresses: Sequence[Address], line: SharedLine, room: anyio.Semaphore, *, connect_s: float, reply_s: float
    ) -> None:
        self._addresses: Final = tuple(addresses)
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._each_s: Final = _each_s(addresses, reply_s)
        self._line = line
        self._room: Final = room
        self._loop: Final = home_loop()
        self._backoff: Final = Backoff.within(reply_s)
        self._need: Final = _Need()
        self._lines: Final[set[GreetedStream[None]]] = set()
        self._until_closed: Final[set[anyio.CancelScope]] = set()
        self._waking: Final = WeakSet[Waking]()
        self._background: Final = BackgroundTask(self._serve)
        forks.tell_child(self)

    @property
    def hello(self) -> Hello:
        """How the node greeted, when it was connected last."""
        return self._line.greeted.hello

    @property
    def name(self) -> str:
        """The address of the node that was connected last."""
        return self._line.greeted.name

    @property
    def reach(self) -> Reach:
        """For who needs a connection of its own; raises UnreachableError once it is closed."""
        self.check_here()
        self._need.check(self.name)
        return Reach(tuple(self._in_turn()), self._connect_s, self._reply_s)

    def __str__(self) -> str:
        is_closed = self._need.is_over
        return failures.shown(self.hello.node, self.name, is_closed=is_closed, is_alive=not self._line.is_broken)

    async def aclose(self) -> None:
        """End it for good, from any task; who waits for something gets `UnreachableError`. May be called again."""
        self.check_closable()
        if not self._loop.is_here():
            return
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
            RequestError: it is asked in another loop than its own.
            DistkvError: the refusal.
        """
        if not self._loop.is_here():
            self.check_here()
        await self._loop.check_cancelled()
        call = Call(question)
        deadline = self._loop.clock() + self._reply_s + question.wait_s
        while True:
            waiter = self._send_nowait(call, deadline) or await self._send(call, deadline)
            await waiter.sleeper.sleep()
            if waiter.answer is not None:
                self._backoff.reset()
                return call.conclude(waiter.answer)
            if waiter.is_late:
                waiter.line.stop(failures.silent(waiter.line.greeted.name))
                if self._loop.clock() >= deadline or question.repeat is not Repeat.ANYWHERE:
                    raise call.give_up(waiter.line.failure)
            call.lose(waiter.line.failure)

    async def ask_pages(self, pages: Pages[Item]) -> tuple[Item, ...]:
        """Ask for page after page; raises as `ask`."""
        while (question := pages.question) is not None:
            pages.add(await self.ask(question))
        return pages.result()

    # -- long results, each on a line of its own

    async def open_line(self, question: Question[Answer]) -> GreetedStream[None]:
        """One more connection, to the same node if it can be, on which a long question was asked."""
        self.check_here()
        self._need.check(self.name)
        try:
            line = await self._one_more()
        except UnreachableError:
            self._need.check(self.name)
            await self.ask(ping())  # which waits until there is a node again
            line = await self._one_more()
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
        self.check_here()
        self._need.check(line.name)
        with anyio.move_on_after(self._reply_s if reply_s is None else reply_s):
            while not found:
                try:
                    data = await receive(line.stream, line.name)
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
        self.check_closable()
        if self._loop.is_here():
            self._lines.discard(line)
            await close(line.stream)

    def close_line_soon(self, line: GreetedStream[None]) -> None:
        """Nobody holds it any more. From any thread."""
        self._loop.start(lambda: self.close_line(line))

    def check_here(self) -> None:
        """Raises RequestError in another loop than its own, whose tasks it could not wake; UnreachableError where it is
        closed as well."""
        self.check_closable()
        if not self._loop.is_here():
            self._need.check(self.name)

    def check_closable(self) -> None:
        """Raises RequestError in another loop, unless its own is over, or is that of our parent: then so is this."""
        if not self._loop.is_here() and not self._need.is_over:
            raise RequestError("this client belongs to another event loop: open one in each, with distkv.open_client")

    @property
    def is_closed(self) -> bool:
        return self._need.is_over

    @property
    def reply_s(self) -> float:
        return self._reply_s

    @property
    def each_s(self) -> float:
        """So long one node may be silent where another one may be asked instead."""
        return self._each_s

    def now(self) -> float:
        """Seconds, by the clock of its loop. Raises as `check_here`."""
        self.check_here()
        return self._loop.clock()

    def tell_end(self, one: Waking) -> None:
        """Wake it when this is closed."""
        self._waking.add(one)

    async def pause(self, pauses: Backoff) -> None:
        """Wait before something is tried again, but not when it is closed."""
        with self._while_open():
            await anyio.sleep(pauses.next_s(random.random()))

    def leave_to_parent(self) -> None:
        """In a child, which has no such loop: each call raises."""
        self._need.is_over = True
        self._line.leave_to_parent()

    # -- inside

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """What waits in it waits no longer once this is closed.

        Raises:
            UnreachableError: it is closed.
        """
        self._need.check(self.name)
        with anyio.CancelScope() as scope:
            self._until_closed.add(scope)
            try:
                yield
            finally:
                self._until_closed.discard(scope)
        if scope.cancelled_caught:
            self._need.check(self.name)

    async def _one_more(self) -> GreetedStream[None]:
        with self._while_open():
            found: GreetedStream[None] = await open_first(self._in_turn(), self._connect_s)
            return found
        raise failures.ended(self.name)

    async def _serve(self) -> None:
        """Serve those who ask, until cancelled."""
        try:
            while True:
                await self._line.serve()
                await self._connect_again()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._need.end()
        for scope in self._until_closed:
            scope.cancel()
        for one in list(self._waking):
            one.wake()
        await self._line.close()
        for line in list(self._lines):
            await self.close_line(line)

    def _send_nowait(self, call: Call[Answer], deadline: float) -> Waiter | None:
        """Send a question if there is a connection and room for it; None: `_send` waits for both."""
        if self._line.is_broken:
            return None
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            return None
        return self._begin(call, deadline)

    async def _send(self, call: Call[Answer], deadline: float) -> Waiter:
        """Send a question as soon as there is a connection, and room for it.

        Raises:
            UnreachableError, ConnectionLostError: there was none in time.
        """
        with anyio.move_on_after(deadline - self._loop.clock()):
            while True:
                while self._line.is_broken:
                    self._need.check(self.name)
                    await self._need.wait_met()
                await self._room.acquire()
                line = self._line
                if not line.is_broken:
                    return self._begin(call, deadline)
                self._room.release()
        raise call.give_up(self._need.failure or failures.silent(self.name))

    def _begin(self, call: Call[Answer], deadline: float) -> Waiter:
        """Send a question on the line, which has kept room for it."""
        line = self._line
        try:
            call.begin(line.greeted.hello.node)
            return line.ask(call.question, self._until(call.question, deadline))
        except BaseException:
            self._room.release()
            raise

    def _until(self, question: Question[Answer], deadline: float) -> float:
        """Until when this node may take: who reads leaves time for the others."""
        if question.repeat is not Repeat.ANYWHERE or question.wait_s:
            return deadline
        return min(deadline, self._loop.clock() + self._each_s)

    async def _connect_again(self) -> None:
        """As soon as somebody needs it; with pauses that grow for as long as somebody does."""
        while True:
            await self._need.wait()
            await anyio.sleep(self._backoff.next_s(random.random()))
            try:
                connect_s = min(self._connect_s, self._each_s)
                self._line = await open_line(self._in_turn(), self._room, connect_s=connect_s, patience_s=self._each_s)
            except DistkvError as error:  # whatever it is, it may be over soon: something starts, or makes room
                self._need.failure = UnreachableError(str(error))
            else:
                self._need.meet()
                return

    def _in_turn(self) -> Sequence[Address]:
        return in_turn(self._addresses, self._line.greeted.address, is_silent=self._line.failure.is_silence)


# -- inside -------------------------------------------------------------------------------------------------------


def _each_s(addresses: Sequence[Address], reply_s: float) -> float:
    """So long one node may be silent where another one may be asked instead."""
    return reply_s / max(1, len(addresses))


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
