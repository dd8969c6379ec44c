"""How a copy of a topic begins with what the disk has of it.

Knows: what a row means that is read before others, and that one is lost.  Does not know which copy a row belongs to.

Invariant: what is read is what was kept; nothing is said to be gone for a while, because another copy may have it.
"""

from __future__ import annotations

from distkv.core.topics.copy_state import CopyState
from distkv.core.topics.producers import TopicProducer
from distkv.core.topics.subscribers import TopicSubscriber
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import counters_of, ranges_of
from distkv.wire.topic_rows import (
    RowKey,
    read_done,
    read_message,
    read_producer,
    read_subscriber,
)


def load_row(copy: CopyState, what: RowKey, value: bytes, now_ms: int) -> None:
    """A row of the disk.

    Raises:
        DecodeError: it cannot be read.
    """
    copy.joined_ms = now_ms
    match what.kind:
        case "p":
            copy.producers.setdefault(what.name, TopicProducer()).join(read_producer(value), copy.settings.gaps_max)
        case "s":
            row = read_subscriber(value)
            copy.subscribers[what.name] = TopicSubscriber(row.op, row.is_subscribed, counters_of(row.base))
            copy.claim(copy.subscribers[what.name].base)
        case "d":
            done = read_done(value)
            subscriber = copy.subscribers.get(what.name)
            if subscriber is not None and subscriber.is_subscribed and subscriber.op == done.op:
                subscriber.done[what.producer] = ranges_of(done.done)
                copy.claim({what.producer: subscriber.done[what.producer]})
        case "h":
            copy.taken_here[what.name] = now_ms
        case "m":
            copy.load(what.name, what.counter, read_message(value), now_ms)
        case _:
            pass


def load_lost(copy: CopyState, what: RowKey, now_ms: int) -> None:
    """A row was there, and is lost. Of a message it is known that it came; all else only another copy knows."""
    copy.joined_ms = now_ms
    if what.kind == "m":
        copy.producers.setdefault(what.name, TopicProducer()).join_seen(Ranges([(what.counter, what.counter + 1)]))
        copy.producer_changed(what.name)
