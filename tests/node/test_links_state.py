"""`links` of `get_state`: what a node says of its connection to each other one.

Knows: whole nodes as `nodes` builds them, and a peer that answers late.  Does not know whom a node follows.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from distkv.engine.followed import HeldTicks
from distkv.engine.traffic import ROUND_TRIPS, LinkTraffic
from distkv.errors import PeerError
from distkv.model.event import NodeName, Tick
from distkv.transport.base import FollowHooks, GossipHeard
from distkv.transport.pull import PeerCaller
from distkv.wire import packing
from distkv.wire.following import FollowItem
from distkv.wire.framing import FrameReader
from distkv.wire.replies import decode_reply, encode_start
from distkv.wire.request import Follow
from tests.node.gossip_samples import A, B, update
from tests.node.nodes import Node, World, new_world, until
from tests.node.test_pull_calls import HELLO

FOLLOW = {"follow": True}
SIGNS_S = 1.0
"""How often a follower gives a sign of life."""


@asynccontextmanager
async def two(**settings: Any) -> AsyncIterator[World]:
    """The ready nodes `a` and `b`, which follow each other."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None, settings={**FOLLOW, **settings})
            await world.ready(name)
        await world.converged("a", "b")
        yield world
        nursery.cancel_scope.cancel()


async def link(node: Node) -> dict[str, Any]:
    """What a node says of its only link."""
    async with node.client() as client:
        (found,) = (await client.ask("get_state"))["links"]
    assert isinstance(found, dict)
    return found


async def linked(world: World) -> None:
    """Wait until both follow the other one."""
    for node in world.nodes.values():
        await wait_link(node, "up")


async def wait_link(node: Node, state: str) -> dict[str, Any]:
    """Wait until its only link is in that state."""
    with trio.fail_after(60):
        while (found := await link(node))["state"] != state:  # noqa: ASYNC110
            await trio.sleep(0.1)
    return found


@pytest.mark.trio
async def test_events_are_counted_where_they_leave_and_where_they_come(autojump_clock: MockClock) -> None:
    async with two() as world:
        a, b = world.nodes["a"], world.nodes["b"]
        await linked(world)
        before = await link(a), await link(b)
        async with a.client() as client:
            for number in range(7):
                await client.set(f"x.{number}", number)
        await world.converged("a", "b")
        after = await link(a), await link(b)
        grown = [
            {side: now[side] - then[side] for side in ("events_in", "events_out")}
            for now, then in zip(after, before, strict=True)
        ]
        assert grown == [{"events_in": 0, "events_out": 7}, {"events_in": 7, "events_out": 0}]


@pytest.mark.trio
async def test_events_that_were_held_already_are_counted_when_they_are_told(autojump_clock: MockClock) -> None:
    async with two(follow=False) as world:
        a = world.nodes["a"]
        async with a.client() as client:
            for number in range(300):
                await client.set(f"x.{number}", number)
        async with a.client() as client:
            await client.ask("follow", nodes={"a": a.replica.tick - 300}, **{"as": {"node": "b", "life": 0}})
            while not (await client.receive() or {}).get("ping"):
                pass
            assert (await link(a))["events_out"] == 300


@pytest.mark.trio
async def test_stranger_that_follows_is_not_counted(autojump_clock: MockClock) -> None:
    async with two() as world:
        a = world.nodes["a"]
        async with a.client() as client:
            start = await client.ask("follow", nodes={"a": 0}, **{"as": {"node": "z", "life": 0}})
            assert start["state"] == "start"
            await client.receive()
            assert a.driver.traffic(NodeName("z")) == LinkTraffic()


@pytest.mark.trio
async def test_round_trip_is_told_when_it_was_measured_and_while_the_link_is_up(autojump_clock: MockClock) -> None:
    async with two() as world:
        a, b = world.nodes["a"], world.nodes["b"]
        await until(lambda: a.driver.traffic(B).rtt_ms is not None, 0.1)
        up = await link(a)
        assert (up["state"], up["writers"]) == ("up", ["b"])
        assert 0 <= up["rtt_ms"] < 1000
        await b.kill()
        down = await wait_link(a, "down")
        assert "rtt_ms" not in down
        assert "writers" not in down
        assert down["reason"]


@pytest.mark.trio
async def test_node_that_follows_nobody_tells_no_reason_and_no_round_trip(autojump_clock: MockClock) -> None:
    async with two(follow=False) as world:
        await trio.sleep(5)
        assert await link(world.nodes["a"]) == {
            "node": "b", "addr": "b:1", "state": "down", "events_in": 0, "events_out": 0, "behind": 0,
        }  # fmt: skip


@pytest.mark.trio
async def test_changes_that_are_heard_of_and_missing_are_behind(autojump_clock: MockClock) -> None:
    async with two() as world:
        b = world.nodes["b"]
        await linked(world)
        tick = world.nodes["a"].replica.tick
        b.driver.hear(GossipHeard(update(A, tick + 5)))
        assert b.replica.tree.ledger.last(A) == tick + 5
        assert (await link(b))["behind"] == 4


@pytest.mark.trio
async def test_changes_that_are_lost_are_not_behind(autojump_clock: MockClock) -> None:
    async with two() as world:
        b = world.nodes["b"]
        await linked(world)
        b.driver.hear(GossipHeard(update(A, world.nodes["a"].replica.tick + 5)))
        await until(lambda: not b.replica.tree.ledger.missing(but_lost=True), 1)
        assert b.replica.tree.ledger.missing()
        assert (await link(b))["behind"] == 0


# -- the measure --------------------------------------------------------------------------------------------------


async def followed(answers_after_s: float, for_s: float) -> list[float]:
    """The round trips to a peer that answers a sign of life so late, while it is followed for a while."""
    took = list[float]()

    async def take(item: FollowItem) -> None:
        raise AssertionError(item)

    async with trio.open_nursery() as nursery:

        async def serve(stream: trio.abc.Stream) -> None:
            await stream.send_all(HELLO)
            reader = FrameReader(1 << 16)
            while data := await stream.receive_some():
                reader.feed(bytes(data))
                for frame in reader:
                    seq = decode_reply(frame)["seq"]
                    if seq == 1:
                        await stream.send_all(encode_start(1))
                    else:
                        nursery.start_soon(answer, stream, seq)

        async def answer(stream: trio.abc.Stream, seq: object) -> None:
            await trio.sleep(answers_after_s)
            await stream.send_all(packing.pack({"seq": seq}))

        async def connect(host: str, port: int) -> trio.abc.Stream:
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve, theirs)
            await trio.lowlevel.checkpoint()
            return ours

        request = Follow(1, {B: Tick(0)}, SIGNS_S, A, 0)
        with trio.move_on_after(for_s):
            caller = PeerCaller(connect=connect)
            caller.begin(nursery)
            hooks = FollowHooks(lambda: None, take, lambda: None, HeldTicks().next, took.append)
            await caller.follow("b:1", request, 10, hooks)
        nursery.cancel_scope.cancel()
    return took


@pytest.mark.trio
async def test_each_sign_of_life_is_measured(autojump_clock: MockClock) -> None:
    assert await followed(answers_after_s=0.25, for_s=3.5) == [pytest.approx(0.25)] * 3


@pytest.mark.trio
async def test_answer_that_is_later_than_the_next_sign_of_life_is_measured(autojump_clock: MockClock) -> None:
    assert await followed(answers_after_s=1.5, for_s=5) == [pytest.approx(1.5)] * 3


def test_one_answer_that_came_late_is_not_shown() -> None:
    traffic = LinkTraffic()
    for round_trip_s in (0.002, 7.0, 0.001, 0.003):
        traffic.answered(round_trip_s)
    assert traffic.rtt_ms == pytest.approx(2.5)


def test_round_trips_of_another_connection_do_not_count() -> None:
    traffic = LinkTraffic()
    for _ in range(ROUND_TRIPS):
        traffic.answered(5.0)
    traffic.connect()
    assert traffic.rtt_ms is None
    traffic.answered(0.001)
    assert traffic.rtt_ms == pytest.approx(1.0)


@pytest.mark.trio
async def test_peer_that_refuses_is_not_measured(autojump_clock: MockClock) -> None:
    async def connect(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise ConnectionRefusedError("refused")

    async def take(item: FollowItem) -> None:
        raise AssertionError(item)

    took = list[float]()
    request = Follow(1, {B: Tick(0)})
    async with trio.open_nursery() as nursery:
        caller = PeerCaller(connect=connect)
        caller.begin(nursery)
        hooks = FollowHooks(lambda: None, take, lambda: None, HeldTicks().next, took.append)
        with pytest.raises(PeerError):
            await caller.follow("b:1", request, 10, hooks)
    assert took == []
