"""What is said about topics in another shape is refused by name, and what clients are answered has its fields.

Knows: the forms that clients and other nodes see.  Does not know what becomes of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.errors import DecodeError, RequestError, TooLargeError
from distkv.model.ranges import Ranges
from distkv.wire import packing
from distkv.wire.declared import pack
from distkv.wire.replies import encode_error, reply_error
from distkv.wire.topic_bodies import check_names, counters_of, flat_map, ranges_of
from distkv.wire.topic_errors import ERRORS, StaleOpError, stale_op
from distkv.wire.topic_fields import COUNTER_MAX, OP_MAX, PRODUCERS_MAX, RANGES_MAX
from distkv.wire.topic_replies import (
    TOPIC_REPLIES,
    ShownSubscriber,
    TopicDone,
    TopicItem,
    TopicMessage,
    TopicMessages,
    TopicPutDone,
    TopicReply,
    TopicShown,
    TopicsListed,
    TopicSubscribed,
    reply_fields,
)
from distkv.wire.topic_requests import (
    DONE_MAX,
    REQUESTS,
    TOPIC_ROWS,
    TopicDrop,
    TopicPut,
    TopicSet,
    pack_request,
)
from distkv.wire.topics import FORM
from distkv.wire.values import VALUE_BYTES_MAX, pack_value

PUT = {"topic": "log", "value": 1}
WHOLE = {**PUT, "producer": "p", "counter": 3, "floor": 2, "tag": bytes(8)}
GET = {"topic": "log", "subscriber": "s"}
SUBSCRIBE = {"topic": "log", "subscriber": "s", "op": 5, "had": {"p": [1, [3, 9]]}}


def asked(action: str, fields: dict[str, Any]) -> Any:
    """What a client asks that sends these fields."""
    frame = packing.pack({"seq": 1, "action": action, **fields})
    row = next(row for row in TOPIC_ROWS if row.action == action)
    found = packing.unpack(frame)
    assert isinstance(found, dict)
    return row.read(1, found, frame)


def refused(action: str, fields: dict[str, Any]) -> str:
    with pytest.raises((DecodeError, RequestError)) as error:
        asked(action, fields)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- what clients ask ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "fields", "named"),
    [
        ("topic_put", PUT | {"topic": ""}, "topic"),
        ("topic_put", PUT | {"topic": "a\n"}, "topic"),
        ("topic_put", PUT | {"topic": "a\x1fb"}, "topic"),
        ("topic_put", PUT | {"topic": "ü" * 128}, "topic"),
        ("topic_put", {"topic": "log"}, "value"),
        ("topic_put", WHOLE | {"producer": "~n0.1"}, "producer"),
        ("topic_put", WHOLE | {"counter": 0}, "counter"),
        ("topic_put", WHOLE | {"counter": COUNTER_MAX + 1}, "counter"),
        ("topic_put", WHOLE | {"counter": True}, "counter"),
        ("topic_put", WHOLE | {"floor": 4}, "floor"),
        ("topic_put", WHOLE | {"tag": bytes(7)}, "tag"),
        ("topic_put", WHOLE | {"tag": "12345678"}, "tag"),
        ("topic_put", PUT | {"producer": "p"}, "counter"),
        ("topic_put", PUT | {"counter": 1}, "producer"),
        ("topic_put", PUT | {"floor": 1}, "counter"),
        ("topic_put", PUT | {"tag": bytes(8)}, "counter"),
        ("topic_get", {"topic": "log"}, "subscriber"),
        ("topic_get", GET | {"limit": 0}, "limit"),
        ("topic_get", GET | {"limit": 1001}, "limit"),
        ("topic_get", GET | {"wait": -1}, "wait"),
        ("topic_get", GET | {"wait": 3601}, "wait"),
        ("topic_get", GET | {"done": {"p": [1]}}, "done"),
        ("topic_get", GET | {"done": [["p"]]}, "done"),
        ("topic_get", GET | {"done": [["p", 0]]}, "done"),
        ("topic_get", GET | {"done": [["", 1]]}, "done"),
        ("topic_get", GET | {"done": [["p", 1]] * (DONE_MAX + 1)}, "done"),
        ("topic_subscribe", SUBSCRIBE | {"op": 0}, "op"),
        ("topic_subscribe", SUBSCRIBE | {"had": []}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": 1}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [2, 1]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [[1, 4], 3]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [[4, 4]]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [[1, 2, 3]]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [[1, 2**64 - 1]]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [["1", "2"]]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"\n": [1]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {"p": [*range(1, 2 * RANGES_MAX + 3, 2)]}}, "had"),
        ("topic_subscribe", SUBSCRIBE | {"had": {str(n): [1] for n in range(PRODUCERS_MAX + 1)}}, "had"),
        ("topic_list", {"limit": 1001}, "limit"),
        ("topic_list", {"after": "a\n"}, "after"),
        ("topic_list", {"prefix": 1}, "prefix"),
        ("topic_set", {"topic": "log"}, "min_replicas"),
        ("topic_set", {"topic": "log", "min_replicas": 0}, "min_replicas"),
        ("topic_set", {"topic": "log", "min_replicas": 8}, "min_replicas"),
        ("topic_set", {"topic": "log", "keep_s": -1.0}, "keep_s"),
        ("topic_set", {"topic": "log", "keep_bytes": 2**62 + 1}, "keep_bytes"),
        ("topic_drop", {"topic": "log", "subscriber": "s", "producer": "p"}, "subscriber"),
        ("topic_drop", {"topic": "log", "force": 1}, "force"),
    ],
)
def test_request_that_cannot_be_meant_is_refused_by_the_field(action: str, fields: dict[str, Any], named: str) -> None:
    assert f"'{named}'" in refused(action, fields)


def test_message_with_the_same_key_twice_is_refused() -> None:
    raw = packing.pack_map({"seq": 1, "action": "topic_put", "topic": "log"}, {"value": b"\x82\x01\x01\x01\x02"})
    row = next(row for row in TOPIC_ROWS if row.action == "topic_put")
    with pytest.raises(RequestError, match="equal"):
        row.read(1, {"topic": "log", "value": {1: 2}}, raw)


def test_message_that_is_too_large_for_any_node_is_refused() -> None:
    with pytest.raises(TooLargeError):
        asked("topic_put", PUT | {"value": bytes(VALUE_BYTES_MAX + 1)})


def test_message_may_be_null() -> None:
    assert asked("topic_put", {"topic": "log", "value": None}).value == pack_value(None)


def test_counters_that_touch_become_one_range() -> None:
    assert asked("topic_subscribe", SUBSCRIBE | {"had": {"p": [1, 2, [3, 5]]}}).had == {"p": Ranges([(1, 5)])}


def test_highest_counter_can_be_said() -> None:
    had = asked("topic_subscribe", SUBSCRIBE | {"had": {"p": [[1, COUNTER_MAX + 1]]}}).had
    assert had["p"].last() == COUNTER_MAX


# -- what nodes ask each other ------------------------------------------------------------------------------------


def test_put_of_a_node_has_its_own_producer() -> None:
    put = TopicPut(0, "log", pack_value(1), "~n0.1", 3)
    assert REQUESTS.read(pack_request(put)) == put


@pytest.mark.parametrize(
    "fields",
    [
        [], 1, None, {}, {"action": 1}, {"action": "get_value", "path": []}, {"action": "topic_show"},
        {"action": "topic_put", **PUT, "floor": 1}, {"action": "topic_put", **PUT},
        {"action": "topic_put", "topic": "log"},
        {"action": "topic_put", **WHOLE, "producer": "a\n"}, {"action": "topic_set", "topic": "log"},
    ],
)  # fmt: skip
def test_question_of_a_node_in_another_shape_is_refused(fields: Any) -> None:
    with pytest.raises(DecodeError):
        REQUESTS.read(packing.pack(fields))


def test_question_of_a_node_with_a_field_twice_is_refused() -> None:
    pairs = (("action", "topic_show"), ("topic", "a"), ("topic", "b"))
    data = b"\x83" + b"".join(packing.pack(part) for pair in pairs for part in pair)
    with pytest.raises(DecodeError, match="twice"):
        REQUESTS.read(data)


@pytest.mark.parametrize(
    "value",
    [
        [], [0], [9], [1, 1, 1, 1], [1, -1, True, 1], [1, 1, True, 8], [2, "p", 0, False, 1], [2, "", 1, False, 1],
        [2, "a\n", 1, False, 1], [3, [["p", 1, b"", 1.0]]], [3, [["p", 1, b"\x01", float("inf")]]],
        [3, [["p", 1, "x", 1.0]]], [3, [], -1], [3, [], 0, {"p": [1]}], [3, [], 0, {"p": [0, 1]}],
        [3, [], 0, {"p": [1, 0]}], [3, [], 0, {"p": [1, 1, 2, 1]}], [3, [], 0, {"p": [2**63 - 1, 2]}],
        [3, [], 0, {"a\n": [1, 1]}], [3, [["p", 1, b"\x01", 1.0]] * 1001], [5, [["log", "no node", 1, 1, 1]]],
        {"op": 1}, None, "text",
    ],
)  # fmt: skip
def test_answer_of_a_node_in_another_shape_is_refused(value: Any) -> None:
    with pytest.raises(DecodeError) as error:
        TOPIC_REPLIES.read(pack(value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("numbers", [(1,), (0, 1), (5, 1, 1, 1), (1, 2, 3, 1), (1, 2, 2, 1), (1, 0), (2**63 - 1, 2)])
def test_ranges_that_are_none_are_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"(range|counter)s? "):
        ranges_of(numbers)


def test_counters_are_read_as_they_were_written() -> None:
    counters = {"p": Ranges([(1, 4), (9, 2**63)]), "q": Ranges()}
    assert counters_of(flat_map(counters)) == counters


@pytest.mark.parametrize("name", ["a\x1fb", "a\n", "ü" * 128])
def test_name_with_control_characters_or_too_many_bytes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        check_names("good", name)


# -- what clients are answered ------------------------------------------------------------------------------------

MESSAGE = TopicMessage("p", 3, pack_value("hello"), 1.5)
SHOWN = TopicShown(
    "log", "a", ("b",), 2, 7, 4000, 500, b"\x01\xff", 1, 0.0, 0,
    (ShownSubscriber("s", 2, 1.5), ShownSubscriber("u", 0)), 4, ("c",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        (TopicSubscribed(5, True, 2), {"op": 5, "changed": True, "copies": 2}),
        (
            TopicSubscribed(5, False, 2, {"p": (1, 1, 4, 2)}),
            {"op": 5, "changed": False, "copies": 2, "unknown": {"p": [1, [4, 6]]}},
        ),
        (TopicPutDone("p", 3, True, 2), {"producer": "p", "counter": 3, "duplicate": True, "copies": 2}),
        (
            TopicMessages((MESSAGE,), 4, {"p": (1, 2)}),
            {
                "left": 4,
                "gone": {"p": [[1, 3]]},
                "messages": [{"producer": "p", "counter": 3, "time": 1.5, "value": "hello"}],
            },
        ),
        (TopicMessages(()), {"left": 0, "messages": []}),
        (
            TopicsListed((TopicItem("log", "a", 2, 7, 4000),), True, ("c",)),
            {
                "items": [{"topic": "log", "owner": "a", "copies": 2, "messages": 7, "bytes": 4000}],
                "more": True,
                "away": ["c"],
            },
        ),
        (TopicsListed(()), {"items": []}),
        (TopicDone(), {}),
    ],
)
def test_client_is_answered_with_these_fields(reply: TopicReply, fields: dict[str, object]) -> None:
    assert packing.unpack(packing.pack_map(*reply_fields(reply))) == fields


def test_producers_are_named_where_they_were_asked_for() -> None:
    fields, _ = reply_fields(TopicShown("log", "a", (), 1, 0, 0, 0, b"", 1, 0.0, 0, (), 2, (), ("p", "q")))
    assert fields["producer_names"] == ["p", "q"]
    assert "producer_names" not in reply_fields(SHOWN)[0]


def test_what_is_shown_of_a_topic_has_its_subscribers_and_its_digest_as_text() -> None:
    fields, _ = reply_fields(SHOWN)
    assert fields["digest"] == "01ff"
    assert fields["subscribers"] == [{"subscriber": "s", "left": 2, "oldest": 1.5}, {"subscriber": "u", "left": 0}]


@pytest.mark.parametrize("kind", ERRORS)
def test_error_has_a_code_that_no_other_error_has(kind: type[RequestError]) -> None:
    codes = {error.code for error in ERRORS} | {"bad_request"}
    assert len(codes) == len(ERRORS) + 1
    assert kind.code != "bad_request"


def test_stale_operation_is_told_with_the_known_one() -> None:
    frame = packing.unpack(encode_error(1, stale_op(7)))
    assert isinstance(frame, dict)
    assert (frame["code"], frame["known_op"]) == ("stale_op", 7)


def test_stale_operation_says_to_give_a_higher_one_where_there_is_one() -> None:
    assert "give a higher op" in str(stale_op(OP_MAX - 1))
    assert "leave op out, or drop the subscriber" in str(stale_op(OP_MAX))


def test_stale_operation_without_a_known_one_is_told_without() -> None:
    frame = packing.unpack(encode_error(1, StaleOpError("it is stale")))
    assert isinstance(frame, dict)
    assert "known_op" not in frame
    assert str(reply_error(frame)).startswith("it is stale")


# -- what is logged -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (TopicDrop(1, "log", force=True), "topic_drop topic='log' force"),
        (TopicDrop(1, "log", subscriber="s"), "topic_drop topic='log' subscriber='s'"),
        (TopicSet(1, "log", 2), "topic_set topic='log'"),
        (TopicPut(1, "log", b"\x01"), ""),
    ],
    ids=str,
)
def test_what_others_feel_is_logged(request_: Any, line: str) -> None:
    assert FORM.logged(request_) == line
