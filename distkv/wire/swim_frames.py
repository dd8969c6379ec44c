"""The datagrams of the membership layer, to bytes and back (docs: swim, 'Frames').

Knows: the type byte of each frame, and the array behind it.  Does not know seals (`swim.seal`), nor who answers what.

Invariant: any bytes are one frame, or one `FrameError` whose reason is `type`, `body` or `size`. Elements of an array
behind the known ones are ignored, bytes behind the array are not.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.errors import DecodeError, FrameError
from distkv.wire import packing
from distkv.wire.swim_records import (
    COUNT_MAX,
    DATAGRAM_BYTES_MAX,
    NOTHING,
    PAYLOAD_AROUND_BYTES,
    SEQUENCE_MAX,
    NodeId,
    NodeRecord,
    Payload,
    bad,
    id_list,
    payload_list,
    read_addresses,
    read_bytes,
    read_id,
    read_list,
    read_name,
    read_number,
    read_payload,
    read_record,
    record_list,
)

VERSION: Final = 1
"""Of the frames, as a JoinRequest says it."""
DOMAIN: Final = 7115
"""Whose codes `JoinCode` are."""
UNSIGNED_MAX: Final = 2**64 - 1
TOKEN_BYTES_MAX: Final = 64
"""Of a token, an auth and an etag."""
TTL_MAX: Final = 255
REDIRECTS_MAX: Final = 3


class FrameType(IntEnum):
    """The first byte of a datagram."""

    JOIN_REQUEST = 1
    JOIN_NAK = 2
    JOIN_REDIRECT = 3
    JOIN_ACK = 4
    LEAVE = 5
    PING_REQUEST = 6
    PING_RESPONSE = 7
    BROADCAST = 8
    GOSSIP = 9
    NACK = 10
    SEALED = 15
    """Another frame is inside (`swim.seal`)."""


class JoinCode(IntEnum):
    """Why a node does not let another one join."""

    TOKEN_EXPECTED = 1
    """Ask again, with the etag as the token."""
    NAME_TAKEN = 2
    """A live node has the name; its address is the etag."""
    GROUP = 3
    """This is another group."""
    VERSION = 4
    """This node speaks another version; it is the etag."""
    CLOSED = 5
    """This node lets nobody join."""


@attrs.frozen(slots=True)
class JoinRequest:
    record: NodeRecord
    token: bytes
    auth: bytes
    group: str
    version: int = VERSION


@attrs.frozen(slots=True)
class JoinNak:
    domain: int
    code: int
    etag: bytes = b""


@attrs.frozen(slots=True)
class JoinRedirect:
    addresses: tuple[str, ...]
    domain: int
    code: int
    etag: bytes = b""


@attrs.frozen(slots=True)
class JoinAck:
    record: NodeRecord


@attrs.frozen(slots=True)
class Leave:
    record: NodeRecord


@attrs.frozen(slots=True)
class PingFrame:
    source: NodeId
    """Who asks."""
    target: NodeId
    seq: int
    ttl: int = 0
    """How often it may be relayed."""
    payload: Payload = NOTHING


@attrs.frozen(slots=True)
class PongFrame:
    """The answer to a ping has the source and target of the ping."""

    source: NodeId
    target: NodeId
    """Who answers."""
    seq: int
    ttl: int = 0
    """As the ping had it when it came to the target."""
    payload: Payload = NOTHING


@attrs.frozen(slots=True)
class BroadcastFrame:
    record: NodeRecord


@attrs.frozen(slots=True)
class GossipFrame:
    source: NodeId
    payload: Payload


@attrs.frozen(slots=True)
class Nack:
    """A relay had no answer from the target."""

    source: NodeId
    """Who asks."""
    target: NodeId
    seq: int


Frame: TypeAlias = (
    JoinRequest | JoinNak | JoinRedirect | JoinAck | Leave | PingFrame | PongFrame | BroadcastFrame | GossipFrame | Nack
)


def encode_frame(frame: Frame) -> bytes:
    """Not longer than a datagram if `room_in` it was not exceeded."""
    kind, parts = _parts(frame)
    return kind.to_bytes(1, "big") + packing.pack_plain(parts)


def _parts(frame: Frame) -> tuple[FrameType, list[object]]:
    match frame:
        case PingFrame():
            return FrameType.PING_REQUEST, _probe_list(frame)
        case PongFrame():
            return FrameType.PING_RESPONSE, _probe_list(frame)
        case GossipFrame():
            return FrameType.GOSSIP, [id_list(frame.source), payload_list(frame.payload)]
        case Nack():
            return FrameType.NACK, [id_list(frame.source), id_list(frame.target), frame.seq]
        case JoinRequest():
            record = record_list(frame.record)
            return FrameType.JOIN_REQUEST, [record, frame.token, frame.auth, frame.group, frame.version]
        case JoinNak():
            return FrameType.JOIN_NAK, [frame.domain, frame.code, frame.etag]
        case JoinRedirect():
            return FrameType.JOIN_REDIRECT, [[*frame.addresses], frame.domain, frame.code, frame.etag]
        case JoinAck():
            return FrameType.JOIN_ACK, [record_list(frame.record)]
        case Leave():
            return FrameType.LEAVE, [record_list(frame.record)]
        case BroadcastFrame():
            return FrameType.BROADCAST, [record_list(frame.record)]
    assert_never(frame)


def _probe_list(frame: PingFrame | PongFrame) -> list[object]:
    return [id_list(frame.source), id_list(frame.target), frame.seq, frame.ttl, payload_list(frame.payload)]


def decode_frame(data: bytes) -> Frame:
    """The frame that a datagram is; a sealed one must be opened before.

    Raises:
        FrameError: it is none.
    """
    if not 0 < len(data) <= DATAGRAM_BYTES_MAX:
        raise FrameError(f"a datagram has {len(data)} bytes, not 1 to {DATAGRAM_BYTES_MAX}", "size")
    read = _READERS.get(data[0])
    if read is None:
        raise FrameError(f"a datagram begins with {data[0]}, which no frame does", "type")
    try:
        found = packing.unpack_whole(data[1:])
    except DecodeError as error:
        raise FrameError(str(error), "body") from None
    return read(found)


def room_in(frame: PingFrame | PongFrame | GossipFrame, overhead: int) -> int:
    """How many bytes of rumours, messages, changes of keys and samples a frame can take whose payload has none yet.
    `overhead`: what the seal adds."""
    return DATAGRAM_BYTES_MAX - overhead - len(encode_frame(frame)) - PAYLOAD_AROUND_BYTES


def _read_join_request(value: object) -> JoinRequest:
    parts = read_list(value, "a JoinRequest", 5)
    return JoinRequest(
        read_record(parts[0]),
        read_bytes(parts[1], "a token", TOKEN_BYTES_MAX),
        read_bytes(parts[2], "an auth", TOKEN_BYTES_MAX),
        read_name(parts[3], "the name of a group"),
        read_number(parts[4], "a version", COUNT_MAX),
    )


def _read_join_nak(value: object) -> JoinNak:
    return JoinNak(*_read_reason(read_list(value, "a JoinNak", 3)))


def _read_join_redirect(value: object) -> JoinRedirect:
    parts = read_list(value, "a JoinRedirect", 4)
    addresses = read_addresses(parts[0])
    if len(addresses) > REDIRECTS_MAX:
        raise bad("addresses")
    return JoinRedirect(addresses, *_read_reason(parts[1:]))


def _read_reason(parts: list[object]) -> tuple[int, int, bytes]:
    return (
        read_number(parts[0], "a domain", UNSIGNED_MAX),
        read_number(parts[1], "a code", UNSIGNED_MAX),
        read_bytes(parts[2], "an etag", TOKEN_BYTES_MAX),
    )


def _read_probe(value: object) -> tuple[NodeId, NodeId, int, int, Payload]:
    parts = read_list(value, "a ping", 5)
    ttl = read_number(parts[3], "a ttl", TTL_MAX)
    return *_read_between(parts), ttl, read_payload(parts[4])


def _read_between(parts: list[object]) -> tuple[NodeId, NodeId, int]:
    return read_id(parts[0], "a source"), read_id(parts[1], "a target"), read_number(parts[2], "a seq", SEQUENCE_MAX)


def _read_gossip(value: object) -> GossipFrame:
    parts = read_list(value, "a GossipFrame", 2)
    return GossipFrame(read_id(parts[0], "a source"), read_payload(parts[1]))


_READERS: Final[dict[int, Callable[[object], Frame]]] = {
    FrameType.JOIN_REQUEST: _read_join_request,
    FrameType.JOIN_NAK: _read_join_nak,
    FrameType.JOIN_REDIRECT: _read_join_redirect,
    FrameType.JOIN_ACK: lambda value: JoinAck(read_record(read_list(value, "a JoinAck", 1)[0])),
    FrameType.LEAVE: lambda value: Leave(read_record(read_list(value, "a Leave", 1)[0])),
    FrameType.PING_REQUEST: lambda value: PingFrame(*_read_probe(value)),
    FrameType.PING_RESPONSE: lambda value: PongFrame(*_read_probe(value)),
    FrameType.BROADCAST: lambda value: BroadcastFrame(read_record(read_list(value, "a BroadcastFrame", 1)[0])),
    FrameType.GOSSIP: _read_gossip,
    FrameType.NACK: lambda value: Nack(*_read_between(read_list(value, "a Nack", 3))),
}
