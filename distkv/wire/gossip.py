"""Gossip messages, to bytes and back: one row for each kind (docs: protocol, 'Messages').

Knows: which kinds there are, the fields of each, and in which shorter forms one may be said.  Does not know how a
message travels, how much room there is, nor who may say what.

Invariant: `decode_message` returns a well-formed message or raises `DecodeError`, whatever the bytes; unknown fields
are ignored.  An event is packed once: an update is put together from events that are bytes already.  All that goes
through the kinds, from transports to pictures, goes through `GossipKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import attrs

from distkv.errors import DecodeError
from distkv.model.event import Event
from distkv.wire import packing
from distkv.wire.events import event_map, read_event
from distkv.wire.fields import (
    DIGEST_MAX,
    Fields,
    bad,
    read_list,
    read_map,
)
from distkv.wire.headers import header_map, ping_chain_map, read_header, read_ping_chain
from distkv.wire.message import Header, Info, Message, Ping, Update
from distkv.wire.request_fields import (
    ADDRESS,
    HASH,
    RANGES,
    STATE,
    TICKS,
    FieldKind,
    map_form,
    whole_number,
)


class GossipKind(StrEnum):
    """The last part of a user event's name."""

    UPDATE = "update"
    INFO = "info"
    PING = "ping"


def kind_of(message: Message) -> GossipKind:
    """What `decode_message` has to know besides the bytes."""
    return _KINDS[type(message)]


def encode_message(message: Message) -> bytes:
    """The payload of a user event, or of another gossip transport's packet."""
    return _ROWS[kind_of(message)].write(message)


def encode_to_fit(message: Message, room: int) -> bytes | None:
    """The most of a message that fits: whole, or the longest of its shorter forms; None when nothing does."""
    for form in (message, *_ROWS[kind_of(message)].shorter(message)):
        payload = encode_message(form)
        if len(payload) <= room:
            return payload
    return None


def decode_message(kind: str, data: bytes) -> Message:
    """A message of a `GossipKind`.

    Raises:
        DecodeError: `reason` is `bad_kind`, `not_msgpack`, `not_a_map`, `too_large`, or `bad_` and the field's name.
    """
    row = _ROWS.get(kind)
    if row is None:
        raise DecodeError(f"there is no message of the kind {kind[:40]!r}", "bad_kind")
    packing.check_whole(data)
    if not packing.is_map(data):
        raise DecodeError("a message is a map", "not_a_map")
    message: Message = row.read(read_map(packing.unpack(data), "message"))
    return message


# -- update -------------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> bytes:
    """One event, for `encode_update`."""
    return packing.pack_plain(event_map(event))


def encode_update(header: Header, events: Sequence[bytes]) -> bytes:
    """An update of events that `encode_event` made."""
    return packing.pack_map(header_map(header), {"events": packing.array_header(len(events)) + b"".join(events)})


def update_overhead(header: Header) -> int:
    """How many bytes `encode_update` adds to those of its events, at the most (up to 65,535 events)."""
    return len(encode_update(header, ())) + 2


def _write_update(update: Update) -> bytes:
    return encode_update(update.header, [encode_event(event) for event in update.events])


def _read_update(fields: Fields) -> Update:
    events = read_list(fields.get("events"), "events")
    return Update(read_header(fields), tuple(map(read_event, events)))


# -- info ---------------------------------------------------------------------------------------------------------


_PING_CHAIN: Final = FieldKind(read_ping_chain, ping_chain_map)
_read_info_of, _write_info_of = map_form(Info, {
    "addr": ADDRESS, "state": STATE, "ticks": TICKS, "ticks_hash": HASH, "known": RANGES, "missing": RANGES,
    "lost": RANGES, "reason": _PING_CHAIN, "ping": _PING_CHAIN,
})  # fmt: skip


def _write_info(info: Info) -> bytes:
    fields = header_map(info.header)
    _write_info_of(info, fields, {})
    return packing.pack(fields)


def _read_info(fields: Fields) -> Info:
    given = {name: value for name, value in fields.items() if value is not None}
    return _read_info_of(read_header(fields), given, b"")


def _shorter_infos(info: Info) -> Iterator[Info]:
    """Without ranges; then with the sender's own ticks only.

    The hash of the tick map stays, so that whoever hears a short form knows whether to ask over TCP (docs/protocol,
    INFO-1).
    """
    short = attrs.evolve(info, known=None, missing=None, lost=None)
    yield short
    own = {node: ticks for node, ticks in (info.ticks or {}).items() if node == info.header.node}
    yield attrs.evolve(short, ticks=own or None)


# -- ping ---------------------------------------------------------------------------------------------------------


_read_ping_of, _write_ping_of = map_form(Ping, {
    "chain": _PING_CHAIN, "addr": ADDRESS, "state": STATE, "digest": whole_number(DIGEST_MAX), "ticks_hash": HASH,
})  # fmt: skip


def _write_ping(ping: Ping) -> bytes:
    fields = header_map(ping.header)
    _write_ping_of(ping, fields, {})
    return packing.pack(fields)


def _read_ping(fields: Fields) -> Ping:
    ping = _read_ping_of(read_header(fields), fields, b"")
    if ping.chain[0].node != ping.header.node:
        raise bad("chain", "headed by the sender", ping.chain[0].node)
    return ping


def _shorter_pings(ping: Ping) -> Iterator[Ping]:
    """The chain is cut at its old end, as long names may demand."""
    for length in range(len(ping.chain) - 1, 0, -1):
        yield attrs.evolve(ping, chain=ping.chain[:length])


# -- the table ----------------------------------------------------------------------------------------------------

AnyMessage = TypeVar("AnyMessage", bound=Message)


def _no_shorter(_: Message) -> Iterator[Message]:
    """A transport may split what has no shorter form."""
    return iter(())


@attrs.frozen
class _KindRow(Generic[AnyMessage]):
    """All that is particular to the bytes of one kind."""

    type: type[AnyMessage]
    write: Callable[[AnyMessage], bytes]
    read: Callable[[Fields], AnyMessage]
    shorter: Callable[[AnyMessage], Iterator[Message]] = _no_shorter
    """What may be said instead where there is too little room, the longest first."""


_ROWS: Final[dict[str, _KindRow[Any]]] = {
    GossipKind.UPDATE: _KindRow(Update, _write_update, _read_update),
    GossipKind.INFO: _KindRow(Info, _write_info, _read_info, _shorter_infos),
    GossipKind.PING: _KindRow(Ping, _write_ping, _read_ping, _shorter_pings),
}
_KINDS: Final[dict[type[Message], GossipKind]] = {row.type: GossipKind(kind) for kind, row in _ROWS.items()}
