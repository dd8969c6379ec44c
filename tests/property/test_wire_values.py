"""Every storable value comes back exactly; any bytes are a value or a refusal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import BadValueError
from distkv.wire.values import canonical, check_value, pack_value, unpack_value
from tests.property.strategies import mutated, raw_values, values


@given(values)
def test_value_that_is_stored_comes_back_exactly(value: object) -> None:
    assert repr(unpack_value(pack_value(value))) == repr(value)


@given(raw_values)
def test_canonical_bytes_pass_everywhere_unchanged(raw: bytes) -> None:
    check_value(raw)
    assert canonical(raw) == raw
    assert pack_value(unpack_value(raw)) == raw


@given(st.binary(max_size=60) | mutated(raw_values))
def test_any_bytes_are_a_value_that_survives_or_a_bad_value(raw: bytes) -> None:
    try:
        check_value(raw)
    except BadValueError:
        return
    # Only float32 may change its bytes without being packed too long, and then only once.
    assert repr(unpack_value(canonical(raw))) == repr(unpack_value(raw))
    assert canonical(canonical(raw)) == canonical(raw)
