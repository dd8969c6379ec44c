"""Long results under trio and asyncio: items while they arrive, and a watch over as many connections as it takes.

Knows: when such a result ends, and when a watch goes on.  Does not know tasks and sockets (`async_connection`), nor
what the items mean (`questions`, `watch`).

Invariant: a result that was left, ended or failed holds no connection any more.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from distkv.client import failures
from distkv.client.async_connection import AsyncConnection
from distkv.client.async_stream import GreetedStream
from distkv.client.outages import SILENCE_S, Begun
from distkv.client.protocol import Backoff, read_answer
from distkv.client.questions import Answer, Question
from distkv.client.watch import WatchEvent, Watching
from distkv.errors import DistkvError
from distkv.wire.fields import Fields

Told = TypeVar("Told", bound=WatchEvent)


class Items(Generic[Answer]):
    """The items of a long result, while they arrive, on a connection of their own.

    Iterate with `async for`. Who leaves before the end closes it: `async with`, or `aclose`; else it is closed when
    nobody holds it any more.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        question: Question[Answer],
        *,
        reply_s: float | None = None,
        first_s: float | None = None,
    ) -> None:
        """`reply_s`: None: as that of the client; `first_s`: of the first item; None: the same."""
        self._connection: Final = connection
        self._reply_s = reply_s if first_s is None else first_s
        self._next_s: Final = reply_s
        self._question: Final = question
        self._line: GreetedStream[None] | None = None
        self._ready: deque[Fields | DistkvError | None] = deque()
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        if self._is_closed:
            raise StopAsyncIteration
        self._connection.check_here()
        try:
            answer = await self._next()
        except DistkvError:
            await self.aclose()
            raise
        if answer is None:
            await self.aclose()
            raise StopAsyncIteration
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._line is not None and not self._is_closed:
            self._connection.close_line_soon(self._line)

    async def aclose(self) -> None:
        """Ask for no more. May be called again."""
        self._connection.check_closable()
        self._is_closed = True
        self._ready.clear()
        if self._line is not None:
            await self._connection.close_line(self._line)

    async def _next(self) -> Answer | None:
        """The next item; None after the last one."""
        if self._line is None:
            self._line = await self._connection.open_line(self._question)
        while not self._ready:
            self._ready += await self._connection.receive(self._line, self._reply_s)
        self._reply_s = self._next_s
        answer = self._ready.popleft()
        if isinstance(answer, DistkvError):
            raise answer
        return None if answer is None else read_answer(self._question, answer, self._line.hello.node)


class Watch(Generic[Told]):
    """What a watch is told, over as many connections as it takes, each its own.

    It begins when it is entered by `async with`, or else when its first event is awaited. Iterate with `async for`. Who
    leaves closes it: `async with`, or `aclose`; else it is closed when nobody holds it any more.
    """

    def __init__(self, connection: AsyncConnection, watching: Watching, kinds: tuple[type[Told], ...]) -> None:
        self._connection: Final = connection
        self._watching: Final = watching
        self._kinds: Final = kinds
        self._pauses: Final = Backoff()
        self._items: Items[WatchEvent | Begun] | None = None
        self._has_begun = False
        """On this connection."""
        self._begin_by: float | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        self._connection.check_here()
        while not self._is_closed:
            event = await self._next()
            if isinstance(event, self._kinds):
                return event
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            UnreachableError: no node began within `reply_s`.
            DistkvError: the refusal.
        """
        self._begin_by = self._connection.now() + self._connection.reply_s
        try:
            while not (self._has_begun or self._is_closed):
                await self._next()
        except BaseException:  # also when we are cancelled
            await self.aclose()
            raise
        self._begin_by = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Be told of no more. May be called again."""
        self._connection.check_closable()
        self._is_closed = True
        if self._items is not None:
            await self._items.aclose()

    async def _next(self) -> WatchEvent | Begun | None:
        """What comes next, first of each connection a `Begun`; None when the connection broke."""
        if self._items is None:
            question, each_s = self._watching.question(), self._connection.each_s
            self._items = Items(self._connection, question, reply_s=SILENCE_S, first_s=each_s)
        try:
            event = await anext(self._items)
        except StopAsyncIteration:  # nobody asked it to stop, so it is the node that does
            why: DistkvError = failures.left(self._connection.name)
        except DistkvError as error:
            if self._connection.is_closed:
                await self.aclose()
                raise failures.ended(self._connection.name) from None
            if self._is_late() or not self._watching.is_bearable(error):
                await self.aclose()
                raise
            why = error
        else:
            self._pauses.reset()
            self._has_begun = True
            if isinstance(event, Begun):
                self._watching.meet()
            return event
        self._items, self._has_begun = None, False
        self._watching.lose(why)
        await self._connection.pause(self._pauses)
        return None

    def _is_late(self) -> bool:
        return self._begin_by is not None and self._connection.now() >= self._begin_by
