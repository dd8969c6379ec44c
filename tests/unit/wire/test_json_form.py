"""Values as JSON and back.

Knows: the '$' forms.  Does not know the commands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import BadValueError
from distkv.wire.json_form import exact_float, from_json, from_plain, packed_to_json, to_json, to_plain
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.values import NESTING_MAX, pack_value

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.builds(ExtType, st.integers(0, 127), st.binary(max_size=9))
    | st.builds(Timestamp, st.integers(-(2**40), 2**40), st.integers(0, 999_999_999))
)
keys = st.text() | st.integers(-9, 9) | st.binary(max_size=3) | st.sampled_from(["$bytes", "$map", "$x"])
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner, max_size=4), max_leaves=8)


@given(values)
def test_value_comes_back_as_it_was(value: object) -> None:
    assert pack_value(from_json(to_json(value))) == pack_value(value)


@given(values)
def test_value_comes_back_as_it_was_by_way_of_another_language(value: object) -> None:
    assert pack_value(from_plain(to_plain(value))) == pack_value(value)


@pytest.mark.parametrize("word", ["0.1", "-1.5e300", "0.10000000000000001", "2"])
def test_number_that_a_float_keeps_is_that_number(word: str) -> None:
    assert exact_float(word) == float(word)


@pytest.mark.parametrize("word", ["0.10000000000000000001", "9007199254740993.0", "1.234567890123456789"])
def test_number_with_more_digits_than_a_float_keeps_is_refused(word: str) -> None:
    with pytest.raises(BadValueError, match="more digits"):
        exact_float(word)


@given(values | st.floats())
def test_packed_value_is_shown_as_the_value_is(value: object) -> None:
    assert packed_to_json(pack_value(value)) == to_json(value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "maps"])
def test_packed_value_may_be_nested_as_deep_as_one_can_be_stored(wrap: Callable[[object], object]) -> None:
    value: object = 1
    for _ in range(NESTING_MAX):
        value = wrap(value)
    assert from_json(packed_to_json(pack_value(value))) == value


@given(values)
def test_json_is_json_of_one_line(value: object) -> None:
    text = to_json(value)
    json.loads(text, parse_constant=pytest.fail)
    assert "\n" not in text


def test_not_a_number_comes_back() -> None:
    found = from_json(to_json([math.nan]))
    assert isinstance(found, list)
    assert math.isnan(found[0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00\x01\xff", '{"$bytes": "AAH/"}'),
        ({"a": "é", "b": [1.5, None, True]}, '{"a": "é", "b": [1.5, null, true]}'),
        (math.inf, '{"$float": "inf"}'),
        (ExtType(5, b"x"), '{"$ext": [5, "eA=="]}'),
        (Timestamp(1, 2), '{"$time": [1, 2]}'),
        ({1: "a"}, '{"$map": [[1, "a"]]}'),
        ({"$bytes": "x"}, '{"$map": [["$bytes", "x"]]}'),
        ({"$a": 1, "$b": 2}, '{"$a": 1, "$b": 2}'),
    ],
)
def test_form_of_a_value_is_fixed(value: object, text: str) -> None:
    assert to_json(value) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"$bytes": "???"}',
        '{"$bytes": 1}',
        '{"$float": "1"}',
        '{"$ext": [200, "eA=="]}',
        '{"$ext": [5]}',
        '{"$time": [1, -2]}',
        '{"$map": [[1]]}',
        '{"$map": [[[1], 2]]}',
        '{"$map": [[1, 2], [true, 3]]}',
        '{"$new": 1}',
        "[" * 100_000,
    ],
)
def test_form_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        from_json(text)
