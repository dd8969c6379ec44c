"""Bytes of a declared body are its value, or one error that names the field; nothing is made of what a header claims.

Knows: how bodies are declared, with bodies of its own.  Does not know those of distkv.
"""

from __future__ import annotations

import tracemalloc
from typing import Annotated, Any

import pytest

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.wire import packing
from distkv.wire.declared import (
    BodyReader,
    Bounds,
    Declared,
    Hash,
    Node,
    Raw,
    Time,
    evolve,
    field,
    fields_of,
    pack,
    pack_sorted,
)

Small = Annotated[int, Bounds(ge=0, le=9)]


class Pair(Declared, array_like=True):
    one: Small
    two: Annotated[tuple[Small, ...], Bounds(max_length=2)] = ()


class Lamp(Declared, tag="lamp", tag_field="kind"):
    node: Node
    count: Small = field(name="n")
    since: Time = 0.0
    hash: Hash = bytes(8)
    pair: Pair | None = None
    levels: Annotated[dict[str, Small], Bounds(max_length=2)] = {}  # noqa: RUF012  the library copies it

    def __post_init__(self) -> None:
        if self.count == 7:
            raise ValueError("seven is no count")


class Off(Declared, tag="off", tag_field="kind"):
    pass


LAMPS = BodyReader[Lamp | Off](Lamp | Off, "thing")
PAIRS = BodyReader[Pair](Pair, "pair")
LAMP = Lamp(NodeName("a"), 1, 2.5, b"8 bytes.", Pair(3, (4, 5)), {"x": 6})
FIELDS: dict[Any, Any] = {
    "kind": "lamp", "node": "a", "n": 1, "since": 2.5, "hash": b"8 bytes.", "pair": [3, [4, 5]], "levels": {"x": 6},
}  # fmt: skip


def refused(data: bytes, reader: BodyReader[Any] = LAMPS) -> tuple[str, str]:
    with pytest.raises(DecodeError) as error:
        reader.read(data)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250
    return error.value.reason, str(error.value)


def test_value_is_written_in_the_declared_form() -> None:
    assert packing.unpack(pack(LAMP)) == FIELDS


def test_value_comes_back() -> None:
    assert LAMPS.read(pack(LAMP)) == LAMP
    assert LAMPS.read(Raw(pack(Off()))) == Off()
    assert LAMPS.convert(FIELDS) == LAMP


def test_fields_of_a_map_are_given_by_the_names_that_are_written() -> None:
    assert fields_of(Lamp(NodeName("a"), 1)) == {
        "node": "a", "n": 1, "since": 0.0, "hash": bytes(8), "pair": None, "levels": {},
    }  # fmt: skip
    assert (Lamp.is_map(), Pair.is_map()) == (True, False)


def test_sets_are_written_in_one_order() -> None:
    names = {f"n{number}" for number in range(50)}
    assert packing.unpack(pack_sorted(names)) == sorted(names)


def test_value_with_another_field_is_a_new_one() -> None:
    assert evolve(LAMP, count=2) == Lamp(NodeName("a"), 2, 2.5, b"8 bytes.", Pair(3, (4, 5)), {"x": 6})
    assert LAMP.count == 1


@pytest.mark.parametrize("unknown", [{"later": [1, {"deep": b"x"}]}, {"later": packing.Timestamp(1)}], ids=str)
def test_unknown_field_of_a_map_is_skipped(unknown: dict[str, Any]) -> None:
    assert LAMPS.read(packing.pack(unknown | FIELDS)) == LAMP


def test_unknown_element_of_a_list_is_skipped() -> None:
    assert PAIRS.read(packing.pack([3, [4, 5], "later"])) == Pair(3, (4, 5))


def test_field_with_a_default_may_be_missing() -> None:
    assert LAMPS.read(packing.pack({"n": 1, "node": "a", "kind": "lamp"})) == Lamp(NodeName("a"), 1)
    assert PAIRS.read(packing.pack([3])) == Pair(3)


@pytest.mark.parametrize(
    ("change", "reason", "where"),
    [
        ({"kind": "shout"}, "bad_kind", "kind"),
        ({"kind": 1}, "bad_kind", "kind"),
        ({"kind": "x" * 10_000}, "bad_kind", "kind"),
        ({"kind": "\n - at `$.n`"}, "bad_kind", "kind"),
        ({"node": ""}, "bad_node", "node"),
        ({"node": "a" * 64}, "bad_node", "node"),
        ({"node": "a\n"}, "bad_node", "node"),
        ({"node": "é"}, "bad_node", "node"),
        ({"node": b"a"}, "bad_node", "node"),
        ({"n": -1}, "bad_n", "n"),
        ({"n": 10}, "bad_n", "n"),
        ({"n": 2**64 - 1}, "bad_n", "n"),
        ({"n": -(2**63)}, "bad_n", "n"),
        ({"n": True}, "bad_n", "n"),
        ({"n": 1.0}, "bad_n", "n"),
        ({"n": "1"}, "bad_n", "n"),
        ({"n": None}, "bad_n", "n"),
        ({"n": [[[[1]]]]}, "bad_n", "n"),
        ({"since": float("nan")}, "bad_since", "since"),
        ({"since": float("inf")}, "bad_since", "since"),
        ({"since": float("-inf")}, "bad_since", "since"),
        ({"since": "1"}, "bad_since", "since"),
        ({"hash": b"short"}, "bad_hash", "hash"),
        ({"hash": "8 bytes."}, "bad_hash", "hash"),
        ({"hash": "OCBieXRlcy4="}, "bad_hash", "hash"),
        ({"pair": []}, "bad_pair", "pair"),
        ({"pair": {"one": 1}}, "bad_pair", "pair"),
        ({"pair": [10]}, "bad_pair", "pair[0]"),
        ({"pair": [1, [1, 2, 3]]}, "bad_pair", "pair[1]"),
        ({"pair": [1, [1, 10]]}, "bad_pair", "pair[1][1]"),
        ({"levels": {"a": 1, "b": 2, "c": 3}}, "bad_levels", "levels"),
        ({"levels": {1: 1}}, "bad_levels", "levels"),
        ({"levels": {"a": 10}}, "bad_levels", "levels[...]"),
    ],
)
def test_wrong_field_is_refused_by_its_name(change: dict[str, Any], reason: str, where: str) -> None:
    found, text = refused(packing.pack(FIELDS | change))
    assert found == reason
    assert text.startswith(f"the field '{where}': ")
    with pytest.raises(DecodeError, match="the field"):
        LAMPS.convert(FIELDS | change)


@pytest.mark.parametrize("missing", ["kind", "node", "n"])
def test_missing_field_is_named(missing: str) -> None:
    fields = {name: value for name, value in FIELDS.items() if name != missing}
    assert refused(packing.pack(fields)) == (f"bad_{missing}", f"the field '{missing}': it is missing")


def test_what_no_field_says_by_itself_is_refused() -> None:
    assert refused(packing.pack(FIELDS | {"n": 7})) == ("bad_thing", "the field 'thing': seven is no count")
    with pytest.raises(ValueError, match="seven is no count"):
        evolve(LAMP, count=7)


@pytest.mark.parametrize("value", [None, 1, "text", b"x", [], [FIELDS]])
def test_something_else_than_the_body_is_refused_by_its_name(value: Any) -> None:
    assert refused(packing.pack(value))[0] == "bad_thing"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not_msgpack"),
        (b"\xc1", "not_msgpack"),
        (b"\x91", "not_msgpack"),
        (pack(Pair(1)) + b"\x01", "not_msgpack"),
        (b"\x92\x01\x92\x01", "not_msgpack"),
        (b"\x93\x01\x90" + b"\x91" * 100_000, "bad_pair"),
        (b"\x93\x01\x90\xc1", "not_msgpack"),
    ],
    ids=["nothing", "no type", "cut short", "more behind it", "cut inside", "deep", "unknown and broken"],
)
def test_bytes_that_are_not_one_object_are_refused(data: bytes, reason: str) -> None:
    assert refused(data, PAIRS)[0] == reason


def test_text_that_is_not_utf8_is_refused() -> None:
    data = packing.pack(FIELDS).replace(b"\xa4node\xa1a", b"\xa4node\xa1\xff")
    assert refused(data)[0] == "not_msgpack"


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    """As in all that is read (`packing.unpack`): whoever looks into such bytes sees one value."""
    data = b"\x84" + b"".join(map(packing.pack, ("kind", "lamp", "node", "a", "n", 1, "n", 2)))
    assert LAMPS.read(data) == LAMPS.convert(packing.unpack(data)) == Lamp(NodeName("a"), 2)


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\x92\x01\xdd\xff\xff\xff\xff",
        b"\x93\x01\x90\xdd\xff\xff\xff\xff",
        b"\x93\x01\x90\xdf\xff\xff\xff\xff",
        b"\x93\x01\x90\xdb\xff\xff\xff\xff",
        b"\x93\x01\x90" + b"\xdd\xff\xff\xff\xff" * 500,
    ],
    ids=["list", "bounded list", "unknown list", "unknown map", "unknown text", "unknown lists"],
)
def test_nothing_is_made_of_what_a_header_claims(data: bytes) -> None:
    tracemalloc.start()
    try:
        refused(data, PAIRS)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
