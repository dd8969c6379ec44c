"""What clients ask about tokens: sessions, acquire and release, data, lists, watches; declared.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX, GrantNumber
from distkv.model.lean import lean_value
from distkv.wire import packing
from distkv.wire.fields import Fields, read_flag, read_int
from distkv.wire.request_fields import FLAG, WAIT, FieldGroup, FieldKind, declared, seconds, whole_number
from distkv.wire.row import AnyRow, ReplyForm
from distkv.wire.services import ServiceRequest
from distkv.wire.token_fields import (
    Ticket,
    read_data,
    read_list_of_servers,
    read_prefix,
    read_session,
    read_ticket,
    read_token,
    ticket_text,
)
from distkv.wire.values import NIL

if TYPE_CHECKING:
    from distkv.wire.held_tokens import HeldToken  # bodies are long to load, and most commands say none

TTL_S_MAX: Final = 86_400.0
"""The longest ttl of a session that may be asked for."""
PAGE_MAX: Final = 1000
"""The most items of one `token_list`."""

# -- what is asked ------------------------------------------------------------------------------------------------


@lean_value
class TokenOpen(ServiceRequest):
    """Open a session."""

    seq: int
    ttl_s: float | None = None
    grace_s: float = 0.0
    """So much longer than that it is to live, because its client stops so long before the end. Else a session of three
    leases would be given up in a change of leaders."""


@lean_value
class TokenClose(ServiceRequest):
    """End a session in order: what it holds is free at once."""

    seq: int
    session: str


@lean_value
class TokenKeep(ServiceRequest):
    """Keep a session alive, and wait for news of it."""

    seq: int
    session: str
    version: int
    """What the last answer named."""
    held: tuple[HeldToken, ...] = ()
    wait_s: float | None = None
    """How long the answer may take when there is no news; None: it is wanted at once."""
    turn: int = 0
    """A number above those of all earlier keep-alives of this client. 0: not said."""
    heard: int = 0
    """The turn of the keep-alive whose answer the client took last. So the leader knows what the client knew, also
    when the request comes late."""


@lean_value
class TokenAcquire(ServiceRequest):
    seq: int
    session: str
    token: str
    is_shared: bool = False
    wait_s: float | None = None
    """How long to wait for it; None: a try."""
    data: bytes | None = None
    """Packed; what the token's data is to be from the grant on."""
    ticket: Ticket | None = None
    """The place in the queue, from an earlier refusal."""
    before: GrantNumber | None = None
    """Of the grant with which the session held the token the last time, and gave it back. A crash may have undone
    that: then it is done again, so that the grant is a higher one."""
    keeps_data: bool = False
    """Whether this data stays when nobody holds the token; else it ends with its holder."""


@lean_value
class TokenRelease(ServiceRequest):
    """Give up a token, or the place in its queue."""

    seq: int
    session: str
    token: str
    fence: GrantNumber | None = None
    """Only if the session holds it by this grant. A release that comes late, by a node that stood
    still, does not undo a later acquire then."""


@lean_value
class TokenData(ServiceRequest):
    seq: int
    session: str
    token: str
    data: bytes | None
    """Packed; None: the token has none any more."""
    fence: GrantNumber | None = None
    """Only if the session holds it by this grant."""
    change: int = 0
    """Which change it is of those that the session makes while it holds the token, from 1. One that comes late, by a
    node that stood still, does not undo a later one then. 0: it is not said."""
    keeps_data: bool = False
    """As that of `TokenAcquire`."""


@lean_value
class TokenShow(ServiceRequest):
    seq: int
    token: str


@lean_value
class TokenList(ServiceRequest):
    seq: int
    prefix: str = ""
    limit: int = PAGE_MAX
    after: str = ""
    """Only names behind this one."""


@lean_value
class TokenWatch(ServiceRequest):
    seq: int
    prefix: str = ""


@lean_value
class TokenBreak(ServiceRequest):
    """Take a token from its holders."""

    seq: int
    token: str
    fence: GrantNumber | None = None
    """Only from those whose grants are not above this one."""


@lean_value
class TokenServers(ServiceRequest):
    seq: int


@lean_value
class TokenSetServers(ServiceRequest):
    """Another list of token servers is to come into force."""

    seq: int
    servers: tuple[NodeName, ...]
    wait_s: float | None = None
    """How long the answer may take; None: it only begins."""


@lean_value
class TokenReset(ServiceRequest):
    """Found the token servers anew, where a majority of them is gone for good."""

    seq: int
    servers: tuple[NodeName, ...] = ()
    """Empty: those in force."""


TokenRequest: TypeAlias = (
    TokenOpen | TokenClose | TokenKeep | TokenAcquire | TokenRelease | TokenData | TokenShow | TokenList | TokenWatch
    | TokenBreak | TokenServers | TokenSetServers | TokenReset
)

OneTokenRequest: TypeAlias = TokenAcquire | TokenRelease | TokenData | TokenShow | TokenBreak
"""What the server of the token answers."""

# -- their fields -------------------------------------------------------------------------------------------------


def _read_number(fields: Fields, _: bytes) -> tuple[GrantNumber]:
    return (GrantNumber(read_int(fields, "epoch", FENCE_MAX), read_int(fields, "counter", FENCE_MAX)),)


def _write_number(numbers: Sequence[GrantNumber], fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["epoch"], fields["counter"] = numbers[0]


def _read_data(_: Fields, frame: bytes) -> tuple[bytes | None]:
    return (read_data(frame),)


def _read_new_data(fields: Fields, frame: bytes) -> tuple[bytes | None]:
    if "data" not in fields:
        raise RequestError("the field 'data' is missing: give a value, or null for none")
    return (read_data(frame),)


def _write_data(data: Sequence[bytes | None], _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw["data"] = NIL if data[0] is None else data[0]


def _read_held(fields: Fields, frame: bytes) -> tuple[tuple[HeldToken, ...]]:
    from distkv.wire.held_tokens import read_held

    return (read_held(fields.get("held"), frame),)


def _write_held(held: Sequence[Sequence[HeldToken]], _: dict[str, object], raw: dict[str, bytes]) -> None:
    raw["held"] = packing.array_header(len(held[0])) + b"".join(map(_packed_held, held[0]))


def _packed_held(held: HeldToken) -> bytes:
    fields = {"token": held.token, "epoch": held.epoch, "counter": held.counter, "shared": held.is_shared}
    if held.change:
        fields["change"] = held.change
    if held.keeps_data:
        fields["keep_data"] = True
    return packing.pack_map(fields, {} if held.data is None else {"data": held.data})


def _read_force(fields: Fields, _: bytes) -> tuple[()]:
    if not read_flag(fields, "force"):
        raise RequestError("the field 'force' must be true: a reset may let two sessions hold one token")
    return ()


def _write_force(_: object, fields: dict[str, object], __: dict[str, bytes]) -> None:
    fields["force"] = True


_LATER: Final = ReplyForm.LATER
_SESSION: Final = FieldKind(read_session)
_TOKEN: Final = FieldKind(read_token)
_PREFIX: Final = FieldKind(read_prefix, of_fields=True)
_NUMBER: Final = whole_number(FENCE_MAX)
_SERVERS: Final = FieldKind(lambda value, _: read_list_of_servers(value), list)
_GRANT: Final = FieldGroup(1, _read_number, _write_number)
_DATA: Final = FieldGroup(1, _read_data, _write_data)

TOKEN_ROWS: Final[tuple[AnyRow[TokenRequest], ...]] = (
    declared("token_open", TokenOpen, {"ttl": seconds(TTL_S_MAX), "grace": WAIT}, _LATER),
    declared("token_close", TokenClose, {"session": _SESSION}, _LATER),
    declared("token_keep", TokenKeep, {
        "session": _SESSION, "version": _NUMBER, "held": FieldGroup(1, _read_held, _write_held, is_needed=True),
        "wait": WAIT, "turn": _NUMBER, "heard": _NUMBER,
    }, _LATER),
    declared("token_acquire", TokenAcquire, {
        "session": _SESSION, "token": _TOKEN, "shared": FLAG, "wait": WAIT, "data": _DATA,
        "ticket": FieldKind(lambda value, _: read_ticket(value), ticket_text), ("epoch", "counter"): _GRANT,
        "keep_data": FLAG,
    }, _LATER),
    declared("token_release", TokenRelease, {
        "session": _SESSION, "token": _TOKEN, ("epoch", "counter"): _GRANT,
    }, _LATER),
    declared("token_data", TokenData, {
        "session": _SESSION, "token": _TOKEN, "data": FieldGroup(1, _read_new_data, _write_data),
        ("epoch", "counter"): _GRANT, "change": whole_number(FENCE_MAX, 1), "keep_data": FLAG,
    }, _LATER),
    declared("token_show", TokenShow, {"token": _TOKEN}, _LATER),
    declared("token_list", TokenList, {
        "prefix": _PREFIX, "limit": whole_number(PAGE_MAX, 1), "after": _PREFIX,
    }, _LATER),
    declared("token_watch", TokenWatch, {"prefix": _PREFIX}, ReplyForm.OPEN),
    declared("token_break", TokenBreak, {"token": _TOKEN, ("epoch", "counter"): _GRANT}, _LATER),
    declared("token_servers", TokenServers, form=_LATER),
    declared("token_set_servers", TokenSetServers, {
        "servers": _SERVERS, "wait": WAIT,
    }, _LATER),
    declared("token_reset", TokenReset, {
        "force": FieldGroup(0, _read_force, _write_force), "servers": _SERVERS,
    }),
)  # fmt: skip
