"""A producer and a consumer of topics, for the blocking client.

Knows: that whoever waits also asks.  Does not know what is asked (`topic_handle`), nor how it travels.

Invariant: one thread at a time asks for a producer, or for a consumer. What a signal handler raises amid a put costs
that put alone: the producer goes on from its state, as after a crash.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from distkv.client import failures
from distkv.client.blocking_connection import SharedConnection
from distkv.client.boot_clock import boot_ms
from distkv.client.questions import Question
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
from distkv.client.topic_state import BadStateError, TopicState
from distkv.errors import DistkvError, UnknownOutcomeError, UnreachableError
from distkv.wire.topic_replies import TopicReply

WAIT_S: Final = 20.0
"""So long a node waits for a message before it answers that there is none."""


class Producer:
    """Puts messages, each of them once. `client.producer` makes it; threads take turns."""

    def __init__(self, connection: SharedConnection, state: TopicState) -> None:
        self._connection: Final = connection
        self._state: Final = keep_or_close(connection, state)
        self._puts = TopicPuts(state)
        self._turn: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {self._state.id!r}>"

    def put(self, topic: str, value: object) -> PutDone:
        """Put a message, and wait until it is stored. What an earlier run has put and not heard of is sent first.

        Raises:
            BacklogError: a subscriber has left too much waiting; nothing was put.
            UnknownOutcomeError: no node stored it within `reply_s`. It is kept, and sent again by this producer, or by
                the next one with this state: do not put it once more.
            BadValueError, TooLargeError: it is no message, or too large; nothing was put.
            BadStateError: the state cannot be written.
            UnreachableError: the client is closed.
        """
        with self._turn:
            self._check_open()
            try:
                return self._finish(self._puts.begin(topic, value))
            except DistkvError:
                raise
            except BaseException:
                self._puts = TopicPuts(self._state)
                raise

    def put_again(self, topic: str, value: bytes, when_refused: Callable[[DistkvError], None]) -> PutDone | None:
        """Send what an earlier run has put to a topic and not heard of, and wait until it is stored. If what that run
        put last is this packed value: what it came to; None: it was another one, or there is none.

        Args:
            when_refused: called with why another message was refused for good.

        Raises as `put`.
        """
        with self._turn:
            self._check_open()
            same: PutDone | None = None
            for number, packed in self._puts.half.open_puts(topic).items():
                self._puts.adopt(number)
                try:
                    done = self._finish(number)
                except (UnknownOutcomeError, UnreachableError, BadStateError):
                    raise
                except DistkvError as error:
                    if packed == value:
                        raise
                    when_refused(error)
                else:
                    same = done if packed == value else None
            return same

    def close(self) -> None:
        """Give up the state. May be called again."""
        with self._turn, suppress(DistkvError):
            self._write()  # what was answered is not sent again
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside

    def _check_open(self) -> None:
        if self._connection.is_closed:
            self._state.close()
            raise failures.ended(self._connection.name)
        if not self._state.is_open:
            raise failures.over(f"the producer {self._state.id!r}")

    def _finish(self, number: int) -> PutDone:
        """Ask until it is known what a put came to."""
        deadline = time.monotonic() + self._connection.reply_s
        half, is_late = self._puts.half, False
        while (done := self._result(number)) is None:
            if not is_late and time.monotonic() >= deadline:
                is_late = True
                half.give_up(number)
                continue
            questions = half.take_questions(boot_ms())
            for call, request in questions:
                asked = PutQuestion(request)
                result = _asked(self._connection, asked.question)
                if asked.is_repeated:
                    half.repeated(call)
                half.answered(call, result, boot_ms())
            if not questions:
                _pause(self._connection, half.wake_ms())
        return done

    def _result(self, number: int) -> PutDone | None:
        self._write()
        return self._puts.result(number)

    def _write(self) -> None:
        while (change := self._puts.half.take_change()) is not None:
            self._state.write_producer(change)
            self._puts.half.committed()


class Consumer(ConsumerHandle):
    """Hands out the messages of a topic, each of them once. `client.consumer` makes it, for one thread."""

    def __init__(
        self,
        connection: SharedConnection,
        topic: str,
        state: TopicState,
        when_gone: WhenGone | None,
        *,
        subscribes: bool,
    ) -> None:
        super().__init__(topic, keep_or_close(connection, state), when_gone, subscribes=subscribes)
        self._connection: Final = connection

    def __iter__(self) -> Iterator[Message]:
        """Message after message, without an end; raises as `receive`."""
        return self

    def __next__(self) -> Message:
        while True:
            message = self.receive(WAIT_S)
            if message is not None:
                return message

    # -- begin generated from async_topic.AsyncConsumer.receive: python packaging/blocking_client.py

    def receive(self, wait_s: float = 0.0, *, limit: int = BATCH) -> Message | None:
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
        return self._receive(check_wait(wait_s), check_limit(limit))

    # -- end generated

    def subscribe(self) -> None:
        """See that it is subscribed, also when its subscription ended; raises as `receive`."""
        self._check_open()
        self._half.subscribe()
        self._drive()

    def unsubscribe(self) -> None:
        """End the subscription: it is owed nothing any more. Raises as `receive`."""
        self._check_open()
        self._half.unsubscribe()
        self._drive()

    def close(self) -> None:
        """Tell the servers what is done, if one is reached, and give up the state. May be called again."""
        try:
            with suppress(DistkvError):  # else they hear it when a consumer with this state begins
                if self._state.is_open and self._half.is_begun:
                    self._check_open()
                    self._half.say()
                    self._drive()
        finally:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside

    def _check_open(self) -> None:
        if self._connection.is_closed:
            self._state.close()
            raise failures.ended(self._connection.name)
        self._begin()

    def _receive(self, wait_s: float, limit: int) -> Message | None:
        self._check_open()
        left_s, deadline = wait_s, time.monotonic() + wait_s
        while not self._has_next:
            self._half.want(limit, left_s)
            self._drive()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
        return self._next()

    def _drive(self) -> None:
        """Ask until what is wanted is there; raises what kept it from that for `reply_s`."""
        failing = Failing(self._connection.reply_s)
        while self._half.is_busy:
            if self._connection.is_closed:
                self._state.close()
                raise failures.ended(self._connection.name)
            questions = self._questions()
            for call, request in questions:
                result = _asked(self._connection, consumer_question(request))
                self._answered(call, result)
                if not isinstance(result, DistkvError):
                    failing.answered()
                elif failing.refused(result, time.monotonic()):
                    raise result
            if not questions:
                _pause(self._connection, self._half.wake_ms())


# -- inside -------------------------------------------------------------------------------------------------------


def _asked(connection: SharedConnection, question: Question[TopicReply]) -> TopicReply | DistkvError:
    try:
        return connection.ask(question)
    except DistkvError as error:
        return error


def _pause(connection: SharedConnection, wake_ms: int | None) -> None:
    """Until something may be asked again, unless the client is closed."""
    if wake_ms is not None:
        connection.bell.wait(lambda: connection.is_closed, max(0, wake_ms - boot_ms()) / 1000)
