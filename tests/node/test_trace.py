"""`trace` over a real session: what one who listens to a node is told, and what it costs the node.

Knows: whole nodes as `nodes` builds them, and frames.  What a moment shows is in tests/unit/graph.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.config import Limits
from distkv.engine.trace import Listener
from distkv.graph.arrows import arrows
from distkv.graph.trace import Moment
from tests.node.nodes import Client, Node, Reply, new_world, solo_node


@asynccontextmanager
async def listening(node: Node, *, lockstep: bool = False) -> AsyncIterator[Client]:
    """A client that has heard how the node is, and listens."""
    async with node.client(lockstep=lockstep) as client:
        await client.receive()  # the greeting
        await client.stream.send_all(client.frame("trace"))
        start, seen = await told(client, 2)
        assert (start["state"], seen["moment"]["kind"]) == ("start", "seen")
        yield client


async def told(client: Client, count: int) -> list[Reply]:
    """The next frames."""
    found = await client.replies(count)
    assert all(reply is not None for reply in found)
    return [reply for reply in found if reply is not None]


async def kinds(client: Client, count: int) -> list[str]:
    return [reply["moment"]["kind"] for reply in await told(client, count)]


def listeners(node: Node) -> int:
    return len(node.driver.tracing.listeners)


@pytest.mark.trio
async def test_trace_begins_with_the_node_as_it_is(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("k", 1)
        await client.stream.send_all(client.frame("trace"))
        start, seen = await told(client, 2)
        assert {name: start[name] for name in ("seq", "state", "node")} == {"seq": 2, "state": "start", "node": "a"}
        moment = Moment.from_dict(seen["moment"])
        assert (moment.node, moment.state) == ("a", "ready")
        assert moment.digest == f"{node.replica.tree.digest:016x}"
        assert abs(moment.at_ms / 1000 - start["time"]) < 60


@pytest.mark.trio
async def test_each_step_is_told(autojump_clock: MockClock) -> None:
    async with solo_node() as node, listening(node) as client, node.client() as writer:
        await writer.set("k", 1)
        await writer.ask("delete_value", path=["k"])
        found = await told(client, 2)
        assert [reply["moment"]["kind"] for reply in found] == ["set", "delete"]
        assert found[0]["moment"]["events"][0] | {"tick": ""} == {"tick": "", "path": "k", "value": "1", "fate": "made"}


@pytest.mark.trio
async def test_what_happened_before_a_stop_is_told_before_the_end(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, listening(node) as client, node.client() as writer:
        await writer.stream.send_all(writer.frame("set_value", path=["k"], value=1))
        await trio.sleep(0.1)
        await client.stream.send_all(client.frame("stop", task=1))
        found = await told(client, 3)
        assert [reply.get("stopped") for reply in found] == [True, None, None]
        assert [reply.get("moment", {}).get("kind") for reply in found] == [None, "set", None]
        assert found[2]["state"] == "end"


@pytest.mark.trio
async def test_own_event_is_told_when_it_is_durable(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, listening(node) as client, node.client() as writer:
        began = trio.current_time()
        await writer.stream.send_all(writer.frame("set_value", path=["k"], value=1))
        assert await kinds(client, 1) == ["set"]
        assert trio.current_time() - began >= 1.0


@pytest.mark.trio
async def test_node_that_serves_no_clients_is_traced_too(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a")
        async with listening(node) as client:
            assert node.replica.state == "passive"
            found = await told(client, 1)
            assert found[0]["moment"]["sent"][0]["kind"] == "ping"
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_traces_of_two_nodes_make_arrows_between_them(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        one = await world.start("a", init=1)
        await world.ready("a")
        two = await world.start("b")
        await world.ready("b")
        async with listening(one) as at_one, listening(two) as at_two, one.client() as writer:
            await writer.set("k", 1)
            moments = [await _set(at_one), await _set(at_two)]
        (arrow,) = [found for found in arrows(moments) if found.end is not None]
        assert (arrow.source, arrow.target, arrow.start, arrow.end) == ("a", "b", 0, 1)
        nursery.cancel_scope.cancel()


async def _set(client: Client) -> Moment:
    """The moment that shows the event of the path k."""
    while True:
        (reply,) = await told(client, 1)
        moment = Moment.from_dict(reply["moment"])
        if any(event.path == "k" for event in moment.events):
            return moment


# -- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_listener_that_does_not_read_is_told_how_much_it_missed(autojump_clock: MockClock) -> None:
    limits = Limits(trace_moments=3)
    async with solo_node(limits=limits) as node, listening(node, lockstep=True) as client, node.client() as writer:
        for number in range(10):
            await writer.set("k", number)
            await wait_all_tasks_blocked()
        found = await told(client, 5)
        told_of = [reply["moment"]["events"][0]["value"] for reply in found[:4]]
        assert told_of == ["0", "1", "2", "3"]  # one was on its way, three waited
        assert found[4]["lost"] == 6
        assert node.driver.counters["trace_lost"] == 6
        await writer.set("k", "after")
        assert (await told(client, 1))[0]["moment"]["events"][0]["value"] == "'after'"


def test_nothing_is_told_behind_a_gap_before_the_gap_is() -> None:
    listener, moment = Listener(2), Moment(0, "a", "wake")
    assert [listener.put(position, moment) for position in (1, 2, 3)] == [True, True, False]
    assert listener.take(1) == ([(1, moment)], 0)
    assert not listener.put(4, moment)
    assert listener.take(10) == ([(2, moment)], 2)
    assert listener.put(5, moment)


@pytest.mark.trio
async def test_listeners_beyond_the_limit_are_refused_and_the_others_go_on(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(traces=1)) as node, listening(node) as client, node.client() as other:
        refusal: dict[str, Any] = await other.ask("trace")
        assert refusal["code"] == "busy"
        await other.set("k", 1)
        assert await kinds(client, 1) == ["set"]


@pytest.mark.trio
async def test_stop_ends_a_trace_and_nothing_is_recorded_any_more(autojump_clock: MockClock) -> None:
    async with solo_node() as node, listening(node) as client:
        assert listeners(node) == 1
        await client.stream.send_all(client.frame("stop", task=1))
        found = {reply["seq"]: reply for reply in await told(client, 2)}
        assert found[2]["stopped"] is True
        assert found[1]["state"] == "end"
        await wait_all_tasks_blocked()
        assert listeners(node) == 0


@pytest.mark.trio
async def test_listener_that_goes_away_is_forgotten(autojump_clock: MockClock) -> None:
    async with solo_node() as node:
        async with listening(node):
            state = await _counters(node)
            assert state["traces"] == 1
        await wait_all_tasks_blocked()
        assert (await _counters(node))["traces"] == 0


async def _counters(node: Node) -> dict[str, int]:
    async with node.client() as client:
        found: dict[str, int] = (await client.ask("get_state"))["counters"]
        return found
