"""Gossip messages and the payloads of peers, to bytes and back (docs: protocol, 'Messages').

Knows: which fields each message has.  Does not know how a message travels, nor who may say what.

Invariant: `decode_message` returns a well-formed message or raises `DecodeError`, whatever the bytes; unknown fields
are ignored.  An event is packed once: an update is put together from events that are bytes already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from distkv.errors import BadPathError, DecodeError
from distkv.model.event import LIFE_MAX, TOCK_HEARD_MAX, Event, Tock
from distkv.model.pages import Page
from distkv.wire import packing
from distkv.wire.events import event_map, read_event
from distkv.wire.fields import (
    Fields,
    bad,
    flat_links,
    range_map,
    read_address,
    read_any_path,
    read_flag,
    read_flat_links,
    read_hash,
    read_int,
    read_list,
    read_map,
    read_path,
    read_ranges,
    read_state,
    read_ticks,
    tick_map,
)
from distkv.wire.headers import header_map, ping_chain_map, read_header, read_ping_chain
from distkv.wire.message import (
    EventBatch,
    Header,
    Info,
    Message,
    Ping,
    PullEnd,
    SnapshotHead,
    TickMaps,
    Tombstone,
    Update,
)

MessageKind: TypeAlias = Literal["update", "info", "ping"]
"""The last part of a user event's name."""
Payload: TypeAlias = TickMaps | EventBatch | PullEnd | SnapshotHead | Page
"""What peers say to each other over TCP."""

DIGEST_MAX: Final = 2**64 - 1


# -- gossip -------------------------------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:
    """The payload of a user event, or of another gossip transport's packet."""
    match message:
        case Update():
            return encode_update(message.header, [encode_event(event) for event in message.events])
        case Ping():
            return packing.pack(
                {
                    **header_map(message.header),
                    "chain": ping_chain_map(message.chain),
                    "addr": message.addr,
                    "state": message.state.value,
                    "digest": message.digest,
                    "ticks_hash": message.ticks_hash,
                }
            )
        case Info():
            return packing.pack(_info_map(message))
    assert_never(message)


def encode_event(event: Event) -> bytes:
    """One event, for `encode_update`."""
    return packing.pack_plain(event_map(event))


def encode_update(header: Header, events: Sequence[bytes]) -> bytes:
    """An update of events that `encode_event` made."""
    return packing.pack_map(header_map(header), {"events": packing.array_header(len(events)) + b"".join(events)})


def update_overhead(header: Header) -> int:
    """How many bytes `encode_update` adds to those of its events, at the most (up to 65,535 events)."""
    return len(encode_update(header, ())) + 2


def kind_of(message: Message) -> MessageKind:
    """What `decode_message` has to know besides the bytes."""
    match message:
        case Update():
            return "update"
        case Ping():
            return "ping"
        case Info():
            return "info"
    assert_never(message)


def decode_message(kind: str, data: bytes) -> Message:
    """A message of the kind 'update', 'info' or 'ping'.

    Raises:
        DecodeError: `reason` is `bad_kind`, `not_msgpack`, `not_a_map`, `too_large`, or `bad_` and the field's name.
    """
    read = _READERS.get(kind)
    if read is None:
        raise DecodeError(f"there is no message of the kind {kind[:40]!r}", "bad_kind")
    packing.check_whole(data)
    if not packing.is_map(data):
        raise DecodeError("a message is a map", "not_a_map")
    fields = packing.unpack(data)
    return read(read_map(fields, "message"))


def _read_update(fields: Fields) -> Update:
    events = read_list(fields.get("events"), "events")
    return Update(read_header(fields), tuple(map(read_event, events)))


def _read_ping(fields: Fields) -> Ping:
    header, chain = read_header(fields), read_ping_chain(fields.get("chain"), "chain")
    if chain[0].node != header.node:
        raise bad("chain", "headed by the sender", chain[0].node)
    return Ping(
        header,
        chain,
        read_address(fields),
        read_state(fields),
        read_int(fields, "digest", DIGEST_MAX),
        read_hash(fields.get("ticks_hash"), "ticks_hash"),
    )


def _info_map(info: Info) -> dict[str, object]:
    fields = {**header_map(info.header), "addr": info.addr, "state": info.state.value}
    if info.ticks is not None:
        fields["ticks"] = tick_map(info.ticks)
    if info.ticks_hash is not None:
        fields["ticks_hash"] = info.ticks_hash
    for name, ranges in (("known", info.known), ("missing", info.missing), ("lost", info.lost)):
        if ranges is not None:
            fields[name] = range_map(ranges)
    for name, chain in (("reason", info.reason), ("ping", info.ping)):
        if chain is not None:
            fields[name] = ping_chain_map(chain)
    return fields


def _read_info(fields: Fields) -> Info:
    given = {name: value for name, value in fields.items() if value is not None}
    return Info(
        read_header(fields),
        read_address(fields),
        read_state(fields),
        ticks=read_ticks(given["ticks"], "ticks") if "ticks" in given else None,
        ticks_hash=read_hash(given["ticks_hash"], "ticks_hash") if "ticks_hash" in given else None,
        known=read_ranges(given["known"], "known") if "known" in given else None,
        missing=read_ranges(given["missing"], "missing") if "missing" in given else None,
        lost=read_ranges(given["lost"], "lost") if "lost" in given else None,
        reason=read_ping_chain(given["reason"], "reason") if "reason" in given else None,
        ping=read_ping_chain(given["ping"], "ping") if "ping" in given else None,
    )


_READERS: Final[dict[str, Callable[[Fields], Message]]] = {
    "update": _read_update,
    "info": _read_info,
    "ping": _read_ping,
}


# -- between two nodes over TCP -----------------------------------------------------------------------------------


def encode_payload(seq: int, payload: Payload) -> bytes:
    """A reply or an item that carries something from peer to peer."""
    return packing.pack({"seq": seq, **payload_fields(payload)})


def payload_fields(payload: Payload) -> dict[str, object]:
    """The one field of a reply or item that carries the payload; its name tells which it is."""
    match payload:
        case TickMaps():
            return {"maps": tick_maps_map(payload)}
        case EventBatch():
            return {"events": [event_map(event) for event in payload.events]}
        case PullEnd():
            return {"pulled": {"known": range_map(payload.known), "lacks": range_map(payload.lacks)}}
        case SnapshotHead():
            return {"snapshot": _snapshot_map(payload)}
        case Page():
            until = {} if payload.until is None else {"until": payload.until.names}
            return {"page": {**until, "digest": payload.digest, "ticks": range_map(payload.ticks)}}
    assert_never(payload)


def read_payload(fields: Fields) -> Payload:
    """The payload of a reply or item.

    Raises:
        DecodeError: it has none (reason `bad_item`), or it is not well-formed.
    """
    if "events" in fields:
        return EventBatch(tuple(map(read_event, read_list(fields["events"], "events"))))
    if "pulled" in fields:
        end = read_map(fields["pulled"], "pulled")
        return PullEnd(read_ranges(end.get("known"), "known"), read_ranges(end.get("lacks"), "lacks"))
    if "maps" in fields:
        return read_tick_maps(fields["maps"])
    if "snapshot" in fields:
        return _read_snapshot(read_map(fields["snapshot"], "snapshot"))
    if "page" in fields:
        return _read_page(read_map(fields["page"], "page"))
    names = "'events', 'pulled', 'maps', 'snapshot' or 'page'"
    raise DecodeError(f"an item from a peer must have the field {names}", "bad_item")


def tick_maps_map(maps: TickMaps) -> dict[str, object]:
    """Both sides of a tick-map exchange."""
    fields: dict[str, object] = {
        **header_map(maps.header),
        "addr": maps.addr,
        "state": maps.state.value,
        "ticks": tick_map(maps.ticks),
        "digest": maps.digest,
    }
    if maps.ticks_hash is not None:
        fields["ticks_hash"] = maps.ticks_hash
    else:
        fields |= {"held": range_map(maps.held), "lost": range_map(maps.lost)}
    if maps.behind is not None:
        fields["behind"] = maps.behind
    if maps.is_stale:
        fields["stale"] = True
    if maps.tombstones:
        fields["tombstones"] = [
            [stone.path.names, flat_links(stone.links), stone.tock, stone.expired] for stone in maps.tombstones
        ]
    if maps.outlived:
        fields["outlived"] = flat_links(maps.outlived)
    return fields


def read_tick_maps(value: object) -> TickMaps:
    """Both sides of a tick-map exchange."""
    fields = read_map(value, "maps")
    ticks_hash = read_hash(fields["ticks_hash"], "ticks_hash") if "ticks_hash" in fields else None
    return TickMaps(
        read_header(fields),
        read_address(fields),
        read_state(fields),
        read_ticks(fields.get("ticks"), "ticks"),
        read_ranges(fields.get("held"), "held") if ticks_hash is None else {},
        read_ranges(fields.get("lost"), "lost") if ticks_hash is None else {},
        read_int(fields, "digest", DIGEST_MAX),
        tombstones=tuple(map(_read_tombstone, read_list(fields.get("tombstones", []), "tombstones"))),
        outlived=read_flat_links(fields["outlived"], "outlived") if "outlived" in fields else (),
        behind=read_int(fields, "behind", LIFE_MAX) if "behind" in fields else None,
        is_stale=read_flag(fields, "stale"),
        ticks_hash=ticks_hash,
    )


def _read_tombstone(value: object) -> Tombstone:
    parts = read_list(value, "tombstones")
    if len(parts) != 4:
        raise DecodeError("the field 'tombstones' must hold [path, links, tock, expired]", "bad_tombstones")
    fields = dict(zip(("path", "links", "tock", "expired"), parts, strict=True))
    return Tombstone(
        read_any_path(fields["path"]),
        read_flat_links(fields["links"], "tombstones"),
        Tock(read_int(fields, "tock", TOCK_HEARD_MAX)),
        read_flag(fields, "expired"),
    )


def _read_page(fields: Fields) -> Page:
    try:
        until = read_path(fields["until"]) if "until" in fields else None
    except BadPathError as error:
        raise DecodeError(str(error), "bad_until") from None
    return Page(until, read_int(fields, "digest", DIGEST_MAX), read_ranges(fields.get("ticks"), "ticks"))


def _snapshot_map(head: SnapshotHead) -> dict[str, object]:
    stale = {"stale": True} if head.is_stale else {}
    return {
        **header_map(head.header),
        "new_life": head.life,
        "ticks": tick_map(head.ticks),
        "superseded": range_map(head.superseded),
        "entry_count": head.entry_count,
        **stale,
    }


def _read_snapshot(fields: Fields) -> SnapshotHead:
    return SnapshotHead(
        read_header(fields),
        read_int(fields, "new_life", LIFE_MAX),
        read_ticks(fields.get("ticks"), "ticks"),
        read_ranges(fields.get("superseded"), "superseded"),
        read_int(fields, "entry_count"),
        is_stale=read_flag(fields, "stale"),
    )
