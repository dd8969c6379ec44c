"""Gossip messages and payloads: every field is read strictly, and what is wrong has a short reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from distkv.errors import DecodeError
from distkv.model.event import TICK_MAX, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.wire import packing
from distkv.wire.codec import read_payload
from distkv.wire.gossip import (
    GossipKind,
    decode_message,
    encode_event,
    encode_message,
    encode_update,
    kind_of,
    update_overhead,
)
from distkv.wire.message import Header, Info, Message, Ping, PingLink, Start, Update
from distkv.wire.values import pack_value

Map = dict[str, Any]

LIFE = 123_456_789
HEADER = Header(NodeName("a"), Tick((LIFE << 32) + 7), Tock(1_234_567), LIFE, None, None)


def _event(value: object = 21, links: int = 1, *, truncated: bool = False) -> Event:
    chain = tuple((NodeName(f"n{i}"), Tick((LIFE << 32) + 1000 - i)) for i in range(links))
    path = Path.parse("sensors.kitchen.temp")
    return Event(path, Kind.SET, pack_value(value), chain, Tock(1_234_567), 1.75e9, truncated)


def _ping(links: int = 4) -> Ping:
    header = Header(HEADER.node, HEADER.tick, HEADER.tock, LIFE, b"network!", Start(1.75e9, 2**62))
    chain = tuple(PingLink(HEADER.node, HEADER.tick, HEADER.tock) for _ in range(links))
    return Ping(header, chain, "192.168.100.100:27586", State.READY, 2**64 - 1, b"x" * 8)


def _event_map() -> Map:
    return {
        "path": ["a", 1],
        "value": b"\x15",
        "chain": {"node": "a", "tick": 7, "prev": {"node": "b", "tick": 3}},
        "tock": 5,
        "time": 1.5,
    }


def _update_map() -> Map:
    return {"node": "a", "tick": 7, "tock": 5, "life": 0, "events": [_event_map()]}


def _ping_map() -> Map:
    return {
        "node": "a",
        "tick": 7,
        "tock": 5,
        "life": 0,
        "network": b"network!",
        "start": [1.5, 9],
        "chain": {"node": "a", "tick": 7, "tock": 5, "prev": {"node": "b", "tock": 4}},
        "addr": "127.0.0.1:1",
        "state": "ready",
        "digest": 1,
        "ticks_hash": b"12345678",
    }


def _info_map() -> Map:
    return {
        "node": "a",
        "tick": 7,
        "tock": 5,
        "life": 0,
        "addr": "",
        "state": "passive",
        "ticks": {"a": 7, "b": [3, (1 << 32) + 2]},
        "ticks_hash": b"12345678",
        "known": {"a": [1, [3, 6]]},
        "missing": {"b": [[1, 3]]},
        "lost": {},
        "reason": {"node": "b", "tick": 0, "tock": 4},
        "ping": {"node": "a", "tick": 7, "tock": 5},
    }


def _tick_maps_map() -> Map:
    info = _info_map()
    return {**{name: info[name] for name in info if name != "ticks_hash"}, "held": info["known"], "digest": 4}


def _short_maps_map() -> Map:
    return {name: value for name, value in {**_info_map(), "digest": 4}.items() if name != "lost"}


def _snapshot_map() -> Map:
    return {
        **_update_map(),
        "new_life": 9,
        "ticks": {"a": 7},
        "superseded": {"a": [1]},
        "entry_count": 3,
    }


Reader = Callable[[Map], object]
Wrongs = tuple[object, ...]


def _decode(kind: str) -> Reader:
    return lambda fields: decode_message(kind, packing.pack(fields))


def _decode_event(fields: Map) -> object:
    return decode_message("update", packing.pack({**_update_map(), "events": [fields]}))


def _decode_payload(name: str) -> Reader:
    return lambda fields: read_payload({name: fields})


BIG = 2**63
WRONG_INTEGERS: Wrongs = (None, True, "1", 1.0, -1, BIG, b"1", [1], packing.ExtType(1, b""))
WRONG_TOCKS: Wrongs = (*WRONG_INTEGERS, 2**62)
"""No message can use up the clocks of nodes (docs/protocol, TOCK-4)."""
WRONG_NODES: Wrongs = (None, 1, "", "ä", "a b", "a\n", "a" * 64, b"a", [], {})
WRONG_TICKS: Wrongs = (None, True, 0, -1, 1.0, "1", BIG, 1 << 32, LIFE << 32)
WRONG_MAPS: Wrongs = (None, [], "a", 1)
WRONG_HASHES: Wrongs = (None, 1, "12345678", b"1234567", b"123456789")
WRONG_RANGES: Wrongs = (
    *WRONG_MAPS,
    {"a": None},
    {"a": 1},
    {"ä": [1]},
    {1: [1]},
    {"a": [0]},
    {"a": [True]},
    {"a": [1.0]},
    {"a": [[1]]},
    {"a": [[1, 2, 3]]},
    {"a": [[2, 2]]},
    {"a": [[2, 1]]},
    {"a": [[1, "2"]]},
    {"a": [[1, True]]},
    {"a": [[True, 2]]},
    {"a": [[1, BIG]]},
    {"a": [[1, (1 << 32) + 1]]},
    {"a": [2, 1]},
    {"a": [1, 1]},
    {"a": [[1, 4], 3]},
    {"a": [[1, 4], [3, 5]]},
)
WRONG_TICK_MAPS: Wrongs = (
    *WRONG_MAPS,
    {"a": []},
    {"a": [2, 3]},
    {"a": [(1 << 32) + 1, 1]},
    {"a": [1, None]},
    {"": 1},
    *({"a": tick} for tick in WRONG_TICKS),
)
WRONG_CHAINS: Wrongs = (
    *WRONG_MAPS,
    {},
    {"node": "a"},
    {"node": "a", "tick": 7, "prev": 1},
    {"node": "a", "tick": 7, "prev": {}},
    {"node": "a", "tick": 7, "prev": {"node": "a", "tick": 3}},
    *({"node": node, "tick": 1} for node in WRONG_NODES),
    *({"node": "a", "tick": tick} for tick in WRONG_TICKS),
)
WRONG_PING_CHAINS: Wrongs = (
    *WRONG_MAPS,
    {},
    {"node": "a", "tick": 1},
    {"node": "a", "tick": 7, "tock": 1, "prev": 1},
    {"node": "a", "tick": 7, "tock": 1, "prev": {}},
    *({"node": node, "tick": 1, "tock": 1} for node in WRONG_NODES),
    *({"node": "a", "tick": tick, "tock": 1} for tick in (True, -1, 1.0, "1", BIG)),
    *({"node": "a", "tick": 1, "tock": tock} for tock in WRONG_TOCKS),
)
WRONG_STATES: Wrongs = (None, 1, "READY", "end", "", b"ready", [], {})
WRONG_ADDRESSES: Wrongs = (None, 1, b"a:1", "nowhere", "a:1\n", "a" * 300 + ":1", [])
WRONG_TIMES: Wrongs = (None, 1, "1.0", float("nan"), float("inf"), True)

HEADER_CASES: dict[str, Wrongs] = {
    "node": WRONG_NODES,
    "tick": WRONG_INTEGERS,
    "tock": WRONG_TOCKS,
    "life": (*WRONG_INTEGERS, 2**31),
    "network": WRONG_HASHES[1:],
    "start": (1, [], [1.0], [1.0, 1, 1], [1, 1], [float("nan"), 1], [1.0, True], [1.0, -1], [1.0, BIG], {}),
}

CASES: dict[str, tuple[Reader, Callable[[], Map], dict[str, Wrongs]]] = {
    "update": (_decode("update"), _update_map, {**HEADER_CASES, "events": (None, {}, 1, [1], [[]], [None])}),
    "event": (
        _decode_event,
        _event_map,
        {
            "path": (None, "a.b", {}, [[]], [{}], [packing.ExtType(1, b"")], [float("nan")], ["x"] * 65, ["x" * 4096]),
            "value": ("text", 1, True, [], b"", b"\xc0", b"\xc1", b"\x01\x01", b"\x81\x90\x01", b"\xa1\xff"),
            "expired": (1, "true", None, True),
            "chain": WRONG_CHAINS,
            "tock": WRONG_TOCKS,
            "time": WRONG_TIMES,
        },
    ),
    "ping": (
        _decode("ping"),
        _ping_map,
        {
            **HEADER_CASES,
            "chain": (*WRONG_PING_CHAINS, {"node": "b", "tick": 7, "tock": 5}),
            "addr": WRONG_ADDRESSES,
            "state": WRONG_STATES,
            "digest": (None, True, -1, 1.0, "1"),
            "ticks_hash": WRONG_HASHES,
        },
    ),
    "info": (
        _decode("info"),
        _info_map,
        {
            **HEADER_CASES,
            "addr": WRONG_ADDRESSES,
            "state": WRONG_STATES,
            "ticks": WRONG_TICK_MAPS[1:],
            "ticks_hash": WRONG_HASHES[1:],
            "known": WRONG_RANGES[1:],
            "missing": WRONG_RANGES[1:],
            "lost": WRONG_RANGES[1:],
            "reason": WRONG_PING_CHAINS[1:],
            "ping": WRONG_PING_CHAINS[1:],
        },
    ),
    "maps": (
        _decode_payload("maps"),
        _tick_maps_map,
        {
            **HEADER_CASES,
            "addr": WRONG_ADDRESSES,
            "state": WRONG_STATES,
            "ticks": WRONG_TICK_MAPS,
            "held": WRONG_RANGES,
            "lost": WRONG_RANGES,
            "digest": (None, True, -1),
        },
    ),
    "short maps": (
        _decode_payload("maps"),
        _short_maps_map,
        {
            **HEADER_CASES,
            "addr": WRONG_ADDRESSES,
            "state": WRONG_STATES,
            "ticks": WRONG_TICK_MAPS,
            "ticks_hash": WRONG_HASHES[1:],
            "digest": (None, True, -1),
        },
    ),
    "snapshot": (
        _decode_payload("snapshot"),
        _snapshot_map,
        {
            **HEADER_CASES,
            "new_life": (*WRONG_INTEGERS, 2**31),
            "ticks": WRONG_TICK_MAPS,
            "superseded": WRONG_RANGES,
            "entry_count": WRONG_INTEGERS,
        },
    ),
    "pulled": (
        _decode_payload("pulled"),
        lambda: {"known": {"a": [1]}, "lacks": {}},
        {"known": WRONG_RANGES, "lacks": WRONG_RANGES},
    ),
}


def test_every_message_has_a_kind_of_its_own_and_every_kind_a_message() -> None:
    """Gossip carries these three (docs/protocol, MSG-1)."""
    samples: dict[GossipKind, Map] = {
        GossipKind.UPDATE: _update_map(), GossipKind.PING: _ping_map(), GossipKind.INFO: _info_map()
    }  # fmt: skip
    messages = {kind: decode_message(kind, packing.pack(samples[kind])) for kind in GossipKind}
    assert {kind_of(message): message for message in messages.values()} == messages
    assert {type(message) for message in messages.values()} == {*get_args(Message)}



@pytest.mark.parametrize("name", CASES)
def test_well_formed_fields_with_unknown_ones_among_them_are_read(name: str) -> None:
    """A later release may send more (docs/protocol, MSG-2)."""
    read, fields, _ = CASES[name]
    assert repr(read({**fields(), "later": [1]})) == repr(read(fields()))


FIELDS = [(name, field) for name, (*_, fields) in CASES.items() for field in fields]


def _refusal(name: str, fields: Map) -> tuple[str, str]:
    """The reason and the message with which something is refused."""
    try:
        CASES[name][0](fields)
    except DecodeError as error:
        return error.reason, str(error)
    return "accepted", ""


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_field_that_holds_something_else_is_refused_with_its_name(name: str, field: str) -> None:
    """Types are exact, and all has its limits (docs/protocol, MSG-3, MSG-4, MSG-5)."""
    _, make, wrongs = CASES[name]
    refusals = [(repr(wrong), *_refusal(name, {**make(), field: wrong})) for wrong in wrongs[field]]
    assert [refusal for refusal in refusals if refusal[1] != f"bad_{field}"] == []


def test_tock_of_a_message_may_be_as_high_as_any_that_is_believed() -> None:
    """Each node has the upper half of all tocks for itself (docs/protocol, TOCK-4)."""
    message = decode_message("update", packing.pack({**_update_map(), "tock": 2**62 - 1}))
    assert message.header.tock == 2**62 - 1


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_refusal_of_a_field_is_one_short_line(name: str, field: str) -> None:
    _, make, wrongs = CASES[name]
    messages = [_refusal(name, {**make(), field: wrong})[1] for wrong in wrongs[field]]
    assert [message for message in messages if len(message) > 250 or not message.isprintable()] == []


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name, (_, make, fields) in CASES.items()
        for field in fields
        if field in make() and None in fields[field]
    ],
)
def test_field_that_is_missing_is_refused_with_its_name(name: str, field: str) -> None:
    read, fields, _ = CASES[name]
    with pytest.raises(DecodeError) as caught:
        read({key: value for key, value in fields().items() if key != field})
    assert caught.value.reason == f"bad_{field}"


@pytest.mark.parametrize("name", ["ticks", "ticks_hash", "known", "missing", "lost", "reason", "ping"])
def test_optional_field_of_an_info_that_is_null_counts_as_not_sent(name: str) -> None:
    info = decode_message("info", packing.pack({**_info_map(), name: None}))
    assert getattr(info, name) is None


@pytest.mark.parametrize(
    ("field", "reason"), [("events", "bad_events"), ("maps", "bad_maps"), ("pulled", "bad_pulled")]
)
def test_payload_that_is_no_map_or_list_is_refused(field: str, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_payload({field: 1})
    assert caught.value.reason == reason


def test_item_without_a_payload_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        read_payload({"seq": 1, "state": "odd"})
    assert caught.value.reason == "bad_item"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x82\x01", b"\x80\x80", b"\x91" * 2000, b"\xdf\xff\xff\xff\xff"])
@pytest.mark.parametrize("kind", ["update", "info", "ping"])
def test_bytes_that_are_not_one_whole_object_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message(kind, data)
    assert caught.value.reason == "not_msgpack"


@pytest.mark.parametrize("data", [b"\x01", b"\x90", b"\xc0", b"\xa1a"])
def test_object_that_is_no_map_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message("ping", data)
    assert caught.value.reason == "not_a_map"


def test_message_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message("pong", b"\x80")
    assert caught.value.reason == "bad_kind"


# -- events -------------------------------------------------------------------------------------------------------


def _decoded_event(changes: Map) -> Event:
    fields = {key: value for key, value in {**_event_map(), **changes}.items() if value is not ...}
    update = _decode_event(fields)
    assert isinstance(update, Update)
    return update.events[0]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Kind.SET),
        ({"expired": False}, Kind.SET),
        ({"value": None}, Kind.DELETE),
        ({"value": ...}, Kind.DELETE),
        ({"value": ..., "expired": True}, Kind.EXPIRE),
    ],
)
def test_value_and_expired_tell_the_kind_of_an_event(changes: Map, kind: Kind) -> None:
    assert _decoded_event(changes).kind is kind


@pytest.mark.parametrize(("prev", "truncated"), [({}, True), ({"prev": None}, False)])
def test_chain_ends_where_prev_is_null_and_was_cut_where_it_is_absent(prev: Map, truncated: bool) -> None:
    event = _decoded_event({"chain": {"node": "a", "tick": 7, **prev}})
    assert (event.chain, event.truncated) == ((("a", 7),), truncated)


def test_two_lives_of_a_node_are_two_writers_in_a_chain() -> None:
    older = {"node": "a", "tick": 7, "prev": None}
    event = _decoded_event({"chain": {"node": "a", "tick": (5 << 32) + 1, "prev": older}})
    assert event.chain == (("a", (5 << 32) + 1), ("a", 7))


def test_chain_has_64_links_at_the_most() -> None:
    """Nobody can make a node keep longer ones (docs/protocol, MSG-5)."""
    def chain(links: int) -> Map:
        return {"node": f"n{links}", "tick": 1, "prev": chain(links - 1) if links > 1 else None}

    assert len(_decoded_event({"chain": chain(64)}).chain) == 64
    with pytest.raises(DecodeError, match="64 links"):
        _decoded_event({"chain": chain(65)})


def test_ping_chain_has_64_links_at_the_most() -> None:
    """Nor can anybody by a ping (docs/protocol, MSG-5)."""
    message = decode_message("ping", encode_message(_ping(64)))
    assert isinstance(message, Ping)
    assert len(message.chain) == 64
    with pytest.raises(DecodeError, match="64 links"):
        decode_message("ping", encode_message(_ping(65)))


def test_equal_names_of_nodes_are_one_object_in_memory() -> None:
    one, two = (_decoded_event({"chain": {"node": "long-name", "tick": tick}}) for tick in (1, 2))
    assert one.node is two.node


def test_value_over_one_mebibyte_is_too_large() -> None:
    with pytest.raises(DecodeError) as caught:
        _decoded_event({"value": pack_value("x" * (2**20 - 5)) + b"x"})
    assert caught.value.reason == "too_large"


@pytest.mark.parametrize("path", [["ä" * 2046], ["x" * 4092], ["x" * 60] * 64], ids=["wide", "long", "many"])
def test_path_of_up_to_4_kib_packed_is_read(path: list[str]) -> None:
    assert _decoded_event({"path": path}).path == Path(path)


def test_path_that_is_shorter_packed_than_it_came_is_read() -> None:
    """The one empty name is said by text, which takes a byte less than bytes."""
    assert _decoded_event({"path": [b"", "x" * 4091]}).path == Path(["", "x" * 4091])


@pytest.mark.parametrize(
    "path",
    [["ä" * 2047], ["x" * 4093], [1.5] * 63 + ["x" * 3600], [b"", "x" * 4092]],
    ids=["wide", "long", "mixed", "empty"],
)
def test_path_of_more_than_4_kib_packed_is_refused(path: list[object]) -> None:
    """Its bytes are counted as it is packed here (docs/protocol, PATH-1)."""
    with pytest.raises(DecodeError, match="limit is 4096") as caught:
        _decoded_event({"path": path})
    assert caught.value.reason == "bad_path"


def test_names_that_python_takes_for_one_another_stay_apart() -> None:
    path = _decoded_event({"path": [1, True, 1.0, "1", b"1", None, False, 0]}).path
    assert [type(name) for name in path.names] == [int, bool, float, str, bytes, type(None), bool, int]


# -- ranges -------------------------------------------------------------------------------------------------------


def _known(ranges: list[object]) -> list[int | list[int]]:
    info = decode_message("info", packing.pack({**_info_map(), "known": {"a": ranges}}))
    assert isinstance(info, Info)
    assert info.known is not None
    return info.known[NodeName("a")].to_list()


def test_ranges_that_touch_become_one() -> None:
    """A list has single ticks and pairs, sorted (docs/protocol, RANGE-1)."""
    assert _known([1, 2, [3, 5], [5, 6], 7]) == [[1, 6], 7]


def test_ranges_reach_to_the_last_tick_of_a_life_and_of_all() -> None:
    last = (1 << 32) - 1
    assert _known([[1, last + 1]]) == [[1, last + 1]]
    assert _known([TICK_MAX]) == [TICK_MAX]


# -- sizes: a stock agent takes 512 bytes, of which distkv.update has 13 -----------------------------------------


def test_update_of_one_100_byte_value_fits_a_stock_agent_even_with_a_chain_of_five() -> None:
    event = _event("x" * 98, links=5)
    assert len(event.value) == 100
    assert len(encode_message(Update(HEADER, (event,)))) == 357


def test_ping_with_a_chain_of_four_fits_a_stock_agent() -> None:
    assert len(encode_message(_ping())) == 310


def test_update_is_put_together_from_encoded_events_within_the_promised_size() -> None:
    for count in (0, 1, 15, 16, 40):
        events = tuple(_event(n, truncated=True) for n in range(count))
        encoded = [encode_event(event) for event in events]
        update = encode_update(HEADER, encoded)
        assert repr(decode_message("update", update)) == repr(Update(HEADER, events))
        assert len(update) <= update_overhead(HEADER) + sum(map(len, encoded))
