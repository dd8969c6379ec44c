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

Parquet has one type of times that Arrow has not: INT96, a day and the nanoseconds of it, which Spark writes unless it
is told otherwise. Arrow makes 64 bits of it, and what lies before 1677 or after 2262 becomes another time. So such a
column is read twice, as nanoseconds and as seconds, which together have all of it.

Invariant: a value is what it was, or a BadValueError, or the whole column is `unsuited`; nothing is rounded.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from distkv.errors import BadValueError
from distkv.wire.packing import Timestamp

_NANOSECONDS: Final = 10**9
_WRAP: Final = 1 << 64
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def python_values(array: pa.Array) -> list[object]:
    """The values of a column, with None for null, and a BadValueError for what is no value."""
    if _is_plain(array.type):
        found: list[object] = array.to_pylist()
        return found
    return [_value_or_error(one) for one in array]


def exact_times(wrapped: object, seconds: object) -> object:
    """A value with times in it that were read as nanoseconds, of which only 64 bits are there, and as seconds.

    Raises:
        BadValueError: the two are not of one time: what is written there is none.
    """
    match wrapped, seconds:
        case Timestamp(), Timestamp():
            bits = wrapped.seconds * _NANOSECONDS + wrapped.nanoseconds - seconds.seconds * _NANOSECONDS
            if (rest := bits % _WRAP) >= _NANOSECONDS:
                raise BadValueError("a time in it is none: it has more nanoseconds than a day")
            return Timestamp(seconds.seconds, rest)
        case list(), list():
            return [exact_times(one, other) for one, other in zip(wrapped, seconds, strict=True)]
        case dict(), dict():
            pairs = zip(wrapped.items(), seconds.items(), strict=True)
            return {exact_times(key, k): exact_times(one, other) for (key, one), (k, other) in pairs}
    return seconds


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


def has_times(kind: pa.DataType) -> bool:
    """Whether dates or times are in it."""
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    if types.is_dictionary(kind):
        inner = [kind.value_type]
    return bool(types.is_timestamp(kind) or types.is_date(kind) or any(map(has_times, inner)))


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
    if types.is_decimal(kind):
        return format(one.as_py(), "f")
    if _is_text(kind):
        return _iso(one)
    if types.is_map(kind):
        return _map(one)
    if _is_list(kind):
        return [_value(inner) for inner in one.values]
    if types.is_struct(kind):
        return {name: _value(inner) for name, inner in one.items()}
    return one.as_py()


def _iso(one: Any) -> str:
    """A date or a time of day."""
    text: str = one.cast(pa.string()).as_py()
    if not text[-1].isdecimal():  # Arrow writes in words that it cannot
        raise BadValueError("a date in it has no year that can be written")
    return text


def _map(one: Any) -> dict[object, object]:
    pairs = [(_value(pair["key"]), _value(pair["value"])) for pair in one.values]
    try:
        found = dict(pairs)
    except TypeError:
        raise BadValueError("a key of a map in it is a list or a map") from None
    if len(found) < len(pairs):
        raise BadValueError("a map in it has a key twice")
    return found
