"""Datagrams of strangers at a real server: none is answered, each is counted, and nothing changes.

Knows: frames and seals, and how they are spoilt.  Does not know what the server does with a good one.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from distkv.swim.keyring import parse_keyring
from distkv.swim.seal import KeyedSeal, PlainSeal, Seal
from distkv.wire import packing
from distkv.wire.swim_frames import FrameType, GossipFrame, JoinRequest, Leave, PingFrame, encode_frame
from distkv.wire.swim_records import MemberState, NodeId, NodeRecord, Payload, Rumour
from tests.process.servers import Server, wait_until
from tests.process.swim_fleet import Fleet, member_maps, members, new_secret, open_fleet, transport

NUMBER = 20_000
PORTION = 50
"""So many are sent before the server is given time to read them."""
GROWTH_KIB = 30 << 10
GET_S = 1.0
ALIVE = {"a": "alive", "b": "alive", "c": "alive"}
REASONS = ("type", "body", "size", "seal", "replay", "stranger", "group", "rate")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with open_fleet(tmp_path_factory.mktemp("fleet"), secret=new_secret()) as found:
        yield found


@contextmanager
def stranger(server: Server) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.connect((server.host, server.port))
        made.setblocking(False)
        yield made


def frames(victim: str) -> list[bytes]:
    """What a member could say, and a stranger would like to."""
    record = NodeRecord("x", 7, os.urandom(8), ("127.0.0.1:9",))
    dead = Rumour(MemberState.DEAD, NodeId(victim, (1 << 62)), "x")
    source, target = NodeId("x", 7), NodeId(victim, 7)
    return [
        encode_frame(JoinRequest(record, b"", b"", "distkv", 1)),
        encode_frame(PingFrame(source, target, 1, 0, Payload(rumours=(dead,)))),
        encode_frame(GossipFrame(source, Payload(rumours=(dead,)))),
        encode_frame(Leave(NodeRecord(victim, 1 << 62, os.urandom(8), ("127.0.0.1:9",)))),
    ]


def spoilt(rng: random.Random, seal: Seal, victim: str) -> bytes:
    """One that is wrong in some way."""
    real = seal.close(rng.choice(frames(victim)), None)
    match rng.randrange(10):
        case 0:
            return rng.randbytes(rng.randrange(1233))
        case 1:
            return bytes((rng.choice([*FrameType, 0, 200]),)) + rng.randbytes(rng.randrange(60))
        case 2:
            return real[: rng.randrange(len(real))]
        case 3:
            return real + rng.randbytes(1 + rng.randrange(20))
        case 4:
            place = rng.randrange(len(real))
            return real[:place] + bytes((real[place] ^ (1 << rng.randrange(8)),)) + real[place + 1 :]
        case 5:
            invented = KeyedSeal(parse_keyring(new_secret(), "x"), "distkv", rng.randbytes(8), os.urandom)
            return invented.close(rng.choice(frames(victim)), None)
        case 6:
            return bytes((rng.choice([*FrameType]),)) + b"\x91" * rng.randrange(1200)
        case 7:
            return bytes((rng.choice([*FrameType]),)) + rng.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + b"\xff" * 4
        case 8:
            return bytes((rng.choice([*FrameType]),)) + packing.pack([None] * rng.randrange(9))
        case _:
            return rng.choice(frames(victim))  # not sealed


def dropped(server: Server) -> int:
    shown = transport(server)
    return sum(int(str(shown[f"dropped_{reason}"])) for reason in REASONS)


def resident_kib(server: Server) -> int:
    assert server.process is not None
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def test_spoilt_datagrams_are_counted_and_change_nothing(fleet: Fleet) -> None:
    server, rng = fleet["a"], random.Random(7)
    own = KeyedSeal(parse_keyring(fleet.secret or "", "x"), "distkv", rng.randbytes(8), os.urandom)
    spoil = [own, PlainSeal()]
    before, generations = dropped(server), {str(one["node"]): one["generation"] for one in member_maps(server)}
    digest, size = server.state()["digest"], resident_kib(server)
    lost = 0
    with stranger(server) as other:
        for number in range(NUMBER):
            data = b"" if number % 997 == 0 else spoilt(rng, spoil[number % 2], "b")
            try:
                other.send(bytes(65_000) if number % 499 == 0 else data)
            except BlockingIOError:
                lost += 1
            if number % PORTION == 0:
                sent = before + number + 1 - lost - PORTION
                wait_until(lambda sent=sent: dropped(server) >= sent, "it has read them", 20)  # type: ignore[misc]
        wait_until(lambda: dropped(server) >= before + NUMBER - lost, "it has counted all", 20)
        with pytest.raises(BlockingIOError):
            other.recv(2000)
    assert members(server) == ALIVE
    assert {str(one["node"]): one["generation"] for one in member_maps(server)} == generations
    assert server.state()["digest"] == digest
    assert transport(fleet["b"])["told_dead"] == 0
    assert resident_kib(server) - size < GROWTH_KIB
    with server.client(reply_s=GET_S) as client:
        assert client.get(":").value == 1
