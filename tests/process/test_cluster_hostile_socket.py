"""Strangers on the client socket: whatever they send, they get a clear error, and nobody else notices.

Knows: the form of frames, and how to break it.  Does not know how frames are read.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path as FilePath

import pytest

from distkv.model.path import Path
from distkv.wire.asking import encode_request
from distkv.wire.node_requests import PingRequest
from distkv.wire.packing import pack, pack_map
from distkv.wire.value_requests import GetValue
from tests.process.load import Wire, set_many
from tests.process.servers import Server, open_servers

BIG = "x" * (500 << 10)
MANY = 20_000
GROWTH_MAX = 64 << 20
"""More memory than this nobody makes the server use: what waits for the disk at the most, far more than replies."""
SERVED_S = 100.0
BLOCKED_S = 1.0
"""A send that takes longer waits for a server that does not read."""

HUGE = {
    "text": b"\xdb\xff\xff\xff\xff",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "list": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "text in a map": b"\x82\xa3seq\x01\xa6action\xdb\xff\xff\xff\xff",
    "list in a map": b"\x82\xa3seq\x01\xa4path\xdd\xff\xff\xff\xff",
}
"""Four billion of something are said to follow."""

CLOSED = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no msgpack": b"\xc1",
    "no msgpack in a map": b"\x81\xa3seq\xc1",
    "integer": b"\x05",
    "nil": b"\xc0",
    "text": b"\xa3abc",
    "list": b"\x91\x80",
    "zeros": bytes(1000),
    "100,000 lists": pack_map({"seq": 1, "action": "set_value"}, {"value": b"\x91" * 100_000 + b"\x90"}),
}
"""Nobody knows where the next frame begins, or whether this is our protocol at all."""

OPEN = {
    "no fields": ({}, "bad_request"),
    "no seq": ({"action": "ping"}, "bad_request"),
    "seq 0": ({"seq": 0, "action": "ping"}, "bad_request"),
    "seq below 0": ({"seq": -1, "action": "ping"}, "bad_request"),
    "seq too large": ({"seq": 2**63, "action": "ping"}, "bad_request"),
    "seq true": ({"seq": True, "action": "ping"}, "bad_request"),
    "seq as text": ({"seq": "1", "action": "ping"}, "bad_request"),
    "no action": ({"seq": 1}, "bad_request"),
    "action that is a list": ({"seq": 1, "action": []}, "bad_request"),
    "unknown action": ({"seq": 1, "action": "frobnicate"}, "unknown_action"),
    "action of Python": ({"seq": 1, "action": "__class__"}, "unknown_action"),
    "no path": ({"seq": 1, "action": "get_value"}, "bad_path"),
    "path as text": ({"seq": 1, "action": "get_value", "path": "a.b"}, "bad_path"),
    "path of 65 names": ({"seq": 1, "action": "get_value", "path": ["a"] * 65}, "bad_path"),
    "path of 5,000 bytes": ({"seq": 1, "action": "get_value", "path": ["a" * 5_000]}, "bad_path"),
    "map in a path": ({"seq": 1, "action": "get_value", "path": [{}]}, "bad_path"),
    "no value": ({"seq": 1, "action": "set_value", "path": ["a"]}, "bad_request"),
    "path of the system": ({"seq": 1, "action": "set_value", "path": [None, "node", "x"], "value": 1}, "bad_request"),
    "flag as integer": ({"seq": 1, "action": "set_value", "path": ["a"], "value": 1, "new": 1}, "bad_request"),
    "chain as text": ({"seq": 1, "action": "set_value", "path": ["a"], "value": 1, "chain": "a:1"}, "bad_request"),
    "ranges of a list": ({"seq": 1, "action": "get_events", "nodes": []}, "bad_request"),
    "ranges across lives": ({"seq": 1, "action": "get_events", "nodes": {"x": [[1, 2**63]]}}, "bad_request"),
    "ranges backwards": ({"seq": 1, "action": "get_events", "nodes": {"x": [[9, 3]]}}, "bad_request"),
    "name of a directory": (
        {"seq": 1, "action": "get_snapshot", "node": "../x", "created": 1.0, "addr": ""},
        "bad_request",
    ),
    "maps without content": ({"seq": 1, "action": "exchange", "maps": {}}, "bad_request"),
    "maps of another network": (
        {
            "seq": 1,
            "action": "exchange",
            "maps": {
                "node": "x",
                "tick": 1,
                "tock": 2**62,
                "life": 0,
                "network": b"stranger",
                "addr": "127.0.0.1:1",
                "state": "ready",
                "ticks": {"x": 2**32 - 1},
                "held": {},
                "lost": {},
                "digest": 1,
            },
        },
        "bad_request",
    ),
}
"""A frame whose end is known disturbs nothing that comes after it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node with a large value at `big` and many small ones; no test changes what it holds."""
    with open_servers(tmp_path_factory.mktemp("servers")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        with server.client() as client:
            client.set("big", BIG)
        set_many(server, {f"many.n{number}": number for number in range(MANY)})
        yield server


@pytest.fixture(autouse=True)
def _server_is_as_before(server: Server) -> Iterator[None]:
    before = server.state()
    yield
    after = server.state()
    assert [after[name] for name in ("digest", "tick", "entries", "held", "missing", "state")] == [
        before[name] for name in ("digest", "tick", "entries", "held", "missing", "state")
    ]
    assert "Traceback" not in server.errors


def _assert_goes_on(wire: Wire, seq: int = 1_000) -> None:
    wire.send(encode_request(PingRequest(seq)))
    assert wire.receive() == {"seq": seq}


def _assert_others_are_served(server: Server) -> None:
    began = time.monotonic()
    with server.client() as client:
        entry = client.get("big")
    assert entry is not None
    assert entry.value == BIG
    assert time.monotonic() - began < SERVED_S


def _memory(server: Server) -> int:
    """What the process uses of the machine's memory, in bytes."""
    assert server.process is not None
    lines = FilePath(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


# -- bad frames ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", CLOSED.values(), ids=CLOSED.keys())
def test_stream_that_is_no_protocol_gets_one_error_and_a_close(server: Server, data: bytes) -> None:
    with Wire(server) as wire:
        wire.send(data)
        reply = wire.receive()
        assert reply is not None
        assert (reply["seq"], reply["code"]) == (0, "bad_request")
        assert wire.receive() is None


@pytest.mark.parametrize(("fields", "code"), OPEN.values(), ids=OPEN.keys())
def test_bad_request_gets_its_code_and_the_connection_goes_on(
    server: Server, fields: dict[str, object], code: str
) -> None:
    with Wire(server) as wire:
        wire.send(pack(fields))
        reply = wire.receive()
        assert reply is not None
        assert reply["code"] == code
        assert reply["error"]
        _assert_goes_on(wire)


def test_seq_that_does_not_rise_is_refused(server: Server) -> None:
    with Wire(server) as wire:
        _assert_goes_on(wire, 5)
        wire.send(encode_request(PingRequest(5)))
        assert (wire.receive() or {})["code"] == "bad_request"
        _assert_goes_on(wire, 6)


@pytest.mark.parametrize("data", HUGE.values(), ids=HUGE.keys())
def test_declared_length_beyond_the_limit_is_too_large(server: Server, data: bytes) -> None:
    before = _memory(server)
    with Wire(server) as wire:
        wire.send(data + bytes(1 << 20))
        reply = wire.receive()
        assert reply is not None
        assert reply["code"] == "too_large"
        assert wire.receive() is None
    assert _memory(server) - before < GROWTH_MAX


def test_request_beyond_the_limit_is_too_large(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(pack({"seq": 1, "action": "set_value", "path": ["a"], "value": bytes(1 << 20)}))
        assert (wire.receive() or {})["code"] == "too_large"
        assert wire.receive() is None


def test_refusals_are_counted(server: Server) -> None:
    def counted() -> list[int]:
        counters = server.state()["counters"]
        assert isinstance(counters, dict)
        return [counters.get(name, 0) for name in ("refused_unknown_action", "bad_stream_bad_request")]

    before = counted()
    with Wire(server) as wire:
        wire.send(pack({"seq": 1, "action": "frobnicate"}) + b"\xc1")
        assert wire.receive() is not None
        assert wire.receive() is not None
    assert counted() == [count + 1 for count in before]


def test_random_bytes_and_broken_frames_do_no_harm(server: Server) -> None:
    rng = random.Random(20_000)
    whole = pack({"seq": 1, "action": "get_events", "nodes": {"solo": [1, [3, 9]], "b": [7]}})
    for number in range(300):
        data = bytearray(rng.randbytes(rng.randrange(1, 400)) if number % 2 else whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with Wire(server) as wire:
            wire.send(bytes(data[: rng.randrange(1, len(data) + 1)]))
            wire.socket.shutdown(socket.SHUT_WR)
            try:
                while wire.receive() is not None:
                    pass
            except ConnectionResetError:  # it was told before all of it was read
                pass
    _assert_others_are_served(server)


# -- clients that do not play along -------------------------------------------------------------------------------


def test_truncated_frames_and_silent_connections_hold_up_nobody(server: Server) -> None:
    frame = pack({"seq": 1, "action": "set_value", "path": ["a"], "value": "x" * 100})
    with ExitStack() as stack:
        for number in range(200):
            stack.enter_context(Wire(server)).send(frame[: number % len(frame)])
        _assert_others_are_served(server)
    _assert_others_are_served(server)


def test_connections_that_are_reset_hold_up_nobody(server: Server) -> None:
    get = encode_request(GetValue(1, Path.parse("big")))
    for _ in range(50):
        with Wire(server) as wire:
            wire.send(get)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _assert_others_are_served(server)


def test_client_that_never_reads_is_not_read_from_and_others_are_served(server: Server) -> None:
    before = _memory(server)
    with Wire(server) as wire:
        assert _is_blocked(wire, {"action": "get_value", "path": ["big"]})
        assert _memory(server) - before < GROWTH_MAX
        _assert_others_are_served(server)


def test_peer_that_never_reads_its_pulls_costs_bounded_memory(server: Server) -> None:
    before = _memory(server)
    with Wire(server) as wire:
        assert _is_blocked(wire, {"action": "get_events", "nodes": {"solo": [[1, 2**32]]}})
        assert _memory(server) - before < GROWTH_MAX
        _assert_others_are_served(server)


def _is_blocked(wire: Wire, fields: Mapping[str, object]) -> bool:
    """Send the same request again and again: whether the server stops reading before it has read a million."""
    wire.socket.settimeout(BLOCKED_S)
    for _ in range(2_000):
        try:
            wire.send(b"".join(pack({"seq": wire.next_seq(), **fields}) for _ in range(500)))
        except TimeoutError:
            return True
    return False
