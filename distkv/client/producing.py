"""Puts of one producer: which message has which number, and what is asked again until it is answered.

Knows: the streams of a producer, their numbers, floors and tags, and what each answer means.  Does not know how its
state is kept (`topic_state`), nor how anything travels; chance and time are handed in.

Invariant: nothing is sent before the state that names it is written; a number is used once. Of a topic at most 32 puts
are unanswered, and the numbers of a name that may be sent are among its 32 highest: so a server knows the tag of
each. A put that was refused for good is not sent again, also after a crash.

In each topic a producer has a stream of its own: a name, `ID~` and eight random hex digits, and counters from 1 on. A
state that knows nothing of a topic begins a new name: else its numbers would begin again, and new messages would pass
for old ones. `taken` shows that the state is a copy, or an old one; then, too, the stream goes on under a new name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from distkv.errors import (
    BusyError,
    DistkvError,
    InternalError,
    NoSpaceError,
    NotReadyError,
    RequestError,
    TooLargeError,
    UnknownOutcomeError,
)
from distkv.model.invariant import must
from distkv.model.lean import lean_value
from distkv.wire.topic_errors import AwayError, BacklogError, NoReplicasError, TakenError
from distkv.wire.topic_replies import TopicPutDone, TopicReply
from distkv.wire.topic_requests import TopicPut

OPEN_MAX: Final = 32
"""How many puts of a topic may be unanswered."""
WAITING_MAX: Final = 10_000
"""How many more may wait for their turn, in all topics."""
TOPICS_MAX: Final = 10_000
"""To so many topics one producer may put."""
TAG_BYTES: Final = 8
SUFFIX_BYTES: Final = 4
AGAIN_MS: Final = 100
"""After so long a put that was refused for now is sent again; twice as long after each further time."""
AGAIN_MS_MAX: Final = 1600

_NOT_NOW: Final = (BusyError, NoSpaceError, AwayError)
"""Refused, and nothing happened; it may be different a moment later."""
_UNCERTAIN: Final = (NoReplicasError, NotReadyError, UnknownOutcomeError, InternalError)
"""It may have happened: a node that serves no more says that it is not ready, also of what it had begun."""

# -- what is kept -------------------------------------------------------------------------------------------------

PutKey: TypeAlias = tuple[str, str, int]
"""Topic, name and counter."""


@lean_value
class Stream:
    """Of one topic."""

    producer: str
    """The name under which messages are put."""
    counter: int
    """Of the next message."""


@lean_value
class OpenPut:
    """A put that is not answered."""

    topic: str
    producer: str
    counter: int
    tag: bytes
    value: bytes
    """Packed."""

    @property
    def key(self) -> PutKey:
        return self.topic, self.producer, self.counter


@lean_value
class ProducerChange:
    """What is to be written, in one transaction."""

    streams: Mapping[str, Stream]
    """By topic."""
    puts: Mapping[PutKey, OpenPut | None]
    """None: it is open no more."""


@attrs.frozen
class ProducerState:
    """What outlives the process."""

    streams: Mapping[str, Stream] = attrs.field(factory=dict)
    puts: Mapping[PutKey, OpenPut] = attrs.field(factory=dict)

    def with_change(self, change: ProducerChange) -> ProducerState:
        """The state after it."""
        puts = {key: put for key, put in {**self.puts, **change.puts}.items() if put is not None}
        return ProducerState({**self.streams, **change.streams}, puts)


# -- what is told -------------------------------------------------------------------------------------------------


@lean_value
class PutAnswered:
    """A message is stored."""

    number: int
    """Of the put, as `put` gave it."""
    topic: str
    producer: str
    counter: int
    is_duplicate: bool
    copies: int
    was: str | None = None
    """The name under which the message was put first, and which was taken by another message."""


@lean_value
class PutRefused:
    """A put is over, and is not sent again."""

    number: int
    error: DistkvError
    may_have_happened: bool
    """Whether an earlier attempt may have been carried out."""


@lean_value
class PutOpen:
    """Nobody waits for a put any more; it is kept, and sent again."""

    number: int
    topic: str
    error: DistkvError | None
    """Why the last attempt was in vain; None: it was not answered."""


@lean_value
class StreamRenamed:
    """The state was copied, or is an old one: from now on the stream has another name."""

    topic: str
    was: str
    producer: str


ProducerNews: TypeAlias = PutAnswered | PutRefused | PutOpen | StreamRenamed

# -- the machine --------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Put:
    number: int
    message: OpenPut
    is_certain: bool
    """Whether nothing of it can have happened yet."""
    is_written: bool = False
    call: int | None = None
    tries: int = 0
    again_ms: int = 0
    was: str | None = None
    error: DistkvError | None = None


@attrs.define(eq=False)
class _Topic:
    stream: Stream | None = None
    open: dict[int, _Put] = attrs.field(factory=dict)
    """By number."""
    waiting: deque[tuple[int, bytes]] = attrs.field(factory=deque)
    """Numbers and values for which there is no room yet."""

    def floor(self, producer: str) -> int | None:
        """The lowest counter that may still be put under this name."""
        messages = [put.message for put in self.open.values()]
        return min((message.counter for message in messages if message.producer == producer), default=None)

    @property
    def has_room(self) -> bool:
        """For one more put, and then for those of a former name, should they be taken."""
        stream = self.stream
        floor = None if stream is None else self.floor(stream.producer)
        if stream is None or floor is None:
            return len(self.open) < OPEN_MAX
        former = sum(put.message.producer != stream.producer for put in self.open.values())
        return stream.counter - floor + former < OPEN_MAX


@attrs.define(eq=False)
class _Unwritten:
    """What nobody has taken to write it yet."""

    streams: dict[str, Stream] = attrs.field(factory=dict)
    puts: dict[PutKey, OpenPut | None] = attrs.field(factory=dict)


class Producing:
    """The puts of one producer. All times are milliseconds of the client's clock.

    Ask `take_change` first: what it gives is to be written, and then `committed` called. Then `take_questions`.
    """

    def __init__(self, id: str, state: ProducerState, random_bytes: Callable[[int], bytes]) -> None:
        """What the state has unanswered is sent again.

        Args:
            id: so the names of this producer begin.
            state: as it was written; an empty one for a new producer.
            random_bytes: gives so many.
        """
        self.id: Final = id
        self._random_bytes: Final = random_bytes
        self._topics: Final[dict[str, _Topic]] = {topic: _Topic(stream) for topic, stream in state.streams.items()}
        self._busy: Final[dict[str, _Topic]] = {}
        """Of these, where something is open or waits."""
        self._by_call: Final[dict[int, _Put]] = {}
        self._last_number = self._last_call = 0
        self._change = _Unwritten()
        self._taken: ProducerChange | None = None
        self._news: list[ProducerNews] = []
        self._told_then: list[ProducerNews] = []  # when what changed is written
        self._told_now: list[ProducerNews] = []  # when what was taken is written
        for message in sorted(state.puts.values(), key=lambda put: put.key):
            put = _Put(self._next_number(), message, is_certain=False, is_written=True)
            self._begin(message.topic).open[put.number] = put

    # -- what the user wants

    def put(self, topic: str, value: bytes) -> int:
        """Put a message, when it is its turn; the number by which news name it.

        Raises:
            BusyError: too many wait already.
            TooLargeError: the state names too many topics.
        """
        if sum(len(of.waiting) for of in self._busy.values()) >= WAITING_MAX:
            raise BusyError(f"{WAITING_MAX} puts of this producer wait already: wait for some of them")
        if topic not in self._topics and len(self._topics) >= TOPICS_MAX:
            raise TooLargeError(f"the producer {self.id!r} put to {TOPICS_MAX} topics: use another one for more")
        number = self._next_number()
        self._begin(topic).waiting.append((number, value))
        self._admit(topic)
        return number

    def open_puts(self, topic: str) -> Mapping[int, bytes]:
        """The numbers and values of what is not answered, in the order in which it was put."""
        of = self._busy.get(topic)
        return {} if of is None else {put.number: put.message.value for put in of.open.values()}

    def give_up(self, number: int) -> None:
        """Nobody waits for it any more. What has certainly not happened is withdrawn."""
        for topic, of in self._busy.items():
            if (put := of.open.get(number)) is not None:
                if put.is_certain and put.call is None:
                    self._refuse(put, put.error or BusyError(f"the put to {topic!r} was not sent in time"))
                else:
                    self._news.append(PutOpen(number, topic, put.error))
                return
            for one in of.waiting:
                if one[0] == number:
                    of.waiting.remove(one)  # others are open, for else there was room
                    busy = BusyError(f"{OPEN_MAX} puts to {topic!r} are unanswered: this one was not begun")
                    self._news.append(PutRefused(number, busy, may_have_happened=False))
                    return

    # -- what is written

    def take_change(self) -> ProducerChange | None:
        """What is to be written now; None: nothing, or what was taken before is not yet."""
        if self._taken is not None or not (self._change.streams or self._change.puts):
            return None
        self._taken, self._change = ProducerChange(self._change.streams, self._change.puts), _Unwritten()
        self._told_now, self._told_then = self._told_then, []
        return self._taken

    def committed(self) -> None:
        """What was taken is on the disk."""
        taken, self._taken = self._taken, None
        if taken is None:
            return
        self._news += self._told_now
        for of in self._busy.values():
            for put in of.open.values():
                put.is_written = put.is_written or put.message.key in taken.puts

    # -- what is asked

    def take_questions(self, now_ms: int) -> list[tuple[int, TopicPut]]:
        """What is to be sent now: the number of the call, and the request."""
        found = []
        for put in self._sendable():
            if put.again_ms <= now_ms:
                self._last_call += 1
                put.call = self._last_call
                self._by_call[put.call] = put
                found.append((put.call, self._request(put.message)))
        return found

    def wake_ms(self) -> int | None:
        """When `take_questions` has something again, if nothing happens before."""
        return min((put.again_ms for put in self._sendable()), default=None)

    def answered(self, call: int, result: TopicReply | DistkvError, now_ms: int) -> None:
        """What a call came to."""
        put = self._by_call.pop(call, None)
        if put is None:
            return
        put.call = None
        message = put.message
        if isinstance(result, TakenError):
            self._rename(put)
        elif isinstance(result, DistkvError):
            self._take_refusal(put, result, now_ms)
        elif isinstance(result, TopicPutDone) and (result.producer, result.counter) == message.key[1:]:
            self._close(put)
            self._news.append(_answer(put, result))
        else:
            self._lose(put, now_ms)

    def repeated(self, call: int) -> None:
        """A call was sent more than once, so a refusal does not say what became of it before."""
        if (put := self._by_call.get(call)) is not None:
            put.is_certain = False

    def disconnected(self, now_ms: int) -> None:
        """Nothing that is under way will be answered."""
        for put in list(self._by_call.values()):
            self._lose(put, now_ms)
        self._by_call.clear()

    def take_news(self) -> list[ProducerNews]:
        """What happened since."""
        found, self._news = self._news, []
        return found

    @property
    def has_open(self) -> bool:
        """Whether any put is unanswered, or waits."""
        return bool(self._busy)

    def check(self) -> None:
        for topic, of in self._topics.items():
            must(len(of.open) <= OPEN_MAX, f"at most {OPEN_MAX} puts of {topic!r} are open")
            must(not (of.waiting and of.has_room), "none waits for which there is room")
            stream = of.stream
            for put in of.open.values():
                must(put.is_written or put.call is None, "nothing is sent before it is written")
                if stream is not None and put.message.producer == stream.producer:
                    must(stream.counter - OPEN_MAX <= put.message.counter < stream.counter, "open numbers are near")
        busy = {topic for topic, of in self._topics.items() if of.open or of.waiting}
        must(busy == self._busy.keys(), "topics are busy that have something")
        keys = [put.message.key for of in self._topics.values() for put in of.open.values()]
        must(len(keys) == len(set(keys)), "a number is used once")
        must(all(put.call == call for call, put in self._by_call.items()), "calls and puts name each other")

    # -- inside

    def _begin(self, topic: str) -> _Topic:
        found = self._busy[topic] = self._topics.setdefault(topic, _Topic())
        return found

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _sendable(self) -> Iterator[_Put]:
        for of in self._busy.values():
            for put in of.open.values():
                if put.is_written and put.call is None:
                    yield put

    def _request(self, message: OpenPut) -> TopicPut:
        floor = self._begin(message.topic).floor(message.producer)
        return TopicPut(0, message.topic, message.value, message.producer, message.counter, floor, message.tag)

    def _admit(self, topic: str) -> None:
        """Number those for which there is room."""
        of = self._begin(topic)
        while of.waiting and of.has_room:
            number, value = of.waiting.popleft()
            message = self._numbered(topic, self._random_bytes(TAG_BYTES), value)
            of.open[number] = _Put(number, message, is_certain=True)

    def _numbered(self, topic: str, tag: bytes, value: bytes) -> OpenPut:
        """A message with the next number of its stream, which will be written."""
        of = self._begin(topic)
        stream = of.stream or Stream(self._new_name(), 1)
        message = OpenPut(topic, stream.producer, stream.counter, tag, value)
        of.stream = Stream(stream.producer, stream.counter + 1)
        self._change.streams[topic] = of.stream
        self._change.puts[message.key] = message
        return message

    def _new_name(self) -> str:
        return f"{self.id}~{self._random_bytes(SUFFIX_BYTES).hex()}"

    def _close(self, put: _Put) -> None:
        """It is open no more."""
        topic = put.message.topic
        of = self._begin(topic)
        del of.open[put.number]
        self._change.puts[put.message.key] = None
        self._admit(topic)
        if not (of.open or of.waiting):
            del self._busy[topic]

    def _rename(self, put: _Put) -> None:
        """Its number belongs to another message."""
        was = put.message
        of = self._begin(was.topic)
        if of.stream is not None and of.stream.producer == was.producer:
            of.stream = Stream(self._new_name(), 1)
            self._told_then.append(StreamRenamed(was.topic, was.producer, of.stream.producer))
        put.message = self._numbered(was.topic, was.tag, was.value)
        put.was = put.was or was.producer
        put.is_written, put.is_certain, put.tries = False, True, 0
        self._change.puts[was.key] = None
        self._admit(was.topic)  # no open put of the new name is far behind

    def _take_refusal(self, put: _Put, error: DistkvError, now_ms: int) -> None:
        put.error = error
        if isinstance(error, _UNCERTAIN) or not isinstance(error, RequestError):
            self._lose(put, now_ms)
        elif isinstance(error, _NOT_NOW) or (isinstance(error, BacklogError) and not put.is_certain):
            self._again_later(put, now_ms)
        else:
            self._refuse(put, error)

    def _refuse(self, put: _Put, error: DistkvError) -> None:
        self._told_then.append(PutRefused(put.number, error, may_have_happened=not put.is_certain))
        self._close(put)

    def _lose(self, put: _Put, now_ms: int) -> None:
        """It may have happened."""
        put.is_certain = False
        self._again_later(put, now_ms)

    def _again_later(self, put: _Put, now_ms: int) -> None:
        put.call = None
        put.again_ms = now_ms + min(AGAIN_MS << min(put.tries, 10), AGAIN_MS_MAX)
        put.tries += 1


def _answer(put: _Put, done: TopicPutDone) -> PutAnswered:
    message = put.message
    where = (put.number, message.topic, message.producer, message.counter)
    return PutAnswered(*where, done.is_duplicate, done.copies, put.was)
