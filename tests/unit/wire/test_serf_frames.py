"""What the agent's bodies hold: each kind read, each malformed one refused.

Knows: the shapes that a real agent sent (tests/process).  Does not know connections.
"""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from distkv.errors import DecodeError
from distkv.wire.serf_frames import (
    BUFFER_MAX,
    LENGTH_MAX,
    Body,
    MemberEvent,
    Record,
    ReplyDecoder,
    SerfMember,
    Shape,
    UserEvent,
    decode_members,
    decode_record,
    decode_stats,
)

MEMBER = {b"Name": b"a", b"Addr": b"\x7f\0\0\1", b"Port": 7946, b"Tags": {b"role": b"x"}, b"Status": b"alive"}
V6 = bytes.fromhex("20010db8000000000000000000000001")


@pytest.mark.parametrize(
    ("packed", "host"),
    [
        (b"\x7f\0\0\1", "127.0.0.1"),
        (bytes(10) + b"\xff\xff\x0a\0\0\2", "10.0.0.2"),
        (V6, "2001:0db8:0000:0000:0000:0000:0000:0001"),
    ],
)
def test_member_is_read_with_an_address_of_either_kind(packed: bytes, host: str) -> None:
    found = decode_members({b"Members": [MEMBER | {b"Addr": packed}]})
    assert found == (SerfMember("a", host, 7946, {"role": "x"}, "alive"),)


def test_missing_lists_and_maps_are_empty() -> None:
    assert decode_members({b"Members": None}) == ()
    assert decode_members({b"Members": [MEMBER | {b"Tags": None}]})[0].tags == {}


@pytest.mark.parametrize(
    ("body", "record"),
    [
        ({b"Event": b"user", b"LTime": 3, b"Name": b"x", b"Payload": None}, UserEvent("x", b"", 3)),
        ({b"Event": b"user", b"LTime": 3, b"Name": b"x", b"Payload": b"\xff"}, UserEvent("x", b"\xff", 3)),
        ({b"Event": b"member-reap", b"Members": []}, MemberEvent("member-reap", ())),
    ],
)
def test_record_of_every_kind_is_read(body: Body, record: Record) -> None:
    assert decode_record(body) == record


def test_stats_are_read() -> None:
    assert decode_stats({b"serf": {b"members": b"1"}, b"tags": {}}) == {"serf": {"members": "1"}, "tags": {}}


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_members, {b"Members": 1}),
        (decode_members, {b"Members": [1]}),
        (decode_members, {b"Members": [MEMBER | {b"Addr": b"\1"}]}),
        (decode_members, {b"Members": [MEMBER | {b"Addr": "text"}]}),
        (decode_members, {b"Members": [MEMBER | {b"Port": True}]}),
        (decode_members, {b"Members": [MEMBER | {b"Name": None}]}),
        (decode_members, {b"Members": [MEMBER | {b"Tags": {1: b"x"}}]}),
        (decode_stats, {b"serf": 1}),
        (decode_stats, {1: {}}),
        (decode_record, {}),
        (decode_record, {b"Event": b"news"}),
        (decode_record, {b"Event": b"user", b"LTime": 3, b"Name": b"x", b"Payload": 7}),
        (decode_record, {b"Event": b"user", b"LTime": 3.0, b"Name": b"x", b"Payload": b""}),
    ],
)
def test_malformed_body_is_one_error(decode: Callable[[Body], object], body: Body) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body)
    assert caught.value.reason == "bad_agent"


def test_frame_beyond_the_limit_is_refused() -> None:
    decoder = ReplyDecoder(lambda _: Shape.EMPTY)
    with pytest.raises(DecodeError, match=str(BUFFER_MAX)):
        list(decoder.feed(b"\xc6" + (BUFFER_MAX + 9).to_bytes(4, "big") + bytes(BUFFER_MAX)))


@pytest.mark.parametrize("head", [b"\xdd", b"\xdf"], ids=["list", "map"])
def test_declared_length_beyond_the_limit_is_refused_at_once(head: bytes) -> None:
    decoder = ReplyDecoder(lambda _: Shape.EMPTY)
    with pytest.raises(DecodeError):
        list(decoder.feed(head + (LENGTH_MAX + 1).to_bytes(4, "big")))


@pytest.mark.parametrize("shape", [Shape.EMPTY, Shape.RECORDS])
def test_reply_without_a_body_is_followed_by_the_next_header(shape: Shape) -> None:
    decoder = ReplyDecoder(lambda _: shape)
    one = msgpack.packb({"Seq": 1, "Error": ""})
    assert [(frame.seq, frame.body) for frame in decoder.feed(one * 2)] == [(1, None), (1, None)]
