"""What clients are answered about tokens, to bytes and back.

Knows: the fields of these replies.  Does not know requests, nor who answers.

Invariant: `read_reply` reads what `reply_map` made as the same reply; anything else is a `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, read_flag, read_int, read_list, read_map, read_node, read_time
from distkv.wire.services import ServiceItems, ServiceReply
from distkv.wire.token_fields import HELD_MAX, read_names, read_packed_data, read_session, read_token

ITEMS_MAX: Final = 10_000
HOLDERS_MAX: Final = 100_000
STANDING_CHARS_MAX: Final = 16


@attrs.frozen(slots=True)
class SessionOpened(ServiceReply):
    session: str
    ttl_ms: int
    version: int


@attrs.frozen(slots=True)
class SessionClosed(ServiceReply):
    session: str


@attrs.frozen(slots=True)
class SessionKept(ServiceReply):
    """The keep-alive counts."""

    version: int
    ttl_ms: int
    lost: tuple[str, ...] = ()
    """Tokens that were taken from the session."""


@attrs.frozen(slots=True)
class TokenGranted(ServiceReply):
    token: str
    epoch: int
    counter: int
    is_shared: bool
    version: int
    """What the server went by. A client that named a later one in a keep-alive ignores the grant, and asks again."""
    data: bytes | None = None
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""


@attrs.frozen(slots=True)
class TokenDone(ServiceReply):
    """What was asked is done."""


@attrs.frozen(slots=True)
class TokenHolder:
    session: str
    is_shared: bool
    epoch: int
    counter: int
    since: float
    """Seconds since 1970, by the clock of the server that granted it: for people."""
    change: int = 0
    """The number of the newest change that it made to the data; not told to clients."""


@attrs.frozen(slots=True)
class TokenItem(ServiceReply):
    """What there is to see of a token."""

    token: str
    server: NodeName
    holders: tuple[TokenHolder, ...]
    waiting: int
    data: bytes | None = None
    keeps_data: bool = False


@attrs.frozen(slots=True)
class TokensListed(ServiceReply):
    items: tuple[TokenItem, ...]
    more: bool = False
    """Whether there are further ones, behind the last name."""
    partial: bool = False
    """Whether some may be missing: a server does not know yet who holds what of its part."""


@attrs.frozen(slots=True)
class TokensChanged(ServiceItems):
    """Some of the items of a watch, which changed; there will be more."""

    items: tuple[TokenItem, ...]
    is_complete: bool = False
    """Whether now all that there is was told, for the first time."""


@attrs.frozen(slots=True)
class TokenServersShown(ServiceReply):
    servers: Mapping[NodeName, tuple[str, int]]
    """Of each its standing and its life."""
    leader: NodeName | None
    """None: no majority answers, and the rest is what was known last."""
    term: int
    version: int
    sessions: int
    list: tuple[NodeName, ...] = ()
    """The list in force."""
    next: tuple[NodeName, ...] = ()
    """The list that is to take its place; empty: there is none."""


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
            numbers = {"term": reply.term, "version": reply.version, "sessions": reply.sessions}
            lists = {"list": reply.list} | ({"next": reply.next} if reply.next else {})
            return {"servers": shown, "leader": reply.leader, **numbers, **lists}, {}
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


# -- between nodes ------------------------------------------------------------------------------------------------


def reply_map(reply: TokenReply) -> dict[str, object]:
    """A reply that one node sends to another, to be packed."""
    match reply:
        case SessionOpened(session=session, ttl_ms=ttl_ms, version=version):
            return {"opened": [session, ttl_ms, version]}
        case SessionClosed(session=session):
            return {"closed": session}
        case SessionKept(version=version, ttl_ms=ttl_ms, lost=lost):
            return {"kept": [version, ttl_ms, lost]}
        case TokenGranted():
            numbers = [reply.epoch, reply.counter, reply.version]
            return {"granted": [reply.token, *numbers, reply.is_shared, reply.data, reply.keeps_data]}
        case TokenDone():
            return {"done": True}
        case TokenItem():
            return {"item": item_list(reply)}
        case TokensListed(items=items, more=more, partial=partial):
            return {"listed": [item_list(item) for item in items], "more": more, "partial": partial}
        case TokensChanged(items=items, is_complete=is_complete):
            return {"changed": [item_list(item) for item in items], "complete": is_complete}
        case TokenServersShown():
            rest = [reply.leader, reply.term, reply.version, reply.sessions, reply.list, reply.next]
            return {"servers": {name: [*pair] for name, pair in reply.servers.items()}, "rest": rest}
        case _:
            assert_never(reply)


def item_list(item: TokenItem) -> list[object]:
    """An item between nodes."""
    holders = [[one.session, one.is_shared, one.epoch, one.counter, one.since] for one in item.holders]
    return [item.token, item.server, holders, item.waiting, item.data, item.keeps_data]


def read_reply(fields: Fields) -> TokenReply:
    """The same read.

    Raises:
        DecodeError: it is none.
    """
    if "kept" in fields:
        version, ttl_ms, lost = _parts(fields["kept"], "kept", 3)
        names = _bounded(lost, "kept", HELD_MAX)
        return SessionKept(_int(version, "kept"), _int(ttl_ms, "kept"), tuple([read_token(one) for one in names]))
    if "granted" in fields:
        token, epoch, counter, version, shared, data, keep = _parts(fields["granted"], "granted", 7)
        numbers = (_int(epoch, "granted"), _int(counter, "granted"))
        flag, keeps = read_flag({"shared": shared}, "shared"), read_flag({"keep_data": keep}, "keep_data")
        return TokenGranted(read_token(token), *numbers, flag, _int(version, "granted"), read_packed_data(data), keeps)
    if "done" in fields:
        return TokenDone()
    if "opened" in fields:
        session, ttl_ms, version = _parts(fields["opened"], "opened", 3)
        return SessionOpened(read_session(session), _int(ttl_ms, "opened"), _int(version, "opened"))
    if "closed" in fields:
        return SessionClosed(read_session(fields["closed"]))
    if "item" in fields:
        return read_item_list(fields["item"])
    if "listed" in fields:
        items = tuple([read_item_list(one) for one in _bounded(fields["listed"], "listed", ITEMS_MAX)])
        return TokensListed(items, read_flag(fields, "more"), read_flag(fields, "partial"))
    if "changed" in fields:
        items = tuple([read_item_list(one) for one in _bounded(fields["changed"], "changed", ITEMS_MAX)])
        return TokensChanged(items, read_flag(fields, "complete"))
    if "servers" in fields:
        return _read_servers(fields)
    raise DecodeError("this is no reply about tokens", "bad_reply")


def _read_servers(fields: Fields) -> TokenServersShown:
    servers = dict[NodeName, tuple[str, int]]()
    for name, pair in read_map(fields["servers"], "servers").items():
        standing, life = _parts(pair, "servers", 2)
        if type(standing) is not str or len(standing) > STANDING_CHARS_MAX:
            raise bad("servers", "made of standings and lives", standing)
        servers[read_node(name, "servers")] = standing, _int(life, "servers")
    leader, term, version, sessions, *lists = _parts(fields.get("rest"), "rest", 6)
    numbers = (_int(term, "rest"), _int(version, "rest"), _int(sessions, "rest"))
    names = [read_names(one, "rest") for one in lists]
    return TokenServersShown(servers, read_node(leader, "rest"), *numbers, *names)


def read_item_list(value: object) -> TokenItem:
    """An item from a node."""
    token, server, holders, waiting, data, keep = _parts(value, "item", 6)
    found = tuple([_read_holder(one) for one in _bounded(holders, "item", HOLDERS_MAX)])
    rest = _int(waiting, "item"), read_packed_data(data), read_flag({"keep_data": keep}, "keep_data")
    return TokenItem(read_token(token), read_node(server, "item"), found, *rest)


def _read_holder(value: object) -> TokenHolder:
    session, shared, epoch, counter, since = _parts(value, "holders", 5)
    flag = read_flag({"shared": shared}, "shared")
    numbers = (_int(epoch, "holders"), _int(counter, "holders"))
    return TokenHolder(read_session(session), flag, *numbers, read_time(since, "holders"))


def _parts(value: object, name: str, count: int) -> list[object]:
    found = read_list(value, name)
    if len(found) != count:
        raise bad(name, f"a list of {count}", value)
    return found


def _bounded(value: object, name: str, limit: int) -> list[object]:
    found = read_list(value, name)
    if len(found) > limit:
        raise DecodeError(f"the field '{name}' has {len(found)} parts; the limit is {limit}", f"bad_{name}")
    return found


def _int(value: object, name: str) -> int:
    return read_int({name: value}, name, FENCE_MAX)
