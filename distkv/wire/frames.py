"""What arrives on the client socket: frames to requests (docs: client protocol).

Knows: which actions there are, and what each one's fields must be.  Does not know sockets, where a frame ends
(`framing`), how a request is written (`asking`), nor who answers; what is answered is `replies`.

Invariant: whatever the bytes, a frame yields a request, or an error that names the field and what would be right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from distkv.errors import BadPathError, BadValueError, DecodeError, RequestError, UnknownActionError
from distkv.model.event import TICK_MAX, Chain
from distkv.model.path import Path
from distkv.wire import decisions, packing, peering, subtrees
from distkv.wire.events import read_ttl
from distkv.wire.fields import (
    Fields,
    read_flag,
    read_int,
    read_lasting_path,
    read_link,
    read_list,
    read_map,
    read_node,
    read_path,
    read_seconds,
    read_time,
    shown,
)
from distkv.wire.request import (
    REPLICAS_MAX,
    REPLICAS_S,
    WAIT_S_MAX,
    Backup,
    Batch,
    DeleteTree,
    GetHistory,
    GetState,
    GetValue,
    GetValueAt,
    ListNames,
    LookForDamage,
    PingRequest,
    ReplicatedWrite,
    Request,
    RetireNodeRequest,
    SetValue,
    Stop,
    Trace,
)
from distkv.wire.subtrees import read_nchain
from distkv.wire.values import canonical, pack_value

SEQ_MAX: Final = TICK_MAX


@attrs.frozen(slots=True)
class BadRequest:
    """A frame that is refused; the stream goes on. `seq` is 0 when it could not be read."""

    seq: int
    error: RequestError


def decode_request(frame: bytes) -> Request | BadRequest:
    """What a frame asks, or why it is refused; that `seq` rises is for the session to check.

    Raises:
        DecodeError: the frame is no map, so the other side does not speak this protocol: answer once, then close.
    """
    try:
        fields = packing.unpack(frame)
    except DecodeError as error:
        return _explain(frame, error)
    if type(fields) is not dict:
        raise DecodeError(f"a request is a map with 'seq' and 'action', not {shown(fields)}", "not_a_map")
    seq, action = fields.get("seq"), fields.get("action")
    if type(seq) is not int or not 0 < seq <= SEQ_MAX:
        return BadRequest(0, RequestError(f"the field 'seq' must be an integer above 0, not {shown(seq)}"))
    read = _ACTIONS.get(action) if type(action) is str else None
    try:
        if read is None:
            raise _unknown_action(action)
        if frame[0] != 0x80 | len(fields):  # else it is a short map in which nothing was merged
            _check_fields(frame)
        return read(seq, fields, frame)
    except RequestError as refused:
        return BadRequest(seq, refused)
    except DecodeError as error:
        return BadRequest(seq, RequestError(str(error)))


# -- one reader per action ----------------------------------------------------------------------------------------


def _get_value(seq: int, fields: Fields, _: bytes) -> GetValue:
    _refuse(fields, ("at",), "is for a request of its own, not for a batch")
    return GetValue(seq, read_path(fields.get("path")), read_nchain(fields))


def _get_value_at(seq: int, fields: Fields, frame: bytes) -> GetValue | GetValueAt:
    if len(fields) == 3:  # seq, action and path: the usual read has no further wishes
        return GetValue(seq, read_path(fields.get("path")))
    if "at" not in fields:
        return _get_value(seq, fields, frame)
    return GetValueAt(seq, read_path(fields.get("path")), read_time(fields["at"], "at"), read_nchain(fields))


def _history(seq: int, fields: Fields, _: bytes) -> GetHistory:
    limit = read_int(fields, "limit", subtrees.COUNT_MAX) if "limit" in fields else None
    before = read_int(fields, "before") if "before" in fields else None
    return GetHistory(seq, read_path(fields.get("path")), limit, before)


def _set_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    if "value" not in fields:
        raise RequestError("the field 'value' is missing: give a value, or null to delete")
    value = fields["value"]
    raw = None if value is None else _canonical(value, "value", frame)
    path = read_lasting_path(fields.get("path"))
    if len(fields) == 3 + ("seq" in fields):  # action, path and value: the usual write has no further wishes
        return SetValue(seq, path, raw)
    return _write(seq, path, raw, fields, frame)


def _delete_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    _refuse(fields, ("new", "value"), "makes no sense where a value is deleted")
    return _write(seq, read_lasting_path(fields.get("path")), None, fields, frame)


def _replicated(write: Callable[[int, Fields, bytes], SetValue]) -> Callable[[int, Fields, bytes], Request]:
    """The reader of a write of its own, which may ask to be answered when other nodes hold it."""

    def read(seq: int, fields: Fields, frame: bytes) -> Request:
        if "replicas" not in fields:
            return write(seq, fields, frame)
        wishes = ("replicas", "timeout")
        count = read_int(fields, "replicas", REPLICAS_MAX, 1)
        timeout_s = read_seconds(fields, "timeout", WAIT_S_MAX) if "timeout" in fields else REPLICAS_S
        rest = {name: value for name, value in fields.items() if name not in wishes}
        return ReplicatedWrite(write(seq, rest, frame), count, timeout_s)

    return read


def _write(seq: int, path: Path, raw: bytes | None, fields: Fields, frame: bytes) -> SetValue:
    _refuse(fields, ("replicas", "timeout"), "is for a write of its own that waits for other nodes: give 'replicas'")
    _refuse(fields, ("fence",), "is not supported yet by this server")
    prev = None
    if "prev" in fields:
        if fields["prev"] is None:
            raise RequestError("the field 'prev' must be a value, not null: 'new' asks that there is none")
        prev = _canonical(fields["prev"], "prev", frame)
    chain = _condition(fields["chain"]) if "chain" in fields else None
    new, idem, prev_value = read_flag(fields, "new"), read_flag(fields, "idem"), read_flag(fields, "prev_value")
    ttl = read_ttl(fields) if "ttl" in fields else None
    if ttl is not None and (raw is None or idem):
        why = "a write that may do nothing would not renew it" if idem else "there is none"
        raise RequestError(f"the field 'ttl' is for a value that is stored, and {why}: leave it out")
    return SetValue(seq, path, raw, chain, new, prev, idem, read_nchain(fields), prev_value, ttl)


def _batch(seq: int, fields: Fields, frame: bytes) -> Batch:
    ops = read_list(fields.get("ops"), "ops")
    parts = packing.split_array(_raw_field(frame, "ops"))
    return Batch(seq, tuple(_op(index, op, part) for index, (op, part) in enumerate(zip(ops, parts, strict=True))))


def _op(index: int, op: object, part: bytes) -> GetValue | SetValue:
    """One operation of a batch: a request of its own, without `seq`; a refusal says which one it is."""
    try:
        fields = read_map(op, "ops")
        action = fields.get("action")
        read = _OPS.get(action) if type(action) is str else None
        if read is None:
            raise RequestError(f"its 'action' must be one of {', '.join(_OPS)}, not {shown(action)}")
        if part[0] != 0x80 | len(fields):
            _check_fields(part)
        return read(0, fields, part)
    except RequestError as refused:
        raise refused.at_op(index) from None
    except DecodeError as error:
        raise RequestError(str(error)).at_op(index) from None


def _list(seq: int, fields: Fields, _: bytes) -> ListNames:
    return ListNames(seq, read_path(fields.get("path")))


def _delete_tree(seq: int, fields: Fields, _: bytes) -> DeleteTree:
    return DeleteTree(seq, read_path(fields.get("path")))


def _trace(seq: int, _: Fields, __: bytes) -> Trace:
    return Trace(seq)


def _stop(seq: int, fields: Fields, _: bytes) -> Stop:
    return Stop(seq, read_int(fields, "task", SEQ_MAX, 1))


def _get_state(seq: int, _: Fields, __: bytes) -> GetState:
    return GetState(seq)


def _retire_node(seq: int, fields: Fields, _: bytes) -> RetireNodeRequest:
    return RetireNodeRequest(seq, read_node(fields.get("node"), "node"), read_flag(fields, "force"))


def _backup(seq: int, _: Fields, __: bytes) -> Backup:
    return Backup(seq)


def _scrub(seq: int, fields: Fields, _: bytes) -> LookForDamage:
    return LookForDamage(seq, read_flag(fields, "fast"))


def _ping(seq: int, _: Fields, __: bytes) -> PingRequest:
    return PingRequest(seq)


_OPS: Final[dict[str, Callable[[int, Fields, bytes], GetValue | SetValue]]] = {
    "get_value": _get_value,
    "set_value": _set_value,
    "delete_value": _delete_value,
}

_ACTIONS: Final[dict[str, Callable[[int, Fields, bytes], Request]]] = {
    **_OPS,
    "set_value": _replicated(_set_value),
    "delete_value": _replicated(_delete_value),
    "get_value": _get_value_at,
    "history": _history,
    "backup": _backup,
    "scrub": _scrub,
    "batch": _batch,
    "get_tree": subtrees.read_get_tree,
    "list": _list,
    "delete_tree": _delete_tree,
    "watch": subtrees.read_watch,
    "conflicts": decisions.read_conflicts,
    "restore": decisions.read_restore,
    "dismiss": decisions.read_dismiss,
    "trace": _trace,
    "stop": _stop,
    "get_state": _get_state,
    "retire_node": _retire_node,
    "ping": _ping,
    "get_events": peering.read_get_events,
    "get_pages": peering.read_get_pages,
    "events_wait": peering.read_events_wait,
    "get_changes": peering.read_get_changes,
    "get_snapshot": peering.read_get_snapshot,
    "exchange": peering.read_exchange,
}


# -- inside -------------------------------------------------------------------------------------------------------


def _condition(value: object) -> Chain:
    """Null: the path must have no entry; else the link which its head must be."""
    if value is None:
        return ()
    link = read_map(value, "chain")
    return (read_link(link.get("node"), link.get("tick"), "chain"),)


def _refuse(fields: Fields, names: tuple[str, ...], why: str) -> None:
    """Fields that the sender means to be heeded, and that would be ignored."""
    for name in names:
        if name in fields:
            raise RequestError(f"the field '{name}' {why}: leave it out")


def _canonical(value: object, name: str, frame: bytes) -> bytes:
    """The bytes to store. A list or map is read again from the frame, where colliding keys are still to be seen."""
    if type(value) is not dict and type(value) is not list:
        return pack_value(value)
    return canonical(_raw_field(frame, name))


def _raw_field(frame: bytes, name: str) -> bytes:
    return next(raw for key, raw in packing.split_map(frame) if packing.unpack(key) == name)


def _unknown_action(action: object) -> RequestError:
    if type(action) is str:
        return UnknownActionError(f"there is no action {action[:40]!r}; this server knows {', '.join(_ACTIONS)}")
    return RequestError(f"the field 'action' must be text, not {shown(action)}")


def _check_fields(frame: bytes) -> None:
    """Nothing may be said twice: which of the two would hold?"""
    names = [packing.unpack(key) for key, _ in packing.split_map(frame)]
    if len({(type(name), name) for name in names}) < len(names):
        raise RequestError("the request has a field twice")


def _explain(frame: bytes, error: DecodeError) -> BadRequest:
    """Find the field that made a whole frame undecodable, and the `seq` to answer to."""
    if not packing.is_map(frame):
        raise DecodeError(f"a request is a map with 'seq' and 'action': {error}", "not_a_map")
    seq, refused = 0, RequestError(f"the request has a field whose name cannot be read: {error}")
    for key, raw in packing.split_map(frame):
        try:
            name = packing.unpack(key)
        except DecodeError:
            continue
        if type(name) is not str:
            continue
        try:
            value = packing.unpack(raw)
        except DecodeError as cause:
            refused = _ERRORS.get(name, RequestError)(f"the field {name[:40]!r} cannot be read: {cause}")
        else:
            if name == "seq" and type(value) is int and 0 < value <= SEQ_MAX:
                seq = value
    return BadRequest(seq, refused)


_ERRORS: Final[dict[str, type[RequestError]]] = {
    "path": BadPathError,
    "value": BadValueError,
    "prev": BadValueError,
}
