"""What nodes announce of themselves: what is kept and shown of it is bounded (docs/protocol, TREE-9)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire import packing
from distkv.wire.announcing import (
    BYTES_MAX,
    FIELDS_BYTES_MAX,
    Announcement,
    checked_fields,
    decode_announcement,
    encode_announcement,
    fitting,
)
from distkv.wire.values import NESTING_MAX

WHAT = Announcement("h:1", 1, 2, 3, 4, NodeName("p"), {"s": {"x": [1]}})


def nested(depth: int) -> bytes:
    """As bytes, because nobody can make so deep a value to pack it."""
    body = packing.pack({"addr": "h:1", "load": 1, "level": 2, "height": 3, "children": 4, "parent": None})
    services = b"\x81\xa1s" + b"\x81\xa1x" + b"\x91" * (depth - 1) + b"\xc0"
    return bytes([body[0] + 1]) + body[1:] + packing.pack("services") + services


def test_announcement_comes_back_as_it_was() -> None:
    assert decode_announcement(encode_announcement(WHAT)) == WHAT


@pytest.mark.parametrize("depth", [1, 100, NESTING_MAX - 1])
def test_announcement_that_nests_like_a_value_is_read(depth: int) -> None:
    read = decode_announcement(nested(depth))
    assert packing.pack(dict(read.services))


@pytest.mark.parametrize("depth", [NESTING_MAX, NESTING_MAX + 1, 500, 510, 1021, 1500])
def test_announcement_that_nests_deeper_is_none(depth: int) -> None:
    with pytest.raises(DecodeError):
        decode_announcement(nested(depth))


FIELDS: Any = {"addr": "h:1", "load": 1, "level": 2, "height": 3, "children": 4, "parent": None, "services": {}}
HOSTILE: Final = {
    "addr": ["h", "h\n:1", "\u202eh:1", "h" * 300 + ":1", 7, None],
    "load": [-1, 2**31, 1.0, "1", True, None],
    "level": [-1, 65, 2**63, None],
    "height": [-1, 65, [], None],
    "children": [-1, 2**31, {}, None],
    "parent": ["", "a b", "x" * 64, "a\x1b", 5, b"a"],
    "services": [
        {1: 2}, [], None, {"s": packing.ExtType(7, b"")}, {"s": packing.Timestamp(1, 0)},
        {"s": [packing.ExtType(7, b"")]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, some in HOSTILE.items() for value in some])
def test_hostile_field_is_refused_by_its_name(name: str, value: object) -> None:
    assert decode_announcement(packing.pack(FIELDS)) == Announcement("h:1", 1, 2, 3, 4)
    with pytest.raises(DecodeError, match=rf"\A[^\n]*'{name}[^\n]*\Z"):
        decode_announcement(packing.pack({**FIELDS, name: value}))


@pytest.mark.parametrize(
    "services",
    [{"s": {"x": "x" * BYTES_MAX}}, {str(n): {} for n in range(1000)}, {1: {}}, {"s": 2}, {"s": {1: 2}}, [], None],
)
def test_announcement_that_is_too_large_or_malformed_is_none(services: Any) -> None:
    with pytest.raises(DecodeError):
        decode_announcement(packing.pack({**FIELDS, "services": services}))


@pytest.mark.parametrize(
    "fields", [{"x": bytes(FIELDS_BYTES_MAX)}, {1: 2}, {"x": object()}, {"x": {1, 2}}, {"x": 2**70}], ids=range(5)
)
def test_fields_that_others_could_not_read_are_refused_here(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        checked_fields(fields)


def test_fields_are_announced_as_others_read_them() -> None:
    assert checked_fields({"load": 7, "at": ("h", 1)}) == {"load": 7, "at": ["h", 1]}


def test_fields_of_many_services_are_announced_as_far_as_there_is_room() -> None:
    """(docs/protocol, TREE-20)"""
    services = {f"s{number}": {"x": bytes(FIELDS_BYTES_MAX - 7)} for number in range(8)}
    found = fitting(services)
    assert [*found] == ["s0", "s1", "s2", "s3", "s4"]
    encode = encode_announcement(Announcement("h:1" * 80, 2**31 - 1, 63, 63, 2**31 - 1, NodeName("p" * 63), found))
    assert decode_announcement(encode).services == found
