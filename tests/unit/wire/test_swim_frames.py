"""What of a datagram of the membership layer is refused, and how long things are."""

from __future__ import annotations

import attrs
import pytest

from distkv.errors import FrameError
from distkv.wire import packing
from distkv.wire.swim_frames import FrameType, GossipFrame, PingFrame, decode_frame, encode_frame
from distkv.wire.swim_records import (
    DATAGRAM_BYTES_MAX,
    RECORD_BYTES_MAX,
    KeyAction,
    KeyChange,
    MemberState,
    NodeId,
    NodeRecord,
    Payload,
    Rumour,
    UserMessage,
    numeric_address,
    record_bytes,
)

START = b"12345678"
RECORD = NodeRecord("lamp", 7, START, ("127.0.0.1:27586",))


def _reason(data: bytes) -> str:
    with pytest.raises(FrameError) as caught:
        decode_frame(data)
    return caught.value.reason


def _array(kind: int, *parts: object) -> bytes:
    return bytes((kind,)) + packing.pack([*parts])


def _gossip(*payload: object) -> bytes:
    return _array(FrameType.GOSSIP, ["lamp", 7], [*payload])


def test_idle_ping_is_short() -> None:
    ping = PingFrame(NodeId("node-1", 2**57), NodeId("node-2", 2**57), 1_000_000, 0, Payload(table=2**63))
    assert len(encode_frame(ping)) == 52


@pytest.mark.parametrize("data", [b"", b"\x09" * (DATAGRAM_BYTES_MAX + 1)])
def test_wrong_size_is_told(data: bytes) -> None:
    """docs/protocol, SWIM-3."""
    assert _reason(data) == "size"


@pytest.mark.parametrize("kind", [0, 11, FrameType.SEALED, 16, 255])
def test_unknown_type_is_told(kind: int) -> None:
    """docs/protocol, SWIM-2."""
    assert _reason(_array(kind, 1)) == "type"


@pytest.mark.parametrize("kind", [*range(1, 11)])
@pytest.mark.parametrize("behind", [b"", b"\xc1", b"\xc0", b"\x80", b"\x90", b"\xdd\xff\xff\xff\xff", b"\x91" * 1200])
def test_malformed_body_is_told(kind: int, behind: bytes) -> None:
    """docs/protocol, SWIM-2."""
    assert _reason(bytes((kind,)) + behind) == "body"


def test_byte_behind_the_array_is_told() -> None:
    """docs/protocol, SWIM-2."""
    assert _reason(encode_frame(GossipFrame(RECORD.id, Payload())) + b"\xc0") == "body"


@pytest.mark.parametrize(
    "wrong",
    [
        attrs.evolve(RECORD, node=""),
        attrs.evolve(RECORD, node="a b"),
        attrs.evolve(RECORD, node="a" * 64),
        attrs.evolve(RECORD, generation=-1),
        attrs.evolve(RECORD, generation=2**63),
        attrs.evolve(RECORD, start=b"1234567"),
        attrs.evolve(RECORD, addresses=()),
        attrs.evolve(RECORD, addresses=("127.0.0.1:1",) * 5),
        attrs.evolve(RECORD, addresses=("localhost:1",)),
        attrs.evolve(RECORD, capacity=65_536),
        attrs.evolve(RECORD, interval_ms=0),
        attrs.evolve(RECORD, keys=(b"123",)),
        attrs.evolve(RECORD, keys=(b"1234",) * 4),
    ],
)
def test_malformed_record_is_told(wrong: NodeRecord) -> None:
    rumour = Rumour(MemberState.ALIVE, wrong.id, "", wrong)
    assert _reason(encode_frame(GossipFrame(RECORD.id, Payload((rumour,))))) == "body"


def test_record_that_is_too_long_is_told() -> None:
    long = [f"[2001:db8:1234:5678:9abc:def0:1234:567{digit}]:27586" for digit in range(4)]
    fits, wrong = (
        attrs.evolve(RECORD, addresses=tuple(long)),
        attrs.evolve(RECORD, node="a" * 60, addresses=tuple(long)),
    )
    assert record_bytes(fits) <= RECORD_BYTES_MAX < record_bytes(wrong)
    for record, is_refused in ((fits, False), (wrong, True)):
        data = encode_frame(GossipFrame(RECORD.id, Payload((Rumour(MemberState.ALIVE, record.id, "", record),))))
        assert _reason(data) == "body" if is_refused else decode_frame(data)


@pytest.mark.parametrize(
    "payload",
    [
        ["table"],
        [2**64 - 1, None],
        [None, [[MemberState.ALIVE, "", None, ["lamp", 7]]]],
        [None, [[4, "", None, ["lamp", 7]]]],
        [None, [[True, "", None, ["lamp", 7]]]],
        [None, [[MemberState.DEAD, None, None, ["lamp", 7]]]],
        [None, [[MemberState.DEAD, "", None]]],
        [None, [], [["lamp", START, 0, 1, b""]]],
        [None, [], [["lamp", START, 1, 1, "text"]]],
        [None, [], [], [[1, KeyAction.INSTALL, b"1234"]]],
        [None, [], [], [[1, KeyAction.USE, b"k" * 32]]],
        [None, [], [], [[1, 0, b"1234"]]],
        [None, [], [], [], None, [[MemberState.DEAD, "", None, ["lamp", 7]]]],
        [None, [], [], [], -1],
        [None, [], [], [], None, [], 65_536],
        [None, [], [], [], None, [], 0, 1.0],
    ],
)
def test_malformed_payload_is_told(payload: list[object]) -> None:
    assert _reason(_gossip(*payload)) == "body"


def test_payload_of_fewer_elements_says_nothing_else() -> None:
    assert decode_frame(_gossip(5)) == GossipFrame(NodeId("lamp", 7), Payload(table=5))


def test_first_page_is_said() -> None:
    gossip = GossipFrame(NodeId("lamp", 7), Payload(page=0))
    assert decode_frame(encode_frame(gossip)) == gossip


def test_full_payload_comes_back() -> None:
    rumours = (Rumour(MemberState.SUSPECT, RECORD.id, "desk"), Rumour(MemberState.ALIVE, RECORD.id, "", RECORD))
    messages = (UserMessage("desk", START, 1, 2, b"body"),)
    keys = (KeyChange(3, KeyAction.INSTALL, b"k" * 32), KeyChange(4, KeyAction.USE, b"1234"))
    gossip = GossipFrame(RECORD.id, Payload(rumours, 2**64 - 1, 3, rumours, messages, keys, 5, 6))
    assert decode_frame(encode_frame(gossip)) == gossip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("::1:65535", None),
        ("[127.0.0.1]:1", None),
        ("127.0.0.1:0", None),
        ("127.0.0.1:65536", None),
        ("127.0.0.1", None),
        ("127.0.0.01:1", None),
        ("0.0.0.0:1", None),
        ("[::]:1", None),
        ("224.0.0.1:1", None),
        ("[ff02::1]:1", None),
        ("255.255.255.255:1", None),
        ("[fe80::1%eth0]:1", None),
        ("127.0.0.1:١", None),
        ("lamp:1", None),
        ("", None),
    ],
)
def test_address_is_numeric_and_of_one_node(text: str, found: tuple[str, int] | None) -> None:
    assert numeric_address(text) == found
