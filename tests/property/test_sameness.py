"""Two packed values are the same exactly when sorting the keys of all their maps makes one string of them.

Knows: the library, which says what the bytes mean.  Does not know how `model.sameness` cuts them.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from distkv.model.sameness import same_value
from distkv.wire import packing
from distkv.wire.values import pack_value
from tests.profiles import examples
from tests.property.strategies import raw_values, values


def ordered(raw: bytes) -> bytes:
    """The same value, the keys of all maps in the order of their bytes."""
    return packing.pack(packing.unpack_pairs(raw, lambda pairs: dict(sorted(pairs, key=_packed_key))))


def _packed_key(pair: tuple[object, object]) -> bytes:
    return pack_value(pair[0])


def shuffled(value: object, chance: random.Random) -> object:
    """The same value, the keys of all maps in any order."""
    match value:
        case list():
            return [shuffled(inner, chance) for inner in value]
        case dict():
            pairs = [(key, shuffled(inner, chance)) for key, inner in value.items()]
            chance.shuffle(pairs)
            return dict(pairs)
    return value


@examples(200)
@given(values, st.randoms(use_true_random=False))
def test_value_is_the_same_in_any_order_of_keys(value: object, chance: random.Random) -> None:
    assert same_value(pack_value(value), pack_value(shuffled(value, chance)))


@examples(200)
@given(raw_values, raw_values)
def test_values_are_the_same_as_the_library_sees_them(one: bytes, two: bytes) -> None:
    assert same_value(one, two) is (ordered(one) == ordered(two))


@examples(200)
@given(raw_values, st.data())
def test_one_other_byte_makes_another_value(raw: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(raw) - 1))
    other = raw[:at] + bytes([raw[at] ^ 1 << data.draw(st.integers(0, 7))]) + raw[at + 1 :]
    assert not same_value(raw, other)
