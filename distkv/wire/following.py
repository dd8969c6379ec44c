"""What a follower is sent, to bytes and back: events, ticks that are superseded, signs of life.

Knows: the form of the items of `follow` (docs: client protocol).  Does not know who follows whom, nor what is believed.

Invariant: an item is packed once, without saying for whom; `replies.addressed` gives it to one follower. What
`read_item` returns is well-formed, whatever the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from distkv.errors import DecodeError
from distkv.model.event import TOCK_HEARD_MAX, Event
from distkv.model.tick_ranges import TickRanges
from distkv.wire import packing
from distkv.wire.fields import Fields, bad, range_map, read_list, read_ranges
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_record

ITEM_EVENTS_MAX: Final = 256
"""An item has no more events than these; a larger one is refused."""
_WANTS_HELD: Final = {"want": "held"}


@attrs.frozen
class FollowItem:
    """One item; of a sign of life both are empty."""

    events: tuple[Event, ...] = ()
    known: TickRanges = attrs.field(factory=dict)
    """Ticks that are superseded where the item comes from."""
    wants_held: bool = False
    """Whether somebody waits there to hear that this is held."""


def encode_records(records: Sequence[bytes], *, wants_held: bool = False) -> bytes:
    """Events, as they are logged."""
    return packing.pack({"seq": 0, "records": records, **(_WANTS_HELD if wants_held else {})})


def encode_known(ranges: TickRanges, *, wants_held: bool = False) -> bytes:
    """Ticks that are superseded, or whose event is gone."""
    return packing.pack({"seq": 0, "known": range_map(ranges), **(_WANTS_HELD if wants_held else {})})


def encode_alive() -> bytes:
    """Nothing came for a while."""
    return packing.pack({"seq": 0, "ping": True})


def read_item(fields: Fields) -> FollowItem:
    """An item of a follow.

    Raises:
        DecodeError: it is none.
    """
    wants_held = fields.get("want") == "held"
    if "records" in fields:
        records = read_list(fields["records"], "records")
        if len(records) > ITEM_EVENTS_MAX:
            raise DecodeError(f"an item has {len(records)} records; the limit is {ITEM_EVENTS_MAX}", "bad_records")
        return FollowItem(tuple(map(_read_event, records)), wants_held=wants_held)
    if "known" in fields:
        return FollowItem(known=read_ranges(fields["known"], "known"), wants_held=wants_held)
    if fields.get("ping") is True:
        return FollowItem()
    raise DecodeError("an item of a follow has records, known or ping", "bad_item")


def _read_event(data: object) -> Event:
    if type(data) is not bytes:
        raise bad("records", "made of byte strings", data)
    record = decode_record(data)
    if not isinstance(record, EventRecord):
        raise bad("records", "made of records of events", data)
    if record.event.tock > TOCK_HEARD_MAX:  # the log may have what nobody is believed
        raise bad("tock", f"at most {TOCK_HEARD_MAX}", record.event.tock)
    return record.event
