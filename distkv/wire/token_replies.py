"""What clients are answered about tokens: as nodes tell it each other, and the fields that a client gets.

Knows: the fields of these replies.  Does not know requests, nor who answers.

Invariant: as in `declared`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias, assert_never

from distkv.model.fence import GrantNumber
from distkv.wire import packing
from distkv.wire.declared import Bounds, Declared, Node, field
from distkv.wire.held_tokens import (
    HELD_MAX,
    HOLDERS_MAX,
    FenceNumber,
    PackedData,
    SessionName,
    ShownHolder,
    TokenName,
    check_tokens,
)
from distkv.wire.services import ServiceItems, ServiceReply
from distkv.wire.token_fields import read_names
from distkv.wire.token_states import JOINT_MAX, ServerNames

ITEMS_MAX: Final = 10_000
STANDING_CHARS_MAX: Final = 16


class SessionOpened(Declared, ServiceReply, array_like=True):
    session: SessionName
    ttl_ms: FenceNumber
    version: FenceNumber


class SessionClosed(Declared, ServiceReply):
    session: SessionName = field(name="closed")


class SessionKept(Declared, ServiceReply, array_like=True):
    """The keep-alive counts."""

    version: FenceNumber
    ttl_ms: FenceNumber
    lost: Annotated[tuple[TokenName, ...], Bounds(max_length=HELD_MAX)] = ()
    """Tokens that were taken from the session."""

    def __post_init__(self) -> None:
        check_tokens(*self.lost)


class TokenGranted(Declared, ServiceReply, array_like=True):
    token: TokenName
    epoch: FenceNumber
    counter: FenceNumber
    version: FenceNumber
    """What the server went by. A client that named a later one in a keep-alive ignores the grant, and asks again."""
    is_shared: bool
    data: PackedData | None = None
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""

    def __post_init__(self) -> None:
        check_tokens(self.token)

    @property
    def number(self) -> GrantNumber:
        return GrantNumber(self.epoch, self.counter)


class TokenDone(Declared, ServiceReply):
    """What was asked is done."""

    is_done: bool = field(name="done", default=True)


class TokenItem(Declared, ServiceReply, array_like=True):
    """What there is to see of a token."""

    token: TokenName
    server: Node
    holders: Annotated[tuple[ShownHolder, ...], Bounds(max_length=HOLDERS_MAX)]
    waiting: FenceNumber
    data: PackedData | None = None
    keeps_data: bool = False

    def __post_init__(self) -> None:
        check_tokens(self.token)


TokenItems: TypeAlias = Annotated[tuple[TokenItem, ...], Bounds(max_length=ITEMS_MAX)]


class TokensListed(Declared, ServiceReply):
    items: TokenItems = field(name="listed")
    more: bool = False
    """Whether there are further ones, behind the last name."""
    partial: bool = False
    """Whether some may be missing: a server does not know yet who holds what of its part."""


class TokensChanged(Declared, ServiceItems):
    """Some of the items of a watch, which changed; there will be more."""

    items: TokenItems = field(name="changed")
    is_complete: bool = field(name="complete", default=False)
    """Whether now all that there is was told, for the first time."""


class ServersAgreed(Declared, array_like=True):
    """What the token servers agreed on."""

    leader: Node | None
    """None: no majority answers, and the rest is what was known last."""
    term: FenceNumber
    version: FenceNumber
    sessions: FenceNumber
    list: ServerNames = ()
    """The list in force."""
    next: ServerNames = ()
    """The list that is to take its place; empty: there is none."""

    def __post_init__(self) -> None:
        read_names([*self.list], "rest")
        read_names([*self.next], "rest")


class TokenServersShown(Declared, ServiceReply):
    servers: Annotated[
        Mapping[Node, tuple[Annotated[str, Bounds(max_length=STANDING_CHARS_MAX)], FenceNumber]],
        Bounds(max_length=JOINT_MAX),
    ]
    """Of each its standing and its life."""
    agreed: ServersAgreed = field(name="rest")


TokenReply: TypeAlias = (
    SessionOpened | SessionClosed | SessionKept | TokenGranted | TokenDone | TokenItem | TokensListed | TokensChanged
    | TokenServersShown
)


def reply_fields(reply: TokenReply) -> tuple[dict[str, object], dict[str, bytes]]:
    """The fields of the reply to a client, and those of them that are packed already."""
    match reply:
        case SessionOpened(session=session, ttl_ms=ttl_ms, version=version):
            return {"session": session, "ttl": ttl_ms / 1000, "version": version}, {}
        case SessionClosed(session=session):
            return {"session": session}, {}
        case SessionKept(version=version, ttl_ms=ttl_ms, lost=lost):
            return {"version": version, "ttl": ttl_ms / 1000, "lost": lost}, {}
        case TokenGranted():
            fields = {"token": reply.token, "epoch": reply.epoch, "counter": reply.counter}
            rest = {"shared": reply.is_shared, "version": reply.version, **_kept(reply)}
            return {**fields, **rest}, {} if reply.data is None else {"data": reply.data}
        case TokenDone():
            return {}, {}
        case TokenItem():
            return _item_fields(reply)
        case TokensListed(items=items, more=more, partial=partial):
            flags = {"more": more, "partial": partial}
            return {name: True for name, flag in flags.items() if flag}, {"items": _packed_items(items)}
        case TokensChanged(items=items):
            return {}, {"items": _packed_items(items)}
        case TokenServersShown(servers=servers):
            shown = [{"node": name, "state": state, "life": life} for name, (state, life) in servers.items()]
            agreed = reply.agreed
            numbers = {"term": agreed.term, "version": agreed.version, "sessions": agreed.sessions}
            lists = {"list": agreed.list} | ({"next": agreed.next} if agreed.next else {})
            return {"servers": shown, "leader": agreed.leader, **numbers, **lists}, {}
        case _:
            assert_never(reply)


def _kept(reply: TokenGranted | TokenItem) -> dict[str, object]:
    return {"keep_data": True} if reply.keeps_data else {}


def _item_fields(item: TokenItem) -> tuple[dict[str, object], dict[str, bytes]]:
    holders = [
        {"session": by.session, "shared": by.is_shared, "epoch": by.epoch, "counter": by.counter, "since": by.since}
        for by in item.holders
    ]
    fields = {"token": item.token, "server": item.server, "holders": holders, "waiting": item.waiting}
    return {**fields, **_kept(item)}, {} if item.data is None else {"data": item.data}


def _packed_items(items: tuple[TokenItem, ...]) -> bytes:
    return packing.array_header(len(items)) + b"".join([packing.pack_map(*_item_fields(item)) for item in items])
