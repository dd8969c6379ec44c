"""What arrives on the client socket: a byte stream to frames, and frames to requests (docs: protocol, 'Client').

Knows: where a frame ends, which actions there are, and what each one's fields must be.  Does not know sockets, nor who
answers; what is answered is `replies`.

Invariant: whatever the bytes, a frame yields a request, or an error that names the field and what would be right.  A
bad frame does not disturb the next one, because its end was found without decoding it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, assert_never

import attrs

from distkv.errors import BadPathError, BadValueError, DecodeError, RequestError, TooLargeError, UnknownActionError
from distkv.model.event import TICK_MAX, Chain
from distkv.model.path import Path
from distkv.wire import packing
from distkv.wire.codec import read_tick_maps, tick_maps_map
from distkv.wire.fields import (
    Fields,
    chain_map,
    range_map,
    read_address,
    read_flag,
    read_int,
    read_link,
    read_map,
    read_node,
    read_path,
    read_ranges,
    read_time,
    shown,
)
from distkv.wire.request import (
    ExchangeRequest,
    GetEvents,
    GetSnapshot,
    GetState,
    GetValue,
    PingRequest,
    Request,
    SetValue,
)
from distkv.wire.values import canonical, pack_value

FRAME_BYTES_MAX: Final = 1 << 20
"""The default for requests; whoever reads the answers of a peer allows more."""

SEQ_MAX: Final = TICK_MAX

NCHAIN_MAX: Final = 2**31 - 1


class FrameReader:
    """Cuts a byte stream into frames: whole msgpack objects.

    Keeps one unfinished frame of at most `limit` bytes, besides what one `feed` brings. After `feed`, take all frames.
    """

    __slots__ = ("_base", "_data", "_error", "_limit", "_skipper", "_start")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._skipper = packing.Skipper()
        self._data: bytes | bytearray = b""
        self._base = 0  # where in the stream _data begins
        self._start = 0  # where in _data the next frame begins
        self._error: TooLargeError | DecodeError | None = None

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._skipper.feed(data)
        start, self._start = self._start, 0
        self._base += start
        if start == len(self._data):
            self._data = data
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        del self._data[:start]
        self._data += data

    def __iter__(self) -> Iterator[bytes]:
        """The frames that are whole; raises as `next_frame`."""
        return iter(self.next_frame, None)

    def next_frame(self) -> bytes | None:
        """The next whole frame; None while there is none.

        Raises:
            TooLargeError: the frame has, or will have, more than `limit` bytes.
            DecodeError: the stream is not msgpack. After either the stream has no more frames, only this error.
        """
        if self._error is not None:
            raise self._error
        try:
            end = self._skipper.skip()
        except DecodeError as error:
            self._error = error
            raise
        start, at = self._start, len(self._data) if end is None else end - self._base
        if at - start > self._limit:
            self._error = TooLargeError(f"a frame may have at most {self._limit} bytes, and this one has more")
            raise self._error
        if end is None:
            return None
        self._start = at
        return bytes(self._data[start:at])


# -- requests -----------------------------------------------------------------------------------------------------


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


def encode_request(request: Request) -> bytes:
    """What a client or a peer sends."""
    fields: dict[str, object] = {"seq": request.seq, "action": _NAMES[type(request)]}
    raw: dict[str, bytes] = {}
    match request:
        case GetValue():
            fields["path"] = request.path.names
            if request.nchain:
                fields["nchain"] = request.nchain
        case SetValue():
            _write_set(request, fields, raw)
        case GetEvents():
            fields["nodes"] = range_map(request.nodes)
        case GetSnapshot():
            fields |= {"node": request.node, "created": request.created, "addr": request.addr}
        case ExchangeRequest():
            fields["maps"] = tick_maps_map(request.maps)
        case GetState() | PingRequest():
            pass
        case _:
            assert_never(request)
    return packing.pack_map(fields, raw)


# -- one reader per action ----------------------------------------------------------------------------------------


def _get_value(seq: int, fields: Fields, _: bytes) -> GetValue:
    _refuse(fields, ("at",), "is not supported yet by this server")
    return GetValue(seq, read_path(fields.get("path")), _nchain(fields))


def _set_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    if "value" not in fields:
        raise RequestError("the field 'value' is missing: give a value, or null to delete")
    value = fields["value"]
    raw = None if value is None else _canonical(value, "value", frame)
    path = read_path(fields.get("path"))
    if len(fields) == 4:  # seq, action, path and value: the usual write has no further wishes
        return SetValue(seq, path, raw)
    return _write(seq, path, raw, fields, frame)


def _delete_value(seq: int, fields: Fields, frame: bytes) -> SetValue:
    _refuse(fields, ("new", "value"), "makes no sense where a value is deleted")
    return _write(seq, read_path(fields.get("path")), None, fields, frame)


def _write(seq: int, path: Path, raw: bytes | None, fields: Fields, frame: bytes) -> SetValue:
    _refuse(fields, ("ttl", "replicas", "timeout", "fence"), "is not supported yet by this server")
    prev = None
    if "prev" in fields:
        if fields["prev"] is None:
            raise RequestError("the field 'prev' must be a value, not null: 'new' asks that there is none")
        prev = _canonical(fields["prev"], "prev", frame)
    chain = _condition(fields["chain"]) if "chain" in fields else None
    new, idem = read_flag(fields, "new"), read_flag(fields, "idem")
    return SetValue(seq, path, raw, chain, new, prev, idem, _nchain(fields))


def _get_state(seq: int, _: Fields, __: bytes) -> GetState:
    return GetState(seq)


def _ping(seq: int, _: Fields, __: bytes) -> PingRequest:
    return PingRequest(seq)


def _get_events(seq: int, fields: Fields, _: bytes) -> GetEvents:
    return GetEvents(seq, read_ranges(fields.get("nodes"), "nodes"))


def _get_snapshot(seq: int, fields: Fields, _: bytes) -> GetSnapshot:
    node, created = read_node(fields.get("node"), "node"), read_time(fields.get("created"), "created")
    return GetSnapshot(seq, node, created, read_address(fields))


def _exchange(seq: int, fields: Fields, _: bytes) -> ExchangeRequest:
    return ExchangeRequest(seq, read_tick_maps(fields.get("maps")))


_ACTIONS: Final[dict[str, Callable[[int, Fields, bytes], Request]]] = {
    "get_value": _get_value,
    "set_value": _set_value,
    "delete_value": _delete_value,
    "get_state": _get_state,
    "ping": _ping,
    "get_events": _get_events,
    "get_snapshot": _get_snapshot,
    "exchange": _exchange,
}

_NAMES: Final[dict[type[Request], str]] = {
    GetValue: "get_value",
    SetValue: "set_value",
    GetState: "get_state",
    PingRequest: "ping",
    GetEvents: "get_events",
    GetSnapshot: "get_snapshot",
    ExchangeRequest: "exchange",
}


# -- inside -------------------------------------------------------------------------------------------------------


def _write_set(request: SetValue, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields["path"] = request.path.names
    if request.value is None:
        fields["value"] = None
    else:
        raw["value"] = request.value
    if request.chain is not None:
        fields["chain"] = chain_map(request.chain, truncated=True)
    if request.prev is not None:
        raw["prev"] = request.prev
    if request.new:
        fields["new"] = True
    if request.idem:
        fields["idem"] = True
    if request.nchain:
        fields["nchain"] = request.nchain


def _nchain(fields: Fields) -> int:
    return read_int(fields, "nchain", NCHAIN_MAX) if "nchain" in fields else 0


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
    raw = next(raw for key, raw in packing.split_map(frame) if packing.unpack(key) == name)
    return canonical(raw)


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
