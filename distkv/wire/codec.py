"""The payloads of peers, to bytes and back (docs: protocol, 'Messages').

Knows: which fields each of what peers say over TCP has.  Does not know frames, nor who may say what.

Invariant: `read_payload` returns a well-formed payload or raises `DecodeError`, whatever the fields; unknown fields are
ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from distkv.errors import BadPathError, DecodeError
from distkv.model.event import LIFE_MAX, TOCK_HEARD_MAX, Tock
from distkv.model.pages import Page
from distkv.model.tick_ranges import TickRanges
from distkv.wire import packing
from distkv.wire.events import event_map, read_event
from distkv.wire.fields import (
    DIGEST_MAX,
    Fields,
    flat_links,
    range_map,
    read_any_path,
    read_flag,
    read_flat_links,
    read_int,
    read_list,
    read_map,
    read_path,
    read_ranges,
)
from distkv.wire.headers import header_map, read_header
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead, TickMaps, Tombstone
from distkv.wire.request_fields import (
    ADDRESS,
    FLAG,
    HASH,
    RANGES,
    STATE,
    TICKS,
    FieldGroup,
    FieldKind,
    map_form,
    whole_number,
)

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
            head = header_map(payload.header)
            _write_snapshot(payload, head, {})
            return {"snapshot": head}
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
        head = read_map(fields["snapshot"], "snapshot")
        return _read_snapshot(read_header(head), head, b"")
    if "page" in fields:
        return _read_page(read_map(fields["page"], "page"))
    names = "'events', 'pulled', 'maps', 'snapshot' or 'page'"
    raise DecodeError(f"an item from a peer must have the field {names}", "bad_item")


def tick_maps_map(maps: TickMaps) -> dict[str, object]:
    """Both sides of a tick-map exchange."""
    fields = header_map(maps.header)
    _write_maps(maps, fields, {})
    if maps.ticks_hash is not None:
        del fields["held"], fields["lost"]
    return fields


def read_tick_maps(value: object) -> TickMaps:
    """Both sides of a tick-map exchange."""
    fields = read_map(value, "maps")
    return _read_maps(read_header(fields), fields, b"")


def _read_held_and_lost(fields: Fields, _: bytes) -> Sequence[TickRanges]:
    """The short form has neither."""
    return [{} if "ticks_hash" in fields else read_ranges(fields.get(name), name) for name in ("held", "lost")]


def _write_held_and_lost(some: Sequence[TickRanges], fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["held"], fields["lost"] = map(range_map, some)


def _tombstone_list(stone: Tombstone) -> list[object]:
    return [stone.path.names, flat_links(stone.links), stone.tock, stone.expired]


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


_DIGEST: Final = whole_number(DIGEST_MAX)
_LIFE: Final = whole_number(LIFE_MAX)

_read_maps, _write_maps = map_form(TickMaps, {
    "addr": ADDRESS, "state": STATE, "ticks": TICKS,
    ("held", "lost"): FieldGroup(2, _read_held_and_lost, _write_held_and_lost, is_needed=True), "digest": _DIGEST,
    "tombstones": FieldKind(
        lambda value, name: tuple(map(_read_tombstone, read_list(value, name))),
        lambda stones: list(map(_tombstone_list, stones)),
    ),
    "outlived": FieldKind(read_flat_links, flat_links), "behind": _LIFE, "stale": FLAG, "ticks_hash": HASH,
})  # fmt: skip
_read_snapshot, _write_snapshot = map_form(SnapshotHead, {
    "new_life": _LIFE, "ticks": TICKS, "superseded": RANGES, "entry_count": whole_number(), "stale": FLAG,
})  # fmt: skip
