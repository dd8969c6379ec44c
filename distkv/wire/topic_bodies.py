"""The kinds of fields that bodies about topics share: what nodes tell each other, and what they keep.

Knows: how names, counters and their ranges are declared.  Does not know any body.

Invariant: as in `declared`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from distkv.model.ranges import Ranges
from distkv.wire.declared import Bounds
from distkv.wire.topic_fields import COUNTER_MAX, NAME_BYTES_MAX, PRODUCERS_MAX, RANGES_MAX, is_name
from distkv.wire.values import VALUE_BYTES_MAX

Name: TypeAlias = Annotated[str, Bounds(min_length=1, max_length=NAME_BYTES_MAX)]
"""A class with such a field calls `check_names`."""
Counter: TypeAlias = Annotated[int, Bounds(ge=1, le=COUNTER_MAX)]
Number: TypeAlias = Annotated[int, Bounds(ge=0, le=COUNTER_MAX)]
"""Of anything, from 0 on."""
PackedValue: TypeAlias = Annotated[bytes, Bounds(min_length=1, max_length=VALUE_BYTES_MAX)]
"""Packed, as the store's values are."""
FlatRanges: TypeAlias = Annotated[tuple[Number, ...], Bounds(max_length=2 * RANGES_MAX)]
"""Ranges of counters: each begin, and how many counters the range has, in turn. A class with such a field calls
`ranges_of`, which checks them."""
CounterMap: TypeAlias = Annotated[Mapping[Name, FlatRanges], Bounds(max_length=PRODUCERS_MAX)]
"""Of each producer some counters. A class with such a field calls `check_counters`."""


def check_names(*names: str) -> None:
    """Whether these are names; their kind has looked at their length.

    Raises:
        ValueError: one is none.
    """
    text = "".join(names)
    if not (text.isascii() and text.isprintable()):  # it costs nothing, and is false for few
        for name in names:
            if not is_name(name):
                raise ValueError("a name has control characters, or too many bytes")


def flat(ranges: Ranges) -> tuple[int, ...]:
    """Ranges, as they are declared."""
    return tuple([number for begin, end in ranges.pairs() for number in (begin, end - begin)])


def ranges_of(numbers: tuple[int, ...]) -> Ranges:
    """The ranges that this says.

    Raises:
        ValueError: they are not rising, or overlap, or touch, or leave what counters can be.
    """
    if len(numbers) % 2:
        raise ValueError("ranges are begins and lengths in turn")
    begins, counts = numbers[::2], numbers[1::2]
    found = Ranges.from_sorted([(begin, begin + count) for begin, count in zip(begins, counts, strict=True)])
    if numbers and not (numbers[0] >= 1 and found.last() <= COUNTER_MAX):
        raise ValueError(f"counters are integers from 1 to {COUNTER_MAX}")
    return found


def flat_map(counters: Mapping[str, Ranges]) -> dict[str, tuple[int, ...]]:
    """Counters of producers, as they are declared."""
    return {producer: flat(some) for producer, some in counters.items()}


def counters_of(some: Mapping[str, tuple[int, ...]]) -> dict[str, Ranges]:
    """The same, as they are used.

    Raises:
        ValueError: some are no ranges.
    """
    return {producer: ranges_of(numbers) for producer, numbers in some.items()}


def check_counters(some: Mapping[str, tuple[int, ...]]) -> None:
    """Whether these are counters of producers.

    Raises:
        ValueError: they are not.
    """
    check_names(*some)
    counters_of(some)
