"""The fields that requests, replies and messages about tokens share.

Knows: names of tokens, sessions, tickets, the data of a token; their limits.  Does not know what they are for.

Invariant: a reader returns what is well-formed, or raises `DecodeError` or a `RequestError` that says what is right.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import attrs

from distkv.errors import TooLargeError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX, TOKEN_BYTES_MAX, Fence, is_token_name
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list, read_node
from distkv.wire.values import NIL, canonical

DATA_BYTES_MAX: Final = 64 << 10
"""How large the packed data of a token may be."""
SERVERS_MAX: Final = 7
"""No list of token servers is longer."""
SESSION_CHARS_MAX: Final = 64
HELD_MAX: Final = 10_000
"""How many tokens one session may hold."""

Ticket: TypeAlias = tuple[int, int]
"""A place in a queue: the change of servers by which its server went, and its number there. A lower one is earlier."""

_SESSION: Final = re.compile(r"[0-9]{1,19}-[0-9A-Za-z]{1,40}")
_TICKET: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")


@attrs.frozen(slots=True)
class HeldToken:
    """A token that a session says it holds."""

    token: str
    epoch: int
    counter: int
    is_shared: bool
    data: bytes | None = None
    """Packed, as the store's values are."""
    change: int = 0
    """The number of the newest change that the session made to it."""
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""

    @property
    def fence(self) -> Fence:
        return Fence(0, self.epoch, self.counter, self.token)


def read_token(value: object, name: str = "token") -> str:
    """The name of a token."""
    if type(value) is not str or not is_token_name(value):
        raise bad(name, f"a name: text of 1 to {TOKEN_BYTES_MAX} bytes without control characters", value)
    return value


def read_names(value: object, name: str) -> tuple[NodeName, ...]:
    """Some token servers, or none."""
    found = tuple([read_node(one, name) for one in read_list(value, name)])
    if len(found) > SERVERS_MAX or len(set(found)) < len(found):
        raise bad(name, f"at most {SERVERS_MAX} nodes, each once", value)
    return found


def read_list_of_servers(value: object) -> tuple[NodeName, ...]:
    """All token servers, as they are to be: 1, 3, 5 or 7."""
    found = read_names(value, "servers")
    if not len(found) % 2:
        raise bad("servers", f"1, 3, 5 or {SERVERS_MAX} nodes: with an even number one more would not help", value)
    return found


def read_session(value: object, name: str = "session") -> str:
    """What `token_open` gave."""
    if type(value) is not str or len(value) > SESSION_CHARS_MAX or not _SESSION.fullmatch(value):
        raise bad(name, "a session, as token_open gave it", value)
    return value


def version_of(session: str) -> int:
    """The version in which a session was opened: its number begins with it."""
    return int(session.partition("-")[0])


def read_ticket(value: object) -> Ticket:
    """A ticket, as an earlier refusal gave it."""
    parts = _TICKET.fullmatch(value) if type(value) is str else None
    if parts is None or max(found := (int(parts[1]), int(parts[2]))) > FENCE_MAX:
        raise bad("ticket", "as an earlier answer gave it", value)
    return found


def ticket_text(ticket: Ticket) -> str:
    """As a client keeps it."""
    return f"{ticket[0]}.{ticket[1]}"


def read_prefix(fields: Fields, name: str) -> str:
    """The beginning of names; absent: empty."""
    value = fields.get(name, "")
    if value == "":
        return ""
    return read_token(value, name)


def raw_field(frame: bytes, name: str) -> bytes:
    """The bytes of one field of a packed map."""
    return next(raw for key, raw in packing.split_map(frame) if packing.unpack(key) == name)


def read_data(frame: bytes) -> bytes | None:
    """The field `data` of a packed map, in canonical form; null: none.

    Raises:
        TooLargeError: it has more than `DATA_BYTES_MAX` bytes.
        BadValueError: it cannot be stored.
    """
    data = canonical(raw_field(frame, "data"))
    if len(data) > DATA_BYTES_MAX:
        raise TooLargeError(f"the data of a token has {len(data)} bytes when packed; the limit is {DATA_BYTES_MAX}")
    return None if data == NIL else data


def read_packed_data(value: object) -> bytes | None:
    """Data that a node sends, or a slot holds: packed already."""
    if value is None:
        return None
    if type(value) is not bytes or len(value) > DATA_BYTES_MAX:
        raise bad("data", f"at most {DATA_BYTES_MAX} bytes", value)
    return value


def read_held(value: object, frame: bytes) -> tuple[HeldToken, ...]:
    """The tokens that a client says it holds; `frame` is the request's, which is looked into where there is data."""
    found = read_list(value, "held")
    if len(found) > HELD_MAX:
        raise bad("held", f"a list of at most {HELD_MAX} tokens", value)
    if not any(type(one) is dict and "data" in one for one in found):
        return tuple([_held(one, None) for one in found])
    parts = packing.split_array(raw_field(frame, "held"))
    return tuple([_held(one, part) for one, part in zip(found, parts, strict=True)])


def _held(one: object, part: bytes | None) -> HeldToken:
    if type(one) is not dict:
        raise bad("held", "made of maps", one)
    epoch, counter = read_int(one, "epoch", FENCE_MAX), read_int(one, "counter", FENCE_MAX)
    data = read_data(part) if part is not None and "data" in one else None
    change = read_int(one, "change", FENCE_MAX) if "change" in one else 0
    flags = read_flag(one, "shared"), read_flag(one, "keep_data")
    return HeldToken(read_token(one.get("token")), epoch, counter, flags[0], data, change, flags[1])


def held_list(held: tuple[HeldToken, ...]) -> list[list[object]]:
    """The same between nodes."""
    return [
        [one.token, one.epoch, one.counter, one.is_shared, one.data, one.change, one.keeps_data] for one in held
    ]


def read_held_list(value: object) -> tuple[HeldToken, ...]:
    """The same from a node."""
    found = read_list(value, "held")
    if len(found) > HELD_MAX:
        raise bad("held", f"a list of at most {HELD_MAX} tokens", value)
    return tuple([_held_of(read_list(one, "held")) for one in found])


def _held_of(parts: list[object]) -> HeldToken:
    if len(parts) != 7 or type(parts[3]) is not bool or type(parts[6]) is not bool:
        raise bad("held", "made of [token, epoch, counter, shared, data, change, keep_data]", parts)
    numbers: Fields = {"epoch": parts[1], "counter": parts[2], "change": parts[5]}
    epoch, counter, change = (read_int(numbers, name, FENCE_MAX) for name in numbers)
    return HeldToken(read_token(parts[0]), epoch, counter, parts[3], read_packed_data(parts[4]), change, parts[6])
