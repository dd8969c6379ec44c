"""The fields of what clients ask about tokens, and what they share with the bodies between nodes.

Knows: names of tokens, sessions, tickets, the data of a token; their limits.  Does not know what they are for.

Invariant: a reader returns what is well-formed, or raises `DecodeError` or a `RequestError` that says what is right.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from distkv.errors import TooLargeError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX, TOKEN_BYTES_MAX, GrantNumber, is_token_name
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_int, read_list, read_node
from distkv.wire.values import NIL, canonical

DATA_BYTES_MAX: Final = 64 << 10
"""How large the packed data of a token may be."""
SERVERS_MAX: Final = 7
"""No list of token servers is longer."""
SESSION_CHARS_MAX: Final = 64

Ticket: TypeAlias = tuple[int, int]
"""A place in a queue: the change of servers by which its server went, and its number there. A lower one is earlier."""

SESSION: Final = r"[0-9]{1,19}-[0-9A-Za-z]{1,40}"
_SESSION: Final = re.compile(SESSION)
_TICKET: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")


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


def read_grant_number(fields: Fields) -> GrantNumber:
    """The number of a grant, as clients see it."""
    return GrantNumber(read_int(fields, "epoch", FENCE_MAX), read_int(fields, "counter", FENCE_MAX))


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
