"""Log records to bytes and back.

Knows: the form of every record.  Does not know batches, checksums or files (storage).

Invariant: `decode_record(encode_record(record))` is the same record; a number is never given a second meaning, and a
record never gets another shape, but a new number: logs outlive releases.

A record is a msgpack array that begins with its number:

=====  =========================================================================================================
1      event: arrived, kind (0 set, 1 delete, 2 expire), path, value as bytes or nil, chain as
       [node, tick, node, tick, …], tock, time, truncated
2      known: {node: ranges}
3      lost: {node: ranges}
4      life: node, life
5      reset
6      ceiling: tock
7      purge: path, [node, tick, node, tick, …]
8      event that has a ttl: as 1, then the ttl
9      release: {node: ranges}
10     stale: true or false
11     event that has a fence: as 1, then the ttl or nil, then the fence as [base, epoch, counter, token]
12     slot: machine, key, value as bytes or nil
13     row of data: as 12
=====  =========================================================================================================
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from distkv.model.event import LIFE_MAX, TICK_MAX, Kind, Tock
from distkv.model.fence import NO_FENCE, Fence
from distkv.wire import packing
from distkv.wire.events import fence_list, make_event, read_fence_list, read_ttl
from distkv.wire.fields import (
    bad,
    checked_chain,
    flat_chain,
    flat_links,
    range_map,
    read_any_path,
    read_flag,
    read_flat_links,
    read_list,
    read_node,
    read_ranges,
    read_time,
)
from distkv.wire.message import (
    CeilingRecord,
    DataRecord,
    EventRecord,
    KnownRecord,
    LifeRecord,
    LostRecord,
    PurgeRecord,
    Record,
    ReleaseRecord,
    ResetRecord,
    SlotRecord,
    StaleRecord,
)

_EVENT, _KNOWN, _LOST, _LIFE, _RESET, _CEILING, _PURGE, _FLEETING, _RELEASE, _STALE, _FENCED, _SLOT, _DATA = (
    range(1, 14)
)
_LENGTHS: Final = {
    _EVENT: 9, _KNOWN: 2, _LOST: 2, _LIFE: 3, _RESET: 1, _CEILING: 2, _PURGE: 3, _FLEETING: 10, _RELEASE: 2,
    _STALE: 2, _FENCED: 11, _SLOT: 4, _DATA: 4
}  # fmt: skip
_KINDS: Final = {kind.value: kind for kind in Kind}


def encode_record(record: Record) -> bytes:
    """One record; records may be written one after another without anything between them."""
    match record:
        case EventRecord():
            return packing.pack_plain(_event_list(record))
        case KnownRecord():
            return packing.pack([_KNOWN, range_map(record.ranges)])
        case ReleaseRecord():
            return packing.pack([_RELEASE, range_map(record.ranges)])
        case LostRecord():
            return packing.pack([_LOST, range_map(record.ranges)])
        case LifeRecord():
            return packing.pack([_LIFE, record.node, record.life])
        case StaleRecord():
            return packing.pack([_STALE, record.is_stale])
        case ResetRecord():
            return packing.pack([_RESET])
        case CeilingRecord():
            return packing.pack([_CEILING, record.tock])
        case PurgeRecord():
            return packing.pack([_PURGE, record.path.names, flat_links(record.links)])
        case SlotRecord():
            return packing.pack([_SLOT, record.machine, record.key, record.value])
        case DataRecord():
            return packing.pack([_DATA, record.machine, record.key, record.value])
    assert_never(record)


def decode_record(data: bytes) -> Record:
    """The one record in `data`.

    Raises:
        DecodeError: it is not exactly that; `reason` says which part is not.
    """
    return _read_record(packing.unpack_whole(data))


def decode_records(data: bytes) -> list[Record]:
    """All records that stand one after another in `data`.

    Raises:
        DecodeError: as `decode_record`.
    """
    return [_read_record(packing.unpack(part)) for part in packing.split_all(data)]


def unpack_events(data: bytes) -> tuple[list[list[Any]], list[float | None], list[Fence]]:
    """The records of events that stand one after another in `data`, as their nine parts, and ttl and fence of each.

    A third of the price of `decode_records`: what the parts hold was checked when they were logged, and is not again.

    Raises:
        DecodeError: there is another record among them, or something is no record.
    """
    rows: list[Any] = packing.unpack_all(data)
    ttls: list[float | None] = [None] * len(rows)
    fences: list[Fence] = [NO_FENCE] * len(rows)
    for at, row in enumerate(rows):
        if type(row) is not list or len(row) != _LENGTHS[_EVENT] or row[0] != _EVENT:
            if type(row) is not list or (row and row[0]) not in (_FLEETING, _FENCED) or len(row) != _LENGTHS[row[0]]:
                raise bad("records", "records of events", row)
            if row[0] == _FENCED:
                fences[at] = read_fence_list(row.pop(), "fence")
            ttls[at] = row.pop()
    return rows, ttls, fences


# -- inside -------------------------------------------------------------------------------------------------------


def _event_list(record: EventRecord) -> list[object]:
    event = record.event
    is_fenced = event.fence is not NO_FENCE
    parts: list[object] = [
        _FENCED if is_fenced else _EVENT if event.ttl is None else _FLEETING,
        record.arrived,
        int(event.kind),
        [*event.path.names],
        event.value if event.kind is Kind.SET else None,
        flat_chain(event),
        event.tock,
        event.time,
        event.truncated,
    ]
    if event.ttl is not None or is_fenced:
        parts.append(event.ttl)
    if is_fenced:
        parts.append(fence_list(event.fence))
    return parts


def _read_record(value: object) -> Record:
    parts = read_list(value, "record")
    number = parts[0] if parts else None
    if type(number) is not int or _LENGTHS.get(number) != len(parts):
        raise bad("record", "a known number and the parts that belong to it", number)
    if number == _EVENT:
        return _read_event_record(parts, None)
    if number == _FLEETING:
        return _read_event_record(parts[:-1], read_ttl({"ttl": parts[-1]}))
    if number == _FENCED:
        *parts, ttl, fence = parts
        ttl_s = None if ttl is None else read_ttl({"ttl": ttl})
        return _read_event_record(parts, ttl_s, read_fence_list(fence, "fence"))
    if number == _KNOWN:
        return KnownRecord(read_ranges(parts[1], "known"))
    if number == _LOST:
        return LostRecord(read_ranges(parts[1], "lost"))
    if number == _RELEASE:
        return ReleaseRecord(read_ranges(parts[1], "released"))
    if number == _LIFE:
        return LifeRecord(read_node(parts[1], "node"), _read_number(parts[2], "life", LIFE_MAX))
    if number == _PURGE:
        return PurgeRecord(read_any_path(parts[1]), read_flat_links(parts[2], "links"))
    if number == _CEILING:
        return CeilingRecord(Tock(_read_number(parts[1], "tock", TICK_MAX)))
    if number == _STALE:
        return StaleRecord(read_flag({"stale": parts[1]}, "stale"))
    if number == _SLOT:
        return SlotRecord(*_read_kept(parts[1], parts[2], parts[3]))
    if number == _DATA:
        return DataRecord(*_read_kept(parts[1], parts[2], parts[3]))
    return ResetRecord()


def _read_event_record(parts: list[object], ttl: float | None, fence: Fence = NO_FENCE) -> EventRecord:
    _, arrived, number, path, raw, flat, tock, time, truncated = parts
    kind = _KINDS.get(number) if type(number) is int else None
    if kind is None:
        raise bad("kind", "0, 1 or 2", number)
    if type(truncated) is not bool:
        raise bad("truncated", "true or false", truncated)
    chain = checked_chain(read_flat_links(flat, "chain"), "chain")
    at = Tock(_read_number(tock, "tock", TICK_MAX))
    event = make_event(path, kind, raw, chain, at, time, truncated, ttl, fence)
    return EventRecord(event, read_time(arrived, "arrived"))


def _read_kept(machine: object, key: object, value: object) -> tuple[str, str, bytes | None]:
    if type(machine) is not str or type(key) is not str:
        raise bad("slot", "named by two texts", machine if type(machine) is not str else key)
    if value is not None and type(value) is not bytes:
        raise bad("slot", "a byte string or nil", value)
    return machine, key, value


def _read_number(value: object, name: str, high: int) -> int:
    if type(value) is not int or not 0 <= value <= high:
        raise bad(name, f"an integer from 0 to {high}", value)
    return value
