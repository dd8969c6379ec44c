"""Writes that wait for other nodes: when they are answered, and what their answer counts.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know how nodes are asked.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.errors import PeerError
from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.wire.codec import Payload
from distkv.wire.request import Request
from tests.node.nodes import Node, World, new_world, solo_node

COMMIT_S = 1.0


@asynccontextmanager
async def three(commit_s: float = 0.002) -> AsyncIterator[World]:
    """The ready nodes `a`, `b` and `c`; a commit of `c` takes `commit_s`."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1)
        await world.ready("a")
        await world.start("b")
        await world.start("c", commit_s=commit_s)
        await world.ready("a", "b", "c")
        await trio.sleep(20)
        yield world
        nursery.cancel_scope.cancel()


async def timed_set(node: Node, **fields: object) -> tuple[float, int]:
    """How long a write takes, and how many nodes it is said to be on."""
    async with node.client() as client:
        await client.ask("ping")
        began = trio.current_time()
        reply = await client.set("x.y", 1, **fields)
        assert reply["changed"]
        return trio.current_time() - began, reply["replicas"]


@pytest.mark.trio
async def test_write_is_answered_when_so_many_nodes_hold_it(autojump_clock: MockClock) -> None:
    async with three() as world:
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=60)
        assert count == 3
        assert took_s < 30
        for node in world.nodes.values():
            async with node.client() as client:
                assert (await client.get("x.y"))["value"] == 1


@pytest.mark.trio
async def test_node_counts_when_it_has_the_write_on_its_disk(autojump_clock: MockClock) -> None:
    async with three(commit_s=COMMIT_S) as world:
        quick_s, _ = await timed_set(world.nodes["a"], replicas=2, timeout=60)
        all_s, count = await timed_set(world.nodes["b"], replicas=3, timeout=60)
        assert (quick_s < COMMIT_S <= all_s, count) == (True, 3)


@pytest.mark.trio
async def test_write_that_too_few_nodes_hold_stands_and_says_how_many(autojump_clock: MockClock) -> None:
    async with three() as world:
        await world.nodes["c"].kill()
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=7.5)
        assert (took_s, count) == (pytest.approx(7.5, abs=0.1), 2)
        async with world.nodes["a"].client() as client:
            assert (await client.get("x.y"))["value"] == 1


class HoldsWhatFollows:
    """Every peer says that it holds the change behind the one that is asked for, and not that one."""

    async def call(self, addr: str, request: Request, take: Callable[[Payload], Awaitable[None]]) -> None:  # noqa: ARG002
        raise PeerError("nobody is asked anything else")

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:  # noqa: ARG002
        await trio.sleep(0.1)
        return {node: Ranges([(tick + 2, tick + 3)]) for node, tick in nodes.items()}


@pytest.mark.trio
async def test_node_with_a_gap_at_the_write_is_not_counted(autojump_clock: MockClock) -> None:
    async with three() as world:
        old = world.nodes["a"]
        await old.kill()
        again = await world.start("a", disk=old.disk.after_kill(), caller=HoldsWhatFollows())
        await world.ready("a")
        _, count = await timed_set(again, replicas=2, timeout=5)
        assert count == 1


@pytest.mark.trio
async def test_node_that_comes_back_in_time_is_counted(autojump_clock: MockClock) -> None:
    async with three() as world, trio.open_nursery() as nursery:
        disk = await killed(world, "c")
        answers: list[tuple[float, int]] = []

        async def write() -> None:
            answers.append(await timed_set(world.nodes["a"], replicas=3, timeout=600))

        nursery.start_soon(write)
        await trio.sleep(30)
        assert answers == []
        await world.start("c", disk=disk)
        with trio.fail_after(300):
            while not answers:  # noqa: ASYNC110
                await trio.sleep(1)
        assert answers[0][1] == 3


async def killed(world: World, name: str) -> object:
    """The disk of a node that was killed."""
    node = world.nodes[name]
    await node.kill()
    return node.disk.after_kill()


@pytest.mark.trio
async def test_requests_behind_a_write_that_waits_are_answered(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        waiting = client.frame("set_value", path=["x"], value=1, replicas=2, timeout=50)
        await client.stream.send_all(waiting)
        began = trio.current_time()
        assert (await client.get("x"))["value"] == 1
        assert trio.current_time() - began < 1
        late = await client.receive()
        assert late is not None
        assert (late["seq"], late["replicas"]) == (2, 1)
        assert trio.current_time() - began == pytest.approx(50, abs=0.1)


@pytest.mark.trio
async def test_write_that_waits_is_answered_when_it_is_stopped(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        await client.stream.send_all(client.frame("set_value", path=["x"], value=1, replicas=2, timeout=50))
        began = trio.current_time()
        await client.stream.send_all(client.frame("stop", task=2))
        replies = {(reply or {})["seq"]: reply for reply in await client.replies(2)}
        assert replies[3]["stopped"] is True
        assert replies[2]["replicas"] == 1
        assert trio.current_time() - began < 1


@pytest.mark.trio
async def test_refused_write_does_not_wait(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1)
        reply = await client.set("x", 2, new=True, replicas=2, timeout=50)
        assert reply["code"] == "exists"


@pytest.mark.trio
async def test_delete_may_wait_too(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1)
        reply = await client.ask("delete_value", path=["x"], replicas=1)
        assert (reply["changed"], reply["replicas"]) == (True, 1)
        nothing = await client.ask("delete_value", path=["never"], replicas=5, timeout=50)
        assert (nothing["changed"], nothing["replicas"]) == (False, 1)


@pytest.mark.trio
async def test_more_waiting_writes_than_allowed_are_refused_and_not_written(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(event_waits=2)) as node, node.client() as client:
        await client.ask("ping")
        for name in "ab":
            await client.stream.send_all(client.frame("set_value", path=[name], value=1, replicas=2, timeout=50))
        assert (await client.set("c", 1, replicas=2))["code"] == "busy"
        assert "value" not in await client.get("c")


@pytest.mark.trio
@pytest.mark.parametrize(
    "fields", [{"replicas": 0}, {"replicas": "2"}, {"replicas": 2, "timeout": -1}, {"timeout": 3}, {"replicas": 9999}]
)
async def test_wish_that_makes_no_sense_is_refused(autojump_clock: MockClock, fields: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        reply = await client.set("x", 1, **fields)
        assert reply["code"] == "bad_request"
        assert "value" not in await client.get("x")


@pytest.mark.trio
async def test_operation_of_a_batch_may_not_wait(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        op = {"action": "set_value", "path": ["x"], "value": 1, "replicas": 2}
        reply = await client.ask("batch", ops=[op])
        assert reply["code"] == "bad_request"
