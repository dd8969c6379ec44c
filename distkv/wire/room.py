"""How much room what other nodes send takes in the log, so that it can be asked for before it is taken in.

Knows: bounds of the sizes of records.  Does not know the disk, nor who asks.

Invariant: the records that come of what is taken in are not larger than what was said, but for the few small ones that
a node writes of its own accord, for which some room is always left free (`CONTROL_BYTES` of the engine).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from distkv.model.event import Event
from distkv.model.pages import Page
from distkv.model.tick_ranges import TickRanges
from distkv.wire.codec import Payload
from distkv.wire.message import EventBatch, PullEnd, SnapshotHead, TickMaps

EVENT_BYTES: Final = 1024
"""What one event takes in the log, at the most, besides the text of its path, its chain and its value."""
LINK_BYTES: Final = 80
RANGE_BYTES: Final = 20
NAME_BYTES: Final = 72
"""What a link of a chain, a range of ticks, and a node's name before its ranges take, at the most."""


def events_room(events: Iterable[Event]) -> int:
    """What these events take."""
    return sum(
        EVENT_BYTES + len(str(event.path).encode()) + LINK_BYTES * len(event.chain) + len(event.value)
        for event in events
    )


def answer_room(answer: Payload) -> int:
    """What part of a peer's answer takes; 0 when nothing of it is written down."""
    match answer:
        case EventBatch(events=events):
            return events_room(events)
        case PullEnd(known=known):
            return _ranges_room(known)
        case SnapshotHead(superseded=superseded):
            return EVENT_BYTES + _ranges_room(superseded)
        case TickMaps() | Page():
            return 0
    assert_never(answer)


def _ranges_room(ranges: TickRanges) -> int:
    return sum(NAME_BYTES + RANGE_BYTES * sum(1 for _ in found.pairs()) for found in ranges.values())
