"""What the archive keeps of the replicated state, to bytes and back: entries and books.

Knows: the form of both.  Does not know SQLite, nor when something is archived.

Invariant: `decode_entry(encode_entry(entry))` is the same entry, open losers and memory included.  What is read was
written by this program into a file that checks its pages, so reading checks shapes, not every limit of the protocol.

An entry is a msgpack array [event, [loser …] or nil, memory or nil]; an event is
[kind, [name …], value or nil, [node, tick, node, tick, …], tock, time, truncated]: with a ttl it is the eighth; with a
fence that is the ninth, behind ttl or nil. Memory is [[node, life, [[tick, tock, not an expiry, tick, name, hash, fence
if there is one] …]] …]; a book is [last, [begin, end, …] held, [… lost]].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from distkv.errors import BadPathError, DecodeError
from distkv.model.entry import Entry, Memory
from distkv.model.event import Chain, Event, Kind, NodeName, Order, first_tick, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.ledger import WriterLedger
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire import packing
from distkv.wire.fields import flat_chain, one_of_all, share_names

_KINDS: Final = tuple(Kind)
_RECORD_BEGIN: Final = b"\x99\x01\xcb"
"""An event's record: an array of nine, the record's number, the type of `arrived`, which is a float of eight bytes."""
_EVENT_AT: Final = len(_RECORD_BEGIN) + 8
_ENTRY_BEGIN: Final = b"\x93\x97"
"""An array of three, the first of which is an event: an array of seven, the last seven of the record."""
_LONGER_BEGINS: Final = ((b"\x9a\x08\xcb", b"\x93\x98"), (b"\x9b\x0b\xcb", b"\x93\x99"))
"""The same two for an event with a ttl: each array has one element more; and for one with a fence: two more."""
_ENTRY_END: Final = b"\xc0\xc0"
_FAILURES: Final = (TypeError, ValueError, IndexError, KeyError)


def path_key(path: Path) -> bytes:
    """The bytes by which the archive finds a path; equal exactly for equal paths."""
    return packing.pack_plain([*path.names])


def is_key_below(key: bytes, top: bytes) -> bool:
    """Whether the path of a key is that of another one, or lies below it."""
    return key.startswith(top[_names_at(top) :], _names_at(key))


def read_path_key(data: bytes) -> Path:
    """The path that has this key.

    Raises:
        DecodeError: none has.
    """
    try:
        return Path(_list(packing.unpack(data)))
    except (*_FAILURES, BadPathError) as error:
        raise DecodeError(f"a path of the archive cannot be read: {error}", "bad_path") from error


def encode_entry(entry: Entry) -> bytes:
    losers = [_event_list(loser) for loser in entry.losers] or None
    return packing.pack_plain([_event_list(entry.head), losers, _memory_list(entry.memory)])


def entry_of_record(record: bytes) -> bytes:
    """`encode_entry` of an entry that holds nothing but the event in an event's record; nothing is packed again."""
    if record.startswith(_RECORD_BEGIN):
        return b"".join((_ENTRY_BEGIN, record[_EVENT_AT:], _ENTRY_END))
    for begin, entry_begin in _LONGER_BEGINS:
        if record.startswith(begin):
            return b"".join((entry_begin, record[_EVENT_AT:], _ENTRY_END))
    raise ValueError("only the record of an event leads to an entry")


def decode_entry(data: bytes) -> Entry:
    """The entry in `data`.

    Raises:
        DecodeError: it holds none.
    """
    try:
        head, losers, memory = _list(packing.unpack(data))
        entry = Entry(_event(head))
        if losers is not None:
            entry.losers = tuple(_event(loser) for loser in losers)
        if memory is not None:
            entry.memory = _memory(memory)
    except (*_FAILURES, BadPathError) as error:
        raise DecodeError(f"an entry of the archive cannot be read: {error}", "bad_entry") from error
    return entry


@attrs.frozen(slots=True)
class Meta:
    """What belongs to the state and to no path: the node's identity, and sums that need not be computed again."""

    node: NodeName
    life: int | None
    """None: a download was under way."""
    tick: int
    tock: int
    ceiling: int
    digest: int
    live_count: int
    restored: bool = False
    """Whether the life is over: this is a backup that was put back, say, and its ticks may have been used since."""
    stale: bool = False
    """Whether others may have forgotten what is here. This and the next are absent in archives of earlier releases."""
    first_life: int | None = None
    """The life in which what is here was downloaded, or founded."""


_NEWER: Final = ("stale", "first_life")


def encode_meta(meta: Meta) -> dict[str, bytes]:
    return {name: packing.pack(value) for name, value in attrs.asdict(meta).items()}


def decode_meta(rows: Mapping[str, bytes]) -> Meta:
    """The meta rows of an archive.

    Raises:
        DecodeError: one is missing or of another type.
    """
    try:
        found = {name: packing.unpack(rows[name]) for name in attrs.fields_dict(Meta) if name not in _NEWER}
        newer: Any = {name: packing.unpack(rows[name]) for name in _NEWER if name in rows}
        node, life, restored = found.pop("node"), found.pop("life"), bool(found.pop("restored"))
        if not isinstance(node, str) or not all(type(value) is int for value in found.values()):
            raise ValueError("a value has the wrong type")
        sums: Any = found
        return Meta(NodeName(node), None if life is None else int(str(life)), **sums, restored=restored, **newer)
    except _FAILURES as error:
        raise DecodeError(f"the meta data of the archive cannot be read: {error}", "bad_meta") from error


def encode_book(book: WriterLedger) -> bytes:
    return packing.pack([book.last, _flat(book.held), _flat(book.lost)])


def decode_book(life: int, data: bytes) -> WriterLedger:
    """The book of one life of a node.

    Raises:
        DecodeError: `data` holds none.
    """
    try:
        last, held, lost = _list(packing.unpack(data))
        return WriterLedger(first_tick(life), int(last), _ranges(held), _ranges(lost))
    except _FAILURES as error:
        raise DecodeError(f"a book of the archive cannot be read: {error}", "bad_book") from error


# -- inside -------------------------------------------------------------------------------------------------------


def _names_at(key: bytes) -> int:
    """Where the names begin, behind how many there are: an array of less than 16 says that in one byte."""
    return 1 if key[0] < 0xDC else 3


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a list was expected, not {type(value).__name__}")
    return value


def _event_list(event: Event) -> list[object]:
    parts: list[object] = [
        int(event.kind),
        [*event.path.names],
        event.value if event.kind is Kind.SET else None,
        flat_chain(event),
        event.tock,
        event.time,
        event.truncated,
    ]
    if event.fence is not NO_FENCE:
        return [*parts, event.ttl, [*event.fence]]
    return parts if event.ttl is None else [*parts, event.ttl]


def _event(parts: list[Any]) -> Event:
    """Nearly always without a ttl and with a chain of one link: of these a start reads a hundred thousand."""
    fence = Fence(*parts.pop()) if len(parts) == 9 else NO_FENCE
    ttl = parts.pop() if len(parts) == 8 else None
    kind, names, value, flat, tock, time, truncated = parts
    share_names(names)
    if len(flat) == 2:
        node: Any = one_of_all(flat[0])
        chain: Chain = ((node, flat[1]),)
    else:
        flat[::2] = map(one_of_all, flat[::2])
        chain = tuple(zip(flat[::2], flat[1::2], strict=True))
    if ttl is not None or fence is not NO_FENCE:
        return new_event(Path(names), _KINDS[kind], value or b"", chain, tock, time, truncated, ttl, fence)
    return Event(Path(names), _KINDS[kind], value or b"", chain, tock, time, truncated)


def _memory_list(memory: Memory | None) -> list[object] | None:
    if memory is None:
        return None
    return [
        [node, life, [[tick, *_order_list(at)] for tick, at in rows]]
        for (node, life), rows in memory.items()
    ]


def _memory(rows: list[Any]) -> Memory:
    return {(NodeName(node), life): [(tick, _order(at)) for tick, *at in pairs] for node, life, pairs in rows}


def _order_list(order: Order) -> list[object]:
    fence, tock, is_no_expiry, tick, name, digest = order
    parts: list[object] = [tock, is_no_expiry, tick, list(name), digest]
    return parts if fence == NO_FENCE else [*parts, [*fence]]


def _order(parts: list[Any]) -> Order:
    fence = Fence(*parts.pop()) if len(parts) == 6 else NO_FENCE
    tock, is_no_expiry, tick, name, digest = parts
    return (fence, tock, is_no_expiry, tick, tuple(name), digest)


def _flat(ranges: Ranges) -> list[int]:
    return [bound for pair in ranges.pairs() for bound in pair]


def _ranges(flat: list[int]) -> Ranges:
    return Ranges.from_sorted(zip(flat[::2], flat[1::2], strict=True))
