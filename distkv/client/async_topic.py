"""A producer and a consumer of topics, for trio and asyncio.

Knows: who asks, and who waits for what.  Does not know what is asked (`topic_handle`), nor how it travels.

Invariant: puts go on in the background, also those for which nobody waits any more; what a consumer asks is asked by
whoever waits for its messages. When the client is closed nobody waits any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.to_thread

from distkv.client import failures
from distkv.client.async_connection import AsyncConnection
from distkv.client.background import BackgroundTask
from distkv.client.boot_clock import boot_ms
from distkv.client.consuming import ConsumerRequest
from distkv.client.side_tasks import side_tasks
from distkv.client.topic_handle import (
    BATCH,
    ConsumerHandle,
    Failing,
    Message,
    PutDone,
    TopicPuts,
    WhenGone,
    check_limit,
    check_wait,
    keep_or_close,
)
from distkv.client.topic_questions import PutQuestion, consumer_question
from distkv.client.topic_state import TopicState
from distkv.errors import DistkvError
from distkv.wire.topic_replies import TopicReply
from distkv.wire.topic_requests import TopicPut

WAIT_S: Final = 20.0
"""So long a node waits for a message before it answers that there is none."""


class AsyncProducer:
    """Puts messages, each of them once. `client.producer` makes it; many tasks may use it at once."""

    def __init__(self, connection: AsyncConnection, state: TopicState) -> None:
        self._connection: Final = connection
        self._puts: Final = TopicPuts(keep_or_close(connection, state))
        self._changed = anyio.Event()
        self._failure: DistkvError | None = None
        self._is_closed = False
        self._background: BackgroundTask | None = None
        connection.tell_end(self)

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {self._puts.state.id!r}>"

    async def put(self, topic: str, value: object) -> PutDone:
        """Put a message, and wait until it is stored. What an earlier run has put and not heard of is sent first.

        Puts to one topic come to its subscribers in the order in which they were begun; at most 32 are unanswered.

        Raises:
            BacklogError: a subscriber has left too much waiting; nothing was put.
            UnknownOutcomeError: no node stored it within `reply_s`. It is kept, and sent again by this producer, or by
                the next one with this state: do not put it once more.
            BusyError: too many puts wait.
            BadValueError, TooLargeError: it is no message, or too large; nothing was put.
            BadStateError: the state cannot be written.
            UnreachableError: the client is closed.
        """
        self._connection.check_here()
        self._check_open()
        number = self._puts.begin(topic, value)
        self._begin()
        try:
            with anyio.move_on_after(self._connection.reply_s):
                return await self._wait(number)
            self._puts.half.give_up(number)
            self.wake()
            return await self._wait(number)
        finally:
            self._puts.leave(number)

    async def aclose(self) -> None:
        """Give up the state; puts that wait get `UnreachableError`, and are kept. May be called again."""
        self._is_closed = True
        background = self._begin()
        with anyio.CancelScope(shield=True):
            while not background.is_over:
                await self._changed.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def wake(self) -> None:
        """Have all who wait look again."""
        old, self._changed = self._changed, anyio.Event()
        old.set()
        if self._background is None and self._connection.is_closed:
            self._puts.state.close()

    # -- inside

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._connection.is_closed:
            raise failures.ended(self._connection.name)
        if self._is_closed:
            raise failures.over(f"the producer {self._puts.state.id!r}")

    def _begin(self) -> BackgroundTask:
        """Have the task that sends look, which a loop of asyncio that ends may have cancelled."""
        if self._background is None or self._background.is_over:
            self._background = BackgroundTask(self._serve, self.wake)
        self.wake()
        return self._background

    async def _wait(self, number: int) -> PutDone:
        while True:
            changed = self._changed
            done = self._puts.result(number)
            if done is not None:
                return done
            self._check_open()
            if self._background is not None and self._background.is_over:
                self._begin()
            await changed.wait()

    async def _serve(self) -> None:
        try:
            async with side_tasks() as tasks:
                while not (self._is_closed or self._connection.is_closed):
                    changed = self._changed
                    if await self._write():
                        self.wake()
                        continue
                    half = self._puts.half
                    for call, request in half.take_questions(boot_ms()):
                        tasks.start(self._ask(call, request))
                    wake_ms = half.wake_ms()
                    wait_s = None if wake_ms is None else max(0, wake_ms - boot_ms()) / 1000
                    with anyio.move_on_after(wait_s if wait_s is not None else float("inf")):
                        await changed.wait()
                tasks.cancel()
            await self._write()  # what was answered is not sent again
        except* DistkvError as group:
            self._failure = next(iter(_leaves(group)))
        finally:
            self._puts.half.disconnected(boot_ms())
            if self._failure is not None or self._is_closed or self._connection.is_closed:
                self._puts.state.close()

    async def _write(self) -> bool:
        """Write what is to be written; whether anything was."""
        change = self._puts.half.take_change()
        if change is None:
            return False
        await anyio.to_thread.run_sync(self._puts.state.write_producer, change)
        self._puts.half.committed()
        return True

    async def _ask(self, call: int, request: TopicPut) -> None:
        result: TopicReply | DistkvError
        asked = PutQuestion(request)
        try:
            result = await self._connection.ask(asked.question)
        except DistkvError as error:
            result = error
        if asked.is_repeated:
            self._puts.half.repeated(call)
        self._puts.half.answered(call, result, boot_ms())
        self.wake()


class AsyncConsumer(ConsumerHandle):
    """Hands out the messages of a topic, each of them once. `client.consumer` makes it."""

    def __init__(
        self,
        connection: AsyncConnection,
        topic: str,
        state: TopicState,
        when_gone: WhenGone | None,
        *,
        subscribes: bool,
    ) -> None:
        super().__init__(topic, keep_or_close(connection, state), when_gone, subscribes=subscribes)
        self._connection: Final = connection
        self._turn: Final = anyio.Lock()
        self._asking = anyio.CancelScope()
        self._is_closed = False
        connection.tell_end(self)

    def __aiter__(self) -> AsyncIterator[Message]:
        """Message after message, without an end; raises as `receive`."""
        return self

    async def __anext__(self) -> Message:
        while True:
            message = await self.receive(WAIT_S)
            if message is not None:
                return message

    async def receive(self, wait_s: float = 0.0, *, limit: int = BATCH) -> Message | None:
        """The next message; None: none came within `wait_s` seconds.

        Args:
            wait_s: at most 3600.
            limit: how many messages are asked for at once, when none is here.

        Raises:
            NotFoundError: it is not subscribed any more: somebody else ended the subscription, or all copies of the
                topic were lost. See `subscribe`.
            AwayError: the nodes that know what it is owed are not reached.
            UnreachableError: no node answers; or the client is closed.
            RequestError: 1000 messages were handed out, and are not done.
            BadStateError: the state cannot be written; or another consumer with its id began after this one.
        """
        return await self._receive(check_wait(wait_s), check_limit(limit))

    async def subscribe(self) -> None:
        """See that it is subscribed, also when its subscription ended; raises as `receive`."""
        async with self._turn:
            self._check_open()
            self._half.subscribe()
            await self._drive()

    async def unsubscribe(self) -> None:
        """End the subscription: it is owed nothing any more. Raises as `receive`."""
        async with self._turn:
            self._check_open()
            self._half.unsubscribe()
            await self._drive()

    async def aclose(self) -> None:
        """Tell the servers what is done, if one is reached, and give up the state; who waits for a message gets
        `UnreachableError`. May be called again."""
        self._is_closed = True
        self._asking.cancel()
        try:
            async with self._turn:
                with suppress(DistkvError):  # else they hear it when a consumer with this state begins
                    if self._state.is_open and self._half.is_begun:
                        self._begin()
                        self._half.say()
                        await self._drive()
        finally:
            self._state.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def wake(self) -> None:
        """The client is closed."""
        if self._connection.is_closed:
            self._state.close()

    # -- inside

    async def _receive(self, wait_s: float, limit: int) -> Message | None:
        deadline = self._connection.now() + wait_s
        async with self._turn:
            self._check_open()
            left_s = wait_s
            while not self._has_next:
                self._half.want(limit, left_s)
                await self._drive()
                left_s = deadline - self._connection.now()
                if left_s <= 0:
                    break
        return self._next()

    def _check_open(self) -> None:
        if self._connection.is_closed:
            raise failures.ended(self._connection.name)
        if self._is_closed:
            raise self._over()
        self._begin()

    async def _drive(self) -> None:
        """Ask until what is wanted is there; raises what kept it from that for `reply_s`."""
        with anyio.CancelScope() as self._asking:
            await self._drive_on()
        if self._asking.cancelled_caught:
            raise self._over()

    async def _drive_on(self) -> None:
        failing = Failing(self._connection.reply_s)
        while self._half.is_busy:
            if self._connection.is_closed:
                raise failures.ended(self._connection.name)
            for call, request in self._questions():
                result = await self._answer(request)
                self._answered(call, result)
                if not isinstance(result, DistkvError):
                    failing.answered()
                elif failing.refused(result, self._connection.now()):
                    raise result
                break
            else:
                await anyio.sleep(self._pause_s())

    async def _answer(self, request: ConsumerRequest) -> TopicReply | DistkvError:
        try:
            return await self._connection.ask(consumer_question(request))
        except DistkvError as error:
            return error


def _leaves(group: BaseExceptionGroup[DistkvError]) -> list[DistkvError]:
    """The errors in it."""
    found: list[DistkvError] = []
    for one in group.exceptions:
        found += _leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found
