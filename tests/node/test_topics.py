"""Requests about topics on the connections of one node: what is stored, given, and refused.

Knows: a node that keeps topics alone, in memory, and frames.  Does not know how topics are kept.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from tests.node.nodes import Client, Node, solo_node

pytestmark = pytest.mark.trio

LOG = {"topic": "log"}
READER = {**LOG, "subscriber": "reader"}


@asynccontextmanager
async def topic_node(settings: TopicSettings | None = None) -> AsyncIterator[Node]:
    """A node that keeps topics."""
    machine = TopicMachine(settings or TopicSettings(), random.Random(1))
    async with solo_node(services={TOPICS: machine}) as node:
        yield node


async def put(client: Client, *counters: int, **fields: object) -> list[dict[str, Any]]:
    """Messages of one producer, each with its number as its value."""
    wishes = {**LOG, "producer": "p", **fields}
    return [await client.ask("topic_put", value=counter, counter=counter, **wishes) for counter in counters]


async def values(client: Client, **fields: object) -> list[object]:
    """What comes next."""
    reply = await client.ask("topic_get", limit=100, **READER, **fields)
    return [message["value"] for message in reply["messages"]]


async def test_message_is_given_until_it_is_done_and_then_no_more(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        assert (await client.ask("topic_subscribe", **READER))["changed"]
        await put(client, 1, 2)
        assert [await values(client), await values(client)] == [[1, 2], [1, 2]]
        assert await values(client, done=[["p", 1]]) == [2]
        assert await values(client, done=[["p", 2]]) == []


async def test_put_that_is_repeated_is_stored_once(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client, node.client() as other:
        await client.ask("topic_subscribe", **READER)
        (first,), (second,) = await put(client, 1), await put(other, 1)
        assert (first["duplicate"], second["duplicate"]) == (False, True)
        assert await values(client) == [1]


async def test_message_of_before_the_subscription_is_not_owed(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await put(client, 1)
        await client.ask("topic_subscribe", **READER)
        await put(client, 2)
        assert await values(client) == [2]


async def test_get_that_waits_is_answered_by_a_put_of_another_client(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client, node.client() as other:
        await client.ask("topic_subscribe", **READER)
        await client.stream.send_all(client.frame("topic_get", wait=1000.0, **READER))
        seq = client.seq
        await client.ask("ping")
        await put(other, 1)
        reply = await client.receive()
        assert reply is not None
        assert (reply["seq"], [message["value"] for message in reply["messages"]]) == (seq, [1])


async def test_get_that_waits_in_vain_is_answered_with_nothing(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        begin = trio.current_time()
        assert await values(client, wait=20.0) == []
        assert trio.current_time() - begin >= 20


async def test_messages_of_a_producer_come_in_its_order(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 2, floor=1)
        assert await values(client) == []
        await put(client, 1, floor=1)
        assert await values(client) == [1, 2]


async def test_put_without_a_producer_gets_a_name_and_numbers_of_the_node(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        puts = [await client.ask("topic_put", value=n, **LOG) for n in range(2)]
        assert [one["counter"] for one in puts] == [1, 2]
        assert all(one["producer"].startswith("~a.") for one in puts)


async def test_message_with_another_tag_is_refused_as_taken(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await put(client, 1, tag=b"12345678")
        ((again,), (other,)) = await put(client, 1, tag=b"12345678"), await put(client, 1, tag=b"87654321")
        assert again["duplicate"]
        assert other["code"] == "taken"


async def test_tag_of_a_counter_that_is_too_old_is_refused_as_taken(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await put(client, *range(1, 66), tag=b"12345678")
        ((old,), (last,)) = await put(client, 1, tag=b"12345678"), await put(client, 65, tag=b"12345678")
        assert (old["code"], last["duplicate"]) == ("taken", True)


async def test_older_operation_is_refused_with_the_known_one(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", op=7, **READER)
        reply = await client.ask("topic_unsubscribe", op=6, **READER)
        assert (reply["code"], reply["known_op"]) == ("stale_op", 7)


async def test_same_operation_again_changes_nothing(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        first, second = [await client.ask("topic_subscribe", op=7, **READER) for _ in range(2)]
        assert (first["changed"], second["changed"], second["op"]) == (True, False, 7)


async def test_who_is_not_subscribed_is_refused(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await put(client, 1)
        assert (await client.ask("topic_get", **READER))["code"] == "not_found"


async def test_backlog_names_the_subscriber(autojump_clock: MockClock) -> None:
    async with topic_node(TopicSettings(backlog_bytes=2048)) as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        replies = await put(client, *range(1, 8))
        assert replies[-1]["code"] == "backlog"
        assert "reader" in replies[-1]["error"]
        done = [["p", reply["counter"]] for reply in replies if "counter" in reply]
        assert await values(client, done=done) == []
        assert not (await put(client, 20))[0].get("code")


BAD: list[tuple[str, dict[str, object]]] = [
    ("topic_put", {**LOG, "value": 1, "producer": "p", "counter": 0}),
    ("topic_put", {**LOG, "value": 1, "producer": "p", "counter": -1}),
    ("topic_put", {**LOG, "value": 1, "producer": "p", "counter": 2**63}),
    ("topic_put", {**LOG, "value": 1, "producer": "p", "counter": 3, "floor": 4}),
    ("topic_put", {**LOG, "value": 1, "producer": "~a.x", "counter": 1}),
    ("topic_put", {**LOG, "value": 1, "producer": "a\n", "counter": 1}),
    ("topic_put", {**LOG, "value": bytes(300_000), "producer": "p", "counter": 5}),
    ("topic_put", {"topic": "a\x1fb", "value": 1}),
    ("topic_put", {**LOG}),
    ("topic_get", {**READER, "done": [["p", 0]]}),
    ("topic_subscribe", {**READER, "had": {"p": [[3, 3]]}}),
    ("topic_subscribe", {**READER, "op": 2**62 + 1}),
    ("topic_set", {**LOG, "min_replicas": 0}),
    ("topic_drop", {**LOG, "subscriber": "reader", "producer": "p"}),
]


@pytest.mark.parametrize(("action", "fields"), BAD, ids=str)
async def test_request_that_cannot_be_meant_is_one_line_and_changes_nothing(
    autojump_clock: MockClock, action: str, fields: dict[str, object]
) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        before = await client.ask("topic_show", **LOG)
        refused = await client.ask(action, **fields)
        assert refused["code"] in {"bad_request", "bad_value", "too_large"}
        assert "\n" not in refused["error"]
        after = await client.ask("topic_show", **LOG)
        assert {**after, "seq": 0} == {**before, "seq": 0}


async def test_done_of_what_was_never_put_changes_nothing(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        assert await values(client, done=[["p", 9], ["nobody", 1]]) == [1]
        await put(client, 9)
        assert await values(client, done=[["p", 1]]) == [9]


async def test_gap_of_a_million_is_one_gap(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        first, second = await put(client, 1, 1_000_001)
        assert [first["duplicate"], second["duplicate"]] == [False, False]
        assert await values(client) == [1, 1_000_001]


async def test_counter_in_a_gap_that_was_closed_is_refused(autojump_clock: MockClock) -> None:
    async with topic_node(TopicSettings(gaps_max=3)) as node, node.client() as client:
        replies = await put(client, 3, 5, 7, 9, 11, 4)
        assert [reply.get("code") for reply in replies] == [None] * 5 + ["taken"]
        assert "\n" not in replies[-1]["error"]


async def test_subscriber_that_is_dropped_is_known_no_more(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        await client.ask("topic_drop", **READER)
        assert (await client.ask("topic_show", **LOG))["subscribers"] == []
        assert (await client.ask("topic_get", **READER))["code"] == "not_found"


async def test_producer_that_is_dropped_may_begin_anew(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        await client.ask("topic_drop", **LOG, producer="p")
        assert (await client.ask("topic_show", **LOG))["producers"] == 0
        (again,) = await put(client, 1)
        assert not again["duplicate"]


async def test_topic_that_is_dropped_is_gone_and_begins_empty(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        await client.ask("topic_drop", **LOG)
        assert (await client.ask("topic_show", **LOG))["code"] == "not_found"
        assert (await client.ask("topic_list"))["items"] == []
        await put(client, 1)
        assert (await client.ask("topic_show", **LOG))["subscribers"] == []


async def test_what_nobody_has_is_not_dropped(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        assert (await client.ask("topic_drop", topic="nothing"))["code"] == "not_found"
        assert (await client.ask("topic_set", topic="nothing", keep_s=1.0))["code"] == "not_found"


async def test_oldest_messages_go_when_the_topic_has_more_than_it_keeps(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await client.ask("topic_set", **LOG, keep_bytes=2000, min_replicas=1)
        await put(client, *range(1, 11))
        await trio.sleep(30)
        reply = await client.ask("topic_get", limit=100, **READER)
        assert [message["value"] for message in reply["messages"]][-1] == 10
        assert len(reply["messages"]) < 10
        assert reply["gone"]


async def test_state_shows_how_much_there_is(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1, 2)
        shown = (await client.ask("get_state"))["topics"]
        assert (shown["topics"], shown["owned"], shown["messages"], shown["few_copies"]) == (1, 1, 2, [])


async def test_state_names_topics_whose_subscribers_left_too_much_waiting(autojump_clock: MockClock) -> None:
    async with topic_node(TopicSettings(backlog_bytes=2048)) as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await put(client, 1)
        assert (await client.ask("get_state"))["topics"]["backlogged"] == []
        assert (await put(client, *range(2, 8)))[-1]["code"] == "backlog"
        assert (await client.ask("get_state"))["topics"]["backlogged"] == ["log"]


async def test_state_names_topics_with_as_many_producers_as_they_may_have(autojump_clock: MockClock) -> None:
    async with topic_node(TopicSettings(producers_max=2)) as node, node.client() as client:
        await put(client, 1)
        assert (await client.ask("get_state"))["topics"]["crowded"] == []
        await put(client, 1, producer="q")
        assert (await client.ask("get_state"))["topics"]["crowded"] == ["log"]
        assert (await put(client, 1, producer="r"))[0]["code"] == "too_large"


async def test_producers_are_named_by_name_behind_one(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        for name in ("q", "p", "r"):
            await put(client, 1, producer=name)
        shown = await client.ask("topic_show", **LOG, producers=True, after="p")
        assert (shown["producers"], shown["producer_names"]) == (3, ["q", "r"])


async def test_put_is_refused_while_fewer_nodes_are_there_than_the_topic_wants(autojump_clock: MockClock) -> None:
    async with topic_node() as node, node.client() as client:
        await client.ask("topic_subscribe", **READER)
        await client.ask("topic_set", **LOG, min_replicas=2)
        (refused,) = await put(client, 1)
        assert refused["code"] == "no_replicas"
        assert (await client.ask("topic_show", **LOG))["messages"] == 0
        await client.ask("topic_set", **LOG, min_replicas=1)
        assert "code" not in (await put(client, 1))[0]
