"""What nodes ask of each other: the fields of `get_events`, `get_pages`, `exchange` and so on.

Knows: these fields.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.model.event import TICK_MAX
from distkv.wire.codec import read_tick_maps, tick_maps_map
from distkv.wire.fields import (
    Fields,
    range_map,
    read_address,
    read_int,
    read_node,
    read_path,
    read_ranges,
    read_seconds,
    read_single_ticks,
    read_ticks,
    read_time,
    tick_map,
)
from distkv.wire.request import WAIT_S_MAX, EventsWait, ExchangeRequest, GetEvents, GetPages, GetSnapshot

PeerRequest: TypeAlias = GetEvents | GetPages | EventsWait | GetSnapshot | ExchangeRequest

WAIT_NODES_MAX: Final = 1024
"""How many nodes' events may be waited for at once."""

PAGE_PATHS_MAX: Final = 1000
"""How many paths may be put into one page: they are looked at in one go."""


def read_get_events(seq: int, fields: Fields, _: bytes) -> GetEvents:
    doubted = read_ranges(fields["doubted"], "doubted") if "doubted" in fields else {}
    ticks = read_ticks(fields["ticks"], "ticks") if "ticks" in fields else None
    limit = read_int(fields, "limit", TICK_MAX, 1) if "limit" in fields else None
    return GetEvents(seq, read_ranges(fields.get("nodes"), "nodes"), doubted, ticks, limit)


def read_get_pages(seq: int, fields: Fields, _: bytes) -> GetPages:
    after, until = (read_path(fields[name]) if name in fields else None for name in ("after", "until"))
    return GetPages(seq, after, until, read_int(fields, "size", PAGE_PATHS_MAX, 1))


def read_events_wait(seq: int, fields: Fields, _: bytes) -> EventsWait:
    nodes = read_single_ticks(fields.get("nodes"), "nodes", WAIT_NODES_MAX)
    return EventsWait(seq, nodes, read_seconds(fields, "timeout", WAIT_S_MAX))


def read_get_snapshot(seq: int, fields: Fields, _: bytes) -> GetSnapshot:
    node, created = read_node(fields.get("node"), "node"), read_time(fields.get("created"), "created")
    return GetSnapshot(seq, node, created, read_address(fields))


def read_exchange(seq: int, fields: Fields, _: bytes) -> ExchangeRequest:
    return ExchangeRequest(seq, read_tick_maps(fields.get("maps")))


def fields_of(request: PeerRequest) -> dict[str, object]:
    """Those besides `seq` and `action`."""
    match request:
        case GetEvents():
            return _get_events_map(request)
        case GetPages(after=after, until=until):
            ends = {name: path.names for name, path in (("after", after), ("until", until)) if path is not None}
            return {"size": request.size, **ends}
        case EventsWait(nodes=ticks, timeout_s=timeout_s):
            return {"nodes": ticks, "timeout": timeout_s}
        case GetSnapshot():
            return {"node": request.node, "created": request.created, "addr": request.addr}
        case ExchangeRequest(maps=maps):
            return {"maps": tick_maps_map(maps)}


def _get_events_map(request: GetEvents) -> dict[str, object]:
    fields: dict[str, object] = {"nodes": range_map(request.nodes)}
    if request.doubted:
        fields["doubted"] = range_map(request.doubted)
    if request.ticks is not None:
        fields["ticks"] = tick_map(request.ticks)
    if request.limit is not None:
        fields["limit"] = request.limit
    return fields
