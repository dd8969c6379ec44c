"""One copy of a topic: what clients ask of it, what copies give each other, and what may be forgotten.

Knows: the rules of the service for one copy.  Does not know whether it is the owner's, nor where others are.

Invariant: a message is given to a subscriber until that says that it has it, and never if it came before the
subscription; each producer's in the order of counters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.core.topics.copy_rows import Changes, CopyRows
from distkv.core.topics.copy_state import CopyState
from distkv.core.topics.digests import digest_of
from distkv.core.topics.giving import next_messages, sooner
from distkv.core.topics.join import join_row, joined_bytes
from distkv.core.topics.producers import ORDER_WAIT_MS
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.subscribers import TopicSubscriber
from distkv.errors import NotFoundError, TooLargeError
from distkv.model.ranges import Ranges
from distkv.wire.declared import pack
from distkv.wire.topic_errors import TakenError, stale_op
from distkv.wire.topic_fields import COUNTER_MAX, OF_NODES, RANGES_MAX
from distkv.wire.topic_replies import TopicMessage
from distkv.wire.topic_rows import TOPIC, MessageRow, TopicRow, done_key, producer_key, read_key, subscriber_key

GONE_WAIT_MS: Final = 10_000
"""After something came from another copy, so long nothing is said to be gone: it may be on its way."""
PAGE_BYTES: Final = 16 << 20
DONE_BYTES: Final = 18
"""The most by which a message that is done makes a row longer."""
BASE_BYTES_MAX: Final = 512 << 10
"""Of what had come when a subscriber subscribed."""
_NONE: Final = Ranges()


@attrs.frozen(slots=True)
class Next:
    """What a subscriber gets."""

    messages: tuple[TopicMessage, ...]
    gone: dict[str, Ranges]
    """What it was owed, and is kept no more; it counts as done."""
    wake_ms: int | None
    """When there may be more although nothing comes; None: never."""


@attrs.frozen(slots=True)
class KeptMessage:
    """A message that is here."""

    producer: str
    counter: int
    arrival: int
    size: int
    """Its value, and `MESSAGE_BYTES`."""
    time: float


class Topic:
    """One copy."""

    def __init__(self, name: str, ids: Iterable[str], rows: CopyRows, settings: TopicSettings) -> None:
        self.name: Final = name
        self.ids = frozenset(ids)
        self.copy: Final = CopyState(rows, settings)

    @property
    def id(self) -> str:
        """Under which its rows stand on this disk; the others may have another one."""
        return self.copy.rows.id

    @property
    def changes(self) -> Changes:
        """Rows that changed since `Topics.keep` took them."""
        return self.copy.rows.changes

    @property
    def held_bytes(self) -> int:
        """Of all messages: their values, and `MESSAGE_BYTES` for each."""
        return self.copy.messages.bytes

    def __len__(self) -> int:
        """How many messages are here."""
        return len(self.copy.messages)

    def __bool__(self) -> bool:
        """A copy without messages is one, too."""
        return True

    def add_ids(self, ids: Iterable[str]) -> None:
        """It is the same topic as that with these ids."""
        together = self.ids | frozenset(ids)
        if together != self.ids:
            self.ids = together
            self.keep_name()

    def keep_name(self) -> None:
        """Its own row is to be kept."""
        self.copy.rows.put(TOPIC, pack(TopicRow(self.name, tuple(sorted(self.ids)))))

    # -- producers

    def put(
        self,
        producer: str,
        counter: int,
        value: bytes,
        time: float,
        floor: int | None,
        tag: bytes | None,
        now_ms: int,
    ) -> bool:
        """A message; whether it is new, and not a repetition. Its value is packed.

        Raises:
            TakenError: another message has this counter, or had it.
            TooLargeError: the value is too large, or there are too many producers.
        """
        known = self.copy.producers.get(producer)
        if known is not None and counter in known.seen:
            self._check_same(producer, counter, value, tag)
            return False
        settings = self.copy.settings
        if len(value) > settings.message_bytes:
            raise TooLargeError(
                f"the message has {len(value)} bytes; limits.topic_message_bytes of this node is"
                f" {settings.message_bytes}: put less, or allow more"
            )
        if known is None:
            self._check_producers(producer)
        lowest = counter if floor is None else min(floor, counter)
        self.copy.add(producer, counter, MessageRow(value, time, lowest, tag), now_ms)
        return True

    def has_seen(self, producer: str, counter: int) -> bool:
        """Whether a message with this counter ever came."""
        known = self.copy.producers.get(producer)
        return known is not None and counter in known.seen

    def _check_producers(self, producer: str) -> None:
        """Whether one more may put. Those of nodes are few, and do not count."""
        most, known = self.copy.settings.producers_max, self.copy.producers
        if producer.startswith(OF_NODES) or len(known) < most:
            return
        if sum(not name.startswith(OF_NODES) for name in known) >= most:
            raise TooLargeError(
                f"the topic {self.name!r} has {most} producers, as many as limits.topic_producers allows: drop one with"
                " 'distkv client topic drop TOPIC --producer NAME', or allow more"
            )

    def _check_same(self, producer: str, counter: int, value: bytes, tag: bytes | None) -> None:
        """Whether a counter that was seen is that of the same message."""
        known = self.copy.producers[producer]
        is_same = tag is None or known.tags.get(counter) == tag
        if is_same and tag is None:
            row = self.copy.message(producer, counter)
            is_same = row.value == value if row is not None else counter >= known.closed
        if not is_same:
            raise TakenError(
                f"counter {counter} of producer {producer!r} in topic {self.name!r} belongs to another message, or is"
                " too old to be known: the producer's state was copied, or is an old one; put under another name"
            )

    # -- subscribers

    def subscribe(
        self, subscriber: str, op: int | None, had: Mapping[str, Ranges] | None, time: float
    ) -> tuple[int, bool]:
        """From now on it is owed what comes; the number of the operation, and whether it was not subscribed with that.
        `had`: what it has, by its own state.

        Raises:
            StaleOpError: an operation with a higher number came before.
            TooLargeError: there are too many subscribers.
        """
        known = self.copy.subscribers.get(subscriber)
        self._check_op(known, op, is_subscribed=True)
        is_changed = known is None or not known.is_subscribed or op not in (None, known.op)
        if is_changed:
            self._check_subscribers(known)
            number = _next_op(known, time) if op is None else op
            base = self._base(subscriber)
            is_cut = any(producer.seen and name not in base for name, producer in self.copy.producers.items())
            owed = None if is_cut else Ranges()
            new = TopicSubscriber(number, True, base, owed=owed, checked=self.copy.messages.last)
            self.copy.replace_subscriber(subscriber, new)
        for producer, some in (had or {}).items():
            self._add_done(subscriber, producer, some)
        return self.copy.subscribers[subscriber].op, is_changed

    def unsubscribe(self, subscriber: str, op: int | None, time: float) -> tuple[int, bool]:
        """It is owed nothing any more; the number of the operation, and whether it was subscribed.

        Raises:
            StaleOpError: an operation with a higher number came before.
        """
        known = self.copy.subscribers.get(subscriber)
        self._check_op(known, op, is_subscribed=False)
        is_changed = known is not None and known.is_subscribed
        if op is None:
            if not is_changed:
                return (known.op if known is not None else 0), False
            op = _next_op(known, time)
        if is_changed or known is None or op > known.op:
            self.copy.replace_subscriber(subscriber, TopicSubscriber(op, False))
            self.copy.limit_marks()
        return op, is_changed

    def unknown(self, subscriber: str, had: Mapping[str, Ranges]) -> dict[str, Ranges]:
        """What it has by what is known here, and not by its own state."""
        done = self._subscribed(subscriber).done
        rest = {producer: some - had.get(producer, _NONE) for producer, some in done.items()}
        return {producer: some for producer, some in rest.items() if some}

    def add_done(self, subscriber: str, pairs: Iterable[tuple[str, int]]) -> None:
        """It says that it has these. What never came here is not believed, and counted.

        Raises:
            NotFoundError: it is not subscribed.
            TooLargeError: it left out too many between them.
        """
        known = self._subscribed(subscriber)
        said = dict[str, Ranges]()
        ignored = 0
        for producer, counter in pairs:
            state = self.copy.producers.get(producer)
            if state is None or counter not in state.seen:
                ignored += 1
            else:
                said.setdefault(producer, Ranges()).add(counter)
        if ignored:
            self.copy.rows.note("topic_done_ignored", subscriber=subscriber, count=ignored)
        for producer, some in said.items():
            if (known.done.get(producer, _NONE) | some).count() > RANGES_MAX:
                raise TooLargeError(
                    f"{subscriber!r} has left out more than {RANGES_MAX} messages of producer {producer!r} between"
                    " those that it has: say that you have these first"
                )
        for producer, some in said.items():
            self.copy.add_done(subscriber, producer, some)

    def done_bytes(self, subscriber: str, pairs: Sequence[tuple[str, int]]) -> int:
        """How much at the most `add_done` keeps."""
        rows = [(done_key(subscriber, producer), b"") for producer in {producer for producer, _ in pairs}]
        return joined_bytes(self.copy, rows) + DONE_BYTES * len(pairs)

    def next_messages(self, subscriber: str, limit: int, now_ms: int, bytes_max: int = PAGE_BYTES) -> Next:
        """What it is owed and may have now: `limit` messages at the most, and, behind the first one, so many bytes of
        values. What is gone is told until it says that it has that, too: an answer may be lost.

        Raises:
            NotFoundError: it is not subscribed.
        """
        known = self._subscribed(subscriber)
        gone, wake_ms = self._gone(known, now_ms)
        messages, later_ms = next_messages(self.copy, known, limit, bytes_max, now_ms)
        return Next(messages, gone, sooner(wake_ms, later_ms))

    def left(self, subscriber: str) -> int:
        """How many messages it is owed.

        Raises:
            NotFoundError: it is not subscribed.
        """
        return len(self.copy.owed(self._subscribed(subscriber)))

    def owed(self, subscriber: str) -> tuple[int, int, float | None]:
        """How many messages it is owed, their bytes, and the time of the first of them.

        Raises:
            NotFoundError: it is not subscribed.
        """
        owed = self.copy.owed(self._subscribed(subscriber))
        first = next(self.copy.messages.among(owed), None)
        row = None if first is None else self.copy.message(*first[1:])
        return len(owed), self.copy.messages.bytes_of(owed), None if row is None else row.time

    def is_subscribed(self, subscriber: str) -> bool:
        known = self.copy.subscribers.get(subscriber)
        return known is not None and known.is_subscribed

    def subscribers(self) -> list[str]:
        """Who is subscribed, in order."""
        return sorted(name for name, one in self.copy.subscribers.items() if one.is_subscribed)

    def producers(self) -> Collection[str]:
        return self.copy.producers.keys()

    def take_here(self, subscriber: str, now_ms: int) -> None:
        """Its subscription was taken on this node while this copy lacked what others have. It is in no join."""
        self.copy.mark(subscriber, now_ms)

    def is_taken_here(self, subscriber: str) -> bool:
        return subscriber in self.copy.taken_here

    def held_until(self, subscriber: str) -> int | None:
        """Until when it gets nothing, as long as what this copy lacked then may come. None: it lacked nothing."""
        taken_ms = self.copy.taken_here.get(subscriber)
        return None if taken_ms is None else taken_ms + ORDER_WAIT_MS

    def unmark_all(self) -> None:
        """This copy has what the others had."""
        for name in [*self.copy.taken_here]:
            self.copy.unmark(name)

    # -- other copies

    def join_row(self, key: str, value: bytes | None, now_ms: int) -> bool:
        """Take over a row of another copy; None: it is not there any more. Whether that changed anything.

        Raises:
            DecodeError: it is none; nothing changed.
        """
        return self.join_rows([(key, value)], now_ms)

    def join_rows(self, rows: Iterable[tuple[str, bytes | None]], now_ms: int) -> bool:
        """The same of several, in their order, up to one that is none; faster where many messages go.

        Raises:
            DecodeError: one is none.
        """
        is_changed = False
        going = dict[str, Ranges]()
        for key, value in rows:
            if value is not None:
                is_changed |= join_row(self.copy, key, value, now_ms)
                continue
            what = read_key(key)
            if what.kind == "m":
                going.setdefault(what.name, Ranges()).add(what.counter)
            elif what.kind == "p":
                self.drop_producer(what.name)
            elif what.kind == "s":
                self.drop_subscriber(what.name)
        before = len(self)
        self.forget_all(going)
        return is_changed or len(self) < before

    @property
    def digest(self) -> bytes:
        """Of all that is in the join: equal copies have equal ones."""
        return digest_of(self.copy.sums())

    def buckets(self) -> list[bytes]:
        """The digests of the rows of each bucket."""
        return self.copy.sums()

    def rows_of(self, bucket: int, after: str = "") -> Iterator[tuple[str, bytes]]:
        """The rows of a bucket, as another copy joins them, behind a key."""
        return self.copy.rows_of(bucket, after)

    # -- forgetting

    def arrived(self) -> int:
        """The number of the last message that came here."""
        return self.copy.messages.last

    def free(self, up_to_arrival: int) -> Iterator[KeptMessage]:
        """The messages up to this arrival that every known subscriber had, those first that came first. Nothing may
        change meanwhile."""
        return self._kept(self.copy.owed_by_any().gaps(0, up_to_arrival + 1))

    def size_owed(self) -> int:
        """Of the messages that at least one known subscriber is owed: their part of `held_bytes`."""
        return self.copy.messages.bytes_of(self.copy.owed_by_any())

    def oldest(self) -> Iterator[KeptMessage]:
        """All messages, in the same way."""
        return self._kept(Ranges([(0, self.copy.messages.last + 1)]))

    def _kept(self, arrivals: Ranges) -> Iterator[KeptMessage]:
        for arrival, producer, counter in self.copy.messages.among(arrivals):
            row = self.copy.message(producer, counter)
            if row is not None:
                yield KeptMessage(producer, counter, arrival, self.copy.messages.size_of(arrival), row.time)

    def kept(self) -> dict[str, Ranges]:
        """Per producer the counters of all messages that are here."""
        found = dict[str, Ranges]()
        for _, producer, counter in self.copy.messages.between(0, self.copy.messages.last + 1):
            found.setdefault(producer, Ranges()).add(counter)
        return found

    def forget(self, producer: str, counters: Iterable[int]) -> None:
        """Messages go; that they came stays known. Who is owed one is told that it is gone."""
        self.forget_all({producer: Ranges.from_ticks(sorted(counters))})

    def forget_all(self, counters: Mapping[str, Ranges]) -> None:
        """The same, of several producers at once."""
        self.copy.remove(counters)

    def drop_subscriber(self, name: str) -> bool:
        """It never was. Whether it was known."""
        known = self.copy.subscribers.pop(name, None)
        if known is None:
            return False
        for producer in known.done:
            self.copy.remove_row(done_key(name, producer))
        self.copy.remove_row(subscriber_key(name))
        if name in self.copy.taken_here:
            self.copy.unmark(name)
        return True

    def drop_producer(self, name: str) -> bool:
        """It never was, nor its messages. Whether it was known."""
        known = self.copy.producers.get(name)
        if known is None:
            return False
        self.copy.remove({name: Ranges([(1, known.seen.last() + 1)])})
        del self.copy.producers[name]
        self.copy.claims.pop(name, None)
        for subscriber, one in self.copy.subscribers.items():
            one.lost.pop(name, None)
            one.suspects.discard(name)
            if one.done.pop(name, None) is not None:
                self.copy.remove_row(done_key(subscriber, name))
            if one.base.pop(name, None) is not None:
                self.copy.subscriber_changed(subscriber)
        self.copy.remove_row(producer_key(name))
        return True

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.copy.check()

    # -- inside

    def _subscribed(self, name: str) -> TopicSubscriber:
        known = self.copy.subscribers.get(name)
        if known is None or not known.is_subscribed:
            raise NotFoundError(f"{name!r} is not subscribed to topic {self.name!r}: subscribe first")
        return known

    def _check_op(self, known: TopicSubscriber | None, op: int | None, *, is_subscribed: bool) -> None:
        if known is None or op is None or op > known.op or (op == known.op and is_subscribed == known.is_subscribed):
            return
        raise stale_op(known.op)

    def _check_subscribers(self, known: TopicSubscriber | None) -> None:
        most = self.copy.settings.subscribers_max
        is_counted = known is not None and known.is_subscribed
        if not is_counted and sum(one.is_subscribed for one in self.copy.subscribers.values()) >= most:
            raise TooLargeError(
                f"the topic {self.name!r} has {most} subscribers, as many as limits.topic_subscribers allows: drop one"
                " with 'distkv client topic drop TOPIC --subscriber NAME', or allow more"
            )

    def _base(self, subscriber: str) -> dict[str, Ranges]:
        """What has come up to now, as far as it can be kept: of the rest all that is here is owed."""
        base = dict[str, Ranges]()
        size = 0
        for name, producer in self.copy.producers.items():
            if producer.seen:
                size += len(name.encode()) + 10 + 18 * producer.seen.count()
                if size > BASE_BYTES_MAX:
                    self.copy.rows.note("topic_base_cut", subscriber=subscriber)
                    break
                base[name] = producer.snapshot()
        return base

    def _add_done(self, subscriber: str, producer: str, some: Ranges) -> None:
        known = self.copy.subscribers[subscriber].done.get(producer, _NONE)
        if (known | some).count() <= RANGES_MAX:
            self.copy.add_done(subscriber, producer, some)

    def _gone(self, known: TopicSubscriber, now_ms: int) -> tuple[dict[str, Ranges], int | None]:
        """What it is told to be gone, and when there may be more."""
        copy = self.copy
        copy.owed(known)
        wake_ms = None
        if known.suspects:
            if copy.joined_ms is not None and now_ms < copy.joined_ms + GONE_WAIT_MS:
                wake_ms = copy.joined_ms + GONE_WAIT_MS
            else:
                for producer in known.suspects:
                    known.lost[producer] = copy.missing(known, producer)
                known.suspects.clear()
        known.lost = {producer: some & copy.missing(known, producer) for producer, some in known.lost.items()}
        return {producer: some for producer, some in known.lost.items() if some}, wake_ms


def _next_op(known: TopicSubscriber | None, time: float) -> int:
    if known is not None and known.op >= COUNTER_MAX:
        raise TooLargeError(
            f"the last change of this subscription has op {known.op}, and there is no higher one: drop the subscriber"
            " with 'distkv client topic drop'"
        )
    return max(0 if known is None else known.op + 1, int(time * 1000))
