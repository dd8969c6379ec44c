"""Whatever comes on a link: it is read or refused, and changes nothing that a pull would not.

Knows: the form of items, and a few replicas in virtual time.  Does not know sockets (`tests/node/test_hostile_links`).
"""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from distkv.core.gossip import TICKS_AHEAD
from distkv.core.ready import FollowTold
from distkv.errors import DecodeError
from distkv.model.event import TICK_MAX, TOCK_HEARD_MAX, Chain, Event, Kind, NodeName, Tick, Tock, first_tick, life_of
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, is_within, joined
from distkv.wire.fields import Fields
from distkv.wire.following import ITEM_EVENTS_MAX, FollowItem, encode_known, encode_records, read_item
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record
from distkv.wire.replies import decode_reply
from tests.profiles import examples
from tests.property import strategies
from tests.unit.core.test_links import linked

A, B, C, STRANGER = NodeName("a"), NodeName("b"), NodeName("c"), NodeName("stranger")

# -- the form -----------------------------------------------------------------------------------------------------

FIELDS = st.dictionaries(
    st.sampled_from(["records", "known", "ping", "want", "state", "held"]) | strategies.texts,
    strategies.values | st.none() | st.lists(strategies.records.map(encode_record), max_size=3),
    max_size=4,
)


def _read(fields: Fields) -> FollowItem | None:
    """What there is in it; None: it is refused."""
    try:
        return read_item(fields)
    except DecodeError:
        return None


@given(FIELDS)
def test_any_fields_are_read_or_refused(fields: dict[str, object]) -> None:
    item = _read(fields)
    assert item is None or len(item.events) <= ITEM_EVENTS_MAX


@given(strategies.event_tuples, strategies.tick_ranges, st.data())
def test_item_of_which_bytes_were_changed_is_read_or_refused(
    events: tuple[Event, ...], known: TickRanges, data: st.DataObject
) -> None:
    records = [encode_record(EventRecord(event, 0.0)) for event in events]
    packed = bytearray(data.draw(st.sampled_from([encode_records(records), encode_known(known)])))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(packed) - 1), st.integers(0, 255)), max_size=4)):
        packed[at] = byte
    try:
        fields = decode_reply(bytes(packed))
    except DecodeError:
        return
    item = _read(fields)
    assert item is None or all(event.tock <= TOCK_HEARD_MAX for event in item.events)


def test_tock_that_only_the_own_clock_may_reach_is_refused() -> None:
    event = Event(Path(["x"]), Kind.SET, b"\x01", ((A, Tick(1)),), Tock(TOCK_HEARD_MAX + 1), 1.0, False)
    assert _read({"records": [encode_record(EventRecord(event, 0.0))]}) is None


# -- what is believed ---------------------------------------------------------------------------------------------

_NAMES = st.sampled_from([A, A, A, B, C, STRANGER])
_FAR = 2 * TICKS_AHEAD
_DISTANCES = st.integers(-3, 8) | st.sampled_from([_FAR, 1 << 40, TICK_MAX])
"""How far a tick is ahead of the last one of its name."""
_TOCKS = st.integers(0, 100) | st.sampled_from([1 << 40, 1 << 60, TOCK_HEARD_MAX])
_LINKS = st.lists(st.tuples(_NAMES, _DISTANCES), min_size=1, max_size=3, unique_by=lambda link: link[0])
_EVENTS = st.tuples(_LINKS, _TOCKS, st.sampled_from(["x", "y"]))
_KNOWN = st.dictionaries(_NAMES, st.tuples(_DISTANCES, st.integers(1, 4)), max_size=2)
_Item: TypeAlias = tuple[list[tuple[list[tuple[NodeName, int]], int, str]], dict[NodeName, tuple[int, int]]]
_ITEMS: st.SearchStrategy[list[_Item]] = st.lists(st.tuples(st.lists(_EVENTS, max_size=4), _KNOWN), max_size=12)


@examples(10, suppress_health_check=[HealthCheck.too_slow])
@given(_ITEMS)
def test_whatever_is_told_only_near_ticks_of_the_followed_writer_count(items: list[_Item]) -> None:
    fleet = linked("b", "c")
    replica = fleet["b"]
    ledger, follow = replica.tree.ledger, replica.following.parents[A].follow
    lasts = {name: ledger.last(name) for name in (A, B, C, STRANGER)}
    limit, may_be_held, mine = replica.tock + replica.settings.limits.tock_jump, ledger.held(), replica.tick
    for told, known in items:
        events = tuple(_event(lasts, *one) for one in told)
        ranges = {name: _ranges(lasts[name] + far, size) for name, (far, size) in known.items()}
        for event in events:
            if event.node == A and event.tock <= limit and all(_is_near(lasts, *link) for link in event.chain):
                may_be_held = joined(may_be_held, {name: _ranges(tick, 1) for name, tick in event.chain})
        ready = fleet.step("b", FollowTold(follow, events, ranges))
        assert ready.fatal is None
        assert is_within(ledger.held(), may_be_held)
    assert replica.tick == mine
    assert sorted(replica.registry.nodes) == [A, B, C]
    assert replica.following.parents[A].told.keys() == {A}


def _event(lasts: dict[NodeName, Tick], links: list[tuple[NodeName, int]], tock: int, path: str) -> Event:
    chain: Chain = tuple((name, _tick(lasts[name] + ahead)) for name, ahead in links)
    return Event(Path([path]), Kind.SET, b"\x01", chain, Tock(tock), 1.0, False)


def _tick(number: int) -> Tick:
    return Tick(max(1, min(number, TICK_MAX)))


def _ranges(begin: int, size: int) -> Ranges:
    return Ranges([(_tick(begin), _tick(begin) + size)])


def _is_near(lasts: dict[NodeName, Tick], name: NodeName, tick: Tick) -> bool:
    """Of a life that was not heard of, the first ticks are near; within an item each tick makes others near."""
    last = lasts[name] if life_of(lasts[name]) == life_of(tick) else first_tick(life_of(tick))
    return tick <= last + TICKS_AHEAD + 100
