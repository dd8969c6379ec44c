"""When two values are the same value (docs/protocol, VALUE-4), and when two changes say the same.

Knows: how msgpack bytes are cut into lists, maps and the rest.  Does not know what the rest means: numbers, text and
so on are the same when their bytes are.

Invariant: whoever asks whether values are equal asks here: conditions, `idem`, conflicts, jobs of the pipeline.

The bytes are cut here and not by the library, which only `wire` knows. It is done only where two lists or maps have as
many bytes and not the same ones, and ends at the latest after each byte was seen once.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import Final, TypeAlias

from distkv.model.event import Event, Kind

_Form: TypeAlias = "bytes | list[_Form] | dict[bytes, _Form]"
"""A value such that two are equal when the values are: what is neither list nor map stays bytes."""


def same_value(a: bytes, b: bytes) -> bool:
    """Whether two packed values are the same but for the order of keys in maps, however deep these are.

    1, 1.0 and true are three values, as are text and bytes.
    """
    if a == b:
        return True
    if len(a) != len(b) or a[0] != b[0] or a[0] not in _CONTAINERS:
        return False
    try:
        return _form(a, 0)[0] == _form(b, 0)[0]
    except (IndexError, RecursionError):  # no value at all, or one that no node takes
        return False


def says_same(a: Event, b: Event) -> bool:
    """Whether two changes leave the same at their path: nothing, or one value with one ttl."""
    if a.kind is not Kind.SET or b.kind is not Kind.SET:
        return a.kind is not Kind.SET and b.kind is not Kind.SET
    return a.ttl == b.ttl and same_value(a.value, b.value)


# -- inside -------------------------------------------------------------------------------------------------------

_CONTAINERS: Final = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
_WHOLE: Final = dict(
    chain(
        zip((*range(0x80), 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)), repeat(1)),
        ((0xA0 + length, 1 + length) for length in range(32)),
        {0xCC: 2, 0xD0: 2, 0xCD: 3, 0xD1: 3, 0xCA: 5, 0xCE: 5, 0xD2: 5, 0xCB: 9, 0xCF: 9, 0xD3: 9}.items(),
        {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}.items(),
    )
)
"""First byte: how many bytes there are."""
_COUNTED: Final = {
    0xC4: (1, 2), 0xC5: (2, 3), 0xC6: (4, 5), 0xD9: (1, 2), 0xDA: (2, 3), 0xDB: (4, 5),
    0xC7: (1, 3), 0xC8: (2, 4), 0xC9: (4, 6),
}  # fmt: skip
"""First byte: how many bytes tell how many follow, and how many there are besides those that follow."""


def _form(raw: bytes, at: int) -> tuple[_Form, int]:
    """The value at a position, and where it ends."""
    first = raw[at]
    if first not in _CONTAINERS:
        end = _end(raw, at)
        return raw[at:end], end
    is_map = first < 0x90 or first >= 0xDE
    if first < 0xA0:
        count, at = first & 0x0F, at + 1
    else:
        size = 2 if first in (0xDC, 0xDE) else 4
        count, at = int.from_bytes(raw[at + 1 : at + 1 + size], "big"), at + 1 + size
    if is_map:
        pairs: dict[bytes, _Form] = {}
        for _ in range(count):
            end = _end(raw, at)
            pairs[raw[at:end]], at = _form(raw, end)
        return pairs, at
    items: list[_Form] = []
    begin = at  # what is neither list nor map stays together
    for _ in range(count):
        if raw[at] in _CONTAINERS:
            items.append(raw[begin:at])
            item, at = _form(raw, at)
            items.append(item)
            begin = at
        else:
            at = _end(raw, at)
    items.append(raw[begin:at])
    return items, at


def _end(raw: bytes, at: int) -> int:
    """Where what is neither list nor map ends."""
    first = raw[at]
    whole = _WHOLE.get(first)
    if whole is not None:
        return at + whole
    if first not in _COUNTED:
        raise IndexError("no value begins so")
    size, more = _COUNTED[first]
    return at + more + int.from_bytes(raw[at + 1 : at + 1 + size], "big")
