"""What clients ask about tokens: sessions, acquire and release, data, lists, watches; read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX
from distkv.model.lean import lean_value
from distkv.wire import packing
from distkv.wire.fields import Fields, read_flag, read_int, read_seconds
from distkv.wire.row import WAIT_S_MAX, AnyRow, ReplyForm, RequestRow
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
    before: tuple[int, int] | None = None
    """Epoch and counter with which the session held the token the last time, and gave it back. A crash may have undone
    that: then it is done again, so that the grant is a higher one."""
    keeps_data: bool = False
    """Whether this data stays when nobody holds the token; else it ends with its holder."""


@lean_value
class TokenRelease(ServiceRequest):
    """Give up a token, or the place in its queue."""

    seq: int
    session: str
    token: str
    fence: tuple[int, int] | None = None
    """Epoch and counter: only if the session holds it with these. A release that comes late, by a node that stood
    still, does not undo a later acquire then."""


@lean_value
class TokenData(ServiceRequest):
    seq: int
    session: str
    token: str
    data: bytes | None
    """Packed; None: the token has none any more."""
    fence: tuple[int, int] | None = None
    """Epoch and counter: only if the session holds it with these."""
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
    fence: tuple[int, int] | None = None
    """Epoch and counter: only from those whose fences are not above these."""


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

# -- read and written ---------------------------------------------------------------------------------------------


def _wait(fields: Fields) -> float | None:
    return read_seconds(fields, "wait", WAIT_S_MAX) if "wait" in fields else None


def _read_open(seq: int, fields: Fields, _: bytes) -> TokenOpen:
    ttl_s = read_seconds(fields, "ttl", TTL_S_MAX) if "ttl" in fields else None
    return TokenOpen(seq, ttl_s, read_seconds(fields, "grace", WAIT_S_MAX) if "grace" in fields else 0.0)


def _write_open(request: TokenOpen, fields: dict[str, object], _: dict[str, bytes]) -> None:
    if request.ttl_s is not None:
        fields["ttl"] = request.ttl_s
    if request.grace_s:
        fields["grace"] = request.grace_s


def _read_close(seq: int, fields: Fields, _: bytes) -> TokenClose:
    return TokenClose(seq, read_session(fields.get("session")))


def _write_close(request: TokenClose, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["session"] = request.session


def _read_keep(seq: int, fields: Fields, frame: bytes) -> TokenKeep:
    from distkv.wire.held_tokens import read_held

    version = read_int(fields, "version", FENCE_MAX)
    held = read_held(fields.get("held"), frame)
    turn, heard = (read_int(fields, name, FENCE_MAX) if name in fields else 0 for name in ("turn", "heard"))
    return TokenKeep(seq, read_session(fields.get("session")), version, held, _wait(fields), turn, heard)


def _write_keep(request: TokenKeep, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields |= {"session": request.session, "version": request.version}
    raw["held"] = packing.array_header(len(request.held)) + b"".join(map(_packed_held, request.held))
    if request.turn:
        fields |= {"turn": request.turn, "heard": request.heard}
    if request.wait_s is not None:
        fields["wait"] = request.wait_s


def _packed_held(held: HeldToken) -> bytes:
    fields = {"token": held.token, "epoch": held.epoch, "counter": held.counter, "shared": held.is_shared}
    if held.change:
        fields["change"] = held.change
    if held.keeps_data:
        fields["keep_data"] = True
    return packing.pack_map(fields, {} if held.data is None else {"data": held.data})


def _read_acquire(seq: int, fields: Fields, frame: bytes) -> TokenAcquire:
    return TokenAcquire(
        seq,
        read_session(fields.get("session")),
        read_token(fields.get("token")),
        read_flag(fields, "shared"),
        _wait(fields),
        read_data(frame) if "data" in fields else None,
        read_ticket(fields["ticket"]) if "ticket" in fields else None,
        _read_numbers(fields),
        read_flag(fields, "keep_data"),
    )


def _write_acquire(request: TokenAcquire, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields |= {"session": request.session, "token": request.token}
    if request.is_shared:
        fields["shared"] = True
    if request.wait_s is not None:
        fields["wait"] = request.wait_s
    if request.data is not None:
        raw["data"] = request.data
    if request.ticket is not None:
        fields["ticket"] = ticket_text(request.ticket)
    if request.before is not None:
        fields["epoch"], fields["counter"] = request.before
    if request.keeps_data:
        fields["keep_data"] = True


def _read_numbers(fields: Fields) -> tuple[int, int] | None:
    if "epoch" in fields or "counter" in fields:
        return read_int(fields, "epoch", FENCE_MAX), read_int(fields, "counter", FENCE_MAX)
    return None


def _read_release(seq: int, fields: Fields, _: bytes) -> TokenRelease:
    session, token = read_session(fields.get("session")), read_token(fields.get("token"))
    return TokenRelease(seq, session, token, _read_numbers(fields))


def _write_release(request: TokenRelease, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"session": request.session, "token": request.token}
    if request.fence is not None:
        fields["epoch"], fields["counter"] = request.fence


def _read_data(seq: int, fields: Fields, frame: bytes) -> TokenData:
    if "data" not in fields:
        raise RequestError("the field 'data' is missing: give a value, or null for none")
    session, token = read_session(fields.get("session")), read_token(fields.get("token"))
    change = read_int(fields, "change", FENCE_MAX, 1) if "change" in fields else 0
    keeps_data = read_flag(fields, "keep_data")
    return TokenData(seq, session, token, read_data(frame), _read_numbers(fields), change, keeps_data)


def _write_data(request: TokenData, fields: dict[str, object], raw: dict[str, bytes]) -> None:
    fields |= {"session": request.session, "token": request.token}
    raw["data"] = NIL if request.data is None else request.data
    if request.fence is not None:
        fields["epoch"], fields["counter"] = request.fence
    if request.change:
        fields["change"] = request.change
    if request.keeps_data:
        fields["keep_data"] = True


def _read_show(seq: int, fields: Fields, _: bytes) -> TokenShow:
    return TokenShow(seq, read_token(fields.get("token")))


def _read_break(seq: int, fields: Fields, _: bytes) -> TokenBreak:
    return TokenBreak(seq, read_token(fields.get("token")), _read_numbers(fields))


def _write_break(request: TokenBreak, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["token"] = request.token
    if request.fence is not None:
        fields["epoch"], fields["counter"] = request.fence


def _write_token(request: TokenShow, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["token"] = request.token


def _read_list(seq: int, fields: Fields, _: bytes) -> TokenList:
    limit = read_int(fields, "limit", PAGE_MAX, 1) if "limit" in fields else PAGE_MAX
    return TokenList(seq, read_prefix(fields, "prefix"), limit, read_prefix(fields, "after"))


def _write_list(request: TokenList, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"prefix": request.prefix, "limit": request.limit, "after": request.after}


def _read_watch(seq: int, fields: Fields, _: bytes) -> TokenWatch:
    return TokenWatch(seq, read_prefix(fields, "prefix"))


def _write_watch(request: TokenWatch, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["prefix"] = request.prefix


def _read_reset(seq: int, fields: Fields, _: bytes) -> TokenReset:
    if not read_flag(fields, "force"):
        raise RequestError("the field 'force' must be true: a reset may let two sessions hold one token")
    return TokenReset(seq, read_list_of_servers(fields["servers"]) if "servers" in fields else ())


def _write_reset(request: TokenReset, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["force"] = True
    if request.servers:
        fields["servers"] = [*request.servers]


def _read_set_servers(seq: int, fields: Fields, _: bytes) -> TokenSetServers:
    return TokenSetServers(seq, read_list_of_servers(fields.get("servers")), _wait(fields))


def _write_set_servers(request: TokenSetServers, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["servers"] = [*request.servers]
    if request.wait_s is not None:
        fields["wait"] = request.wait_s


_LATER: Final = ReplyForm.LATER

TOKEN_ROWS: Final[tuple[AnyRow[TokenRequest], ...]] = (
    RequestRow("token_open", TokenOpen, _read_open, _write_open, _LATER),
    RequestRow("token_close", TokenClose, _read_close, _write_close, _LATER),
    RequestRow("token_keep", TokenKeep, _read_keep, _write_keep, _LATER),
    RequestRow("token_acquire", TokenAcquire, _read_acquire, _write_acquire, _LATER),
    RequestRow("token_release", TokenRelease, _read_release, _write_release, _LATER),
    RequestRow("token_data", TokenData, _read_data, _write_data, _LATER),
    RequestRow("token_show", TokenShow, _read_show, _write_token, _LATER),
    RequestRow("token_list", TokenList, _read_list, _write_list, _LATER),
    RequestRow("token_watch", TokenWatch, _read_watch, _write_watch, ReplyForm.OPEN),
    RequestRow("token_break", TokenBreak, _read_break, _write_break, _LATER),
    RequestRow("token_servers", TokenServers, lambda seq, _, __: TokenServers(seq), lambda _, __, ___: None, _LATER),
    RequestRow("token_set_servers", TokenSetServers, _read_set_servers, _write_set_servers, _LATER),
    RequestRow("token_reset", TokenReset, _read_reset, _write_reset),
)
