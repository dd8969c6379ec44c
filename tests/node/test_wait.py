"""`events_wait` over a real session: when a peer that waits is answered, and with what.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know how an event finds who waits for it.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.config import Limits
from tests.node.nodes import Client, Node, Reply, new_world, solo_node


@asynccontextmanager
async def waiting(node: Node, count: int = 1, **nodes: int) -> AsyncIterator[Client]:
    """A client that has begun so many waits of ten minutes; without `nodes`, for the node's next event."""
    async with node.client() as client:
        await client.ask("ping")
        for _ in range(count):
            await client.stream.send_all(client.frame("events_wait", nodes=nodes or here(node), timeout=600))
        await wait_all_tasks_blocked()
        yield client


def here(node: Node) -> dict[str, int]:
    """The node's own last tick."""
    return {node.name: node.replica.tick}


async def answer(client: Client) -> Reply:
    (reply,) = await client.replies(1)
    assert reply is not None
    return reply


async def is_silent(client: Client, for_s: float) -> bool:
    with trio.move_on_after(for_s) as patience:
        await client.receive()
    return patience.cancelled_caught


# -- what comes ---------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_wait_is_answered_at_once_with_what_is_held_past_the_tick(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        before = node.replica.tick
        for number in range(3):
            await client.set(f"x{number}", number)
        began = trio.current_time()
        found = await client.ask("events_wait", nodes={"a": before + 1}, timeout=600)
        assert (found["held"], trio.current_time() - began) == ({"a": [[before + 2, before + 4]]}, 0)


@pytest.mark.trio
async def test_tick_zero_asks_for_everything(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        found = await client.ask("events_wait", nodes={"a": 0}, timeout=600)
        assert found["held"] == {"a": [[1, node.replica.tick + 1]]}


@pytest.mark.trio
async def test_wait_is_answered_when_an_event_comes(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node) as peer, node.client() as writer:
        await trio.sleep(100)
        done = await writer.set("x", 1)
        assert await answer(peer) == {"seq": 2, "held": {"a": [done["tick"]]}}


@pytest.mark.trio
async def test_event_of_another_node_answers(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        await world.converged("a", "b")
        async with waiting(b, a=a.replica.tick) as peer, a.client() as writer:
            done = await writer.set("x", 1)
            assert (await answer(peer))["held"] == {"a": [done["tick"]]}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_event_of_a_node_that_is_not_named_does_not_answer(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node, b=0) as peer, node.client() as writer:
        await writer.set("x", 1)
        assert await is_silent(peer, 500)


@pytest.mark.trio
async def test_event_up_to_the_tick_does_not_answer(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node, a=node.replica.tick + 2) as peer, node.client() as writer:
        await writer.set("x", 1)
        await writer.set("x", 2)
        assert await is_silent(peer, 300)
        done = await writer.set("x", 3)
        assert (await answer(peer))["held"] == {"a": [done["tick"]]}


@pytest.mark.trio
async def test_ranges_ask_for_all_besides_them(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        last = node.replica.tick
        known: list[object] = [[1, last], [last + 1, last + 3]]  # but the last one, which is here
        assert (await client.ask("events_wait", nodes={"a": known}, timeout=600))["held"] == {"a": [last]}


@pytest.mark.trio
async def test_tick_among_the_ranges_does_not_answer_and_the_next_one_does(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as peer, node.client() as writer:
        last = node.replica.tick
        await peer.ask("ping")
        known = {"a": [[1, last + 3]]}
        await peer.stream.send_all(peer.frame("events_wait", nodes=known, timeout=600))
        await writer.set("x", 1)
        await writer.set("x", 2)
        assert await is_silent(peer, 300)
        done = await writer.set("x", 3)
        assert (await answer(peer))["held"] == {"a": [done["tick"]]}


@pytest.mark.trio
async def test_others_answer_when_they_are_asked_for(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as peer, node.client() as writer:
        await peer.ask("ping")
        await peer.stream.send_all(peer.frame("events_wait", nodes={"b": 0, "a": 2**40}, timeout=5, others=True))
        await writer.set("x", 1)
        assert (await answer(peer))["held"] == {}  # a is named, so it is none of the others
        found = await peer.ask("events_wait", nodes={"b": 0}, timeout=100, others=True)
        assert found["held"] == {"a": [[1, node.replica.tick + 1]]}


@pytest.mark.trio
async def test_event_that_loses_against_another_answers(autojump_clock: MockClock) -> None:
    """A watch of its path would not be told of it; who follows a node's ticks must be."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        await world.converged("a", "b")
        ticks = {"a": a.replica.tick, "b": b.replica.tick}
        async with a.client() as at_a, b.client() as at_b:
            await at_a.stream.send_all(at_a.frame("set_value", path=["w"], value="a"))
            await at_b.stream.send_all(at_b.frame("set_value", path=["w"], value="b"))
            for node, other in ((a, "b"), (b, "a")):
                async with waiting(node, **{other: ticks[other]}) as peer:
                    assert (await answer(peer))["held"] == {other: [ticks[other] + 1]}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_node_without_data_lets_a_peer_wait_until_it_has_some(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        b = await world.start("b")
        async with waiting(b, a=0) as peer:
            await world.start("a", init=1)
            assert (await answer(peer))["held"].keys() == {"a"}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_node_that_is_not_ready_tells_what_it_holds_when_it_is(autojump_clock: MockClock) -> None:
    # Until then it may find that its disk is an old one, and void it.
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        await trio.sleep(20)
        await b.kill()
        await a.kill()
        b = await world.start("b", disk=b.disk.after_kill())
        async with waiting(b, a=0) as peer:
            assert await is_silent(peer, 0.3)
            assert not b.replica.is_serving
            await world.ready("b")
            assert (await answer(peer))["held"].keys() == {"a"}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_wait_that_ends_before_the_node_is_ready_is_answered_with_nothing(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1)
        await world.ready("a")
        await trio.sleep(20)
        await a.kill()
        a = await world.start("a", disk=a.disk.after_kill())
        async with a.client() as peer:
            assert (await peer.ask("events_wait", nodes={"a": 0}, timeout=0.3))["held"] == {}
        assert not a.replica.is_serving
        nursery.cancel_scope.cancel()


# -- only what is durable -----------------------------------------------------------------------------------------


@pytest.mark.trio
@pytest.mark.parametrize("is_early", [True, False], ids=["waiting", "asking late"])
async def test_event_answers_only_after_its_commit(autojump_clock: MockClock, is_early: bool) -> None:
    async with solo_node(commit_s=1.0) as node, node.client() as peer, node.client() as writer:
        await peer.ask("ping")
        await writer.ask("ping")
        ask = peer.frame("events_wait", nodes=here(node), timeout=600)
        write = writer.frame("set_value", path=["x"], value=1)
        began = trio.current_time()
        for client, frame in ((peer, ask), (writer, write))[:: 1 if is_early else -1]:
            await client.stream.send_all(frame)
            await trio.sleep(0.1)
        assert (await answer(peer))["held"] == {"a": [node.replica.tick]}
        assert trio.current_time() - began == pytest.approx(1.1 if is_early else 1.0)


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.trio
@pytest.mark.parametrize("timeout_s", [0, 0.5, 30])
async def test_answer_is_empty_when_the_time_is_over(autojump_clock: MockClock, timeout_s: float) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        began = trio.current_time()
        found = await client.ask("events_wait", nodes=here(node), timeout=timeout_s)
        assert (found["held"], trio.current_time() - began) == ({}, timeout_s)


@pytest.mark.trio
async def test_empty_answer_does_not_wait_for_the_commits_of_others(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, node.client() as client, node.client() as writer:
        await client.ask("ping")
        await writer.stream.send_all(writer.frame("set_value", path=["x"], value=1))
        await trio.sleep(0.1)
        began = trio.current_time()
        assert (await client.ask("events_wait", nodes={"b": 0}, timeout=0))["held"] == {}
        assert trio.current_time() == began


@pytest.mark.trio
async def test_stop_answers_one_wait_and_no_other(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node, 2) as peer, node.client() as writer:
        await peer.stream.send_all(peer.frame("stop", task=2))
        assert sorted(map(str, await peer.replies(2))) == ["{'seq': 2, 'held': {}}", "{'seq': 4, 'stopped': True}"]
        await writer.set("x", 1)
        assert (await answer(peer))["seq"] == 3


@pytest.mark.trio
async def test_stop_of_a_wait_that_was_answered_says_that_there_is_none(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        assert (await client.ask("events_wait", nodes=here(node), timeout=1))["held"] == {}
        assert (await client.ask("stop", task=1))["stopped"] is False


@pytest.mark.trio
async def test_other_requests_are_answered_meanwhile(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node) as peer:
        assert (await peer.ask("ping"))["seq"] == 3


@pytest.mark.trio
async def test_connection_that_ends_leaves_no_wait_behind(autojump_clock: MockClock) -> None:
    async with solo_node() as node:
        async with waiting(node, 3):
            assert node.driver.arrivals.count == 3
        await wait_all_tasks_blocked()
        assert node.driver.arrivals.count == 0


@pytest.mark.trio
async def test_waits_beyond_the_limit_are_refused_and_the_others_go_on(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(event_waits=2)) as node, waiting(node, 2) as peer, node.client() as writer:
        assert (await peer.ask("events_wait", nodes={"a": 0}, timeout=0))["code"] == "busy"
        await writer.set("x", 1)
        assert {(await answer(peer))["seq"] for _ in range(2)} == {2, 3}
        await wait_all_tasks_blocked()
        assert (await peer.ask("events_wait", nodes={"b": 0}, timeout=0))["held"] == {}


@pytest.mark.trio
async def test_peer_that_reads_no_answers_cannot_pile_them_up(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(event_waits=2)) as node:
        lazy = node.client(lockstep=True)
        await lazy.receive()  # the greeting
        with trio.move_on_after(60) as patience:
            for _ in range(100):
                await lazy.stream.send_all(lazy.frame("events_wait", nodes={"b": 0}, timeout=0))
        assert patience.cancelled_caught
        assert node.driver.counters["refused_busy"] <= 1
        await trio.aclose_forcefully(lazy.stream)


@pytest.mark.trio
async def test_wait_does_not_count_as_an_open_answer(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(open_requests=1)) as node, waiting(node) as peer:
        assert (await peer.ask("list", path=[]))["names"] == []


@pytest.mark.trio
async def test_state_counts_the_waits(autojump_clock: MockClock) -> None:
    async with solo_node() as node, waiting(node, 2), node.client() as client:
        assert (await client.ask("get_state"))["counters"]["event_waits"] == 2


# -- requests that are refused ------------------------------------------------------------------------------------


@pytest.mark.trio
@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"timeout": 1}, "the field 'nodes' must be a map, not null or missing"),
        ({"nodes": {"a": -1}, "timeout": 1}, "the field 'nodes' must be made of integers below 2^63, not -1"),
        ({"nodes": {"a": True}, "timeout": 1}, "the field 'nodes' must be made of integers below 2^63, not true"),
        ({"nodes": {"a": 1.5}, "timeout": 1}, "the field 'nodes' must be made of integers below 2^63, not 1.5"),
        ({"nodes": {"a": [[5, 2]]}, "timeout": 1}, "the field 'nodes' must be made of [begin, end) pairs within one"),
        ({"nodes": {"a": [0]}, "timeout": 1}, "the field 'nodes' must be made of ticks"),
        ({"nodes": {}, "timeout": 1, "others": 1}, "the field 'others' must be true or false"),
        ({"nodes": {"a b": 1}, "timeout": 1}, "the field 'nodes' must be a node name: 1-63 of letters"),
        ({"nodes": {f"n{number}": 0 for number in range(1025)}, "timeout": 1}, "the field 'nodes' names 1025 nodes"),
        ({"nodes": {}}, "the field 'timeout' must be seconds, from 0 to 3600, not null or missing"),
        ({"nodes": {}, "timeout": -0.1}, "the field 'timeout' must be seconds, from 0 to 3600, not -0.1"),
        ({"nodes": {}, "timeout": 3601}, "the field 'timeout' must be seconds, from 0 to 3600, not 3601"),
        ({"nodes": {}, "timeout": float("nan")}, "the field 'timeout' must be seconds, from 0 to 3600, not nan"),
        ({"nodes": {}, "timeout": True}, "the field 'timeout' must be seconds, from 0 to 3600, not true"),
    ],
)
async def test_bad_wait_is_refused_with_what_would_be_right(
    autojump_clock: MockClock, fields: dict[str, object], complaint: str
) -> None:
    async with solo_node() as node, node.client() as client:
        found = await client.ask("events_wait", **fields)
        assert found["code"] == "bad_request"
        assert found["error"].startswith(complaint)
