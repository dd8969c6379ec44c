"""Requests for whole trees, and batches: what each must hold, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import BadPathError, BadValueError, ExistsError, RequestError
from distkv.model.path import NAMES_MAX, Path
from distkv.wire import packing
from distkv.wire.asking import encode_request
from distkv.wire.fields import read_lasting_path
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.replies import decode_reply, encode_error, encode_results, reply_error
from distkv.wire.request import Request
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames
from distkv.wire.value_requests import Batch, GetValue, SetValue

Map = dict[str, Any]


def _decode(**fields: object) -> Request | BadRequest:
    return decode_request(packing.pack({"seq": 7, **fields}))


def _refusal(**fields: object) -> RequestError:
    bad = _decode(**fields)
    assert isinstance(bad, BadRequest)
    assert bad.seq == 7
    return bad.error


def _op(action: str, **fields: object) -> Map:
    return {"action": action, "path": ["a"], **fields}


A = Path(["a"])


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({"action": "get_tree", "path": ["a"]}, GetTree(7, A)),
        (
            {"action": "get_tree", "path": ["a"], "min_depth": 1, "max_depth": 3, "nchain": 2, "limit": 0},
            GetTree(7, A, 1, 3, 2, 0),
        ),
        (
            {"action": "get_tree", "path": [], "min_depth": 10**6, "max_depth": 10**6},
            GetTree(7, Path(), NAMES_MAX + 1, NAMES_MAX),
        ),
        ({"action": "list", "path": ["a"]}, ListNames(7, A)),
        ({"action": "list", "path": ["a"], "limit": 3, "after": None}, ListNames(7, A, 3, Path([None]))),
        ({"action": "list", "path": ["a"], "after": "b"}, ListNames(7, A, None, Path(["b"]))),
        ({"action": "delete_tree", "path": ["a"]}, DeleteTree(7, A)),
        ({"action": "batch", "ops": []}, Batch(7, ())),
        (
            {"action": "batch", "ops": [_op("get_value"), _op("set_value", value=1), _op("delete_value")]},
            Batch(7, (GetValue(0, A), SetValue(0, A, b"\x01"), SetValue(0, A, None))),
        ),
        (
            {"action": "batch", "ops": [_op("set_value", value={"x": [1]}, new=True, prev_value=True)]},
            Batch(7, (SetValue(0, A, b"\x81\xa1x\x91\x01", new=True, prev_value=True),)),
        ),
        (
            {"action": "set_value", "path": ["a"], "value": 1, "prev_value": True},
            SetValue(7, A, b"\x01", prev_value=True),
        ),
    ],
)
def test_request_is_read(fields: Map, request_: Request) -> None:
    assert _decode(**fields) == request_


@pytest.mark.parametrize("wish", [{"new": True}, {"idem": True}, {"prev": 5}, {"nchain": 1}, {"chain": None}])
def test_operation_with_one_wish_is_not_taken_for_a_plain_one(wish: Map) -> None:
    batch = _decode(action="batch", ops=[_op("set_value", value=1, **wish)])
    assert isinstance(batch, Batch)
    assert batch.ops != (SetValue(0, A, b"\x01"),)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"action": "get_tree", "path": [], "min_depth": -1}, "min_depth"),
        ({"action": "get_tree", "path": [], "max_depth": 1.0}, "max_depth"),
        ({"action": "get_tree", "path": [], "limit": None}, "limit"),
        ({"action": "get_tree", "path": [], "nchain": True}, "nchain"),
        ({"action": "batch"}, "ops"),
        ({"action": "batch", "ops": {}}, "ops"),
        ({"action": "batch", "ops": [1]}, "ops"),
        ({"action": "batch", "ops": [{"path": []}]}, "action"),
        ({"action": "batch", "ops": [_op("delete_tree")]}, "action"),
        ({"action": "batch", "ops": [_op("batch", ops=[])]}, "action"),
        ({"action": "batch", "ops": [_op("set_value")]}, "value"),
        ({"action": "batch", "ops": [_op("get_value", at=1.5)]}, "at"),
        ({"action": "batch", "ops": [_op("set_value", value=1, ttl=0)]}, "ttl"),
        ({"action": "set_value", "path": [], "value": 1, "prev_value": 1}, "prev_value"),
    ],
)
def test_field_that_cannot_be_meant_is_refused_and_named(fields: Map, field: str) -> None:
    error = _refusal(**fields)
    assert error.code == "bad_request"
    assert f"'{field}'" in str(error)


@pytest.mark.parametrize("action", ["get_tree", "list", "delete_tree"])
@pytest.mark.parametrize("path", [None, "a", [[]], ["a"] * 65, ["a" * 5000]])
def test_path_that_is_none_is_a_bad_path(action: str, path: object) -> None:
    assert isinstance(_refusal(action=action, path=path), BadPathError)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (_op("set_value", value=1, nchain=-1), RequestError),
        ({"action": "get_value", "path": "a"}, BadPathError),
        ({"action": "?", "path": []}, RequestError),
        ([], RequestError),
    ],
)
def test_refused_operation_is_named_by_its_number(bad: object, error: type[RequestError]) -> None:
    refused = _refusal(action="batch", ops=[_op("get_value"), bad, _op("get_value")])
    assert (type(refused), refused.op) == (error, 1)
    assert str(refused).startswith("op 1: ")


def test_operation_with_a_field_twice_is_refused() -> None:
    op = b"\x84\xa6action\xa9set_value\xa4path\x91\xa1a\xa5value\x01\xa5value\x02"
    bad = decode_request(packing.pack_map({"seq": 7, "action": "batch"}, {"ops": b"\x91" + op}))
    assert isinstance(bad, BadRequest)
    assert (bad.error.op, str(bad.error)) == (0, "op 0: the request has a field twice")


def test_value_of_an_operation_that_python_would_change_is_a_bad_value() -> None:
    op = packing.pack_map({"action": "set_value", "path": ["a"]}, {"value": b"\x82\x01\x01\xc3\x02"})
    bad = decode_request(packing.pack_map({"seq": 7, "action": "batch"}, {"ops": b"\x91" + op}))
    assert isinstance(bad, BadRequest)
    assert isinstance(bad.error, BadValueError)


def test_value_of_an_operation_is_stored_in_canonical_form() -> None:
    op = packing.pack_map({"action": "set_value", "path": ["a"]}, {"value": b"\xdc\0\x01\xcd\0\x05"})
    batch = decode_request(packing.pack_map({"seq": 7, "action": "batch"}, {"ops": b"\x91" + op}))
    assert batch == Batch(7, (SetValue(0, A, b"\x91\x05"),))


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (GetTree(1, A), {"seq", "action", "path"}),
        (Batch(1, (GetValue(0, A),)), {"seq", "action", "ops"}),
        (SetValue(1, A, b"\x01"), {"seq", "action", "path", "value"}),
    ],
)
def test_default_options_are_not_sent(request_: Request, fields: set[str]) -> None:
    sent = packing.unpack(encode_request(request_))
    assert isinstance(sent, dict)
    assert set(sent) == fields


def test_number_of_the_refused_operation_travels_with_the_error() -> None:
    error = reply_error(decode_reply(encode_error(7, ExistsError("there").at_op(3))))
    assert isinstance(error, ExistsError)
    assert (error.op, str(error)) == (3, "op 3: there")


def test_error_outside_a_batch_has_no_number() -> None:
    fields = decode_reply(encode_error(7, ExistsError("there")))
    error = reply_error(fields)
    assert isinstance(error, ExistsError)
    assert (error.op, set(fields)) == (None, {"seq", "error", "code"})


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_results_of_any_number_are_one_list(count: int) -> None:
    assert packing.unpack(encode_results(7, [b"\x80"] * count)) == {"seq": 7, "results": [{}] * count}


def test_lasting_paths_share_the_names_above_their_last() -> None:
    one, two = (read_lasting_path(packing.unpack(packing.pack(["upper", "lower", "last"]))) for _ in range(2))
    assert one == two
    assert [a is b for a, b in zip(one.names, two.names, strict=True)] == [True, True, False]


@pytest.mark.parametrize("names", [[1, True, 1.0, "x"], ["a", 1], [], ["é" * 40, "x"], ["n" * 100, "x"], [b"", "x"]])
def test_lasting_path_is_the_same_path(names: list[Any]) -> None:
    assert read_lasting_path(list(names)) == Path(names)
