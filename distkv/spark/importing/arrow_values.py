"""Values of Arrow, as they are stored.

Knows: what each type of a Parquet column becomes.  Does not know files.

======================================  ===========================================================================
type                                    becomes
======================================  ===========================================================================
integers, floats, bool, text, binary    the same
timestamp                               a time, exactly; one without a zone is taken as UTC
date, time                              text, as ISO 8601 writes it
decimal                                 text, all its digits: a float has not all of them
list, struct, map                       a list or map of such values
======================================  ===========================================================================

Invariant: a value is what it was, or the whole column is `unsuited`; nothing is rounded.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from distkv.errors import BadValueError
from distkv.wire.values import Timestamp

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def python_values(array: pa.Array) -> list[object]:
    """The values of a column, with None for null, and a BadValueError for what is no value."""
    if _is_plain(array.type):
        found: list[object] = array.to_pylist()
        return found
    return [_value_or_error(one) for one in array]


def unsuited(kind: pa.DataType) -> pa.DataType | None:
    """The type, in this one, for which there is no value."""
    if types.is_struct(kind) and len({field.name for field in kind}) < kind.num_fields:
        return kind
    if types.is_dictionary(kind):
        return unsuited(kind.value_type)
    if _is_plain(kind) or types.is_timestamp(kind) or _is_text(kind):
        return None
    if types.is_map(kind):
        return unsuited(kind.key_type) or unsuited(kind.item_type)
    if _is_list(kind):
        return unsuited(kind.value_type)
    if types.is_struct(kind):
        return next((wrong for field in kind if (wrong := unsuited(field.type)) is not None), None)
    return kind


# -- inside -------------------------------------------------------------------------------------------------------


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Python's own value is the one that is stored, at any depth."""
    if _is_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
        or types.is_string(kind) or types.is_large_string(kind)
        or types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )  # fmt: skip


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind))


def _value_or_error(one: Any) -> object:
    try:
        return _value(one)
    except BadValueError as error:
        return error


def _value(one: Any) -> object:
    """Of one scalar."""
    if not one.is_valid:
        return None
    kind = one.type
    if types.is_dictionary(kind):
        return _value(one.value)
    if types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        seconds, rest = divmod(one.value, per_second)
        return Timestamp(seconds, rest * (10**9 // per_second))
    if _is_text(kind):
        return one.cast(pa.string()).as_py()
    if types.is_map(kind):
        return _map(one)
    if _is_list(kind):
        return [_value(inner) for inner in one.values]
    if types.is_struct(kind):
        return {name: _value(inner) for name, inner in one.items()}
    return one.as_py()


def _map(one: Any) -> dict[object, object]:
    pairs = [(_value(pair["key"]), _value(pair["value"])) for pair in one.values]
    try:
        found = dict(pairs)
    except TypeError:
        raise BadValueError("a key of a map in it is a list or a map") from None
    if len(found) < len(pairs):
        raise BadValueError("a map in it has a key twice")
    return found
