"""Values: the msgpack bytes that every node stores alike, and what may be in them (docs/protocol, VALUE-1).

Knows: the one canonical packing, and which values are refused because Python or msgpack would silently change them.
Does not know where values come from, nor that a bare nil deletes.

Invariant: bytes that `canonical` or `check_value` let pass can be unpacked anywhere, and nothing of them gets lost on
the way; only float32 widens, once, on the node that accepts the write.

Values are re-packed and not kept as sent, because that is cheaper where it counts: a 100-byte string is packed again in
0.06 us, but cut out of its frame in 2 us; a map of ten fields pays 0.6 us more, beside 2.1 us to cut it out and 2.8 us
to check it, which both ways need (CPython 3.11, msgpack 1.2.4).
"""

from __future__ import annotations

from typing import Final

from distkv.errors import BadValueError, DecodeError, TooLargeError
from distkv.wire import packing
from distkv.wire.packing import ExtType, Timestamp

__all__ = ["NIL", "VALUE_BYTES_MAX", "ExtType", "Timestamp", "canonical", "check_value", "pack_value", "unpack_value"]

VALUE_BYTES_MAX: Final = 1 << 20
"""How large a packed value may be, wherever it comes from."""

NESTING_MAX: Final = 256
"""How many lists and maps may stand inside one another."""

NIL: Final = b"\xc0"
"""The packed nil; as a whole value it deletes."""

_SCALARS: Final = frozenset((str, int, float, bool, bytes, type(None)))


def pack_value(value: object) -> bytes:
    """The canonical bytes of a Python value; a tuple counts as a list.

    Raises:
        BadValueError: it cannot be stored, and why.
        TooLargeError: it has more than `VALUE_BYTES_MAX` bytes.
    """
    try:
        if type(value) in _SCALARS:
            return _fitting(packing.pack_plain(value))
        raw = packing.pack(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadValueError(f"the value cannot be stored: {_packing_failure(error)}") from None
    if packing.is_container(raw):
        _unpack_container(raw)
    return _fitting(raw)


def canonical(raw: bytes) -> bytes:
    """The canonical bytes of a value that a client packed in any way; `raw` must be whole.

    A scalar that is decoded already is better given to `pack_value`.

    Raises:
        BadValueError, TooLargeError: as `pack_value`.
    """
    return _fitting(packing.pack(_unpack_container(raw) if packing.is_container(raw) else unpack_value(raw)))


def check_value(raw: bytes) -> None:
    """Whether bytes from a peer are exactly one value that may be stored, in canonical form or not.

    Raises:
        BadValueError, TooLargeError: as `pack_value`.
    """
    _fitting(raw)
    if not packing.is_container(raw):
        unpack_value(raw)
        return
    try:
        packing.check_whole(raw)
    except DecodeError as error:
        raise BadValueError(str(error)) from None
    _unpack_container(raw)


def unpack_value(raw: bytes) -> object:
    """The Python value of stored bytes: str, bytes, int, float, bool, None, list, dict, `ExtType`, `Timestamp`.

    Raises:
        BadValueError: the bytes are no value.
    """
    try:
        return packing.unpack(raw)
    except DecodeError as error:
        raise BadValueError(f"the value cannot be read: {error}") from None


# -- inside -------------------------------------------------------------------------------------------------------


def _fitting(raw: bytes) -> bytes:
    if len(raw) > VALUE_BYTES_MAX:
        raise TooLargeError(f"the value has {len(raw)} bytes when packed; the limit is {VALUE_BYTES_MAX}")
    return raw


def _unpack_container(raw: bytes) -> object:
    """Unpack whole bytes once more with an eye on keys and nesting, which plain unpacking does not check."""
    try:
        value = packing.unpack_pairs(raw, _distinct)
    except DecodeError as error:
        raise BadValueError(f"the value cannot be stored: {error}") from None
    check_nesting(value)
    return value


def _distinct(pairs: list[tuple[object, object]]) -> dict[object, object]:
    """A dict, unless it would merge keys: 1, 1.0 and true are one key in Python, as are two equal ones."""
    try:
        found = dict(pairs)
    except TypeError:
        raise BadValueError("a key of a map in the value is a list or a map: use text or a number") from None
    if len(found) != len(pairs):
        raise BadValueError("a map in the value has two keys that are equal (1, 1.0 and true are): rename one")
    return found


def check_nesting(value: object) -> None:
    """See that lists and maps nest no deeper than `NESTING_MAX`. Level by level, so that depth costs no stack.

    Raises:
        BadValueError: they do.
    """
    level = [value]
    for _ in range(NESTING_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)  # type: ignore[attr-defined]
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise BadValueError(f"the value nests lists and maps deeper than {NESTING_MAX}: flatten it")


def _packing_failure(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it has text that is not Unicode (a lone surrogate)"
    if isinstance(error, OverflowError):
        return "an integer needs more than 64 bits"
    return str(error)
