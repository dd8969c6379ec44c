"""What a node keeps of a topic: rows, and the keys under which they stand.

Knows: the form of these, which is also the form in which nodes give rows to each other.  Does not know what a row means
beside another.

A row of a copy has a key within it, such as 'm', the producer and the counter; on the disk the id of the copy stands
behind the first letter (`kept_key`). A row that is given to another node has the key within the copy.

Invariant: as in `declared`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

import attrs

from distkv.errors import DecodeError
from distkv.wire.declared import BodyReader, Bounds, Declared, Time
from distkv.wire.topic_bodies import (
    Counter,
    CounterMap,
    FlatRanges,
    Name,
    Number,
    PackedValue,
    check_counters,
    check_names,
    ranges_of,
)
from distkv.wire.topic_fields import COUNTER_MAX, is_name

SEPARATOR: Final = "\x1f"
"""Between the parts of a key; no name has it."""
ID_CHARS: Final = 16
IDS_MAX: Final = 10_000
"""Of one topic: as often it began anew, or began twice at once."""
TAG_BYTES: Final = 8
TAGS_MAX: Final = 64
"""Of one producer: those of its highest counters are kept."""

_ID: Final = re.compile(f"[0-9a-f]{{{ID_CHARS}}}")
TopicId: TypeAlias = Annotated[str, Bounds(pattern=r"\A[0-9a-f]{16}\Z")]
Tag: TypeAlias = Annotated[bytes, Bounds(min_length=TAG_BYTES, max_length=TAG_BYTES)]


class TopicRow(Declared, array_like=True):
    """A topic of which this node has a copy."""

    name: Name
    ids: Annotated[tuple[TopicId, ...], Bounds(min_length=1, max_length=IDS_MAX)]

    def __post_init__(self) -> None:
        check_names(self.name)


class MessageRow(Declared, array_like=True):
    """A message."""

    value: PackedValue
    time: Time
    floor: Counter
    """The lowest counter for which the producer still waited."""
    tag: Tag | None = None


class ProducerRow(Declared, array_like=True):
    """What is known of a producer, besides what follows from its messages that are here."""

    seen: FlatRanges
    """The counters that ever came."""
    floor: Number
    tags: Annotated[tuple[tuple[Counter, Tag], ...], Bounds(max_length=TAGS_MAX)] = ()
    closed: Number = 0
    """Of the counters below this one nobody knows whether they came, where their messages are not here."""

    def __post_init__(self) -> None:
        ranges_of(self.seen)


class SubscriberRow(Declared, array_like=True):
    """A subscriber, or one that was."""

    op: Number
    is_subscribed: bool
    base: CounterMap = {}  # noqa: RUF012
    """What had come when it subscribed."""

    def __post_init__(self) -> None:
        check_counters(self.base)


class DoneRow(Declared, array_like=True):
    """What a subscriber has of one producer."""

    op: Number
    """Of the subscription that it belongs to."""
    done: FlatRanges

    def __post_init__(self) -> None:
        ranges_of(self.done)


read_topic: Final[Callable[[bytes], TopicRow]] = BodyReader[TopicRow](TopicRow, "topic").read
read_message: Final[Callable[[bytes], MessageRow]] = BodyReader[MessageRow](MessageRow, "message").read
read_producer: Final[Callable[[bytes], ProducerRow]] = BodyReader[ProducerRow](ProducerRow, "producer").read
read_subscriber: Final[Callable[[bytes], SubscriberRow]] = BodyReader[SubscriberRow](SubscriberRow, "subscriber").read
read_done: Final[Callable[[bytes], DoneRow]] = BodyReader[DoneRow](DoneRow, "done").read


# -- keys

TOPIC: Final = "t"
"""The key of the topic's own row."""


def message_key(producer: str, counter: int) -> str:
    return f"m{SEPARATOR}{producer}{SEPARATOR}{counter:016x}"


def producer_key(producer: str) -> str:
    return f"p{SEPARATOR}{producer}"


def subscriber_key(subscriber: str) -> str:
    return f"s{SEPARATOR}{subscriber}"


def done_key(subscriber: str, producer: str) -> str:
    return f"d{SEPARATOR}{subscriber}{SEPARATOR}{producer}"


def here_key(subscriber: str) -> str:
    """That of the mark that a subscription was taken on this node while others were not reached."""
    return f"h{SEPARATOR}{subscriber}"


@attrs.frozen(slots=True)
class RowKey:
    """What a key says."""

    kind: str
    """One of 't', 'm', 'p', 's', 'd', 'h'."""
    name: str = ""
    """The producer of a message or of itself; the subscriber of all others."""
    producer: str = ""
    """Whose messages a subscriber has done."""
    counter: int = 0


_COUNTER_CHARS: Final = 16
_PARTS: Final[Mapping[str, int]] = {"t": 1, "m": 3, "p": 2, "s": 2, "d": 3, "h": 2}


def is_joined(key: str) -> bool:
    """Whether other copies join such rows; the others are for one node."""
    return key[0] in "mspd"


def read_key(key: str) -> RowKey:
    """
    Raises:
        DecodeError: it is none.
    """
    kind, *parts = key.split(SEPARATOR)
    if _PARTS.get(kind) != len(parts) + 1:
        raise _bad(key)
    counter = read_counter(key, parts.pop()) if kind == "m" else 0
    if not all(map(is_name, parts)):
        raise _bad(key)
    name, producer = (*parts, "", "")[:2]
    return RowKey(kind, name, producer, counter)


def split_counter(kept: str) -> tuple[str, str]:
    """What the rows of all messages of one producer begin with, and the counter that is left of this one."""
    return kept[:-_COUNTER_CHARS], kept[-_COUNTER_CHARS:]


def read_counter(key: str, text: str) -> int:
    """
    Raises:
        DecodeError: the end of this key is none.
    """
    try:
        counter = int(text, 16)
    except ValueError:
        raise _bad(key) from None
    if not 1 <= counter <= COUNTER_MAX or f"{counter:016x}" != text:
        raise _bad(key)
    return counter


def _bad(key: str) -> DecodeError:
    return DecodeError(f"the row of a topic has the key {key!r:.80}, which is none", "bad_row_key")


def kept_key(id: str, key: str) -> str:
    """Under which a row of the copy with this id stands on the disk."""
    return f"{key[0]}{SEPARATOR}{id}{key[1:]}"


def split_key(kept: str) -> tuple[str, str]:
    """The id of the copy, and the key within it.

    Raises:
        DecodeError: it has none.
    """
    id = kept[2 : 2 + ID_CHARS]
    if kept[1:2] != SEPARATOR or not is_id(id) or kept[2 + ID_CHARS : 3 + ID_CHARS] not in ("", SEPARATOR):
        raise _bad(kept)
    return id, kept[0] + kept[2 + ID_CHARS :]


def is_id(text: str) -> bool:
    """Whether it is the id of a topic."""
    return _ID.fullmatch(text) is not None
