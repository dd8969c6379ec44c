"""What clients are answered about topics: as nodes tell it each other, and the fields that a client gets.

Knows: the fields of these replies.  Does not know requests, nor who answers.

Invariant: as in `declared`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, assert_never

from distkv.wire import packing
from distkv.wire.declared import BodyReader, Bounds, Declared, Node, Time
from distkv.wire.services import ServiceReply
from distkv.wire.topic_bodies import (
    Counter,
    CounterMap,
    Name,
    Number,
    PackedValue,
    check_counters,
    check_names,
    counters_of,
)
from distkv.wire.topic_fields import counter_map
from distkv.wire.topic_requests import COPIES_MAX, PAGE_MAX

NODES_MAX: Final = 10_000
SUBSCRIBERS_MAX: Final = 10_000
DIGEST_BYTES_MAX: Final = 32

Copies: TypeAlias = Annotated[int, Bounds(ge=0, le=COPIES_MAX)]
"""On how many nodes something is."""
Digest: TypeAlias = Annotated[bytes, Bounds(max_length=DIGEST_BYTES_MAX)]
ProducerNames: TypeAlias = Annotated[tuple[Name, ...], Bounds(max_length=PAGE_MAX)]
Nodes: TypeAlias = Annotated[tuple[Node, ...], Bounds(max_length=NODES_MAX)]


class TopicSubscribed(Declared, ServiceReply, array_like=True, tag=1):
    """The subscription is as it was asked for."""

    op: Number
    """The number of the operation that counts."""
    is_changed: bool
    """Whether it was not so before."""
    copies: Copies
    unknown: CounterMap | None = None
    """What servers know as done, and the client's own state does not; None: the client has told none."""

    def __post_init__(self) -> None:
        check_counters(self.unknown or {})


class TopicPutDone(Declared, ServiceReply, array_like=True, tag=2):
    """The message is stored."""

    producer: Name
    counter: Counter
    is_duplicate: bool
    """Whether it was before."""
    copies: Copies

    def __post_init__(self) -> None:
        check_names(self.producer)


class TopicMessage(Declared, array_like=True):
    producer: Name
    counter: Counter
    value: PackedValue
    time: Time
    """Seconds since 1970, by the clock of the node that was asked to put it: for people."""

    def __post_init__(self) -> None:
        check_names(self.producer)


class TopicMessages(Declared, ServiceReply, array_like=True, tag=3):
    """What comes next."""

    messages: Annotated[tuple[TopicMessage, ...], Bounds(max_length=PAGE_MAX)]
    left: Number = 0
    """How many more wait behind these."""
    gone: CounterMap = {}  # noqa: RUF012
    """What the subscriber was owed, and is kept no more. It counts as done."""

    def __post_init__(self) -> None:
        check_counters(self.gone)


class ShownSubscriber(Declared, array_like=True):
    subscriber: Name
    left: Number
    """How many messages wait for it."""
    oldest: Time | None = None
    """When the first of these was put."""

    def __post_init__(self) -> None:
        check_names(self.subscriber)


class TopicShown(Declared, ServiceReply, array_like=True, tag=4):
    """What there is to see of a topic."""

    topic: Name
    owner: Node
    followers: Nodes
    copies: Copies
    messages: Number
    bytes: Number
    """Of the messages: their values, and 512 for each."""
    kept: Number
    """How many of these bytes are there only because a server is away."""
    digest: Digest
    """Of all that the owner has. Copies that have the same have the same digest."""
    min_replicas: Copies
    keep_s: Annotated[float, Bounds(ge=0)]
    """0: messages are not dropped for their age."""
    keep_bytes: Number
    """0: they are not dropped for their size."""
    subscribers: Annotated[tuple[ShownSubscriber, ...], Bounds(max_length=SUBSCRIBERS_MAX)]
    producers: Number
    waits_for: Nodes = ()
    """Who has to say that it has no more of the topic, before messages that all had are forgotten."""
    producer_names: ProducerNames | None = None
    """The first ones behind a name; None: they were not asked for."""

    def __post_init__(self) -> None:
        check_names(self.topic, *(self.producer_names or ()))


class TopicItem(Declared, array_like=True):
    """A topic in a list."""

    topic: Name
    owner: Node
    copies: Copies
    messages: Number
    bytes: Number

    def __post_init__(self) -> None:
        check_names(self.topic)


class TopicsListed(Declared, ServiceReply, array_like=True, tag=5):
    items: Annotated[tuple[TopicItem, ...], Bounds(max_length=PAGE_MAX)]
    more: bool = False
    """Whether there are further ones, behind the last name."""
    away: Nodes = ()
    """Nodes whose topics may be missing."""


class TopicDone(Declared, ServiceReply, array_like=True, tag=6):
    """What was asked is done."""


class TopicStale(Declared, array_like=True, tag=7):
    """Between nodes only: the operation is below the one that is known; a client is told it as an error."""

    op: Number


TopicReply: TypeAlias = TopicSubscribed | TopicPutDone | TopicMessages | TopicShown | TopicsListed | TopicDone
NodeReply: TypeAlias = TopicReply | TopicStale

TOPIC_REPLIES: Final = BodyReader[NodeReply](NodeReply, "topic_reply")
"""As `declared.pack` packed them."""


def reply_fields(reply: TopicReply) -> tuple[dict[str, object], dict[str, bytes]]:
    """The fields of the reply to a client, and those of them that are packed already."""
    match reply:
        case TopicSubscribed(op=op, is_changed=is_changed, copies=copies, unknown=unknown):
            told = {} if unknown is None else {"unknown": counter_map(counters_of(unknown))}
            return {"op": op, "changed": is_changed, "copies": copies, **told}, {}
        case TopicPutDone(producer=producer, counter=counter, is_duplicate=is_duplicate, copies=copies):
            return {"producer": producer, "counter": counter, "duplicate": is_duplicate, "copies": copies}, {}
        case TopicMessages(messages=messages, left=left, gone=gone):
            packed = packing.array_header(len(messages)) + b"".join(map(_packed_message, messages))
            lost = {"gone": counter_map(counters_of(gone))} if gone else {}
            return {"left": left, **lost}, {"messages": packed}
        case TopicShown():
            return _shown_fields(reply), {}
        case TopicsListed(items=items, more=more, away=away):
            listed = [
                {"topic": one.topic, "owner": one.owner, "copies": one.copies, "messages": one.messages,
                 "bytes": one.bytes}
                for one in items
            ]  # fmt: skip
            flags = {"more": True} if more else {}
            return {"items": listed, **flags, **({"away": [*away]} if away else {})}, {}
        case TopicDone():
            return {}, {}
        case _:
            assert_never(reply)


def _packed_message(message: TopicMessage) -> bytes:
    fields = {"producer": message.producer, "counter": message.counter, "time": message.time}
    return packing.pack_map(fields, {"value": message.value})


def _shown_fields(shown: TopicShown) -> dict[str, object]:
    subscribers = [
        {"subscriber": one.subscriber, "left": one.left} | ({} if one.oldest is None else {"oldest": one.oldest})
        for one in shown.subscribers
    ]
    names = {} if shown.producer_names is None else {"producer_names": [*shown.producer_names]}
    return {
        "topic": shown.topic, "owner": shown.owner, "followers": [*shown.followers], "copies": shown.copies,
        "messages": shown.messages, "bytes": shown.bytes, "kept": shown.kept, "digest": shown.digest.hex(),
        "min_replicas": shown.min_replicas, "keep_s": shown.keep_s, "keep_bytes": shown.keep_bytes,
        "subscribers": subscribers, "producers": shown.producers, "waits_for": [*shown.waits_for], **names,
    }  # fmt: skip
