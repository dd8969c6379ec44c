"""The client socket's input: where frames end, what each request must hold, and what a refusal says."""

from __future__ import annotations

import math
from typing import Any, get_args

import attrs
import pytest

from distkv.errors import (
    BadPathError,
    BadValueError,
    DecodeError,
    RequestError,
    TooLargeError,
    UnknownActionError,
)
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.wire import packing, peering
from distkv.wire.asking import CLIENT_ROWS, encode_request
from distkv.wire.decisions import Dismiss, GetConflicts, Restore
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import GetState, PingRequest
from distkv.wire.packing import ExtType
from distkv.wire.replicated import ReplicableWrite, ReplicatedWrite, with_replicas
from distkv.wire.request import GetSnapshot, Request
from distkv.wire.services import ServiceRequest
from distkv.wire.token_requests import TOKEN_ROWS, TokenRequest
from distkv.wire.value_requests import GetValue, SetValue, encode_get_value, encode_set_value

Map = dict[str, Any]

ONE, TWO = packing.pack({"seq": 1}), packing.pack({"seq": 2, "text": "x" * 300})


def _decode(**fields: object) -> Request | BadRequest:
    return decode_request(packing.pack({"seq": 7, **fields}))


def _refusal(**fields: object) -> RequestError:
    bad = _decode(**fields)
    assert isinstance(bad, BadRequest)
    assert bad.seq == 7
    return bad.error


# -- the usual ones -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [Path(()), Path(("a", "b")), Path(("ä", 7, None, b"x", True, 1.5))], ids=str)
def test_usual_read_and_write_have_the_frames_of_any_request(path: Path) -> None:
    for seq in (1, 70_000):
        assert encode_get_value(seq, path, 8) == encode_request(GetValue(seq, path, 8))
        write = SetValue(seq, path, packing.pack("x" * 100), nchain=1)
        assert encode_set_value(seq, path, packing.pack("x" * 100)) == encode_request(write)


# -- frames -------------------------------------------------------------------------------------------------------


def test_frames_of_one_feed_come_out_one_by_one() -> None:
    reader = FrameReader()
    reader.feed(ONE + TWO + ONE)
    assert list(reader) == [ONE, TWO, ONE]


def test_frame_fed_byte_by_byte_comes_out_once_it_is_whole() -> None:
    reader = FrameReader()
    found = []
    for at in range(len(TWO)):
        reader.feed(TWO[at : at + 1])
        found += [(at, frame) for frame in reader]
    assert found == [(len(TWO) - 1, TWO)]


def test_half_frame_behind_whole_ones_waits_for_its_rest() -> None:
    reader = FrameReader()
    reader.feed(ONE + TWO + ONE[:3])
    assert list(reader) == [ONE, TWO]
    reader.feed(ONE[3:] + TWO[:9])
    assert list(reader) == [ONE]
    reader.feed(TWO[9:])
    assert list(reader) == [TWO]


def test_frames_not_yet_taken_are_kept_by_the_next_feed() -> None:
    reader = FrameReader()
    reader.feed(ONE + TWO)
    assert reader.next_frame() == ONE
    reader.feed(ONE)
    assert list(reader) == [TWO, ONE]


def test_frame_that_cannot_be_decoded_does_not_disturb_the_next() -> None:
    bad = b"\x81\x91\x01\x01"  # a list as a key
    reader = FrameReader()
    reader.feed(ONE + bad + b"\xa1\xff" + TWO)
    assert list(reader) == [ONE, bad, b"\xa1\xff", TWO]


def test_frame_of_exactly_the_limit_is_read() -> None:
    reader = FrameReader(limit=len(TWO))
    reader.feed(TWO * 2)
    assert list(reader) == [TWO, TWO]


def test_frame_over_the_limit_is_too_large_after_the_frames_before_it() -> None:
    reader = FrameReader(limit=len(TWO) - 1)
    reader.feed(ONE + TWO + ONE)
    assert reader.next_frame() == ONE
    with pytest.raises(TooLargeError, match=f"{len(TWO) - 1} bytes"):
        reader.next_frame()


@pytest.mark.parametrize("head", [b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff"])
def test_frame_that_declares_a_huge_length_is_too_large_as_soon_as_the_limit_is_passed(head: bytes) -> None:
    reader = FrameReader(limit=1000)
    reader.feed(head + b"\0" * 995)
    assert list(reader) == []
    reader.feed(b"\0")
    with pytest.raises(TooLargeError):
        reader.next_frame()


@pytest.mark.parametrize("broken", [b"\xc1", b"\x91\xc1", b"\x91" * 2000])
def test_broken_stream_is_an_error_after_the_frames_before_it(broken: bytes) -> None:
    reader = FrameReader()
    reader.feed(ONE + broken)
    assert reader.next_frame() == ONE
    with pytest.raises(DecodeError):
        reader.next_frame()


def test_stream_stays_broken() -> None:
    reader = FrameReader()
    for data in (b"\xc1", ONE, ONE):
        reader.feed(data)
        with pytest.raises(DecodeError):
            reader.next_frame()


def test_stream_that_was_too_large_stays_so() -> None:
    reader = FrameReader(limit=3)
    for data in (TWO, b"\x01"):
        reader.feed(data)
        with pytest.raises(TooLargeError):
            reader.next_frame()


# -- the frame as a whole -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [b"\x01", b"\x90", b"\xc0", b"\xa1a", b"\xa1\xff", b"\x91\x81\x90\x01"])
def test_frame_that_is_no_map_ends_the_conversation(frame: bytes) -> None:
    with pytest.raises(DecodeError, match="a request is a map") as caught:
        decode_request(frame)
    assert caught.value.reason == "not_a_map"


@pytest.mark.parametrize("seq", [None, 0, -1, True, 1.0, "1", 2**63, [], {}])
def test_request_without_a_usable_seq_is_refused_under_seq_0(seq: object) -> None:
    bad = decode_request(packing.pack({"seq": seq, "action": "ping"}))
    assert isinstance(bad, BadRequest)
    assert bad.seq == 0
    assert "'seq' must be an integer above 0" in str(bad.error)


@pytest.mark.parametrize("action", ["get_everything", "", "x" * 500])
def test_unknown_action_is_refused_by_name(action: str) -> None:
    error = _refusal(action=action)
    assert isinstance(error, UnknownActionError)
    assert repr(action[:40]) in str(error)
    assert "get_value" in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize("action", [None, 1, b"ping", [], {}])
def test_action_that_is_no_text_is_refused(action: object) -> None:
    error = _refusal(action=action)
    assert error.code == "bad_request"
    assert "'action' must be text" in str(error)


def test_unknown_fields_are_ignored() -> None:
    assert _decode(action="ping", later={"a": [1]}, other=None) == PingRequest(7)


def test_field_given_twice_is_refused() -> None:
    bad = decode_request(b"\x83\xa3seq\x07\xa6action\xa4ping\xa6action\xa4ping")
    assert isinstance(bad, BadRequest)
    assert (bad.seq, str(bad.error)) == (7, "the request has a field twice")


def test_map_and_names_packed_in_a_longer_form_are_read() -> None:
    frame = b"\xde\0\x04\xd9\x03seq\xcd\0\x07\xa6action\xa9set_value\xa4path\x91\xa1a\xd9\x05value\x91\x01"
    assert decode_request(frame) == SetValue(7, Path(["a"]), b"\x91\x01")


@pytest.mark.parametrize(
    ("field", "error"),
    [("value", BadValueError), ("prev", BadValueError), ("path", BadPathError), ("later", RequestError)],
)
@pytest.mark.parametrize("raw", [b"\xa1\xff", b"\x81\x91\x01\x01", b"\xd4\x80x"])
def test_field_that_cannot_be_decoded_is_named_and_the_seq_still_known(
    field: str, error: type[RequestError], raw: bytes
) -> None:
    good = {"seq": 7, "action": "set_value", "path": ["a"], "value": 1}
    good.pop(field, None)
    bad = decode_request(packing.pack_map(good, {field: raw}))
    assert isinstance(bad, BadRequest)
    assert bad.seq == 7
    assert type(bad.error) is error
    assert f"'{field}'" in str(bad.error)


@pytest.mark.parametrize("key", [b"\x91\x01", b"\xa1\xff", b"\x81\x80\x01"])
def test_field_whose_name_cannot_be_decoded_is_refused_and_the_seq_still_known(key: bytes) -> None:
    bad = decode_request(b"\x82\xa3seq\x07" + key + b"\x01")
    assert isinstance(bad, BadRequest)
    assert bad.seq == 7
    assert "name cannot be read" in str(bad.error)


def test_frame_in_which_the_seq_itself_cannot_be_decoded_is_refused_under_seq_0() -> None:
    bad = decode_request(b"\x81\xa3seq\xa1\xff")
    assert isinstance(bad, BadRequest)
    assert bad.seq == 0


# -- fields -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({"action": "get_value", "path": ["a", 1]}, GetValue(7, Path(["a", 1]))),
        ({"action": "get_value", "path": [], "nchain": 3}, GetValue(7, Path(), 3)),
        ({"action": "set_value", "path": ["a"], "value": "x"}, SetValue(7, Path(["a"]), b"\xa1x")),
        (
            {"action": "set_value", "path": ["a"], "value": {"b": [None]}},
            SetValue(7, Path(["a"]), b"\x81\xa1b\x91\xc0"),
        ),
        ({"action": "set_value", "path": ["a"], "value": ExtType(5, b"x")}, SetValue(7, Path(["a"]), b"\xd4\x05x")),
        # To set nil is to delete (docs/protocol, VALUE-3).
        ({"action": "set_value", "path": ["a"], "value": None}, SetValue(7, Path(["a"]), None)),
        ({"action": "set_value", "path": ["a"], "value": 1, "ttl": 2}, SetValue(7, Path(["a"]), b"\x01", ttl=2.0)),
        ({"action": "set_value", "path": [], "value": 1, "chain": None}, SetValue(7, Path(), b"\x01", ())),
        (
            {"action": "set_value", "path": [], "value": 1, "chain": {"node": "a", "tick": 3, "prev": None}},
            SetValue(7, Path(), b"\x01", ((NodeName("a"), Tick(3)),)),
        ),
        (
            {"action": "set_value", "path": [], "value": 1, "prev": [1], "new": True, "idem": True, "nchain": 2},
            SetValue(7, Path(), b"\x01", None, True, b"\x91\x01", True, 2),
        ),
        ({"action": "delete_value", "path": ["a"]}, SetValue(7, Path(["a"]), None)),
        ({"action": "delete_value", "path": ["a"], "prev": 1}, SetValue(7, Path(["a"]), None, prev=b"\x01")),
        ({"action": "conflicts"}, GetConflicts(7)),
        ({"action": "conflicts", "path": ["a"], "after": [1], "limit": 3}, GetConflicts(7, Path(["a"]), Path([1]), 3)),
        ({"action": "conflicts", "closed": True}, GetConflicts(7, closed=True)),
        ({"action": "restore", "id": "a:12"}, Restore(7, (NodeName("a"), Tick(12)))),
        (
            {"action": "restore", "id": "a:7.12", "chain": {"node": "b", "tick": 3}, "path": ["x"], "nchain": 1},
            Restore(7, (NodeName("a"), Tick((7 << 32) + 12)), (NodeName("b"), Tick(3)), Path(["x"]), 1),
        ),
        ({"action": "dismiss", "id": "a:12"}, Dismiss(7, (NodeName("a"), Tick(12)))),
        ({"action": "get_state"}, GetState(7)),
        ({"action": "ping"}, PingRequest(7)),
        (
            {"action": "get_snapshot", "node": "a", "created": 1.5, "addr": "h:1"},
            GetSnapshot(7, "a", 1.5, "h:1"),
        ),
    ],
)
def test_request_is_read(fields: Map, request_: Request) -> None:
    assert _decode(**fields) == request_


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"action": "get_value", "path": [], "nchain": -1}, "nchain"),
        ({"action": "get_value", "path": [], "nchain": True}, "nchain"),
        ({"action": "get_value", "path": [], "nchain": None}, "nchain"),
        ({"action": "set_value", "path": []}, "value"),
        ({"action": "set_value", "path": [], "value": 1, "chain": 1}, "chain"),
        ({"action": "set_value", "path": [], "value": 1, "chain": {}}, "chain"),
        ({"action": "set_value", "path": [], "value": 1, "chain": {"node": "a"}}, "chain"),
        ({"action": "set_value", "path": [], "value": 1, "chain": {"node": "a", "tick": 0}}, "chain"),
        ({"action": "set_value", "path": [], "value": 1, "new": 1}, "new"),
        ({"action": "set_value", "path": [], "value": 1, "idem": None}, "idem"),
        ({"action": "set_value", "path": [], "value": 1, "prev": None}, "prev"),
        ({"action": "set_value", "path": [], "value": 1, "ttl": 0}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "ttl": -1.5}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "ttl": math.nan}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "ttl": math.inf}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "ttl": True}, "ttl"),
        ({"action": "set_value", "path": [], "value": None, "ttl": 1}, "ttl"),
        ({"action": "delete_value", "path": [], "ttl": 1}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "replicas": 0}, "replicas"),
        ({"action": "set_value", "path": [], "value": 1, "replicas": 2, "timeout": -1}, "timeout"),
        ({"action": "set_value", "path": [], "value": 1, "timeout": 1}, "timeout"),
        ({"action": "set_value", "path": [], "value": 1, "fence": 1}, "fence"),
        ({"action": "delete_value", "path": [], "fence": None}, "fence"),
        ({"action": "delete_value", "path": [], "new": False}, "new"),
        ({"action": "delete_value", "path": [], "value": None}, "value"),
        ({"action": "get_value", "path": [], "at": "now"}, "at"),
        ({"action": "history", "path": [], "limit": -1}, "limit"),
        ({"action": "history", "path": [], "before": 1.5}, "before"),
        ({"action": "conflicts", "limit": 0}, "limit"),
        ({"action": "conflicts", "closed": 1}, "closed"),
        ({"action": "restore"}, "id"),
        ({"action": "restore", "id": ["a", 1]}, "id"),
        ({"action": "restore", "id": "a"}, "id"),
        ({"action": "restore", "id": "a:0"}, "id"),
        ({"action": "restore", "id": "a:2147483648.1"}, "id"),
        ({"action": "restore", "id": "ä:1"}, "id"),
        ({"action": "restore", "id": "a:1", "chain": None}, "chain"),
        ({"action": "restore", "id": "a:1", "closed": None}, "closed"),
        ({"action": "dismiss", "id": "a:1", "nchain": -1}, "nchain"),
        ({"action": "dismiss", "id": "a:1", "closed": True}, "closed"),
        ({"action": "get_events"}, "nodes"),
        ({"action": "get_events", "nodes": {"a": [[1, 2**63]]}}, "nodes"),
        ({"action": "get_pages"}, "size"),
        ({"action": "get_pages", "size": 0}, "size"),
        ({"action": "get_pages", "size": 1001}, "size"),
        ({"action": "get_events", "nodes": {}, "doubted": 5}, "doubted"),
        ({"action": "get_events", "nodes": {}, "ticks": {"a": 0}}, "ticks"),
        ({"action": "get_events", "nodes": {}, "limit": 0}, "limit"),
        ({"action": "get_snapshot", "created": 1.5, "addr": ""}, "node"),
        ({"action": "get_snapshot", "node": "a", "created": 1, "addr": ""}, "created"),
        ({"action": "get_snapshot", "node": "a", "created": 1.5}, "addr"),
        ({"action": "exchange"}, "maps"),
        ({"action": "exchange", "maps": {"node": "ä"}}, "node"),
    ],
)
def test_field_that_cannot_be_meant_is_refused_and_named(fields: Map, field: str) -> None:
    error = _refusal(**fields)
    assert error.code == "bad_request"
    assert f"'{field}'" in str(error)


@pytest.mark.parametrize("path", [None, "a.b", {}, 1, [[]], [{}], [float("nan")], ["a"] * 65, ["a" * 5000]])
@pytest.mark.parametrize("action", ["get_value", "set_value", "delete_value"])
def test_path_that_is_none_is_a_bad_path(action: str, path: object) -> None:
    fields = {"value": 1} if action == "set_value" else {}
    assert isinstance(_refusal(action=action, path=path, **fields), BadPathError)


@pytest.mark.parametrize("field", ["value", "prev"])
@pytest.mark.parametrize("raw", [b"\x82\x01\x01\xc3\x02", b"\x82\xa1a\x01\xa1a\x01", b"\x91" * 257 + b"\xc0"])
def test_value_that_python_would_change_is_a_bad_value(field: str, raw: bytes) -> None:
    good = {"seq": 7, "action": "set_value", "path": ["a"], "value": 1}
    good.pop(field, None)
    bad = decode_request(packing.pack_map(good, {field: raw}))
    assert isinstance(bad, BadRequest)
    assert isinstance(bad.error, BadValueError)


def test_value_is_stored_in_canonical_form() -> None:
    frame = packing.pack_map({"seq": 7, "action": "set_value", "path": []}, {"value": b"\xdc\0\x01\xcd\0\x05"})
    assert decode_request(frame) == SetValue(7, Path(), b"\x91\x05")


def test_value_that_grows_beyond_the_limit_is_too_large() -> None:
    floats = b"\xdd" + (200_000).to_bytes(4, "big") + b"\xca\0\0\0\0" * 200_000
    bad = decode_request(packing.pack_map({"seq": 7, "action": "set_value", "path": []}, {"value": floats}))
    assert isinstance(bad, BadRequest)
    assert isinstance(bad.error, TooLargeError)


def test_default_options_are_not_sent() -> None:
    assert packing.unpack(encode_request(GetValue(1, Path(["a"])))) == {"seq": 1, "action": "get_value", "path": ["a"]}


# -- the table ----------------------------------------------------------------------------------------------------

ROWS = (*CLIENT_ROWS, *peering.ROWS, *TOKEN_ROWS)


def test_every_request_has_one_row_by_which_it_is_written() -> None:
    written = [row.type for row in ROWS if row.write is not None]
    # A replicated write is written as what it replicates, with two fields more.
    others = {*get_args(Request), *get_args(TokenRequest)} - {ReplicatedWrite, ServiceRequest}
    assert sorted(written, key=repr) == sorted(others, key=repr)


def test_writes_that_may_be_replicated_have_a_row_for_that_too() -> None:
    asked = {row.action for row in ROWS if row.is_replicable}
    assert asked == {row.action for row in ROWS if row.type is ReplicatedWrite} == {"set_value", "delete_value"}
    assert {row.type for row in ROWS if row.is_replicable} == {ReplicableWrite}


def test_write_that_cannot_be_replicated_says_what_its_row_lacks() -> None:
    row = next(row for row in ROWS if row.action == "dismiss")
    (wrong, _) = with_replicas([attrs.evolve(row, is_replicable=True)])
    with pytest.raises(TypeError, match="Dismiss is no write that can be replicated"):
        wrong.read(1, {"id": "a:1", "replicas": 2}, b"")


def test_rows_of_one_action_are_read_alike() -> None:
    readers = {row.action: row.read for row in ROWS}
    apart = [row.action for row in ROWS if row.read is not readers[row.action]]
    assert apart == []
