"""The fields of messages: strict readers for what others sent, and the forms in which our values travel.

Knows: names, types and ranges of the fields that messages, requests, payloads and log records share.  Does not know
which fields a message has.

Invariant: a reader returns what is well-formed, or raises `DecodeError` whose message names the field and what would be
right, and whose reason is `bad_` and the field's name.  Types are exact: true is no integer, 1 is no float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from distkv.errors import BadPathError, DecodeError, RequestError
from distkv.model.event import (
    COUNT_BITS,
    TICK_MAX,
    Chain,
    Event,
    Link,
    NodeName,
    Tick,
)
from distkv.model.path import NAMES_MAX, Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges
from distkv.naming import is_node_name
from distkv.wire import packing

if TYPE_CHECKING:
    from distkv.wire.message import TickMap  # messages are long to load, and a client has none

Fields: TypeAlias = Mapping[str, object]
"""A decoded map. Nobody promised that its keys are text: use `get`, or look at each."""

PATH_BYTES_MAX: Final = 4096
"""How large a packed path may be (docs/protocol, PATH-1)."""

SHARED_CHARS_MAX: Final = 64
"""Longer names of paths are kept for each path anew."""

LINKS_MAX: Final = 64
"""How many links any chain may have, our own `chain.length` included."""

ADDRESS_MAX: Final = 300
"""A host name has at most 253 characters."""

DIGEST_MAX: Final = 2**64 - 1
"""The state digest has 64 bits."""

HASH_BYTES: Final = 8
"""The network id and the hash of tick ranges."""

_COUNT_MASK: Final = (1 << COUNT_BITS) - 1
_STATES: Final = {state.value: state for state in State}


# -- scalars ------------------------------------------------------------------------------------------------------


def bad(name: str, right: str, value: object) -> DecodeError:
    """The error for a field: what it must be, and what came."""
    return DecodeError(f"the field '{name}' must be {right}, not {shown(value)}", f"bad_{name}")


def shown(value: object) -> str:
    """What a stranger sent, in a few words; containers are not looked into, they may be deep."""
    if value is None:
        return "null or missing"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, bool | int | float):
        return repr(value).lower()
    if isinstance(value, bytes):
        return "bytes"
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else "an extension type"


def read_map(value: object, name: str) -> Fields:
    """A map."""
    if type(value) is not dict:
        raise bad(name, "a map", value)
    return value


def read_list(value: object, name: str) -> list[object]:
    """A list."""
    if type(value) is not list:
        raise bad(name, "a list", value)
    return value


def read_int(fields: Fields, name: str, high: int = TICK_MAX, low: int = 0) -> int:
    """An integer from `low` to `high`."""
    value = fields.get(name)
    if type(value) is not int or not low <= value <= high:
        raise bad(name, f"an integer from {low} to {high}", value)
    return value


def read_time(value: object, name: str) -> float:
    """Seconds as a finite float."""
    if type(value) is not float or not math.isfinite(value):
        raise bad(name, "a finite float", value)
    return value


def read_seconds(fields: Fields, name: str, high: float) -> float:
    """A duration, from 0 to `high` seconds."""
    value = fields.get(name)
    if (type(value) is not float and type(value) is not int) or not 0 <= value <= high:
        raise bad(name, f"seconds, from 0 to {high:g}", value)
    return float(value)


def read_flag(fields: Fields, name: str) -> bool:
    """True or false; absent is false."""
    value = fields.get(name, False)
    if type(value) is not bool:
        raise bad(name, "true or false", value)
    return value


def read_hash(value: object, name: str) -> bytes:
    """Eight bytes."""
    if type(value) is not bytes or len(value) != HASH_BYTES:
        raise bad(name, f"{HASH_BYTES} bytes", value)
    return value


def read_node(value: object, name: str) -> NodeName:
    """A node's name. Equal names come back as one object, so that a million chains share it."""
    node = _node(value) if type(value) is str else None
    if node is None:
        raise bad(name, "a node name: 1-63 of letters, digits, '.', '-', '_'", value)
    return node


@lru_cache(maxsize=4096)
def _node(text: str) -> NodeName | None:
    return NodeName(text) if is_node_name(text) else None


def read_address(fields: Fields) -> str:
    """HOST:PORT as the sender gives it, or empty; whether it can be reached is not judged here."""
    value = fields.get("addr")
    if type(value) is not str or len(value) > ADDRESS_MAX or not (value.isprintable() and (not value or ":" in value)):
        raise bad("addr", "HOST:PORT or empty", value)
    return value


def read_state(fields: Fields) -> State:
    """How far a node is."""
    value = fields.get("state")
    state = _STATES.get(value) if type(value) is str else None
    if state is None:
        raise bad("state", f"one of {', '.join(_STATES)}", value)
    return state


# -- paths --------------------------------------------------------------------------------------------------------


def read_path(value: object) -> Path:
    """A list of names.

    Raises:
        BadPathError: it is something else, or too large.
    """
    if type(value) is not list:
        raise BadPathError(f"a path is a list of names, such as ['sensors', 'kitchen'], not {shown(value)}")
    text = ""
    for name in value:
        if type(name) is not str:  # to see it is cheaper than to fail at it
            break
    else:
        text = "".join(value)
    if text.isascii() and 0 < len(text) <= PATH_BYTES_MAX // 2 and len(value) <= NAMES_MAX:
        return Path.of_ascii(value)  # the usual case: nothing more needs to be looked at
    path = Path.of_mixed(value)
    if len(packing.pack_plain(value)) > PATH_BYTES_MAX:  # no name gets longer than it was sent
        size = len(packing.pack_plain([*path.names]))
        if size > PATH_BYTES_MAX:
            raise BadPathError(f"the path has {size} bytes when packed; the limit is {PATH_BYTES_MAX}")
    return path


def read_any_path(value: object) -> Path:
    """A path in a message between nodes, or in a record: names that many paths have in common are kept once.

    Raises:
        DecodeError: it is none.
    """
    if type(value) is list and len(value) > 1:
        share_names(value)
    return read_told_path(value)


def read_told_path(value: object) -> Path:
    """A path in a reply.

    Raises:
        DecodeError: it is none.
    """
    try:
        return read_path(value)
    except RequestError as error:
        raise DecodeError(str(error), error.code) from None


def read_lasting_path(value: object) -> Path:
    """As `read_path`, for a path that will be kept: as `read_any_path` does it."""
    if type(value) is list and len(value) > 1:
        share_names(value)
    return read_path(value)


def share_names(names: list[object]) -> None:
    """Put one object in the place of each name that other paths have, too, so that a million of them share it."""
    for at, name in enumerate(names[: min(len(names), NAMES_MAX) - 1]):  # the last name is mostly the path's own
        if type(name) is str and len(name) <= SHARED_CHARS_MAX:
            names[at] = one_of_all(name)


@lru_cache(maxsize=4096)
def one_of_all(name: str) -> str:
    """Always the same object for equal names."""
    return name


# -- chains -------------------------------------------------------------------------------------------------------


def flat_chain(event: Event) -> list[object]:
    """The chain as nodes and ticks in turn."""
    flat: list[object] = [event.node, event.tick]
    for link in event.older:
        flat += link
    return flat


def chain_map(chain: Chain, *, truncated: bool, length: int = LINKS_MAX) -> dict[str, object] | None:
    """The first `length` links as nested {node, tick, prev}; None when that is none.

    `prev` is null where the chain ends, absent where it was cut.
    """
    cut = truncated or length < len(chain)
    found: dict[str, object] | None = None
    for node, tick in reversed(chain[:length]):
        link: dict[str, object] = {"node": node, "tick": tick}
        if found is not None or not cut:
            link["prev"] = found
        found = link
    return found


def read_chain(value: object, name: str) -> tuple[Chain, bool]:
    """The links, and whether the chain was cut."""
    if type(value) is dict and len(value) == 3 and value.get("prev", value) is None:  # one link, as nearly always
        return (read_link(value.get("node"), value.get("tick"), name),), False
    links: list[Link] = []
    while value is not None or not links:
        fields = read_map(value, name)
        links.append(read_link(fields.get("node"), fields.get("tick"), name))
        if len(links) > LINKS_MAX:
            break
        if "prev" not in fields:
            return checked_chain(links, name), True
        value = fields["prev"]
    return checked_chain(links, name), False


def flat_links(links: Iterable[Link]) -> list[object]:
    """Nodes and ticks in turn."""
    return [part for link in links for part in link]


def read_flat_links(value: object, name: str) -> Chain:
    """Nodes and ticks in turn, at least one of each."""
    flat = read_list(value, name)
    if not flat or len(flat) % 2:
        raise DecodeError(f"the field '{name}' must be a list of nodes and ticks in turn", f"bad_{name}")
    return tuple([(read_node(flat[at], name), read_tick(flat[at + 1], name)) for at in range(0, len(flat), 2)])


def checked_chain(links: Sequence[Link], name: str) -> Chain:
    """What holds for every chain: its length, and that a (node, life) appears once."""
    if len(links) > LINKS_MAX:
        raise DecodeError(f"the field '{name}' has more than {LINKS_MAX} links", f"bad_{name}")
    if len(links) > 1 and len({(node, tick >> COUNT_BITS) for node, tick in links}) < len(links):
        raise DecodeError(f"the field '{name}' names a node and life twice", f"bad_{name}")
    return tuple(links)


def read_link(node: object, tick: object, name: str) -> Link:
    """One link of an event's chain."""
    return read_node(node, name), read_tick(tick, name)


def read_tick(value: object, name: str) -> Tick:
    """The tick of a change. Within each life changes count from 1."""
    if type(value) is not int or not 0 < value <= TICK_MAX or not value & _COUNT_MASK:
        raise bad(name, "made of ticks: integers below 2^63 whose lower 32 bits count from 1", value)
    return Tick(value)


# -- ticks --------------------------------------------------------------------------------------------------------


def tick_map(ticks: TickMap) -> dict[str, object]:
    """Per node the last tick of each life; a single one is a plain integer."""
    return {node: lasts[0] if len(lasts) == 1 else lasts for node, lasts in ticks.items()}


def read_ticks(value: object, name: str) -> TickMap:
    """Per node the last tick of each life, rising."""
    found: TickMap = {}
    for node, given in read_map(value, name).items():
        lasts = [read_tick(tick, name) for tick in (given if type(given) is list else [given])]
        lives = [tick >> COUNT_BITS for tick in lasts]
        if not lasts or any(a >= b for a, b in pairwise(lives)):
            raise DecodeError(f"the field '{name}' must have one tick for each life, rising", f"bad_{name}")
        found[read_node(node, name)] = lasts
    return found


def read_single_ticks(given: Fields, name: str) -> dict[NodeName, Tick]:
    """Per node one tick of any life, or 0."""
    found: dict[NodeName, Tick] = {}
    for node, tick in given.items():
        if type(tick) is not int or not 0 <= tick <= TICK_MAX:
            raise bad(name, "made of integers below 2^63", tick)
        found[read_node(node, name)] = Tick(tick)
    return found


def range_map(ranges: TickRanges) -> dict[str, object]:
    """Per node a sorted list of ticks and [begin, end) pairs."""
    return {node: some.to_list() for node, some in ranges.items()}


def read_ranges(value: object, name: str) -> TickRanges:
    """Per node sorted ranges that do not overlap, none of which crosses from one life into the next.

    The latter because whoever takes ranges apart by life would work for hours on [1, 2^63).
    """
    found: TickRanges = {}
    for node, given in read_map(value, name).items():
        pairs: list[tuple[int, int]] = []
        for part in read_list(given, name):
            begin, end = _range(part, name)
            if pairs and begin <= pairs[-1][1]:
                if begin < pairs[-1][1]:
                    raise DecodeError(f"the field '{name}' has ranges that are unsorted or overlap", f"bad_{name}")
                pairs[-1] = (pairs[-1][0], end)  # two that touch are one
            else:
                pairs.append((begin, end))
        found[read_node(node, name)] = Ranges.from_sorted(pairs)
    return found


def _range(part: object, name: str) -> tuple[int, int]:
    if type(part) is not list:
        begin = read_tick(part, name)
        return begin, begin + 1
    if len(part) != 2:
        raise DecodeError(f"the field '{name}' has a range that is no [begin, end) pair", f"bad_{name}")
    begin, end = read_tick(part[0], name), part[1]
    if type(end) is not int or end <= begin or (end - 1) >> COUNT_BITS != begin >> COUNT_BITS:
        raise bad(name, "made of [begin, end) pairs within one life", end)
    return begin, end
