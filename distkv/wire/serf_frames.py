"""The Serf agent's RPC protocol, as bytes and values: requests out, replies and stream records in.

Knows: concatenated msgpack maps (a header, then perhaps a body), which command is followed by which body, and what the
bodies hold.  Does not know connections, time, or what an event's payload means.

Invariant: `ReplyDecoder` yields whole frames in the order in which they were sent, or raises `DecodeError`; after that
error the connection must be closed, because the place where the next frame begins is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs
import msgpack

from distkv.errors import DecodeError

Body: TypeAlias = Mapping[bytes, object]
"""A body as it came: all text as bytes, because payloads are bytes and nothing tells the two apart."""

BUFFER_MAX: Final = 16 << 20
"""The largest frame: the member list of some 50,000 agents."""
LENGTH_MAX: Final = 1 << 16
"""The most items of one list or map: memory is taken for what a header declares."""


class Shape(Enum):
    """What follows the header of a reply. Nothing in the reply says so; one must remember what was asked."""

    EMPTY = "no body"
    BODY = "a body, unless refused"
    RECORDS = "no body; unless refused, records follow from then on, and each looks like a `BODY`"


SHAPES: Final[Mapping[str, Shape]] = {
    "handshake": Shape.EMPTY,
    "auth": Shape.EMPTY,
    "event": Shape.EMPTY,
    "members": Shape.BODY,
    "tags": Shape.EMPTY,
    "stream": Shape.RECORDS,
    "stats": Shape.BODY,
}
"""Of the agent's commands those that we need."""


@attrs.frozen(slots=True)
class Frame:
    """One header and its body. `error` is empty when all is well."""

    seq: int
    error: str
    body: Body | None


@attrs.frozen(slots=True)
class SerfMember:
    """One agent, as another one sees it."""

    name: str
    host: str
    port: int
    tags: dict[str, str]
    status: str
    """`alive`, `leaving`, `left` or `failed`."""
    protocol: int = 0
    """Serf's own, which `serf version` calls the agent protocol; 0 when it is not told."""


@attrs.frozen(slots=True)
class UserEvent:
    name: str
    payload: bytes
    ltime: int


@attrs.frozen(slots=True)
class MemberEvent:
    """`kind` is `member-join`, `-leave`, `-failed`, `-update` or `-reap`."""

    kind: str
    members: tuple[SerfMember, ...]


Record: TypeAlias = UserEvent | MemberEvent


# -- out ----------------------------------------------------------------------------------------------------------


def encode_request(command: str, seq: int, body: Mapping[str, object] | None = None) -> bytes:
    """The bytes of one request."""
    header: bytes = msgpack.packb({"Command": command, "Seq": seq})
    return header if body is None else header + msgpack.packb(body)


# -- in -----------------------------------------------------------------------------------------------------------


class ReplyDecoder:
    """Cuts a byte stream into frames. `shape_of(seq)` tells what the next frame of that number looks like."""

    def __init__(self, shape_of: Callable[[int], Shape | None]) -> None:
        self._shape_of = shape_of
        self._unpacker = msgpack.Unpacker(
            raw=True, max_buffer_size=BUFFER_MAX, max_array_len=LENGTH_MAX, max_map_len=LENGTH_MAX
        )
        self._header: tuple[int, str] | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes. To be exhausted before the next call.

        Raises:
            DecodeError: this is not the protocol, or a frame is larger than `BUFFER_MAX`.
        """
        try:
            self._unpacker.feed(data)
        except msgpack.BufferFull:
            raise _bad(f"the agent sent a frame of more than {BUFFER_MAX} bytes") from None
        while (item := self._next()) is not None:
            if self._header is None:
                self._header = _number(item, b"Seq"), _text(item, b"Error")
                if self._has_body(*self._header):
                    continue
                body = None
            else:
                body = item
            (seq, error), self._header = self._header, None
            yield Frame(seq, error, body)

    def _next(self) -> Body | None:
        try:
            item = self._unpacker.unpack()
        except msgpack.OutOfData:
            return None
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            raise _bad(f"the agent sent what is not msgpack: {type(error).__name__}") from None
        if not isinstance(item, dict):
            raise _bad(f"the agent sent {type(item).__name__} where a map belongs")
        return item

    def _has_body(self, seq: int, error: str) -> bool:
        match self._shape_of(seq):
            case None:
                raise _bad(f"the agent answered request {seq}, which nobody made")
            case Shape.EMPTY | Shape.RECORDS:
                return False
            case Shape.BODY:
                return not error


# -- what bodies hold ---------------------------------------------------------------------------------------------


def decode_members(body: Body) -> tuple[SerfMember, ...]:
    """The answer to `members`; also the list in a member event."""
    return tuple(_member(item) for item in _list(body, b"Members"))


def decode_stats(body: Body) -> dict[str, dict[str, str]]:
    """The answer to `stats`: section -> name -> text."""
    return {_string(section): _texts(body, section) for section in body}


def decode_record(body: Body) -> Record:
    """What `stream` sends."""
    kind = _text(body, b"Event")
    if kind == "user":
        return UserEvent(_text(body, b"Name"), _payload(body), _number(body, b"LTime"))
    if kind.startswith("member-"):
        return MemberEvent(kind, decode_members(body))
    raise _bad("the agent's stream sent a record of an unknown kind")


def _bad(message: str) -> DecodeError:
    return DecodeError(message, "bad_agent")


def _member(item: object) -> SerfMember:
    if not isinstance(item, dict):
        raise _bad("the agent's member list holds what is not a member")
    return SerfMember(
        name=_text(item, b"Name"),
        host=_host(item.get(b"Addr")),
        port=_number(item, b"Port"),
        tags=_texts(item, b"Tags"),
        status=_text(item, b"Status"),
        protocol=_number(item, b"DelegateCur") if b"DelegateCur" in item else 0,
    )


def _host(packed: object) -> str:
    """4 bytes, or 16 which may be an IPv4 address in IPv6 clothes."""
    if not isinstance(packed, bytes) or len(packed) not in (4, 16):
        raise _bad("the agent's member list holds what is not an address")
    if len(packed) == 4:
        return ".".join(map(str, packed))
    if packed[:12] == bytes(10) + b"\xff\xff":
        return ".".join(map(str, packed[12:]))
    return ":".join(packed[i : i + 2].hex() for i in range(0, 16, 2))


def _string(value: object) -> str:
    if not isinstance(value, bytes):
        raise _bad("the agent sent what is not text where text belongs")
    return value.decode(errors="replace")


def _text(body: Body, key: bytes) -> str:
    return _string(body.get(key))


def _number(body: Body, key: bytes) -> int:
    value = body.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(f"the agent sent no number as {key.decode(errors='replace')!r}")
    return value


def _payload(body: Body) -> bytes:
    """An empty payload comes as null."""
    value = body.get(b"Payload")
    if value is None:
        return b""
    if not isinstance(value, bytes):
        raise _bad("the agent sent a payload that is not bytes")
    return value


def _list(body: Body, key: bytes) -> list[object]:
    value = body.get(key)
    if value is None:  # Go's nil slice
        return []
    if not isinstance(value, list):
        raise _bad(f"the agent sent no list as {key.decode(errors='replace')!r}")
    return value


def _map(body: Body, key: bytes) -> dict[bytes, object]:
    value = body.get(key)
    if value is None:  # Go's nil map
        return {}
    if not isinstance(value, dict):
        raise _bad(f"the agent sent no map as {key.decode(errors='replace')!r}")
    return value


def _texts(body: Body, key: bytes) -> dict[str, str]:
    return {_string(name): _string(value) for name, value in _map(body, key).items()}
