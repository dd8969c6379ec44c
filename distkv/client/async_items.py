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

    Iterate with `async for`. Who leaves before the end closes it: `async with`, or `aclose`; else it stays open until
    the client is closed.
    """

    def __init__(
        self, connection: AsyncConnection, question: Question[Answer], *, reply_s: float | None = None
    ) -> None:
        self._connection: Final = connection
        self._reply_s: Final = reply_s
        self._question: Final = question
        self._line: GreetedStream[None] | None = None
        self._ready: deque[Fields | DistkvError | None] = deque()
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        if self._is_closed:
            raise StopAsyncIteration
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

    async def aclose(self) -> None:
        """Ask for no more. May be called again."""
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
        answer = self._ready.popleft()
        if isinstance(answer, DistkvError):
            raise answer
        return None if answer is None else read_answer(self._question, answer, self._line.hello.node)


class Watch(Generic[Told]):
    """What a watch is told, over as many connections as it takes, each its own.

    Iterate with `async for`. Who leaves closes it: `async with`, or `aclose`; else it stays open until the client is
    closed.
    """

    def __init__(self, connection: AsyncConnection, watching: Watching, kinds: tuple[type[Told], ...]) -> None:
        self._connection: Final = connection
        self._watching: Final = watching
        self._kinds: Final = kinds
        self._pauses: Final = Backoff()
        self._items: Items[WatchEvent | Begun] | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        while not self._is_closed:
            event = await self._next()
            if isinstance(event, self._kinds):
                return event
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Be told of no more. May be called again."""
        self._is_closed = True
        if self._items is not None:
            await self._items.aclose()

    async def _next(self) -> WatchEvent | Begun | None:
        """What comes next; None when the connection broke."""
        if self._items is None:
            self._items = Items(self._connection, self._watching.question(), reply_s=SILENCE_S)
        try:
            event = await anext(self._items)
        except StopAsyncIteration:  # nobody asked it to stop, so it is the node that does
            why: DistkvError = failures.left(self._connection.name)
        except DistkvError as error:
            if self._connection.is_closed or not self._watching.is_bearable(error):
                await self.aclose()
                raise
            why = error
        else:
            self._pauses.reset()
            if isinstance(event, Begun):
                self._watching.meet()
            return event
        self._items = None
        self._watching.lose(why)
        await self._connection.pause(self._pauses)
        return None
