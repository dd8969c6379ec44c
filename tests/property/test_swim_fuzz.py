"""Datagrams of a kind that an attacker may send, by the thousand; ten million in a soak."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distkv.errors import FrameError
from distkv.swim.keyring import Keyring
from distkv.swim.seal import KeyedSeal, Opened
from distkv.wire import packing
from distkv.wire.swim_frames import (
    DOMAIN,
    BroadcastFrame,
    Frame,
    GossipFrame,
    JoinAck,
    JoinCode,
    JoinNak,
    JoinRedirect,
    JoinRequest,
    Leave,
    Nack,
    PingFrame,
    PongFrame,
    decode_frame,
    encode_frame,
)
from distkv.wire.swim_records import (
    DATAGRAM_BYTES_MAX,
    KeyAction,
    KeyChange,
    MemberState,
    NodeId,
    NodeRecord,
    Payload,
    Rumour,
    UserMessage,
)
from tests import profiles

pytestmark = pytest.mark.slow

START = b"lamp-123"
RECORD = NodeRecord("lamp", 2**57, START, ("192.0.2.1:27586", "[2001:db8::1]:27586"), 0, 500, (b"key1", b"key2"))
DESK = NodeId("desk", 2**57)
PAYLOAD = Payload(
    (Rumour(MemberState.SUSPECT, DESK, "door"), Rumour(MemberState.ALIVE, RECORD.id, "", RECORD)),
    2**63,
    1,
    (Rumour(MemberState.DEAD, RECORD.id, "door", RECORD),),
    (UserMessage("desk", START, 7, 1, b"body" * 9),),
    (KeyChange(2**57, KeyAction.INSTALL, b"k" * 32), KeyChange(2**57, KeyAction.USE, b"key2")),
    8,
    9,
)
REAL: list[Frame] = [
    JoinRequest(RECORD, b"t" * 16, b"a" * 32, "house"),
    JoinNak(DOMAIN, JoinCode.NAME_TAKEN, b"192.0.2.1:27586"),
    JoinRedirect(("192.0.2.1:1", "192.0.2.2:1"), DOMAIN, JoinCode.CLOSED),
    JoinAck(RECORD),
    Leave(RECORD),
    PingFrame(RECORD.id, DESK, 77, 1, PAYLOAD),
    PongFrame(RECORD.id, DESK, 77, 1, PAYLOAD),
    BroadcastFrame(RECORD),
    GossipFrame(RECORD.id, PAYLOAD),
    Nack(RECORD.id, DESK, 77),
]
FRAMES = [encode_frame(frame) for frame in REAL]
HEADERS = [bytes((kind,)) + b"\xff\xff\xff\xff" for kind in (0xDD, 0xDF, 0xC6, 0xDB, 0xC9)]
"""Of an array, a map, bytes, text and an extension that are huge, as they say."""


def _random(rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(60))


def _typed(rng: Random) -> bytes:
    return bytes((rng.randrange(17),)) + rng.randbytes(rng.randrange(60))


def _cut(rng: Random) -> bytes:
    data = rng.choice(FRAMES)
    return data[: rng.randrange(len(data))]


def _prolonged(rng: Random) -> bytes:
    return rng.choice(FRAMES) + rng.randbytes(rng.randrange(1, 9))


def _flipped(rng: Random) -> bytes:
    data = bytearray(rng.choice(FRAMES))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _spliced(rng: Random) -> bytes:
    one, other = rng.choice(FRAMES), rng.choice(FRAMES)
    return one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :]


def _deep(rng: Random) -> bytes:
    kind, depth = rng.randrange(1, 11), rng.randrange(1, 1300)
    return bytes((kind,)) + rng.choice([b"\x91", b"\x81", b"\x92\xc0", b"\x81\xc0"]) * depth


def _huge(rng: Random) -> bytes:
    data = bytearray(rng.choice(FRAMES))
    at = rng.randrange(1, len(data))
    data[at : at + 1] = rng.choice(HEADERS)
    return bytes(data)


def _odd(rng: Random) -> bytes:
    """A frame in which one part is another object."""
    data = rng.choice(FRAMES)
    parts = packing.unpack(data[1:])
    place = parts
    while isinstance(place, list) and place:
        inside, at = place, rng.randrange(len(place))
        place = place[at]
        if rng.random() < 0.4:
            break
    inside[at] = rng.choice([None, True, -1, 0, 2**64 - 1, 1.5, "", "x" * 70, b"", b"y" * 70, [], [[]], {}, {1: 2}])
    return data[:1] + packing.pack(parts)


def _long(rng: Random) -> bytes:
    return rng.choice(FRAMES)[:1] * (DATAGRAM_BYTES_MAX + rng.randrange(60_000))


KINDS = [_random, _typed, _cut, _prolonged, _flipped, _spliced, _deep, _huge, _odd, _long]
WEIGHTS = [2, 4, 4, 1, 6, 4, 1, 3, 6, 0.01]


def _found(data: bytes) -> str:
    try:
        frame = decode_frame(data)
    except FrameError as error:
        return error.reason
    return type(frame).__name__


@pytest.mark.parametrize("seed", profiles.seeds(1))
def test_no_datagram_gives_anything_but_a_frame_or_one_error(seed: int) -> None:
    rng, found = Random(seed), Counter[str]()
    kinds = rng.choices(KINDS, WEIGHTS, k=profiles.size(30_000, 1_000_000))
    for kind in kinds:
        found[_found(kind(rng))] += 1
    reasons = {"type", "body", "size"}
    assert found.keys() == reasons | {type(frame).__name__ for frame in REAL}
    assert found["body"] > len(kinds) / 2


@pytest.mark.parametrize("seed", profiles.seeds(1))
def test_no_datagram_without_the_secret_opens(seed: int) -> None:
    rng, found = Random(seed), Counter[str]()
    lamp, desk = (KeyedSeal(Keyring((b"k" * 32,)), "house", start, rng.randbytes) for start in (START, b"desk-123"))
    stranger = KeyedSeal(Keyring((b"s" * 32,)), "house", b"door-123", rng.randbytes)
    for _ in range(profiles.size(3000, 100_000)):
        frame = rng.choice(FRAMES)
        data = bytearray(rng.choice([lamp, stranger]).close(frame, rng.choice([None, b"desk-123"])))
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        opened = desk.open(bytes(data))
        assert not isinstance(opened, Opened)
        found[opened] += 1
    assert found.keys() <= {"seal", "type", "size"}
    desk.check()
