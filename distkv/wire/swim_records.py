"""What nodes of the membership layer tell each other inside a frame: records, rumours, user messages, changes of keys.

Knows: these values, their bounds, and their bytes (docs: swim, 'What travels').  Does not know frames (`swim_frames`),
nor who believes what.

Invariant: a value that was read is within its bounds; of lists that are read, elements behind the known ones are
ignored. Whatever is wrong is one `FrameError` of the reason `body`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from typing import Final, TypeAlias, TypeVar

import attrs

from distkv.errors import FrameError, SettingsError
from distkv.naming import is_node_name, parse_address
from distkv.wire import packing

Address: TypeAlias = tuple[str, int]
"""Numeric host and port: where a datagram goes, or came from."""

GENERATION_MAX: Final = 2**63 - 1
SEQUENCE_MAX: Final = 2**63 - 1
START_BYTES: Final = 8
KEY_ID_BYTES: Final = 4
KEY_BYTES: Final = 32
KEYS_MAX: Final = 3
ADDRESSES_MAX: Final = 4
ADDRESS_CHARACTERS_MAX: Final = 64
RECORD_BYTES_MAX: Final = 256
COUNT_MAX: Final = 65_535
"""Of capacities, numbers of peers, pages, and kinds of user messages."""
INTERVAL_MS_MAX: Final = 3_600_000
TABLE_MAX: Final = 2**64 - 1
DATAGRAM_BYTES_MAX: Final = 1232
"""The least that IPv6 lets through whole (1,280), without the headers of IP and UDP."""
BODY_BYTES_MAX: Final = 960
"""Of a user message, so that whoever hears it can pass it on, with the longest names and sealed."""
MESSAGE_BYTES_MAX: Final = BODY_BYTES_MAX + 91
"""Of all of a user message."""
PAYLOAD_AROUND_BYTES: Final = 34
"""So much a full payload has at most besides its rumours, messages, changes of keys and samples."""


class MemberState(IntEnum):
    """At one generation the higher one wins."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class KeyAction(IntEnum):
    """What is to be done with a key of the keyring."""

    INSTALL = 1
    USE = 2
    REMOVE = 3


@attrs.frozen(slots=True)
class NodeId:
    """A node, at a generation that only the node itself raises."""

    node: str
    generation: int


@attrs.frozen(slots=True)
class NodeRecord:
    """What a node says of itself; at most `RECORD_BYTES_MAX` on the wire."""

    node: str
    generation: int
    start: bytes
    """Random; another one each time that the node starts."""
    addresses: tuple[str, ...]
    """HOST:PORT, numeric."""
    capacity: int = 0
    interval_ms: int = 500
    keys: tuple[bytes, ...] = ()
    """The ids of the keys that it has; the first one seals."""

    @property
    def id(self) -> NodeId:
        return NodeId(self.node, self.generation)


@attrs.frozen(slots=True)
class Rumour:
    """What somebody says about a node: always with its record if it is alive, else only in samples."""

    state: MemberState
    id: NodeId
    by: str = ""
    """Who suspects it."""
    record: NodeRecord | None = None


@attrs.frozen(slots=True)
class UserMessage:
    """Bytes that a node says to all, the messages of one start numbered from 1."""

    origin: str
    start: bytes
    sequence: int
    kind: int
    body: bytes


@attrs.frozen(slots=True)
class KeyChange:
    """A step in the life of the keyring; it travels only sealed."""

    epoch: int
    action: KeyAction
    key: bytes
    """All of it to install it, else its id."""


@attrs.frozen(slots=True)
class Payload:
    """What rides on pings, their answers and ticks."""

    rumours: tuple[Rumour, ...] = ()
    table: int | None = None
    """The hash of the sender's member table."""
    page: int | None = None
    """Which page of that table `sample` is."""
    sample: tuple[Rumour, ...] = ()
    messages: tuple[UserMessage, ...] = ()
    keys: tuple[KeyChange, ...] = ()
    capacity: int = 0
    peers: int = 0


NOTHING: Final = Payload()


@lru_cache(maxsize=4096)
def numeric_address(text: str) -> Address | None:
    """Host and port of a numeric HOST:PORT to which one node can listen; None for anything else."""
    if len(text) > ADDRESS_CHARACTERS_MAX or not text.isascii() or "%" in text:
        return None
    try:
        host, port = parse_address(text, "an address")
        found = ip_address(host)
    except (SettingsError, ValueError):
        return None
    is_v4 = isinstance(found, IPv4Address)
    if port == 0 or found.is_unspecified or found.is_multicast or host == "255.255.255.255":
        return None
    return (host, port) if is_v4 is not text.startswith("[") else None


def record_bytes(record: NodeRecord) -> int:
    """How long it is on the wire."""
    return len(packing.pack_plain(record_list(record)))


def rumour_bytes(rumour: Rumour) -> int:
    """How long it is on the wire, as a part of a payload."""
    return len(packing.pack_plain(rumour_list(rumour)))


def message_bytes(message: UserMessage) -> int:
    """How long it is on the wire, as a part of a payload."""
    return len(packing.pack_plain(_message_list(message)))


def key_change_bytes(change: KeyChange) -> int:
    """How long it is on the wire, as a part of a payload."""
    return len(packing.pack_plain(_key_change_list(change)))


# -- values to lists ----------------------------------------------------------------------------------------------


def id_list(one: NodeId) -> list[object]:
    return [one.node, one.generation]


def record_list(record: NodeRecord) -> list[object]:
    return [
        record.node,
        record.generation,
        record.start,
        [*record.addresses],
        record.capacity,
        record.interval_ms,
        b"".join(record.keys),
    ]


def rumour_list(rumour: Rumour) -> list[object]:
    """The record has the id in it."""
    if rumour.record is not None:
        return [rumour.state.value, rumour.by, record_list(rumour.record)]
    return [rumour.state.value, rumour.by, None, id_list(rumour.id)]


def _message_list(message: UserMessage) -> list[object]:
    return [message.origin, message.start, message.sequence, message.kind, message.body]


def _key_change_list(change: KeyChange) -> list[object]:
    return [change.epoch, change.action.value, change.key]


def payload_list(payload: Payload) -> list[object]:
    """Without the elements at the end that say nothing."""
    found: list[object] = [
        payload.table,
        [*map(rumour_list, payload.rumours)],
        [*map(_message_list, payload.messages)],
        [*map(_key_change_list, payload.keys)],
        payload.page,
        [*map(rumour_list, payload.sample)],
        payload.capacity,
        payload.peers,
    ]
    while found and found[-1] == _SAYS_NOTHING[len(found) - 1]:
        found.pop()
    return found


_SAYS_NOTHING: Final[tuple[object, ...]] = (None, [], [], [], None, [], 0, 0)


# -- lists to values ----------------------------------------------------------------------------------------------

_Found = TypeVar("_Found")


def bad(what: str) -> FrameError:
    return FrameError(f"a datagram has {what} that is not as it must be", "body")


def read_list(value: object, what: str, needed: int) -> list[object]:
    """A list with at least so many elements."""
    if type(value) is not list or len(value) < needed:
        raise bad(what)
    return value


def read_number(value: object, what: str, most: int, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise bad(what)
    return value


def read_bytes(value: object, what: str, most: int, least: int = 0) -> bytes:
    if type(value) is not bytes or not least <= len(value) <= most:
        raise bad(what)
    return value


_is_name: Final = lru_cache(maxsize=4096)(is_node_name)


def read_name(value: object, what: str) -> str:
    if type(value) is not str or not _is_name(value):
        raise bad(what)
    return value


def read_addresses(value: object) -> tuple[str, ...]:
    found = tuple(read_list(value, "addresses", 1))
    if len(found) > ADDRESSES_MAX:
        raise bad("addresses")
    for one in found:
        if type(one) is not str or numeric_address(one) is None:
            raise bad("an address")
    return found  # type: ignore[return-value]  # looked at one by one


def read_id(value: object, what: str) -> NodeId:
    parts = read_list(value, what, 2)
    return NodeId(read_name(parts[0], what), read_number(parts[1], what, GENERATION_MAX))


_ROOMY: Final = 200
"""With so few characters in its name and addresses a record is not too long, whatever else it has."""


def read_record(value: object) -> NodeRecord:
    parts = read_list(value, "a record", 7)
    keys = read_bytes(parts[6], "the keys of a node", KEY_ID_BYTES * KEYS_MAX)
    if len(keys) % KEY_ID_BYTES:
        raise bad("the keys of a node")
    found = NodeRecord(
        read_name(parts[0], "the name of a node"),
        read_number(parts[1], "a generation", GENERATION_MAX),
        read_bytes(parts[2], "the start of a node", START_BYTES, START_BYTES),
        read_addresses(parts[3]),
        read_number(parts[4], "a capacity", COUNT_MAX),
        read_number(parts[5], "an interval", INTERVAL_MS_MAX, 1),
        tuple([keys[begin : begin + KEY_ID_BYTES] for begin in range(0, len(keys), KEY_ID_BYTES)]),
    )
    if len(found.node) + sum(map(len, found.addresses)) > _ROOMY and record_bytes(found) > RECORD_BYTES_MAX:
        raise bad("a record")
    return found


def _read_rumour(value: object) -> Rumour:
    parts = read_list(value, "a rumour", 3)
    state = MemberState(read_number(parts[0], "a state", MemberState.LEFT.value))
    by = "" if parts[1] == "" else read_name(parts[1], "the name of who says it")
    if parts[2] is not None:
        record = read_record(parts[2])
        return Rumour(state, record.id, by, record)
    if state is MemberState.ALIVE or len(parts) < 4:
        raise bad("a rumour")
    return Rumour(state, read_id(parts[3], "a rumour"), by)


def _read_message(value: object) -> UserMessage:
    parts = read_list(value, "a user message", 5)
    return UserMessage(
        read_name(parts[0], "the origin of a message"),
        read_bytes(parts[1], "the start of a node", START_BYTES, START_BYTES),
        read_number(parts[2], "a sequence", SEQUENCE_MAX, 1),
        read_number(parts[3], "a kind", COUNT_MAX),
        read_bytes(parts[4], "a body", BODY_BYTES_MAX),
    )


def _read_key_change(value: object) -> KeyChange:
    parts = read_list(value, "a change of keys", 3)
    epoch = read_number(parts[0], "an epoch", SEQUENCE_MAX)
    action = KeyAction(read_number(parts[1], "an action", KeyAction.REMOVE.value, KeyAction.INSTALL.value))
    size = KEY_BYTES if action is KeyAction.INSTALL else KEY_ID_BYTES
    return KeyChange(epoch, action, read_bytes(parts[2], "a key", size, size))


def _read_some(value: object, what: str, read: Callable[[object], _Found]) -> tuple[_Found, ...]:
    """The datagram's length bounds how many there are."""
    return tuple([read(one) for one in read_list(value, what, 0)])


def read_payload(value: object) -> Payload:
    parts = read_list(value, "a payload", 0)
    if len(parts) < len(_SAYS_NOTHING):
        parts = [*parts, *_SAYS_NOTHING[len(parts) :]]
    table, rumours, messages, keys, page, sample, capacity, peers = parts[: len(_SAYS_NOTHING)]
    found = Payload(
        _read_some(rumours, "rumours", _read_rumour),
        None if table is None else read_number(table, "the hash of a table", TABLE_MAX),
        None if page is None else read_number(page, "a page", COUNT_MAX),
        _read_some(sample, "a sample", _read_rumour),
        _read_some(messages, "user messages", _read_message),
        _read_some(keys, "changes of keys", _read_key_change),
        read_number(capacity, "a capacity", COUNT_MAX),
        read_number(peers, "a number of peers", COUNT_MAX),
    )
    if found.sample and found.page is None:
        raise bad("a sample without its page")
    return found
