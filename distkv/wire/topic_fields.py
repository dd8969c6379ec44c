"""The fields of what clients ask about topics, and the kinds that bodies between nodes share with them.

Knows: names of topics, producers and subscribers, counters, ranges of counters; their limits.  Does not know what they
are for.

Invariant: a reader returns what is well-formed, or raises `DecodeError` that says what is right. Ranges of counters are
half-open, rising, and neither overlap nor touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.errors import DecodeError
from distkv.model.fence import TOKEN_BYTES_MAX, is_token_name
from distkv.model.ranges import Ranges
from distkv.wire.fields import Fields, bad, read_list, read_map

NAME_BYTES_MAX: Final = TOKEN_BYTES_MAX
COUNTER_MAX: Final = 2**63 - 1
OP_MAX: Final = 2**62
"""Of what a client may say; nodes count on above it, up to `COUNTER_MAX`."""
OF_NODES: Final = "~"
"""So begin the names of producers that nodes have themselves, for what is put without one."""
PRODUCERS_MAX: Final = 10_000
"""How many producers one request or answer names."""
RANGES_MAX: Final = 4096
"""How many ranges of one producer it says."""


def is_name(text: str) -> bool:
    """Whether it may name a topic, a producer or a subscriber: 1 to 255 bytes of text without control characters."""
    return is_token_name(text)


def read_name(value: object, name: str) -> str:
    """The name of a topic, a subscriber or any producer."""
    if type(value) is not str or not is_name(value):
        raise bad(name, f"a name: text of 1 to {NAME_BYTES_MAX} bytes without control characters", value)
    return value


def read_client_producer(value: object, name: str) -> str:
    """The name of a producer that is no node's own."""
    found = read_name(value, name)
    if found.startswith(OF_NODES):
        raise bad(name, f"a name that does not begin with '{OF_NODES}', which is for nodes", found)
    return found


def read_beginning(fields: Fields, name: str) -> str:
    """The beginning of names; absent: empty."""
    value = fields.get(name, "")
    return "" if value == "" else read_name(value, name)


def read_counter(value: object, name: str, low: int = 1) -> int:
    """The counter of a message."""
    if type(value) is not int or not low <= value <= COUNTER_MAX:
        raise bad(name, f"an integer from {low} to {COUNTER_MAX}", value)
    return value


def read_counters(value: object, name: str) -> dict[str, Ranges]:
    """Per producer its counters: rising numbers, and [begin, end) pairs."""
    given = read_map(value, name)
    if len(given) > PRODUCERS_MAX:
        raise DecodeError(f"the field '{name}' has {len(given)} producers; the limit is {PRODUCERS_MAX}", f"bad_{name}")
    return {read_name(producer, name): _read_ranges(some, name) for producer, some in given.items()}


def _read_ranges(value: object, name: str) -> Ranges:
    parts = read_list(value, name)
    if len(parts) > RANGES_MAX:
        raise DecodeError(f"the field '{name}' has {len(parts)} ranges; the limit is {RANGES_MAX}", f"bad_{name}")
    found = Ranges()
    for part in parts:
        begin, end = _read_range(part, name)
        if begin <= found.last():
            raise DecodeError(f"the field '{name}' has ranges that are unsorted or overlap", f"bad_{name}")
        found.add_range(begin, end)
    return found


def _read_range(part: object, name: str) -> tuple[int, int]:
    if type(part) is not list:
        begin = read_counter(part, name)
        return begin, begin + 1
    if len(part) != 2:
        raise DecodeError(f"the field '{name}' has a range that is no [begin, end) pair", f"bad_{name}")
    begin, end = read_counter(part[0], name), part[1]
    if type(end) is not int or not begin < end <= COUNTER_MAX + 1:
        raise bad(name, "made of counters and [begin, end) pairs", end)
    return begin, end


def counter_map(counters: Mapping[str, Ranges]) -> dict[str, object]:
    """The same as it is written."""
    return {producer: some.to_list() for producer, some in counters.items()}
