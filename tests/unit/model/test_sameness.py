"""When two packed values are one value, and when two changes say the same (docs/protocol, VALUE-4, OPEN-4).

Knows: values as Python has them, and their bytes.  Does not know who asks.
"""

from __future__ import annotations

import pytest

from distkv.model.event import Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.path import Path
from distkv.model.sameness import same_value, says_same
from distkv.wire.packing import ExtType
from distkv.wire.values import pack_value

LONG = {f"key {number}": [number, {"x": number, "y": -number}] for number in range(35_000)}
NAN = float("nan")

SAME: list[tuple[object, object]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": {"x": 1, "y": [2]}, "b": 2}, {"b": 2, "a": {"y": [2], "x": 1}}),
    ([1, {"a": 1, "b": [{"c": 1, "d": 2}]}, 2], [1, {"b": [{"d": 2, "c": 1}], "a": 1}, 2]),
    ({1: "a", b"1": "b", "1": "c"}, {"1": "c", 1: "a", b"1": "b"}),
    ({"a": NAN, "b": 1}, {"b": 1, "a": NAN}),
    ({"a": None, "b": {}}, {"b": {}, "a": None}),
    (dict.fromkeys(range(20), 1.5), dict.fromkeys(range(19, -1, -1), 1.5)),
    ({"a": "x" * 40, "b": b"y" * 300}, {"b": b"y" * 300, "a": "x" * 40}),
    ({"a": ExtType(1, b"abcd"), "b": ExtType(2, b"abc")}, {"b": ExtType(2, b"abc"), "a": ExtType(1, b"abcd")}),
    (LONG, dict(reversed(LONG.items()))),
]
OTHER: list[tuple[object, object]] = [
    (1, True),
    (1, 1.0),
    (0, False),
    (0.0, -0.0),
    ("a", b"a"),
    ([1, 2], [2, 1]),
    ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    ({"a": 1, "b": 2}, {"b": 2, "c": 1}),
    ({"a": 1, "b": True}, {"b": 1, "a": True}),
    ({"a": [1, 2], "b": 3}, {"b": 3, "a": [2, 1]}),
    ([[1], 2], [1, [2]]),
    ({1: 2}, [1, 2]),
    ({"a": 1, "b": 2.0}, {"b": 2, "a": 1.0}),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_maps_in_another_order_of_keys_are_the_same(one: object, two: object) -> None:
    assert pack_value(one) != pack_value(two)
    assert same_value(pack_value(one), pack_value(two))


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_other_values_are_not_the_same(one: object, two: object) -> None:
    assert not same_value(pack_value(one), pack_value(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [(b"", b"\x01"), (b"\x82\xa1a", b"\x82\xa1b"), (b"\xdf\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xfe"),
     (b"\x81\xc1\x01", b"\x81\xc1\x02"), (b"\x91" * 5000 + b"\x01", b"\x91" * 5000 + b"\x02")],
    ids=["nothing", "cut short", "counts", "no value", "deep"],
)  # fmt: skip
def test_bytes_that_are_no_value_are_the_same_as_no_others(one: bytes, two: bytes) -> None:
    assert not same_value(one, two)


def change(node: str, kind: Kind, value: object = None, ttl: float | None = None) -> Event:
    raw = b"" if value is None else pack_value(value)
    return new_event(Path(["p"]), kind, raw, ((NodeName(node), Tick(1)),), Tock(1), 0.0, ttl=ttl)


@pytest.mark.parametrize(
    ("one", "two", "is_same"),
    [
        (change("a", Kind.SET, {"x": 1, "y": 2}), change("b", Kind.SET, {"y": 2, "x": 1}), True),
        (change("a", Kind.SET, 1, ttl=5.0), change("b", Kind.SET, 1, ttl=5.0), True),
        (change("a", Kind.SET, 1, ttl=5.0), change("b", Kind.SET, 1), False),
        (change("a", Kind.SET, 1, ttl=5.0), change("b", Kind.SET, 1, ttl=6.0), False),
        (change("a", Kind.SET, 1), change("b", Kind.DELETE), False),
        (change("a", Kind.EXPIRE), change("b", Kind.DELETE), True),
    ],
)
def test_changes_say_the_same_when_they_leave_the_same(one: Event, two: Event, is_same: bool) -> None:
    assert says_same(one, two) is says_same(two, one) is is_same
