"""What a client may ask: each request, how its reply is read, and whether it may be asked twice.

Knows: requests, the fields of their replies, and which of them would do harm when done twice.  Does not know how they
travel (`protocol`).

Invariant: what `read` returns was checked; a reply that is nonsense raises `DecodeError`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Self, TypeVar

import attrs

from distkv.client import arguments
from distkv.client.arguments import as_path
from distkv.errors import DecodeError, RequestError
from distkv.model.event import Chain, Link, Tock
from distkv.model.fence import Fence
from distkv.model.lean import lean_value
from distkv.model.path import NAMES_MAX, Path
from distkv.model.unchecked import unchecked_value
from distkv.wire.asking import encode_request
from distkv.wire.events import read_shown_fence, read_ttl
from distkv.wire.fields import (
    LINKS_MAX,
    Fields,
    read_chain,
    read_flag,
    read_int,
    read_list,
    read_map,
    read_time,
    read_told_path,
)
from distkv.wire.replicated import REPLICAS_S, ReplicatedWrite
from distkv.wire.request import Request
from distkv.wire.subtrees import DeleteTree, GetTree
from distkv.wire.value_requests import (
    Batch,
    GetHistory,
    GetValue,
    GetValueAt,
    SetValue,
    encode_get_value,
    encode_set_value,
)
from distkv.wire.values import pack_value

_NO_WISHES = (False, False, None, None, None, None, False)
"""Of a write: new, idem, head, previous, ttl, fence and refence."""

LOOK_S: Final = 2.0
"""A node that has said nothing for so long is asked for a sign of life, and has as long to give one: see `look_s`."""

Answer = TypeVar("Answer")
Result = TypeVar("Result", covariant=True)


class Repeat(enum.Enum):
    """Whether a request may be sent again when its connection broke before the reply came."""

    ANYWHERE = "anywhere"
    """It changes nothing."""
    SAME_NODE = "same node"
    """It cannot take place twice on one node. Another node may not know of the first time, and would do it again."""
    NEVER = "never"
    """Done twice, it could undo what somebody else did in between."""


@unchecked_value
class Question(Generic[Answer]):
    """One request."""

    encode: Callable[[int], bytes]
    """From `seq` to the frame."""
    read: Callable[[Fields], Answer]
    """From the reply to what the user gets; of a long result, from an item. Raises DecodeError."""
    repeat: Repeat
    tells_start: bool = False
    """Whether the start of a long result is read like an item."""
    wait_s: float = 0.0
    """How long the node may wait on purpose before it replies."""
    looks: bool = False
    """Whether a node whose answer takes long is asked for a sign of life, so that one that froze is left soon."""


def look_s(each_s: float) -> float:
    """The same, of who waits for one node no longer than `each_s`."""
    return min(LOOK_S, each_s / 3)


def question_of(
    request: Callable[[int], Request], read: Callable[[Fields], Answer], repeat: Repeat, wait_s: float = 0.0
) -> Question[Answer]:
    """A question that is encoded as its kind of request says; `request` makes it from `seq`."""
    return Question(lambda seq: encode_request(request(seq)), read, repeat, wait_s=wait_s)


@lean_value
class Entry:
    """What a path holds."""

    value: object
    """str, bytes, int, float, bool, list, dict, `ExtType` or `Timestamp`."""
    chain: Chain
    """The change that made it, and which earlier ones that knew, newest first."""
    tock: Tock
    time: float
    """The writer's wall clock, seconds since 1970."""
    ttl: float | None = None
    """So many seconds after it was written it goes by itself; None: it stays."""
    fence: Fence | None = None
    """Under which it was written, if `fence.holds`; `fence.base` is how often the fence of the path was lifted. None:
    neither."""


@lean_value
class Written:
    """What a write did."""

    changed: bool
    link: Link | None
    """The change that the path shows now; None when nothing was there and nothing was done."""
    replicas: int = 1
    """How many nodes are known to hold it, the one that was asked included; 1 when no more were asked for."""


# -- one value ----------------------------------------------------------------------------------------------------


def get_value(path: Path | str) -> Question[Entry | None]:
    """What a path holds."""
    place = as_path(path)
    return Question(lambda seq: encode_get_value(seq, place, LINKS_MAX), _entry, Repeat.ANYWHERE)


def get_value_at(path: Path | str, at: float) -> Question[Entry | None]:
    """What a path held on the node that is asked, at a time."""
    place = as_path(path)
    moment = arguments.as_moment("at", at)
    return question_of(lambda seq: GetValueAt(seq, place, moment, LINKS_MAX), _entry, Repeat.ANYWHERE)


@lean_value
class Past:
    """A change of a path that reached the node."""

    value: object
    """As in `Entry`; None when the path was deleted."""
    chain: Chain
    """The change, and which earlier ones it knew, newest first."""
    tock: Tock
    time: float
    """The writer's wall clock, seconds since 1970."""
    arrived: float
    """The wall clock of the node that tells of it, when it came."""
    position: int
    """Its place among all that reached that node."""
    won: bool
    """Whether the path had this value then; otherwise another change was above it."""
    is_expired: bool = False
    """Whether it was deleted because its time was over."""
    fence: Fence | None = None
    """As in `Entry`."""


def history(path: Path | str, *, limit: int | None = None, before: int | None = None) -> Question[Past]:
    """The changes of a path, newest first: a long result."""
    place = as_path(path)
    arguments.check_count("limit", limit)
    arguments.check_count("before", before)
    return question_of(lambda seq: GetHistory(seq, place, limit, before), _past, Repeat.ANYWHERE)


def set_value(
    path: Path | str,
    value: bytes | None,
    *,
    new: bool = False,
    idem: bool = False,
    head: Link | None = None,
    previous: bytes | None = None,
    ttl: float | None = None,
    fence: Fence | str | None = None,
    refence: bool = False,
    replicas: int = 1,
    timeout_s: float = REPLICAS_S,
) -> Question[Written]:
    """Store packed bytes, or delete when there are none.

    Only a write with `head` cannot take place twice: no later state of the path has this link as its last one again.
    All other conditions can come true again when somebody else writes in between.

    Raises:
        RequestError: a condition, `ttl`, `fence`, `replicas` or `timeout_s` is none that a node takes.
    """
    arguments.check_packed("value", value)
    arguments.check_packed("previous", previous)
    arguments.check_wish(replicas, timeout_s)
    _check_conditions(new, idem, head, ttl)
    place, token_fence = as_path(path), arguments.as_fence(fence, refence)
    chain = _condition(head)
    repeat = Repeat.NEVER if head is None else Repeat.SAME_NODE
    wishes = (new, idem, head, previous, ttl, fence, refence)
    if value is not None and replicas == 1 and wishes == _NO_WISHES:
        return Question(lambda seq: encode_set_value(seq, place, value), read_written, repeat)

    def write(seq: int) -> SetValue:
        return SetValue(
            seq, place, value, chain, new, previous, idem, nchain=1, ttl=ttl, fence=token_fence, refence=refence
        )

    if replicas == 1:
        return question_of(write, read_written, repeat)
    return question_of(lambda seq: ReplicatedWrite(write(seq), replicas, timeout_s), read_written, repeat, timeout_s)


class Operation(Generic[Result]):
    """One of `Get`, `Set` and `Delete`, in a batch; `Result` is what it comes to."""

    __slots__ = ()


@lean_value
class Get(Operation[Entry | None]):
    """In a batch: what `path` holds, as `get`."""

    path: Path | str


@lean_value
class Set(Operation[Written]):
    """In a batch: store, as `set`. Raises BadValueError when the value is None."""

    path: Path | str
    value: object
    new: bool = attrs.field(default=False, kw_only=True)
    idem: bool = attrs.field(default=False, kw_only=True)
    head: Link | None = attrs.field(default=None, kw_only=True)
    previous: object = attrs.field(default=None, kw_only=True)
    ttl: float | None = attrs.field(default=None, kw_only=True)
    fence: Fence | str | None = attrs.field(default=None, kw_only=True)
    refence: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        arguments.check_stored(self.value)


@lean_value
class Delete(Operation[Written]):
    """In a batch: delete, as `delete`."""

    path: Path | str
    head: Link | None = attrs.field(default=None, kw_only=True)
    previous: object = attrs.field(default=None, kw_only=True)
    fence: Fence | str | None = attrs.field(default=None, kw_only=True)
    refence: bool = attrs.field(default=False, kw_only=True)


def batch(operations: Iterable[Operation[object]]) -> Question[tuple[Entry | Written | None, ...]]:
    """Several operations in one step.

    Raises:
        RequestError: one is none that a node takes; `op` is its number.
    """
    arguments.check_row(operations)
    wanted = tuple(operations)
    ops = tuple(_numbered(number, operation) for number, operation in enumerate(wanted))

    def read(reply: Fields) -> tuple[Entry | Written | None, ...]:
        results = [read_map(result, "results") for result in read_list(reply.get("results"), "results")]
        if len(results) != len(ops):
            raise DecodeError(f"{len(results)} results of {len(ops)} operations", "bad_results")
        return tuple(
            _entry(result) if isinstance(op, GetValue) else read_written(result)
            for op, result in zip(ops, results, strict=True)
        )

    return question_of(lambda seq: Batch(seq, ops), read, _repeat_of(wanted))


# -- trees --------------------------------------------------------------------------------------------------------


def get_tree(
    path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
) -> Question[tuple[Path, Entry]]:
    """The values at and below a path: a long result."""
    for name, count in (("min_depth", min_depth), ("max_depth", max_depth), ("limit", limit)):
        arguments.check_count(name, count)
    place, high = as_path(path), NAMES_MAX if max_depth is None else max_depth
    return question_of(
        lambda seq: GetTree(seq, place, min_depth, high, LINKS_MAX, limit), _path_and_entry, Repeat.ANYWHERE
    )


class DeletedCount(int):
    """How many values `delete_tree` deleted. It is that number, so whoever does not use tokens sees nothing else."""

    fenced: int
    """How many stayed, because tokens hold their paths."""

    def __new__(cls, count: int = 0, fenced: int = 0) -> Self:
        made = super().__new__(cls, count)
        made.fenced = fenced
        return made


def delete_tree(path: Path | str) -> Question[DeletedCount]:
    """Delete the values at and below a path."""
    place = as_path(path)
    return question_of(lambda seq: DeleteTree(seq, place), _deleted_count, Repeat.NEVER)


# -- inside -------------------------------------------------------------------------------------------------------


def _check_conditions(new: bool, idem: bool, head: Link | None, ttl: float | None) -> None:
    """Of a write."""
    arguments.check_flag("new", new)
    arguments.check_flag("idem", idem)
    arguments.check_head(head)
    arguments.check_ttl(ttl)


def _numbered(number: int, wanted: object) -> GetValue | SetValue:
    try:
        return _operation(wanted)
    except RequestError as error:
        raise error.at_op(number) from None


def _operation(wanted: object) -> GetValue | SetValue:
    match wanted:
        case Get(path):
            return GetValue(0, as_path(path), LINKS_MAX)
        case Delete(path, head=head, previous=previous, fence=asked, refence=refence):
            arguments.check_head(head)
            fence, old = arguments.as_fence(asked, refence), _packed(previous)
            condition = _condition(head)
            return SetValue(
                0, as_path(path), None, condition, False, old, nchain=1, fence=fence, refence=refence
            )
        case Set(path, value, new=new, idem=idem, head=head, previous=previous, ttl=ttl, fence=asked, refence=refence):
            _check_conditions(new, idem, head, ttl)
            fence, old = arguments.as_fence(asked, refence), _packed(previous)
            packed, condition = pack_value(value), _condition(head)
            return SetValue(
                0, as_path(path), packed, condition, new, old, idem, nchain=1, ttl=ttl, fence=fence, refence=refence
            )
        case _:
            raise RequestError(f"this is no operation, but of type {type(wanted).__name__}: give Get, Set or Delete")


def _condition(head: Link | None) -> Chain | None:
    return None if head is None else (head,)


def _packed(previous: object) -> bytes | None:
    """The value of a condition; None: whatever is there."""
    return None if previous is None else pack_value(previous)


def _repeat_of(operations: Sequence[object]) -> Repeat:
    """All take place or none; so one that cannot take place twice keeps the others from it.

    With `idem` a write may change nothing; then its `head` would let the others pass a second time.
    """
    if all(isinstance(op, Get) for op in operations):
        return Repeat.ANYWHERE
    is_safe = any(
        (isinstance(op, Set) and op.head is not None and not op.idem)
        or (isinstance(op, Delete) and op.head is not None)
        for op in operations
    )
    return Repeat.SAME_NODE if is_safe else Repeat.NEVER


def _path_and_entry(item: Fields) -> tuple[Path, Entry]:
    entry = _entry(item)
    if entry is None:
        raise DecodeError("the field 'value' is missing", "bad_value")
    return read_told_path(item.get("path")), entry


def _entry(reply: Fields) -> Entry | None:
    if "value" not in reply:
        return None
    chain, _ = read_chain(reply.get("chain"), "chain")
    ttl = read_ttl(reply) if "ttl" in reply else None
    tock, time = Tock(read_int(reply, "tock")), read_time(reply.get("time"), "time")
    return Entry(reply["value"], chain, tock, time, ttl, read_fence(reply))


def _past(item: Fields) -> Past:
    chain, _ = read_chain(item.get("chain"), "chain")
    time, arrived = read_time(item.get("time"), "time"), read_time(item.get("arrived"), "arrived")
    tock, position = Tock(read_int(item, "tock")), read_int(item, "position")
    won, is_expired = read_flag(item, "won"), read_flag(item, "expired")
    return Past(item.get("value"), chain, tock, time, arrived, position, won, is_expired, read_fence(item))


def read_fence(fields: Fields) -> Fence | None:
    """The fence that a reply or an item shows; None: its path has none, and none was ever lifted there."""
    return read_shown_fence(fields) if "fence" in fields or "base" in fields else None


def _deleted_count(reply: Fields) -> DeletedCount:
    return DeletedCount(read_int(reply, "count"), read_int(reply, "fenced") if "fenced" in reply else 0)


def read_written(reply: Fields) -> Written:
    """What a write is answered with."""
    link = read_chain(reply["chain"], "chain")[0][0] if "chain" in reply else None
    replicas = read_int(reply, "replicas", low=1) if "replicas" in reply else 1
    return Written(read_flag(reply, "changed"), link, replicas)
