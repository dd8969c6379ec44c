"""What two copies of a topic make of each other: row by row, in any order, as often as one likes.

Knows: what becomes of two rows with one key.  Does not know whose rows these are, nor how they come.

* Of two messages with one identity the lower hash stays, and the earlier time.
* What was seen, floors and tags are united.
* A subscriber's higher operation replaces everything. For equal ones what had come when it subscribed is *intersected*:
  a subscription that was repeated elsewhere is owed what one of both sides owes it. What it has done is united.
* Nothing else goes: what nobody known is owed stays, and so does a message that was seen before.

Invariant: joins are associative, commutative and idempotent, while gaps and marks of those who unsubscribed are within
their bounds.  Bytes that are no row change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from distkv.core.ground.data import row_size
from distkv.core.topics.copy_state import CopyState
from distkv.core.topics.producers import TopicProducer
from distkv.core.topics.subscribers import TopicSubscriber
from distkv.errors import DecodeError
from distkv.model.ranges import Ranges
from distkv.wire.declared import evolve
from distkv.wire.topic_bodies import counters_of, flat, ranges_of
from distkv.wire.topic_fields import RANGES_MAX
from distkv.wire.topic_rows import (
    SEPARATOR,
    DoneRow,
    MessageRow,
    ProducerRow,
    RowKey,
    SubscriberRow,
    read_done,
    read_key,
    read_message,
    read_producer,
    read_subscriber,
)

_NONE: Final = Ranges()
_MESSAGE: Final = f"m{SEPARATOR}"
_ID_BYTES: Final = 32
"""More than what a key has besides on the disk."""


def join_row(copy: CopyState, key: str, value: bytes, now_ms: int) -> bool:
    """Take over a row of another copy; whether that changed anything.

    Raises:
        DecodeError: it is none.
    """
    what = read_key(key)
    match what.kind:
        case "m":
            return _join_message(copy, what.name, what.counter, read_message(value), now_ms)
        case "p":
            is_changed = _join_producer(copy, what.name, read_producer(value))
        case "s":
            is_changed = _join_subscriber(copy, what.name, read_subscriber(value))
        case "d":
            is_changed = _join_done(copy, what, read_done(value))
        case _:
            raise DecodeError(f"the row {key!r:.80} of a topic is for one node", "bad_row_key")
    if is_changed:
        copy.joined_ms = now_ms
    return is_changed


def joined_bytes(copy: CopyState | None, rows: Iterable[tuple[str, bytes | None]]) -> int:
    """How much at the most these rows keep, when they are joined: each beside the one that it changes; and what is
    known of the producers of messages, also of those that go."""
    size, producers = 0, set[str]()
    for key, value in rows:
        if key.startswith(_MESSAGE):
            producers.add(key.rpartition(SEPARATOR)[0].removeprefix(_MESSAGE))
        elif value is not None and copy is not None:
            size += len(copy.rows.get(key) or b"")
        if value is not None:
            size += row_size(key, value) + _ID_BYTES
    for name in producers:
        known = None if copy is None else copy.producers.get(name)
        size += row_size(name, b"") + _ID_BYTES + (TopicProducer() if known is None else known).row_bytes_max
    return size


def joined_message(one: MessageRow, other: MessageRow) -> MessageRow:
    """What two messages with one identity are."""
    least = min(one, other, key=_rank)
    return MessageRow(least.value, min(one.time, other.time), max(one.floor, other.floor), least.tag)


def _rank(row: MessageRow) -> tuple[bytes, bytes, bytes]:
    return blake2b(row.value, digest_size=16).digest(), row.value, row.tag or b""


def _join_message(copy: CopyState, producer: str, counter: int, row: MessageRow, now_ms: int) -> bool:
    row = evolve(row, floor=min(row.floor, counter)) if row.floor > counter else row
    mine = copy.message(producer, counter) if copy.messages.arrival_of(producer, counter) is not None else None
    if mine is None:
        copy.add(producer, counter, row, now_ms)
        return True
    if mine == row:
        return False
    if mine.value != row.value:
        copy.rows.note("topic_message_clash", producer=producer, counter=counter)
    both = joined_message(mine, row)
    state = copy.producers[producer]
    state.floor = max(state.floor, both.floor)
    copy.tag(producer, counter, row.tag, both.tag)
    if both == mine:
        return False
    copy.replace(producer, counter, both)
    return True


def _join_producer(copy: CopyState, name: str, row: ProducerRow) -> bool:
    mine = copy.producers.get(name)
    if mine is None:
        mine = TopicProducer()
    is_changed = mine.join(row, copy.settings.gaps_max)
    if is_changed:
        copy.producers[name] = mine
        copy.producer_changed(name)
        for subscriber in copy.subscribers.values():
            if subscriber.owed is not None:
                subscriber.suspects.add(name)
    return is_changed


def _join_subscriber(copy: CopyState, name: str, row: SubscriberRow) -> bool:
    mine = copy.subscribers.get(name)
    theirs = TopicSubscriber(row.op, row.is_subscribed, counters_of(row.base) if row.is_subscribed else {})
    if mine is None or (theirs.op, not theirs.is_subscribed) > (mine.op, not mine.is_subscribed):
        copy.replace_subscriber(name, theirs)
        copy.limit_marks()
        return copy.subscribers.get(name) is theirs
    if (theirs.op, theirs.is_subscribed) != (mine.op, mine.is_subscribed) or not mine.is_subscribed:
        return False
    base = {producer: both for producer, some in mine.base.items() if (both := some & theirs.base.get(producer, _NONE))}
    if base == mine.base:
        return False
    mine.base = base
    mine.forget_owed()
    copy.subscriber_changed(name)
    return True


def _join_done(copy: CopyState, what: RowKey, row: DoneRow) -> bool:
    mine = copy.subscribers.get(what.name)
    if mine is None or mine.op != row.op or not mine.is_subscribed:
        return False
    theirs = ranges_of(row.done)
    known = mine.done.get(what.producer, _NONE)
    if (known | theirs).count() > RANGES_MAX:
        copy.rows.note("topic_done_ranges", subscriber=what.name, producer=what.producer)
        theirs = _lowest(known | theirs)
    return copy.add_done(what.name, what.producer, theirs)


def _lowest(done: Ranges) -> Ranges:
    """As many of the ranges as can be kept; what is left out is owed again."""
    return ranges_of(flat(done)[: 2 * RANGES_MAX])
