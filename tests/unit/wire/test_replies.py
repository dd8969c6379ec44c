"""What a server answers, and what a client makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import (
    BadPathError,
    ChainMismatchError,
    DecodeError,
    DistkvError,
    NotReadyError,
    PeerError,
    RequestError,
)
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.wire import packing
from distkv.wire.fields import chain_map
from distkv.wire.replies import (
    Hello,
    decode_reply,
    encode_end,
    encode_error,
    encode_found,
    encode_found_with_link,
    encode_hello,
    encode_reply,
    encode_start,
    encode_written,
    is_end,
    is_start,
    read_hello,
    reply_error,
)
from distkv.wire.values import pack_value

HELLO = Hello((0, 1, 2), NodeName("a"), Tick(3), Tock(4), State.CUT_OFF, b"network!", 0, ("password",))


@pytest.mark.parametrize("count", [0, 1, 12, 13])
def test_stored_value_goes_out_as_it_is_stored(count: int) -> None:
    fields: dict[str, object] = {f"n{i}": i for i in range(count)}
    raw = b"\xcd\0\x05"  # not the shortest form of 5, so packing it again would show
    frame = encode_reply(9, fields, raw)
    assert raw in frame
    assert decode_reply(frame) == {"seq": 9, **fields, "value": 5}


def test_reply_with_a_value_and_too_many_fields_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="13"):
        encode_reply(9, {f"n{i}": i for i in range(14)}, b"\x01")


@pytest.mark.parametrize("count", [0, 15, 40])
def test_reply_without_a_value_may_have_many_fields(count: int) -> None:
    fields: dict[str, object] = {f"n{i}": [i] for i in range(count)}
    assert decode_reply(encode_reply(9, fields)) == {"seq": 9, **fields}


VALUE = Event(Path(["p"]), Kind.SET, b"\xcd\0\x05", ((NodeName("a"), Tick(1 << 40)),), Tock(300), 1.75e9)


def test_usual_read_is_answered_with_the_bytes_of_the_general_form() -> None:
    assert encode_found(70_000, VALUE) == encode_reply(70_000, {"tock": 300, "time": 1.75e9}, VALUE.value)


def test_read_that_asks_for_the_chain_is_answered_with_the_values_of_the_general_form() -> None:
    fields = {"tock": 300, "time": 1.75e9, "chain": chain_map(VALUE.chain, truncated=False)}
    assert encode_found_with_link(70_000, VALUE) == encode_reply(70_000, fields, VALUE.value)


@pytest.mark.parametrize("changed", [True, False])
def test_usual_write_is_answered_with_the_bytes_of_the_general_form(changed: bool) -> None:
    fields = {"changed": changed, "tick": 1 << 40, "tock": 300}
    assert encode_written(70_000, VALUE, changed=changed) == encode_reply(70_000, fields)


def test_value_of_the_deepest_nesting_comes_back() -> None:
    value: object = 1
    for _ in range(256):
        value = [value]
    assert decode_reply(encode_reply(1, {}, pack_value(value)))["value"] == value


@pytest.mark.parametrize("frame", [b"\x01", b"\x90", b"\x80", b"\x81\xa3seq\xff", b"\x81\xa3seq\xc3", b"\x81\x90\x01"])
def test_frame_that_is_no_reply_is_refused(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_reply(frame)


def test_reply_with_a_field_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(DecodeError, match="names"):
        decode_reply(packing.pack({"seq": 1, 2: 3}))


@pytest.mark.parametrize("kind", [RequestError, BadPathError, NotReadyError, ChainMismatchError])
def test_error_comes_back_as_the_class_that_has_its_code(kind: type[DistkvError]) -> None:
    error = reply_error(decode_reply(encode_error(3, kind("what happened, and what to do"))))
    assert type(error) is kind
    assert str(error) == "what happened, and what to do"


def test_error_with_a_code_of_a_later_release_comes_back_with_its_code_in_words() -> None:
    error = reply_error({"seq": 1, "error": "no", "code": "of_tomorrow"})
    assert isinstance(error, PeerError)
    assert str(error) == "no (of_tomorrow)"


@pytest.mark.parametrize("fields", [{"error": 1, "code": "x"}, {"error": "x"}, {"error": "x", "code": []}])
def test_error_that_cannot_be_read_is_an_error(fields: dict[str, object]) -> None:
    assert isinstance(reply_error(fields), PeerError)


def test_reply_without_an_error_has_none() -> None:
    assert reply_error({"seq": 1, "value": 3}) is None


@pytest.mark.parametrize(
    ("frame", "start", "end"),
    [(encode_start(1), True, False), (encode_end(1), False, True), (encode_reply(1, {"state": "ready"}), False, False)],
)
def test_start_and_end_of_a_long_result_are_told_apart(frame: bytes, start: bool, end: bool) -> None:
    fields = decode_reply(frame)
    assert (is_start(fields), is_end(fields)) == (start, end)


@pytest.mark.parametrize("limit", [None, 4096])
@pytest.mark.parametrize("network", [None, b"network!"])
def test_greeting_comes_back(network: bytes | None, limit: int | None) -> None:
    hello = Hello(
        HELLO.version, HELLO.node, HELLO.tick, HELLO.tock, State.PASSIVE, network, 5, request_bytes=limit
    )
    assert read_hello(decode_reply(encode_hello(hello))) == hello


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("seq", 1),
        ("version", None),
        ("version", [1, 2]),
        ("version", [1, 2, "3"]),
        ("version", [1, 2, 3, 4]),
        ("node", "ä"),
        ("tick", -1),
        ("tock", None),
        ("state", "odd"),
        ("network", b"short"),
        ("life", 2**31),
        ("auth", None),
    ],
)
def test_greeting_with_a_wrong_field_is_refused_with_its_name(field: str, wrong: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        read_hello({**decode_reply(encode_hello(HELLO)), field: wrong})
    assert caught.value.reason == f"bad_{field}"


@pytest.mark.parametrize(
    ("length", "truncated", "shown"),
    [
        (0, False, None),
        (1, False, {"node": "a", "tick": 2}),
        (2, False, {"node": "a", "tick": 2, "prev": {"node": "b", "tick": 1, "prev": None}}),
        (9, False, {"node": "a", "tick": 2, "prev": {"node": "b", "tick": 1, "prev": None}}),
        (9, True, {"node": "a", "tick": 2, "prev": {"node": "b", "tick": 1}}),
    ],
)
def test_as_many_links_of_a_chain_are_shown_as_asked(length: int, truncated: bool, shown: object) -> None:
    chain = ((NodeName("a"), Tick(2)), (NodeName("b"), Tick(1)))
    assert chain_map(chain, truncated=truncated, length=length) == shown
