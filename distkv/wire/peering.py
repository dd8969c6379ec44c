"""What nodes, and programs that follow events, ask: the fields of `get_events`, `get_changes`, `exchange` and so on.

Knows: these fields.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from distkv.errors import DecodeError
from distkv.model.event import TICK_MAX
from distkv.model.path import ROOT
from distkv.model.tick_ranges import up_to
from distkv.wire.codec import read_tick_maps, tick_maps_map
from distkv.wire.fields import (
    Fields,
    range_map,
    read_address,
    read_flag,
    read_int,
    read_map,
    read_node,
    read_path,
    read_ranges,
    read_seconds,
    read_single_ticks,
    read_ticks,
    read_time,
    tick_map,
)
from distkv.wire.request import WAIT_S_MAX, EventsWait, ExchangeRequest, GetChanges, GetEvents, GetPages, GetSnapshot

PeerRequest: TypeAlias = GetEvents | GetPages | EventsWait | GetChanges | GetSnapshot | ExchangeRequest

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
    nodes = read_map(fields.get("nodes"), "nodes")
    if len(nodes) > WAIT_NODES_MAX:
        raise DecodeError(f"the field 'nodes' names {len(nodes)} nodes; the limit is {WAIT_NODES_MAX}", "bad_nodes")
    by_tick = {node: tick for node, tick in nodes.items() if type(tick) is not list}
    known = up_to(read_single_ticks(by_tick, "nodes"))
    known |= read_ranges({node: ticks for node, ticks in nodes.items() if node not in by_tick}, "nodes")
    return EventsWait(seq, known, read_seconds(fields, "timeout", WAIT_S_MAX), read_flag(fields, "others"))


def read_get_changes(seq: int, fields: Fields, _: bytes) -> GetChanges:
    nodes = read_ranges(fields.get("nodes"), "nodes")
    path = read_path(fields["path"]) if "path" in fields else ROOT
    return GetChanges(seq, nodes, path, read_flag(fields, "content") if "content" in fields else True)


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
        case EventsWait():
            return _events_wait_map(request)
        case GetChanges(path=path, content=content):
            more = {"path": path.names} if path != ROOT else {}
            return {"nodes": range_map(request.nodes), **more, **({} if content else {"content": False})}
        case GetSnapshot():
            return {"node": request.node, "created": request.created, "addr": request.addr}
        case ExchangeRequest(maps=maps):
            return {"maps": tick_maps_map(maps)}
    assert_never(request)


def _events_wait_map(request: EventsWait) -> dict[str, object]:
    """Where nothing is known but up to a tick, that tick."""
    known: dict[str, object] = {}
    for node, ticks in request.nodes.items():
        first = next(ticks.pairs(), (1, 1))
        known[node] = first[1] - 1 if first[0] == 0 else ticks.to_list()
    others = {"others": True} if request.others else {}
    return {"nodes": known, "timeout": request.timeout_s, **others}


def _get_events_map(request: GetEvents) -> dict[str, object]:
    fields: dict[str, object] = {"nodes": range_map(request.nodes)}
    if request.doubted:
        fields["doubted"] = range_map(request.doubted)
    if request.ticks is not None:
        fields["ticks"] = tick_map(request.ticks)
    if request.limit is not None:
        fields["limit"] = request.limit
    return fields
