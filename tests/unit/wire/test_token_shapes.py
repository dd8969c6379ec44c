"""What other nodes say about tokens in another shape is refused by name, and what clients are answered has its fields.

Knows: the forms that peers, slots and clients see.  Does not know what becomes of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX, Fence
from distkv.model.path import Path
from distkv.wire import packing
from distkv.wire.asking import encode_request
from distkv.wire.calls import BODY_BYTES_MAX, CALLS, NUMBERS_MAX, CallAsked
from distkv.wire.declared import pack
from distkv.wire.frames import decode_request
from distkv.wire.held_tokens import HELD_MAX, TokenHolder
from distkv.wire.token_bodies import decode_body, decode_identity, encode_body
from distkv.wire.token_errors import HeldError, NotHeldError
from distkv.wire.token_fields import DATA_BYTES_MAX
from distkv.wire.token_messages import decode_answer, decode_question, encode_answer
from distkv.wire.token_replies import (
    ServersAgreed,
    SessionClosed,
    SessionKept,
    SessionOpened,
    TokenDone,
    TokenGranted,
    TokenItem,
    TokenReply,
    TokensChanged,
    TokenServersShown,
    TokensListed,
    reply_fields,
)
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenKeep, TokenOpen, TokenRequest
from distkv.wire.token_slots import decode_part, decode_token
from distkv.wire.value_requests import SetValue

LONG = "x" * 10_000


def packed(value: Any) -> bytes:
    return packing.pack(value)


def refused(read: Any, value: Any) -> str:
    with pytest.raises(DecodeError) as error:
        read(value)
    assert "\n" not in str(error.value)
    return error.value.reason


# -- calls and bodies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None, [], [1], [9, 1, 2], ["1", 1, 2, 3, b""], [1, 1, 2, 3, "text"], [1, -1, 2, 3, b""], [1, 1, 2, 3],
        [3, 1, [1] * (NUMBERS_MAX + 1)], [3, 1, ["x"]], [1, 1, 2, 3, bytes(BODY_BYTES_MAX + 1)], [4, 1, [1], None],
    ],
)  # fmt: skip
def test_call_of_another_shape_is_refused(value: Any) -> None:
    assert refused(CALLS.convert, value) == "bad_call"


def test_body_is_read_as_it_was_written() -> None:
    message = CallAsked(1, 2, 1, b"body")
    assert decode_body(encode_body(7, message)) == (7, message)


@pytest.mark.parametrize("value", [[], [1], [1, 2, 3], [-1, []], ["x", {}], [1, {}], [1, {"kind": "no"}], [1, [9]]])
def test_body_of_another_shape_is_refused(value: Any) -> None:
    assert refused(decode_body, packed(value)).startswith("bad_")


def test_identity_is_read_as_it_was_written() -> None:
    assert decode_identity(pack((3, 4))) == (3, 4)


@pytest.mark.parametrize("value", [[], [1], {"life": 1}, ["x", 1]])
def test_identity_of_another_shape_is_refused(value: Any) -> None:
    assert refused(decode_identity, packed(value)) == "bad_identity"


# -- questions and answers ----------------------------------------------------------------------------------------

CLAIM = {"ask": "claim", "session": "1-a", "version": 1, "held": [["t", 1, 1, False, None, 0, False]]}
LOSS = {"ask": "loss", "session": "1-a", "fence": [1, 1, "t"]}
TAKE = {"ask": "take", "boot": 1, "piece": 0, "records": [], "last": True, "whole": True}
KEEP = {"ask": "keep", "session": "1-a", "version": 1, "held": ["t"], "wait": 0}
LIST = {"ask": "list", "prefix": "", "limit": 1, "after": ""}
SERVERS = {"ask": "servers", "servers": ["a"], "wait": 0}
OPEN = {"ask": "open", "tag": "abc", "ttl": 1000}


@pytest.mark.parametrize("fields", [CLAIM, LOSS, TAKE, KEEP, LIST, SERVERS, OPEN], ids=lambda fields: fields["ask"])
def test_question_as_nodes_ask_it_is_read(fields: Any) -> None:
    assert decode_question(packed(fields)) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"ask": 1}, {"ask": "nothing"}, {"ask": "token_show"}, {"ask": "token_acquire", "token": "t", "known": 1},
        LIST | {"prefix": "a\n"}, LIST | {"after": "a" * 256}, LIST | {"limit": 0}, SERVERS | {"servers": ["a", "b"]},
        SERVERS | {"servers": ["a", "a", "b"]}, SERVERS | {"servers": [f"n{n}" for n in range(9)]},
        KEEP | {"held": ["t"] * (HELD_MAX + 1)}, KEEP | {"held": [""]}, KEEP | {"session": 1}, KEEP | {"version": -1},
        CLAIM | {"held": [["t", 1, 1, 0, None]]}, CLAIM | {"held": [["t", 1]]}, CLAIM | {"held": None},
        CLAIM | {"held": [["t", 1, 1, False, None]] * (HELD_MAX + 1)},
        CLAIM | {"held": [["t", 1, 1, False, bytes(DATA_BYTES_MAX + 1)]]}, CLAIM | {"held": [["t", 1, 1, False, 5]]},
        LOSS | {"fence": [1, 1]}, LOSS | {"fence": [1, FENCE_MAX + 1, "t"]}, LOSS | {"fence": [1, 1, ""]},
        TAKE | {"records": [[]]}, TAKE | {"records": None}, TAKE | {"last": 1},
        OPEN | {"tag": ""}, OPEN | {"tag": "a b"}, OPEN | {"tag": "x" * 41}, OPEN | {"tag": 5}, OPEN | {"tag": LONG},
    ],
)  # fmt: skip
def test_question_of_another_shape_is_refused(fields: Any) -> None:
    assert refused(decode_question, packed(fields)).startswith("bad_")


@pytest.mark.parametrize("result", [TokenDone(), NotHeldError("no"), HeldError("held").with_ticket("1.2")], ids=repr)
def test_answer_is_read_as_it_was_written(result: Any) -> None:
    found, changed = decode_answer(encode_answer(result, 5))
    assert (type(found), changed) == (type(result), 5)
    assert getattr(found, "ticket", None) == getattr(result, "ticket", None)


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"error": []}, {"error": [1, "text", None]}, {"error": ["held", 5, None]}, {"error": ["held", LONG, None]},
        {"error": ["held", "text", "no ticket"]}, {"elsewhere": None, "map": []},
        {"elsewhere": None, "map": [1, 1, 1, "a", {}, 0, 1]},
        {"elsewhere": None, "map": [1, 1, 1, "a", {"a": ["ready", 1]}, 0, True]},
        {"elsewhere": None, "map": [1, 1, 1, "a", {"a": ["asleep", 1, 1]}, 0, True]},
        {"elsewhere": None, "map": [1, 1, 1, "a", {f"n{n}": ["ready", 1, 1] for n in range(100)}, 0, True]},
    ],
)  # fmt: skip
def test_answer_of_another_shape_is_refused(fields: Any) -> None:
    assert refused(decode_answer, packed(fields | {"known": 1})).startswith("bad_")


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"kept": [1]}, {"granted": ["t", 1, 1, 1, 0, None]}, {"item": ["t", "a", [["1-a", 0, 1, 1, 1.0]], 0, None]},
        {"item": ["t", "a", None, 0, None]}, {"listed": [[]]}, {"listed": [[]] * 10_001}, {"changed": [[]]},
        {"servers": {"a": ["x" * 20, 1]}, "rest": ["a", 1, 1, 1]}, {"servers": {"a": ["ready", 1]}, "rest": []},
        {"opened": ["1-a", -1, 1]}, {"closed": 5}, {"kept": [1, 1, ["t", "ü\n"]]}, {"kept": [1, 1, [5]]},
        {"servers": {}, "rest": ["a", 1, 1, 1, ["a", "a"], []]},
        {"elsewhere": "1.x", "map": [1, 1, 1, "a", {}, 0, True]},
    ],
)  # fmt: skip
def test_reply_of_another_shape_is_refused(fields: Any) -> None:
    assert refused(decode_answer, packed(fields | {"known": 1})).startswith("bad_")


# -- slots --------------------------------------------------------------------------------------------------------

PART = {
    "version": 1, "up": {"a": 1}, "epoch": 1, "ceiling": 1, "gains": [[1, ["a"], ["b"], None]], "boot": 0, "handed": [],
    "whole": True, "giving": {"b": [1, True, False]},
}  # fmt: skip
TOKEN = ["t", [["1-a", False, 1, 1, 1.0, 0]], None, [["1-a", 1, 1, False]], 0, [], False]


def test_slots_are_read() -> None:
    assert decode_part(packed(PART)).giving == {"b": (1, True, False)}
    assert decode_token(packed(TOKEN)).token == "t"


@pytest.mark.parametrize(
    "value",
    [
        [], TOKEN[:2], ["", *TOKEN[1:]], ["t", [["1-a", 0, 1, 1, 1.0, 0]], *TOKEN[2:]], ["t", [["1-a"]], *TOKEN[2:]],
        [*TOKEN[:3], [["1-a", 1, 1, 0]], *TOKEN[4:]], [*TOKEN[:3], [["1-a"]], *TOKEN[4:]], [*TOKEN[:2], 5, *TOKEN[3:]],
        [*TOKEN[:6], 0],
    ],
)  # fmt: skip
def test_token_of_another_shape_is_refused(value: Any) -> None:
    assert refused(decode_token, packed(value)).startswith("bad_")


@pytest.mark.parametrize(
    "change",
    [
        {"version": -1}, {"up": []}, {"up": {"a": -1}}, {"gains": [[1]]}, {"gains": [[1, ["a"], [5], None]]},
        {"handed": [5]}, {"whole": 1}, {"giving": {"b": [1, True]}}, {"giving": {"b": [1, 1, True]}},
    ],
)  # fmt: skip
def test_part_of_another_shape_is_refused(change: Any) -> None:
    assert refused(decode_part, packed(PART | change)).startswith("bad_")


# -- what clients ask and see -------------------------------------------------------------------------------------

HOLDER = TokenHolder("1-a", False, 2, 3, 1.5)
ITEM = TokenItem("t", NodeName("a"), (HOLDER.shown,), 1, b"\x05")
SHOWN_HOLDER = {"session": "1-a", "shared": False, "epoch": 2, "counter": 3, "since": 1.5}
SHOWN = {"token": "t", "server": "a", "holders": [SHOWN_HOLDER], "waiting": 1, "data": 5}


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (SessionOpened("1-a", 1500, 3), {"session": "1-a", "ttl": 1.5, "version": 3}),
        (SessionClosed("1-a"), {"session": "1-a"}),
        (SessionKept(3, 1500, ("t",)), {"version": 3, "ttl": 1.5, "lost": ["t"]}),
        (
            TokenGranted("t", 2, 3, 4, True, b"\x05"),
            {"token": "t", "epoch": 2, "counter": 3, "shared": True, "version": 4, "data": 5},
        ),
        (TokenDone(), {}),
        (ITEM, SHOWN),
        (TokensListed((ITEM,), True), {"items": [SHOWN], "more": True}),
        (TokensListed((), partial=True), {"items": [], "partial": True}),
        (TokensListed(()), {"items": []}),
        (TokensChanged((ITEM,)), {"items": [SHOWN]}),
        (
            TokenServersShown({NodeName("a"): ("ready", 7)}, ServersAgreed(NodeName("a"), 1, 2, 3, (NodeName("a"),))),
            {
                "servers": [{"node": "a", "state": "ready", "life": 7}], "leader": "a", "term": 1, "version": 2,
                "sessions": 3, "list": ["a"],
            },
        ),
    ],
    ids=[
        "opened", "closed", "kept", "granted", "done", "item", "listed", "listed in part", "listed none", "changed",
        "servers",
    ],
)  # fmt: skip
def test_client_is_answered_in_the_fields_of_the_page(reply: TokenReply, shown: dict[str, Any]) -> None:
    fields, raw = reply_fields(reply)
    assert packing.unpack(packing.pack_map(fields, raw)) == shown


@pytest.mark.parametrize(
    "request_",
    [
        TokenOpen(1), TokenOpen(1, 20.0), TokenClose(1, "1-a"), TokenKeep(1, "1-a", 3, (), 2.0),
        TokenAcquire(1, "1-a", "t"), TokenAcquire(1, "1-a", "t", True, 5.0, b"\x05", (1, 2)),
        TokenAcquire(1, "1-a", "t", before=(3, 4)),
        SetValue(1, Path(["x"]), b"\x05", fence=Fence(0, 7, 2, "t")), SetValue(1, Path(["x"]), b"\x05", refence=True),
    ],
    ids=repr,
)  # fmt: skip
def test_request_comes_as_it_was_sent(request_: TokenRequest | SetValue) -> None:
    assert decode_request(encode_request(request_)) == request_
