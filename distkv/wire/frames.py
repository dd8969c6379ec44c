"""What arrives on the client socket: frames to requests (docs: client protocol).

Knows: what every request must hold, and where the row of each is, which knows its fields.  Does not know sockets, where
a frame ends (`framing`), how a request is written (`asking`), nor who answers; what is answered is `replies`.

Invariant: whatever the bytes, a frame yields a request, or an error that names the field and what would be right.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.errors import BadPathError, BadValueError, DecodeError, RequestError, UnknownActionError
from distkv.wire import packing, peering
from distkv.wire.asking import CLIENT_ROWS
from distkv.wire.fields import shown
from distkv.wire.request import Request
from distkv.wire.row import SEQ_MAX, Read, When, check_fields
from distkv.wire.services import service_rows


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
            read = _read_late(action)
        if frame[0] != 0x80 | len(fields):  # else it is a short map in which nothing was merged
            check_fields(frame)
        return read(seq, fields, frame)
    except RequestError as refused:
        return BadRequest(seq, refused)
    except DecodeError as error:
        return BadRequest(seq, RequestError(str(error)))


NAMED_MAX: Final = 16
"""To whoever asks for an action that there is not, so many are named."""
ROWS: Final = (*CLIENT_ROWS, *peering.ROWS, *service_rows())
"""All requests."""
SERVING_ONLY: Final = frozenset[type[Request]](row.type for row in ROWS if row.when is When.SERVING)
"""What a node refuses while it does not serve clients."""
_ACTIONS: Final[dict[str, Read[Request]]] = {row.action: row.read for row in ROWS}


# -- inside -------------------------------------------------------------------------------------------------------


def _read_late(action: object) -> Read[Request]:
    """How a request is read whose service was mounted meanwhile.

    Raises:
        RequestError: there is no such action.
    """
    for row in service_rows():
        if row.action == action:
            return row.read
    raise _unknown_action(action)


def _unknown_action(action: object) -> RequestError:
    if type(action) is str:
        known = [*_ACTIONS][:NAMED_MAX]
        what = f"this server knows {', '.join(known)}, and {len(_ACTIONS) - len(known)} more (docs: client protocol)"
        return UnknownActionError(f"there is no action {action[:40]!r}; {what}")
    return RequestError(f"the field 'action' must be text, not {shown(action)}")


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
