"""What a copy of a topic has, in memory and as rows: messages, producers, subscribers.

Knows: which row follows from which change, and what a row that changes means for sums.  Does not know who asks, nor
what two copies make of each other (`join`).

Values are not in memory: they are read from the rows, where they are.

Invariant: the rows say what is in memory: read again, they give the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

from distkv.core.topics.copy_rows import CopyRows
from distkv.core.topics.digests import Digests, bucket_of_message, bucket_of_name, counters_of_bucket
from distkv.core.topics.messages import SLACK, Messages
from distkv.core.topics.producers import TopicProducer
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.subscribers import TopicSubscriber
from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.wire.declared import pack, pack_sorted
from distkv.wire.topic_fields import COUNTER_MAX
from distkv.wire.topic_rows import (
    MessageRow,
    done_key,
    here_key,
    message_key,
    producer_key,
    read_key,
    read_message,
    subscriber_key,
)

MESSAGE_BYTES: Final = 512
"""Counted for each message besides its value."""
_NONE: Final = Ranges()
_ORDER: Final = "sdmp"
"""In which rows of a bucket are given."""


class CopyState:
    """That of one copy."""

    def __init__(self, rows: CopyRows, settings: TopicSettings) -> None:
        self.rows: Final = rows
        self.settings: Final = settings
        self.messages: Final = Messages()
        self.producers: Final = dict[str, TopicProducer]()
        self.subscribers: Final = dict[str, TopicSubscriber]()
        self.taken_here: Final = dict[str, int]()
        """Whose subscription was taken on this node while it lacked what others have, and when."""
        self.digests: Final = Digests()
        self.odd: Final = array("q")
        """The arrivals of messages that somebody may have had before they came here."""
        self.claims: Final = dict[str, int]()
        """By producers the highest counter that a subscriber has had, where it has not come here."""
        self.joined_ms: int | None = None
        """When something came from another copy, or from the disk, that may say of messages which are yet to come."""

    # -- messages

    def add(self, producer: str, counter: int, row: MessageRow, now_ms: int) -> None:
        """A message that is not here."""
        key, packed = message_key(producer, counter), pack(row)
        self.load(producer, counter, row, now_ms)
        self.rows.put(key, packed)
        if self.digests.is_on:
            self.digests.add(bucket_of_message(producer, counter), key, packed)
            self.digests.change(producer_key(producer))

    def load(self, producer: str, counter: int, row: MessageRow, now_ms: int) -> None:
        """One whose row is there."""
        state = self.producers.get(producer)
        if state is None:
            state = self.producers[producer] = TopicProducer()
        is_new = state.sees(counter, row.floor, now_ms, self.settings.gaps_max)
        self.tag(producer, counter, row.tag, row.tag)
        arrival = self.messages.add(producer, counter, len(row.value) + MESSAGE_BYTES)
        if not is_new or counter <= self.claims.get(producer, 0):
            self.odd.append(arrival)
            self._trim_odd()

    def tag(self, producer: str, counter: int, tag: bytes | None, kept: bytes | None) -> None:
        """A tag of a counter is known; `kept`: that in the row of its message."""
        state = self.producers[producer]
        if tag is not None:
            state.tag(counter, tag)
        if state.tags.get(counter, kept) != kept:
            self.producer_changed(producer)

    def message(self, producer: str, counter: int) -> MessageRow | None:
        """None: it is not here."""
        packed = self.rows.get(message_key(producer, counter))
        return None if packed is None else read_message(packed)

    def replace(self, producer: str, counter: int, row: MessageRow) -> None:
        """The row of a message that is here is another one."""
        key, packed, bucket = message_key(producer, counter), pack(row), bucket_of_message(producer, counter)
        before = self.rows.get(key)
        if before is not None:
            self.digests.remove(bucket, key, before)
        self.digests.add(bucket, key, packed)
        self.rows.put(key, packed)
        arrival = self.messages.arrival_of(producer, counter)
        if arrival is not None:
            self.messages.resize(arrival, len(row.value) + MESSAGE_BYTES)

    def remove(self, counters: Mapping[str, Ranges]) -> None:
        """Messages go; that they came is known on."""
        for subscriber in self.subscribers.values():
            if subscriber.owed is not None:
                self.owed(subscriber)
        gone = dict[int, tuple[str, int]]()
        for producer, some in counters.items():
            before = len(gone)
            for begin, end in some.pairs():
                for counter, arrival in self.messages.remove(producer, begin, end):
                    gone[arrival] = producer, counter
                    self._remove_row(producer, counter)
            if len(gone) > before:
                self.producer_changed(producer)
        if not gone:
            return
        arrivals = Ranges.from_ticks(sorted(gone))
        for subscriber in self.subscribers.values():
            for arrival in subscriber.went(arrivals):
                producer, counter = gone[arrival]
                subscriber.lost.setdefault(producer, Ranges()).add(counter)

    def owed(self, subscriber: TopicSubscriber) -> Ranges:
        """The arrivals of the messages that it is owed."""
        if subscriber.owed is None:
            subscriber.suspects.update(self.producers)
        return subscriber.owed_now(self.messages, self.odd)

    def owed_by_any(self) -> Ranges:
        """The arrivals of the messages that at least one subscriber is owed."""
        found = Ranges()
        for subscriber in self.subscribers.values():
            if subscriber.is_subscribed:
                found.update(self.owed(subscriber))
        return found

    def missing(self, subscriber: TopicSubscriber, producer: str) -> Ranges:
        """What it would be owed of a producer, if it were here."""
        state = self.producers.get(producer)
        if state is None:
            return Ranges()
        rest = state.seen - subscriber.base.get(producer, _NONE) - subscriber.done.get(producer, _NONE)
        counters = self.messages.counters(producer)
        here = [
            counter
            for begin, end in rest.pairs()
            for counter in counters[bisect_left(counters, begin) : bisect_left(counters, end)]
        ]
        return rest - Ranges.from_ticks(here)

    def _remove_row(self, producer: str, counter: int) -> None:
        key = message_key(producer, counter)
        if self.digests.is_on:
            before = self.rows.get(key)
            if before is not None:
                self.digests.remove(bucket_of_message(producer, counter), key, before)
        self.rows.put(key, None)

    def _trim_odd(self) -> None:
        if len(self.odd) > 2 * len(self.messages) + SLACK:
            checked = [one.checked for one in self.subscribers.values() if one.owed is not None]
            least = min(checked, default=self.messages.last)
            self.odd[:] = array("q", [arrival for arrival in self.odd if arrival > least])

    # -- producers and subscribers

    def producer_changed(self, producer: str) -> None:
        """What follows from no message that is here is another."""
        key = producer_key(producer)
        self.rows.put(key, pack(self.producers[producer].row()))
        self.digests.change(key)

    def subscriber_changed(self, name: str) -> None:
        key = subscriber_key(name)
        self.rows.put(key, pack_sorted(self.subscribers[name].row()))
        self.digests.change(key)

    def done_changed(self, name: str, producer: str) -> None:
        key = done_key(name, producer)
        self.rows.put(key, pack(self.subscribers[name].done_row(producer)))
        self.digests.change(key)

    def replace_subscriber(self, name: str, new: TopicSubscriber) -> None:
        """A subscription begins, or ends."""
        old = self.subscribers.get(name)
        for producer in () if old is None else old.done:
            self.remove_row(done_key(name, producer))
        self.subscribers[name] = new
        self.claim(new.base)
        self.subscriber_changed(name)
        if name in self.taken_here and not new.is_subscribed:
            self.unmark(name)

    def add_done(self, name: str, producer: str, said: Ranges) -> bool:
        """A subscriber has these; whether that is new."""
        subscriber = self.subscribers[name]
        if subscriber.owed is not None:
            self.owed(subscriber)
        if not subscriber.add_done(producer, said, self.messages):
            return False
        self.claim({producer: said})
        self.done_changed(name, producer)
        return True

    def limit_marks(self) -> None:
        """Of those who unsubscribed as many are remembered as may subscribe: the last ones."""
        marks = sorted((one.op, name) for name, one in self.subscribers.items() if not one.is_subscribed)
        for _, name in marks[: max(0, len(marks) - self.settings.subscribers_max)]:
            del self.subscribers[name]
            self.remove_row(subscriber_key(name))
            self.rows.note("topic_mark_dropped", subscriber=name)

    def claim(self, had: Mapping[str, Ranges]) -> None:
        """Somebody has these; some may not have come here."""
        for producer, some in had.items():
            state = self.producers.get(producer)
            last = (some if state is None else some - state.seen).last()
            if last > self.claims.get(producer, 0):
                self.claims[producer] = last

    def remove_row(self, key: str) -> None:
        """A row goes that is no message's."""
        self.rows.put(key, None)
        self.digests.change(key)

    def mark(self, name: str, now_ms: int) -> None:
        """A subscription was taken on this node while it lacked what others have."""
        self.taken_here.setdefault(name, now_ms)
        self.rows.put(here_key(name), b"")

    def unmark(self, name: str) -> None:
        self.taken_here.pop(name, None)
        self.rows.put(here_key(name), None)

    # -- rows as copies compare them

    def sums(self) -> list[bytes]:
        """Of all buckets."""
        if not self.digests.is_on:
            others = [producer_key(name) for name in self.producers]
            for name, subscriber in self.subscribers.items():
                others += [subscriber_key(name), *(done_key(name, producer) for producer in subscriber.done)]
            self.digests.begin(self._message_rows(), others)
        return self.digests.sums(self.other_row)

    def rows_of(self, bucket: int, after: str) -> Iterator[tuple[str, bytes]]:
        """The rows of a bucket, behind a key: subscribers first, then what they have done. Nothing may change
        meanwhile."""
        rank = (_ORDER.find(after[:1]), after)
        for key in self._keys_of(bucket, rank):
            if (_ORDER.find(key[0]), key) <= rank:
                continue
            if key[0] == "m":
                packed = self.rows.get(key)
                found = None if packed is None else (bucket, packed)
            else:
                found = self.other_row(key)
            if found is not None:
                yield key, found[1]

    def _keys_of(self, bucket: int, rank: tuple[int, str]) -> Iterator[str]:
        names = [name for name in sorted(self.subscribers) if bucket_of_name(name) == bucket]
        yield from map(subscriber_key, names)
        for name in names:
            yield from (done_key(name, producer) for producer in sorted(self.subscribers[name].done))
        for producer in sorted(self.messages.producers()):
            if (_ORDER.find("m"), message_key(producer, COUNTER_MAX)) > rank:
                counters = counters_of_bucket(producer, self.messages.counters(producer), bucket)
                yield from (message_key(producer, counter) for counter in counters)
        yield from (producer_key(name) for name in sorted(self.producers) if bucket_of_name(name) == bucket)

    def _message_rows(self) -> Iterator[tuple[int, str, bytes]]:
        for _, producer, counter in self.messages.between(0, self.messages.last + 1):
            key = message_key(producer, counter)
            packed = self.rows.get(key)
            if packed is not None:
                yield bucket_of_message(producer, counter), key, packed

    def other_row(self, key: str) -> tuple[int, bytes] | None:
        """The bucket and the row of what is no message; None: there is none."""
        what = read_key(key)
        if what.kind == "p":
            producer = self.producers.get(what.name)
            return None if producer is None else (bucket_of_name(what.name), pack(producer.row()))
        subscriber = self.subscribers.get(what.name)
        if subscriber is None:
            return None
        bucket = bucket_of_name(what.name)
        if what.kind == "s":
            return bucket, pack_sorted(subscriber.row())
        return (bucket, pack(subscriber.done_row(what.producer))) if what.producer in subscriber.done else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.messages.check()
        self.rows.check()
        self.digests.check()
        for producer in self.producers.values():
            producer.check()
        for arrival, producer_name, counter in self.messages.between(0, self.messages.last + 1):
            row = self.message(producer_name, counter)
            size = 0 if row is None else len(row.value) + MESSAGE_BYTES
            must(size == self.messages.size_of(arrival), "each message has a row, and its size is known")
            must(counter in self.producers[producer_name].seen, "what is here was seen")
        for subscriber in self.subscribers.values():
            subscriber.check()
            if subscriber.owed is not None:
                owed = subscriber.owed_now(self.messages, self.odd)
                here = self.messages.between(0, self.messages.last + 1)
                expected = [arrival for arrival, by, counter in here if not subscriber.had(by, counter)]
                must([*owed] == expected, "what is owed is here, and was never had")
