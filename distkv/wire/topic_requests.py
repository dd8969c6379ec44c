"""What clients ask about topics, declared; and the same as one node asks it another.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.errors import DecodeError, RequestError
from distkv.model.lean import lean_value
from distkv.model.ranges import Ranges
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_int, read_list, read_map
from distkv.wire.request_fields import (
    FLAG,
    HASH,
    WAIT,
    DeclaredFields,
    FieldGroup,
    FieldKind,
    declared,
    map_form,
    seconds,
    whole_number,
)
from distkv.wire.row import AnyRow, ReplyForm, check_fields
from distkv.wire.services import ServiceRequest
from distkv.wire.topic_fields import (
    COUNTER_MAX,
    OP_MAX,
    counter_map,
    read_beginning,
    read_client_producer,
    read_counter,
    read_counters,
    read_name,
)
from distkv.wire.values import canonical, pack_value

PAGE_MAX: Final = 1000
"""The most items of one `topic_list`, messages of one `topic_get`, and producers of one `topic_show`."""
DONE_MAX: Final = 10_000
"""How many messages one `topic_get` may say are done."""
COPIES_MAX: Final = 7
KEEP_S_MAX: Final = 1e10
KEEP_BYTES_MAX: Final = 2**62

# -- what is asked ------------------------------------------------------------------------------------------------


@lean_value
class TopicSubscribe(ServiceRequest):
    seq: int
    topic: str
    subscriber: str
    op: int | None = None
    """Its number among the subscribes and unsubscribes; None: above all that are known."""
    had: Mapping[str, Ranges] | None = None
    """What the client's own state has as done, by producers; None: it keeps none."""


@lean_value
class TopicUnsubscribe(ServiceRequest):
    seq: int
    topic: str
    subscriber: str
    op: int | None = None


@lean_value
class TopicPut(ServiceRequest):
    """Put a message."""

    seq: int
    topic: str
    value: bytes
    """Packed."""
    producer: str | None = None
    """None: the node that is asked takes a name and a counter of its own."""
    counter: int | None = None
    """Which message of this producer it is. With a producer, and only then."""
    floor: int | None = None
    """The lowest counter that the producer may still put; None: this one."""
    tag: bytes | None = None
    """Random, made with the message: so another message with this counter is found out."""


@lean_value
class TopicGet(ServiceRequest):
    """Say what is done, and be given what comes next."""

    seq: int
    topic: str
    subscriber: str
    done: tuple[tuple[str, int], ...] = ()
    """Producer and counter of each message that need not be given again."""
    limit: int = 1
    wait_s: float = 0.0
    """How long to wait for a message, when there is none."""


@lean_value
class TopicShow(ServiceRequest):
    seq: int
    topic: str
    producers: bool = False
    """Whether producers are named."""
    after: str = ""
    """Only those behind this name."""


@lean_value
class TopicList(ServiceRequest):
    seq: int
    prefix: str = ""
    limit: int = 100
    after: str = ""
    """Only names behind this one."""


@lean_value
class TopicSet(ServiceRequest):
    """Change what a topic is kept by. What is None stays as it is."""

    seq: int
    topic: str
    min_replicas: int | None = None
    """A put with fewer copies is refused."""
    keep_s: float | None = None
    """Older messages are dropped; 0: none is for its age."""
    keep_bytes: int | None = None
    """The oldest messages are dropped, so that this is left; 0: none is for its size."""


@lean_value
class TopicDrop(ServiceRequest):
    """Drop a topic, with all that is in it; or only what it remembers of a subscriber, or of a producer."""

    seq: int
    topic: str
    subscriber: str | None = None
    producer: str | None = None
    force: bool = False
    """Also while nodes are away that may have more of it."""


TopicRequest: TypeAlias = (
    TopicSubscribe | TopicUnsubscribe | TopicPut | TopicGet | TopicShow | TopicList | TopicSet | TopicDrop
)

# -- their fields -------------------------------------------------------------------------------------------------


def _read_value(fields: Fields, frame: bytes) -> tuple[bytes]:
    if "value" not in fields:
        raise RequestError("the field 'value' is missing: give the value of the message")
    value = fields["value"]
    if type(value) is not dict and type(value) is not list:
        return (pack_value(value),)
    return (canonical(next(raw for key, raw in packing.split_map(frame) if packing.unpack(key) == "value")),)


def _write_value(values: Sequence[bytes], _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw["value"] = values[0]


def _read_done(value: object, name: str) -> tuple[tuple[str, int], ...]:
    pairs = read_list(value, name)
    if len(pairs) > DONE_MAX:
        raise DecodeError(f"the field '{name}' has {len(pairs)} messages; the limit is {DONE_MAX}", f"bad_{name}")
    return tuple([_read_message(pair, name) for pair in pairs])


def _read_message(pair: object, name: str) -> tuple[str, int]:
    if type(pair) is not list or len(pair) != 2:
        raise bad(name, "made of [producer, counter] pairs", pair)
    return read_name(pair[0], name), read_counter(pair[1], name)


_NAME: Final = FieldKind(read_name)
_OP: Final = whole_number(OP_MAX, 1)
_COUNTER: Final = whole_number(COUNTER_MAX, 1)
_BEGINNING: Final = FieldKind(read_beginning, of_fields=True)
_COPIES: Final = FieldKind(lambda fields, name: read_int(fields, name, COPIES_MAX, 1), of_fields=True)
_LATER: Final = ReplyForm.LATER


def _put_fields(producer: FieldKind) -> DeclaredFields:
    return {
        "topic": _NAME, "value": FieldGroup(1, _read_value, _write_value), "producer": producer,
        "counter": _COUNTER, "floor": _COUNTER, "tag": HASH,
    }  # fmt: skip


def _check_put(put: TopicPut) -> None:
    if put.counter is None:
        given = [name for name in ("producer", "floor", "tag") if getattr(put, name) is not None]
        if given:
            raise RequestError(f"the field 'counter' is missing: with '{given[0]}' it says which message this is")
    elif put.producer is None:
        raise RequestError("the field 'producer' is missing: with 'counter' it says which message this is")
    elif put.floor is not None and put.floor > put.counter:
        raise RequestError("the field 'floor' must not be above 'counter': this message was not put before")


def _check_set(asked: TopicSet) -> None:
    if asked.min_replicas is None and asked.keep_s is None and asked.keep_bytes is None:
        raise RequestError("nothing is to be set: give 'min_replicas', 'keep_s' or 'keep_bytes'")


def _check_drop(asked: TopicDrop) -> None:
    if asked.subscriber is not None and asked.producer is not None:
        raise RequestError("the fields 'subscriber' and 'producer' are for two requests: leave one of them out")


def _checked(row: AnyRow[TopicRequest], check: Callable[..., None]) -> AnyRow[TopicRequest]:
    """The same row, for a request whose fields must go together."""
    read = row.read

    def read_checked(seq: int, fields: Fields, frame: bytes) -> TopicRequest:
        request = read(seq, fields, frame)
        check(request)
        return request

    return attrs.evolve(row, read=read_checked)


TOPIC_ROWS: Final[tuple[AnyRow[TopicRequest], ...]] = (
    declared("topic_subscribe", TopicSubscribe, {
        "topic": _NAME, "subscriber": _NAME, "op": _OP, "had": FieldKind(read_counters, counter_map),
    }, _LATER),
    declared("topic_unsubscribe", TopicUnsubscribe, {"topic": _NAME, "subscriber": _NAME, "op": _OP}, _LATER),
    _checked(declared("topic_put", TopicPut, _put_fields(FieldKind(read_client_producer)), _LATER), _check_put),
    declared("topic_get", TopicGet, {
        "topic": _NAME, "subscriber": _NAME, "done": FieldKind(_read_done, lambda done: [[*one] for one in done]),
        "limit": whole_number(PAGE_MAX, 1), "wait": WAIT,
    }, _LATER),
    declared("topic_show", TopicShow, {"topic": _NAME, "producers": FLAG, "after": _BEGINNING}, _LATER),
    declared("topic_list", TopicList, {
        "prefix": _BEGINNING, "limit": whole_number(PAGE_MAX, 1), "after": _BEGINNING,
    }, _LATER),
    _checked(declared("topic_set", TopicSet, {
        "topic": _NAME, "min_replicas": _COPIES, "keep_s": seconds(KEEP_S_MAX),
        "keep_bytes": whole_number(KEEP_BYTES_MAX),
    }, _LATER), _check_set),
    _checked(declared("topic_drop", TopicDrop, {
        "topic": _NAME, "subscriber": _NAME, "producer": _NAME, "force": FLAG,
    }, _LATER), _check_drop),
)  # fmt: skip

# -- between nodes ------------------------------------------------------------------------------------------------

_BY_TYPE: Final = {row.type: row for row in TOPIC_ROWS}
_READ: Final = {row.action: row.read for row in TOPIC_ROWS}
_READ_PUT, _ = map_form(TopicPut, _put_fields(_NAME))


def pack_request(request: TopicRequest) -> bytes:
    """As a node asks it another one; the `seq` is the client's, and is not said."""
    row = _BY_TYPE[type(request)]
    fields: dict[str, object] = {"action": row.action}
    raw: dict[str, bytes] = {}
    if row.write is not None:
        row.write(request, fields, raw)
    return packing.pack_map(fields, raw)


class NodeRequests:
    """Reads what `pack_request` packed, with the same care as what comes from a client. A put has a producer, which may
    be one of a node."""

    def read(self, data: bytes) -> TopicRequest:
        """The request; its `seq` is 0.

        Raises:
            DecodeError: it is none.
        """
        try:
            return self._read(data)
        except RequestError as error:
            raise DecodeError(str(error), "bad_topic_request") from None

    def _read(self, data: bytes) -> TopicRequest:
        fields = read_map(packing.unpack_whole(data), "request")
        if data[0] != 0x80 | len(fields):  # else it is a short map in which nothing was merged
            check_fields(data)
        action = fields.get("action")
        if action == "topic_put":
            put = _READ_PUT(0, fields, data)
            _check_put(put)
            if put.producer is None:
                raise RequestError("the field 'producer' is missing: the node that a client asks gives one")
            return put
        read = _READ.get(action) if type(action) is str else None
        if read is None:
            raise bad("action", f"one of {', '.join(_READ)}", action)
        return read(0, fields, data)


REQUESTS: Final = NodeRequests()
