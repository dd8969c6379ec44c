"""What nodes ask each other over TCP: the fields of those requests, read and written.

Knows: these fields.  Does not know frames, nor who answers.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final

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
    read_time,
)
from distkv.wire.request import EventsWait, ExchangeRequest, GetEvents, GetPages, GetSnapshot

WAIT_NODES_MAX: Final = 1024
"""How many nodes' events may be waited for at once."""
POLL_S_MAX: Final = 3600.0
PAGE_PATHS_MAX: Final = 1000
"""How many paths may be put into one page: they are looked at in one go."""


def read_events(seq: int, fields: Fields, _: bytes) -> GetEvents:
    doubted = read_ranges(fields["doubted"], "doubted") if "doubted" in fields else {}
    return GetEvents(seq, read_ranges(fields.get("nodes"), "nodes"), doubted)


def read_pages(seq: int, fields: Fields, _: bytes) -> GetPages:
    after, until = (read_path(fields[name]) if name in fields else None for name in ("after", "until"))
    return GetPages(seq, after, until, read_int(fields, "size", PAGE_PATHS_MAX, 1))


def read_wait(seq: int, fields: Fields, _: bytes) -> EventsWait:
    nodes = read_single_ticks(fields.get("nodes"), "nodes", WAIT_NODES_MAX)
    return EventsWait(seq, nodes, read_seconds(fields, "timeout", POLL_S_MAX))


def read_snapshot(seq: int, fields: Fields, _: bytes) -> GetSnapshot:
    node, created = read_node(fields.get("node"), "node"), read_time(fields.get("created"), "created")
    return GetSnapshot(seq, node, created, read_address(fields))


def read_exchange(seq: int, fields: Fields, _: bytes) -> ExchangeRequest:
    return ExchangeRequest(seq, read_tick_maps(fields.get("maps")))


def fields_of(request: GetEvents | GetPages | EventsWait | GetSnapshot | ExchangeRequest) -> dict[str, object]:
    """Those besides `seq` and `action`."""
    match request:
        case GetEvents(nodes=nodes, doubted=doubted):
            return {"nodes": range_map(nodes), **({"doubted": range_map(doubted)} if doubted else {})}
        case GetPages(after=after, until=until, size=size):
            places = {name: path.names for name, path in (("after", after), ("until", until)) if path is not None}
            return {"size": size, **places}
        case EventsWait(nodes=ticks, timeout_s=timeout_s):
            return {"nodes": ticks, "timeout": timeout_s}
        case GetSnapshot(node=node, created=created, addr=addr):
            return {"node": node, "created": created, "addr": addr}
        case ExchangeRequest(maps=maps):
            return {"maps": tick_maps_map(maps)}
