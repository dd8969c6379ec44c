"""The payloads of peers, to bytes and back (docs: protocol, 'Messages').

Knows: which fields each of what peers say over TCP has.  Does not know frames, nor who may say what.

Invariant: `read_payload` returns a well-formed payload or raises `DecodeError`, whatever the fields; unknown fields are
ignored.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from distkv.errors import BadPathError, DecodeError
from distkv.model.event import LIFE_MAX, TOCK_HEARD_MAX, Tock
from distkv.model.pages import Page
from distkv.wire import packing
from distkv.wire.events import event_map, read_event
from distkv.wire.fields import (
    DIGEST_MAX,
    Fields,
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
from distkv.wire.headers import header_map, read_header
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead, TickMaps, Tombstone

Payload: TypeAlias = TickMaps | EventBatch | PullEnd | SnapshotHead | Page
"""What peers say to each other over TCP."""


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
