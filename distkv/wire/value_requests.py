"""What is asked about single values: `get_value`, `history`, `set_value`, `delete_value` and `batch`, read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from distkv.errors import DecodeError, RequestError
from distkv.model.event import Chain
from distkv.model.fence import Fence
from distkv.model.lean import lean_value
from distkv.model.path import Path
from distkv.model.unchecked import unchecked_value
from distkv.wire import packing
from distkv.wire.events import read_asked_fence, read_ttl
from distkv.wire.fields import (
    Fields,
    chain_map,
    read_int,
    read_lasting_path,
    read_link,
    read_list,
    read_map,
    read_path,
    read_time,
    shown,
)
from distkv.wire.request_fields import COUNT, FLAG, PATH, FieldGroup, FieldKind, declared, map_form, whole_number
from distkv.wire.row import COUNT_MAX, REPLICA_FIELDS, AnyRow, ReplyForm, RequestRow, check_fields, refuse
from distkv.wire.values import canonical, pack_value

_GET: Final = b"\x84" + b"%b".join(
    (
        packing.pack("seq"),
        packing.pack("action") + packing.pack("get_value") + packing.pack("path"),
        packing.pack("nchain"),
        b"",
    )
)
_SET: Final = b"\x85" + b"%b".join(
    (
        packing.pack("seq"),
        packing.pack("action") + packing.pack("set_value") + packing.pack("path"),
        packing.pack("nchain") + packing.pack(1) + packing.pack("value"),
        b"",
    )
)

# -- what is asked ------------------------------------------------------------------------------------------------


@unchecked_value
class GetValue:
    seq: int
    path: Path
    nchain: int = 0
    """How many links of the chain the answer shows."""


@lean_value
class GetValueAt:
    """What a path held on this node at a time."""

    seq: int
    path: Path
    at: float
    """Seconds since 1970, by this node's clock."""
    nchain: int = 0


@lean_value
class GetHistory:
    """The changes of a path that reached this node, newest first, as a long result."""

    seq: int
    path: Path
    limit: int | None = None
    """How many are shown at the most."""
    before: int | None = None
    """Only those before this position."""


@unchecked_value
class SetValue:
    """Store, or delete when `value` is None; all conditions are judged on this node."""

    seq: int
    path: Path
    value: bytes | None
    chain: Chain | None = None
    """The entry's head must be this link (one link); empty: the path must have no entry."""
    new: bool = False
    prev: bytes | None = None
    """The old value must equal this."""
    idem: bool = False
    """When the value is the same already, do nothing."""
    nchain: int = 0
    prev_value: bool = False
    """Whether the answer shows the old value."""
    ttl: float | None = None
    """After so many seconds the value goes by itself."""
    fence: Fence | None = None
    """Of the token under which it is written; its base is 0, and says nothing."""
    refence: bool = False
    """Whether the fence of the path is lifted, whoever holds its token."""


@lean_value
class Batch:
    """Writes and reads in one step: all, or none when one of them is refused."""

    seq: int
    ops: tuple[GetValue | SetValue, ...]
    """Their own `seq` is 0."""


ValueRequest: TypeAlias = GetValue | GetValueAt | GetHistory | SetValue | Batch
"""What is asked about single values."""

# -- read ---------------------------------------------------------------------------------------------------------


def _get_value(seq: int, fields: Fields, frame: bytes) -> GetValue:
    refuse(fields, ("at",), "is for a request of its own, not for a batch")
    return _read_get(seq, fields, frame)


def _get_value_at(seq: int, fields: Fields, frame: bytes) -> GetValue | GetValueAt:
    if len(fields) == 3:  # seq, action and path: the usual read has no further wishes, or only for the chain
        return GetValue(seq, read_path(fields.get("path")))
    if len(fields) == 4 and "nchain" in fields:
        return GetValue(seq, read_path(fields.get("path")), read_int(fields, "nchain", COUNT_MAX))
    return _read_get_at(seq, fields, frame) if "at" in fields else _read_get(seq, fields, frame)


_read_get, _write_get = map_form(GetValue, {"path": PATH, "nchain": COUNT})
_read_get_at, _write_get_at = map_form(GetValueAt, {"path": PATH, "at": FieldKind(read_time), "nchain": COUNT})


def _set_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    if "value" not in fields:
        raise RequestError("the field 'value' is missing: give a value, or null to delete")
    value = fields["value"]
    raw = None if value is None else _canonical(value, "value", frame)
    path = read_lasting_path(fields.get("path"))
    count = len(fields) - ("seq" in fields)
    if count == 3:  # action, path and value: the usual write has no further wishes, or only for the chain
        return SetValue(seq, path, raw)
    if count == 4 and "nchain" in fields:
        return SetValue(seq, path, raw, nchain=read_int(fields, "nchain", COUNT_MAX))
    return _write(seq, path, raw, fields, frame)


def _delete_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    refuse(fields, ("new", "value"), "makes no sense where a value is deleted")
    return _write(seq, read_lasting_path(fields.get("path")), None, fields, frame)


def _write(seq: int, path: Path, raw: bytes | None, fields: Fields, frame: bytes) -> SetValue:
    refuse(fields, REPLICA_FIELDS, "is for a write of its own that waits for other nodes: give 'replicas'")
    found = _read_wishes((seq, path, raw), fields, frame)
    if found.ttl is not None and raw is None:
        raise RequestError("the field 'ttl' is for a value that is stored, and there is none: leave it out")
    if found.refence and found.fence is not None:
        raise RequestError("the field 'refence' lifts any fence: leave out 'fence', or 'refence'")
    return found


def _read_prev(fields: Fields, frame: bytes) -> tuple[bytes]:
    if fields["prev"] is None:
        raise RequestError("the field 'prev' must be a value, not null: 'new' asks that there is none")
    return (_canonical(fields["prev"], "prev", frame),)


def _write_prev(prev: Sequence[bytes], _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw["prev"] = prev[0]


_read_wishes, _write_wishes = map_form(
    SetValue,
    {
        "chain": FieldKind(lambda value, _: _condition(value), lambda chain: chain_map(chain, truncated=True)),
        "new": FLAG,
        "prev": FieldGroup(1, _read_prev, _write_prev),
        "idem": FLAG,
        "nchain": COUNT,
        "prev_value": FLAG,
        "ttl": FieldKind(lambda fields, _: read_ttl(fields), of_fields=True),
        "fence": FieldKind(lambda value, _: read_asked_fence(value), lambda fence: [fence.token, *fence[1:3]]),
        "refence": FLAG,
    },
    given=3,
)


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
            check_fields(part)
        return read(0, fields, part)
    except RequestError as refused:
        raise refused.at_op(index) from None
    except DecodeError as error:
        raise RequestError(str(error)).at_op(index) from None


_OPS: Final[dict[str, Callable[[int, Fields, bytes], GetValue | SetValue]]] = {
    "get_value": _get_value,
    "set_value": _set_value,
    "delete_value": _delete_value,
}


def _condition(value: object) -> Chain:
    """Null: the path must have no entry; else the link which its head must be."""
    if value is None:
        return ()
    link = read_map(value, "chain")
    return (read_link(link.get("node"), link.get("tick"), "chain"),)


def _canonical(value: object, name: str, frame: bytes) -> bytes:
    """The bytes to store. A list or map is read again from the frame, where colliding keys are still to be seen."""
    if type(value) is not dict and type(value) is not list:
        return pack_value(value)
    return canonical(_raw_field(frame, name))


def _raw_field(frame: bytes, name: str) -> bytes:
    return next(raw for key, raw in packing.split_map(frame) if packing.unpack(key) == name)


# -- written ------------------------------------------------------------------------------------------------------


def encode_get_value(seq: int, path: Path, nchain: int) -> bytes:
    """The frame of the usual read; the same as by `asking.encode_request`, in a third of the time."""
    return _GET % (packing.pack_plain(seq), packing.pack_plain([*path.names]), packing.pack_plain(nchain))


def encode_set_value(seq: int, path: Path, value: bytes) -> bytes:
    """The frame of the usual write, which asks for one link of the chain; the same as by `asking.encode_request`."""
    return _SET % (packing.pack_plain(seq), packing.pack_plain([*path.names]), value)


def _write_set(request: SetValue, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields["path"] = request.path.names
    if request.value is None:
        fields["value"] = None
    else:
        raw["value"] = request.value
    _write_wishes(request, fields, raw)


def _write_batch(request: Batch, _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw["ops"] = packing.array_header(len(request.ops)) + b"".join(map(_packed_op, request.ops))


def _packed_op(request: GetValue | SetValue) -> bytes:
    fields: dict[str, object] = {"action": "get_value" if isinstance(request, GetValue) else "set_value"}
    raw: dict[str, bytes] = {}
    if isinstance(request, GetValue):
        _write_get(request, fields, raw)
    else:
        _write_set(request, fields, raw)
    return packing.pack_map(fields, raw)


# -- the table ----------------------------------------------------------------------------------------------------

ROWS: Final[tuple[AnyRow[ValueRequest], ...]] = (
    RequestRow("get_value", GetValue, _get_value_at, _write_get),
    RequestRow("get_value", GetValueAt, _get_value_at, _write_get_at),
    RequestRow("set_value", SetValue, _set_value, _write_set, is_replicable=True),
    RequestRow("delete_value", SetValue, _delete_value, None, is_replicable=True),
    declared("history", GetHistory, {"path": PATH, "limit": COUNT, "before": whole_number()}, ReplyForm.LONG),
    RequestRow("batch", Batch, _batch, _write_batch),
)
