"""What the users of topics see of a producer and of a consumer, the same in all clients.

Knows: the halves (`producing`, `consuming`), their states, and what users are told.  Does not know how anything is
asked: by tasks (`async_topic`) or by whoever waits (`blocking_topic`).

Invariant: what the halves want to be written is written before they are asked for questions. Nobody is told that a put
is refused, or a message is handed out, before the state has it so.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Final, Protocol, TypeAlias, assert_never

from distkv.client import failures
from distkv.client.arguments import as_seconds, check_callback, check_flag, shown
from distkv.client.boot_clock import boot_ms
from distkv.client.consuming import ConsumerRequest, Consuming, MessagesGone, SubscriptionEnded
from distkv.client.producing import Producing, PutAnswered, PutOpen, PutRefused, StreamRenamed
from distkv.client.topic_state import TopicState, adopted_state, open_state, passing_state
from distkv.errors import BadValueError, DistkvError, RequestError, UnknownOutcomeError, UnreachableError
from distkv.model.lean import lean_value
from distkv.model.ranges import Ranges
from distkv.wire.row import WAIT_S_MAX
from distkv.wire.topic_fields import NAME_BYTES_MAX, OF_NODES, is_name
from distkv.wire.topic_replies import TopicMessage, TopicReply
from distkv.wire.topic_requests import PAGE_MAX
from distkv.wire.values import pack_value, unpack_value

SUFFIX_BYTES: Final = 9
"""What a producer's id gets behind it."""
BATCH: Final = 100
"""How many messages a consumer asks for at once."""

StatePlace: TypeAlias = str | os.PathLike[str] | Connection | None
"""Where a consumer keeps its state: a file, a database of the user's, or nowhere."""
WhenGone: TypeAlias = Callable[[Mapping[str, Ranges]], None]


@lean_value
class Message:
    """A message of a topic."""

    value: object
    topic: str
    producer: str
    """Who put it; with `counter` it says which message it is."""
    counter: int
    time: float
    """When it was put, by the clock of the node that was asked to: seconds since 1970, for people."""


@lean_value
class PutDone:
    """A message is stored."""

    topic: str
    producer: str
    """The name under which it was put."""
    counter: int
    duplicate: bool
    """Whether it was stored before, by an attempt whose answer was lost."""
    copies: int
    """On how many nodes' disks it is."""
    renamed_from: str | None = None
    """The name under which it was tried first: another message had its number, because the state was copied, or is an
    old one."""


# -- what a user says ---------------------------------------------------------------------------------------------


def as_topic_name(what: str, name: object, bytes_max: int = NAME_BYTES_MAX) -> str:
    """The name of a topic, a producer or a consumer."""
    if type(name) is not str or not is_name(name) or len(name.encode()) > bytes_max:
        raise RequestError(f"{what} is {shown(name)}: give text of 1 to {bytes_max} bytes without control characters")
    return name


def as_producer_id(id: object) -> str:
    """The id of a producer: there is room behind it for what makes its names differ."""
    found = as_topic_name("the id of the producer", id, NAME_BYTES_MAX - SUFFIX_BYTES)
    if found.startswith(OF_NODES):
        raise RequestError(f"the id of the producer is {found!r}: names that begin with {OF_NODES!r} are for nodes")
    return found


def as_message(value: object) -> bytes:
    """The value of a message, packed."""
    if value is None:
        raise BadValueError("None is no message, and nothing was put")
    return pack_value(value)


def check_consumer(subscribes: object, when_gone: object) -> None:
    """How a consumer begins, and what it calls."""
    check_flag("subscribes", subscribes)
    check_callback("when_gone", when_gone)


def check_wait(wait_s: object) -> float:
    """How long to wait for a message."""
    return as_seconds("wait_s", wait_s, 0, WAIT_S_MAX) or 0.0


def check_limit(limit: object) -> int:
    """How many messages to ask for."""
    if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
        raise RequestError(f"limit is {shown(limit)}: give a whole number from 1 to {PAGE_MAX}")
    return limit


def producer_state(state: object, id: str) -> TopicState:
    """The state of a producer, in a file or nowhere; raises as `topic_state`, and RequestError: it is neither."""
    return passing_state(id) if state is None else open_state(_as_file(state, "the name of a file"), id)


def consumer_state(state: object, id: str) -> TopicState:
    """That of a consumer, which may also be in a database of the user's."""
    if isinstance(state, Connection):
        return adopted_state(state, id)
    return passing_state(id) if state is None else open_state(_as_file(state, "the name of a file, or a database"), id)


class ClosableConnection(Protocol):
    """Of a client."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def name(self) -> str: ...


def keep_or_close(connection: ClosableConnection, state: TopicState) -> TopicState:
    """A state for the use with a client. Raises UnreachableError when the client is closed, and gives up the state."""
    if connection.is_closed:
        state.close()
        raise failures.ended(connection.name)
    return state


def _as_file(state: object, right: str) -> str:
    found = os.fspath(state) if isinstance(state, str | os.PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise RequestError(f"state is {shown(state)}: give {right}")
    return found


# -- a producer ---------------------------------------------------------------------------------------------------


class TopicPuts:
    """The puts of a producer, and what became of those for which somebody waits."""

    def __init__(self, state: TopicState) -> None:
        self.state: Final = state
        self.half: Final = Producing(state.id, state.producer(), os.urandom)
        self._over: Final[dict[int, PutDone | DistkvError]] = {}
        self._awaited: Final[set[int]] = set()

    def begin(self, topic: object, value: object) -> int:
        """Put a message; the number of the put."""
        number = self.half.put(as_topic_name("the topic", topic), as_message(value))
        self._awaited.add(number)
        return number

    def adopt(self, number: int) -> None:
        """Somebody waits for a put of an earlier run."""
        self._awaited.add(number)

    def result(self, number: int) -> PutDone | None:
        """What it came to, once; None: nothing yet. Raises why it came to nothing."""
        self._take_news()
        over = self._over.pop(number, None)
        if isinstance(over, DistkvError):
            raise over
        return over

    def leave(self, number: int) -> None:
        """Nobody waits for it any more."""
        self._awaited.discard(number)
        self._over.pop(number, None)

    def _take_news(self) -> None:
        for news in self.half.take_news():
            match news:
                case PutAnswered():
                    names = (news.topic, news.producer, news.counter)
                    self._end(news.number, PutDone(*names, news.is_duplicate, news.copies, news.was))
                case PutRefused(number=number, error=error, may_have_happened=may_have_happened):
                    note = "; an attempt before it may have been carried out" if may_have_happened else ""
                    self._end(number, type(error)(f"{error}{note}") if note else error)
                case PutOpen():
                    self._end(news.number, _unanswered(news))
                case StreamRenamed():
                    pass  # the put that found it out says so
                case _:
                    assert_never(news)

    def _end(self, number: int, over: PutDone | DistkvError) -> None:
        if number in self._awaited:
            self._awaited.discard(number)
            self._over[number] = over


def _unanswered(news: PutOpen) -> UnknownOutcomeError:
    why = f" ({news.error})" if news.error else ""
    again = "it is kept, and sent again: do not put it once more"
    return UnknownOutcomeError(f"no node answered the put to {news.topic!r} in time{why}: {again}")


# -- a consumer ---------------------------------------------------------------------------------------------------


class Failing:
    """For how long nothing but errors came."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s: Final = patience_s
        self._until_s: float | None = None

    def answered(self) -> None:
        """Something else came."""
        self._until_s = None

    def refused(self, error: DistkvError, now_s: float) -> bool:
        """An error came; whether it is time to give up. A connection that is lost was tried for long enough."""
        if self._until_s is None:
            self._until_s = now_s + self._patience_s
        return isinstance(error, UnreachableError) or now_s >= self._until_s


class ConsumerHandle:
    """One subscriber: what both clients do with it."""

    def __init__(self, topic: str, state: TopicState, when_gone: WhenGone | None, *, subscribes: bool) -> None:
        self.topic: Final = topic
        self._state: Final = state
        self._when_gone: Final = when_gone
        kept, time_ms = state.consumer(topic), int(time.time() * 1000)
        self._half: Final = Consuming(topic, state.id, kept, time_ms, subscribes=subscribes)

    def __repr__(self) -> str:
        return f"<distkv.{type(self).__name__} {self.id!r} of {self.topic!r}>"

    @property
    def id(self) -> str:
        return self._state.id

    @contextmanager
    def done(self, message: Message) -> Iterator[Connection]:
        """Say that a message is done: what the block writes to the connection that it is given, and that the message is
        done, are written in one transaction when the block is left. When it raises, neither is.

        The connection is that of the state. Without a state it is a database in memory, which ends with the consumer.

        Raises:
            RequestError: this consumer has not handed the message out, or it is done; or a transaction is open before
                the block, or was ended in it.
            BadStateError: the state cannot be written; or another consumer with its id began after this one.
        """
        if not isinstance(message, Message):
            raise RequestError(f"the message is {shown(message)}: give one that this consumer has handed out")
        place = (message.producer, message.counter)
        if message.topic != self.topic or not self._half.is_handed(*place):
            raise RequestError(f"message {message.counter} of {message.producer!r} is done, or not of this consumer")
        with self._state.writing(self.topic, self._half.change_of(*place)) as db:
            yield db
        self._half.done(*place)

    # -- for the shells

    def _begin(self) -> None:
        """Somebody begins to ask. Whoever asked before has his answer, or was interrupted."""
        if not self._state.is_open:
            raise self._over()
        self._half.interrupted(boot_ms())

    def _over(self) -> DistkvError:
        """Why nobody can ask any more."""
        return failures.over(f"the consumer {self.id!r} of {self.topic!r}")

    @property
    def _has_next(self) -> bool:
        """Whether a message is here. Raises RequestError when too many are with the user."""
        if self._half.is_full:
            raise RequestError("too many messages are not done: use 'with consumer.done(message)' for each")
        return self._half.first_message is not None

    def _next(self) -> Message | None:
        """A message that is here. What a signal handler raises leaves it here, if the caller only returns it."""
        first = self._half.first_message
        if first is None:
            return None
        message = _shown(self.topic, first)
        self._half.next_message()
        return message

    def _questions(self) -> list[tuple[int, ConsumerRequest]]:
        """What is to be asked now, when all is written that must be before. Raises why the subscription ended."""
        while (change := self._half.take_change()) is not None:
            self._state.write_consumer(self.topic, change)
            self._half.committed()
        self._tell()
        return self._half.take_questions(boot_ms())

    def _answered(self, call: int, result: TopicReply | DistkvError) -> None:
        self._half.answered(call, result, boot_ms())
        self._tell()

    def _pause_s(self) -> float:
        """How long to wait before there are questions again."""
        wake_ms = self._half.wake_ms()
        return 0.0 if wake_ms is None else max(0, wake_ms - boot_ms()) / 1000

    def _tell(self) -> None:
        ended: DistkvError | None = None
        for news in self._half.take_news():
            match news:
                case MessagesGone(counters=counters):
                    self._tell_gone(counters)
                case SubscriptionEnded(error=error):
                    ended = error
                case _:
                    assert_never(news)
        if ended is not None:
            raise ended

    def _tell_gone(self, counters: Mapping[str, Ranges]) -> None:
        if self._when_gone is not None:
            self._when_gone(counters)
            return
        text = f"{self.topic!r}: {gone_text(counters)}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def gone_text(counters: Mapping[str, Ranges]) -> str:
    """What a user is told of messages that were not kept."""
    count = sum(len(some) for some in counters.values())
    what = "1 message was" if count == 1 else f"{count} messages were"
    first = [f"{producer!r} {some.to_list()}" for producer, some in list(counters.items())[:5]]
    more = ", and others" if len(counters) > len(first) else ""
    return f"{what} not kept, and never will come: {', '.join(first)}{more}"


def _shown(topic: str, message: TopicMessage) -> Message:
    return Message(unpack_value(message.value), topic, message.producer, message.counter, message.time)
