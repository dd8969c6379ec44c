"""What may be stored, byte by byte, and why the rest is refused."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from distkv.errors import BadValueError, TooLargeError
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.values import VALUE_BYTES_MAX, canonical, check_value, pack_value, unpack_value

STORABLE: list[tuple[object, bytes]] = [
    (None, b"\xc0"),
    (True, b"\xc3"),
    (False, b"\xc2"),
    (1, b"\x01"),
    (1.0, b"\xcb\x3f\xf0\0\0\0\0\0\0"),
    (-0.0, b"\xcb\x80\0\0\0\0\0\0\0"),
    (-(2**63), b"\xd3\x80\0\0\0\0\0\0\0"),
    (2**64 - 1, b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    ("", b"\xa0"),
    (b"", b"\xc4\0"),
    ("ü", b"\xa2\xc3\xbc"),
    ([], b"\x90"),
    ({}, b"\x80"),
    ([None], b"\x91\xc0"),
    ({None: 1, "": 2, b"": 3}, b"\x83\xc0\x01\xa0\x02\xc4\0\x03"),
    (ExtType(0, b"x"), b"\xd4\0x"),
    (ExtType(127, b""), b"\xc7\0\x7f"),
    (Timestamp(1, 0), b"\xd6\xff\0\0\0\x01"),
    ({ExtType(1, b"x"): 1}, b"\x81\xd4\x01x\x01"),
]

REFUSED: dict[str, tuple[bytes, str]] = {
    "key is a list": (b"\x81\x90\x01", "list or a map"),
    "key is a map": (b"\x81\x80\x01", "list or a map"),
    "key is a list, deep": (b"\x92\x01\x91\x81\x91\x01\x01", "list or a map"),
    "same key twice": (b"\x82\xa1a\x01\xa1a\x02", "equal"),
    "1 and true": (b"\x82\x01\x01\xc3\x02", "equal"),
    "1 and 1.0": (b"\x82\x01\x01\xcb\x3f\xf0\0\0\0\0\0\0\x02", "equal"),
    "0 and -0.0, deep": (b"\x91\x82\0\x01\xcb\x80\0\0\0\0\0\0\0\x02", "equal"),
    "ext code -2": (b"\xd4\xfex", "code"),
    "ext code -128, deep": (b"\x91\xd4\x80x", "code"),
    "timestamp of one byte": (b"\xd4\xffx", "cannot be read"),
    "timestamp with too many nanoseconds": (b"\xd7\xff" + b"\xff" * 8, "nanoseconds"),
    "text that is not UTF-8": (b"\xa1\xff", "utf-8"),
    "text that is not UTF-8, in a key": (b"\x81\xa1\xff\x01", "utf-8"),
    "surrogate in UTF-8": (b"\xa3\xed\xa0\x80", "utf-8"),
    "never used byte": (b"\xc1", "FormatError"),
    "never used byte, deep": (b"\x91\xc1", "FormatError"),
    "nesting of 257": (b"\x91" * 257 + b"\x01", "deeper than 256"),
    "nesting of 1000": (b"\x81\x01" * 1000 + b"\x01", "deeper than 256"),
    "nesting of 5000": (b"\x91" * 5000 + b"\x01", "StackError"),
}


@pytest.mark.parametrize(("value", "raw"), STORABLE)
def test_storable_value_packs_to_its_canonical_bytes(value: object, raw: bytes) -> None:
    assert pack_value(value) == raw


@pytest.mark.parametrize(("value", "raw"), STORABLE)
def test_stored_bytes_unpack_to_the_exact_value(value: object, raw: bytes) -> None:
    assert repr(unpack_value(raw)) == repr(value)


@pytest.mark.parametrize("raw", [raw for _, raw in STORABLE])
def test_canonical_bytes_stay_as_they_are(raw: bytes) -> None:
    assert canonical(raw) == raw


@pytest.mark.parametrize("raw", [raw for raw, _ in REFUSED.values()], ids=REFUSED)
def test_bytes_of_a_refused_kind_are_refused_from_a_peer(raw: bytes) -> None:
    with pytest.raises(BadValueError) as caught:
        check_value(raw)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("raw", "word"), REFUSED.values(), ids=REFUSED)
def test_bytes_of_a_refused_kind_are_refused_from_a_client_and_the_message_says_why(raw: bytes, word: str) -> None:
    """These are the refused kinds (docs/protocol, VALUE-2)."""
    with pytest.raises(BadValueError, match=word):
        canonical(raw)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ([2**64], "64 bits"),
        ("\ud800", "surrogate"),
        ({"a": "\ud800"}, "surrogate"),
        (datetime(2024, 1, 1, tzinfo=UTC), "datetime"),
        pytest.param([object()], "object", id="object"),
        ({(1, 2): 3}, "list or a map"),
        ({"a": {(): 3}}, "list or a map"),
    ],
    ids=str,
)
def test_python_value_that_cannot_be_stored_is_refused(value: object, word: str) -> None:
    with pytest.raises(BadValueError, match=word):
        pack_value(value)


def test_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BadValueError):
        pack_value(endless)


def test_tuple_is_stored_as_a_list() -> None:
    assert unpack_value(pack_value((1, (2,)))) == [1, [2]]


def test_nesting_of_256_is_stored() -> None:
    """One level more is refused (docs/protocol, VALUE-2)."""
    raw = b"\x91" * 256 + b"\x01"
    check_value(raw)
    assert canonical(raw) == raw


def test_float32_widens_to_the_same_number() -> None:
    """Each value has one canonical form (docs/protocol, VALUE-1)."""
    assert canonical(b"\xca" + struct.pack(">f", 0.1)) == pack_value(struct.unpack(">f", struct.pack(">f", 0.1))[0])


@pytest.mark.parametrize(
    ("raw", "short"),
    [
        (b"\xcd\0\x05", b"\x05"),
        (b"\xd3" + b"\xff" * 8, b"\xff"),
        (b"\xd9\x01a", b"\xa1a"),
        (b"\xdf\0\0\0\x01\xa1a\x01", b"\x81\xa1a\x01"),
        (b"\xdd\0\0\0\0", b"\x90"),
        (b"\xc7\x01\x05x", b"\xd4\x05x"),
        (b"\xc7\x0c\xff" + b"\0" * 12, b"\xd6\xff\0\0\0\0"),
    ],
)
def test_value_packed_in_a_longer_form_becomes_the_shortest(raw: bytes, short: bytes) -> None:
    """The node that accepts a write packs it in the one canonical way (docs/protocol, VALUE-1)."""
    assert canonical(raw) == short


@pytest.mark.parametrize("raw", [b"\xcd\0\x05", b"\xca\0\0\0\0", b"\xdd\0\0\0\0"])
def test_longer_form_from_a_peer_is_legal(raw: bytes) -> None:
    check_value(raw)
    assert unpack_value(raw) in (5, 0.0, [])


@pytest.mark.parametrize(
    "raw", [b"", b"\x01\x02", b"\x90\x90", b"\xa2a", b"\x92\x01", b"\xdd\xff\xff\xff\xff", b"\xdb"]
)
def test_bytes_that_are_not_exactly_one_value_are_refused(raw: bytes) -> None:
    with pytest.raises(BadValueError):
        check_value(raw)


def test_nested_huge_declared_lengths_allocate_nothing() -> None:
    # Made eagerly these lists would take 1000 x 8 MiB.
    with pytest.raises(BadValueError, match="whole"):
        check_value(b"\xdd\x00\x0f\x00\x00" * 1000 + b"\0" * (1 << 19))


def test_value_of_the_largest_size_is_stored_and_one_more_byte_is_too_large() -> None:
    """A value has at most 1 MiB (docs/protocol, VALUE-1)."""
    largest = b"x" * (VALUE_BYTES_MAX - 5)
    raw = pack_value(largest)
    check_value(raw)
    with pytest.raises(TooLargeError, match="1048577 bytes"):
        pack_value(largest + b"x")
    with pytest.raises(TooLargeError):
        check_value(pack_value(b"") + raw)


def test_value_that_grows_too_large_by_widening_is_too_large() -> None:
    with pytest.raises(TooLargeError):
        canonical(b"\xdd" + (200_000).to_bytes(4, "big") + b"\xca\0\0\0\0" * 200_000)


def test_bytes_that_are_no_value_cannot_be_unpacked() -> None:
    with pytest.raises(BadValueError, match="cannot be read"):
        unpack_value(b"\xc1")
