"""Followers that stand in the way: whatever they do not read, the writer writes on, and others are told all in order.

Knows: whole nodes, and followers over pairs of real sockets, which take no more than their buffers hold.  Does not know
how soon others are told on a real machine.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from tests.node.nodes import OVER_SOCKETS, Client, Node, new_world, solo_node, until
from tests.node.test_engine_full_disk import fill
from tests.node.test_follow import Following

LIMITS = Limits(follow_events=200, follow_bytes=1 << 20)
COUNT = 400
VALUE = "x" * 4000
"""So large that what a follower does not read is soon more than the sockets and the queue hold."""


@pytest.fixture(autouse=True)
def _over_sockets() -> Iterator[None]:
    token = OVER_SOCKETS.set(True)
    yield
    OVER_SOCKETS.reset(token)


async def reads_nothing(client: Client) -> None:
    await trio.sleep_forever()


async def reads_a_byte_a_second(client: Client) -> None:
    while await client.stream.receive_some(1):  # noqa: ASYNC110
        await trio.sleep(1)


async def answers_a_byte_a_second(client: Client) -> None:
    """It says that it is there, and what it holds, so slowly that no request of its is ever whole; it reads nothing."""
    for byte in client.frame("held", task=1, nodes={"a": 1}) + client.frame("ping") * 1000:
        await client.stream.send_all(bytes([byte]))
        await trio.sleep(1)


Behaves: TypeAlias = Callable[[Client], Awaitable[None]]


async def write(node: Node, writer: Client, count: int = COUNT) -> float:
    """Write so many values; the longest time that one took. The queue keeps within its bounds."""
    queue, longest_s = node.driver.hub.followers.queue, 0.0
    for number in range(count):
        began = trio.current_time()
        reply = await writer.set(f"x.{number}", VALUE)
        assert "tick" in reply, reply
        longest_s = max(longest_s, trio.current_time() - began)
        assert queue.end - queue.first <= LIMITS.follow_events
        assert queue.size <= LIMITS.follow_bytes
    return longest_s


async def longest_alone() -> float:
    """The same, of a node that nobody follows."""
    async with solo_node(limits=LIMITS) as node, node.client() as writer:
        return await write(node, writer)


@asynccontextmanager
async def in_the_way(node: Node, behaves: Behaves, count: int) -> AsyncIterator[None]:
    """Meanwhile so many followers behave like this."""
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        for _ in range(count):
            client = await stack.enter_async_context(node.client())
            await Following(client).begin(nodes={"a": 0})
            nursery.start_soon(behaves, client)
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize("behaves", [reads_nothing, reads_a_byte_a_second, answers_a_byte_a_second])
async def test_follower_that_is_slow_holds_up_neither_the_writer_nor_another_one(
    autojump_clock: MockClock, behaves: Behaves
) -> None:
    alone_s = await longest_alone()
    async with solo_node(limits=LIMITS) as node, node.client() as writer, node.client() as reader:
        following = Following(reader)
        await following.begin(nodes={"a": node.replica.tick})
        first = node.replica.tick + 1
        async with in_the_way(node, behaves, 5), trio.open_nursery() as nursery:
            nursery.start_soon(take, following, COUNT)
            assert await write(node, writer) <= alone_s
        assert [event.tick for event in following.events] == [*range(first, first + COUNT)]
        assert following.known == {}


async def take(following: Following, count: int) -> None:
    """Read until so many events came."""
    while len(following.events) < count:
        await following.take()


@pytest.mark.trio
async def test_slow_follower_that_reads_again_is_told_everything(autojump_clock: MockClock) -> None:
    async with solo_node(limits=LIMITS) as node, node.client() as writer, node.client() as slow:
        following = Following(slow)
        await following.begin(nodes={"a": 0})
        await write(node, writer)
        assert node.driver.counters["follow_overtaken"] == 0  # it still waits for what it was told before
        await following.until(node, node.replica.tick)
        assert node.driver.counters["follow_overtaken"] >= 1
        ticks = [event.tick for event in following.events]
        assert ticks == sorted({*ticks})


@pytest.mark.trio
async def test_follower_whose_disk_is_full_leaves_and_others_are_told_all_in_order(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "abc":
            await world.start(name, init=1 if name == "a" else None, settings={"follow": True})
            await world.ready(name)
        a, c = world.nodes["a"], world.nodes["c"]
        await world.converged(*"abc")
        await fill(c)
        await world.converged("a", "b", "c")
        async with a.client() as writer, a.client() as reader:
            following = Following(reader)
            await following.begin(nodes={"a": a.replica.tick})
            first = a.replica.tick + 1
            assert await write(a, writer, 100) < 1  # virtual seconds
            await take(following, 100)
            assert [event.tick for event in following.events] == [*range(first, first + 100)]
            await world.converged("a", "b")
        assert c.driver.counters["link_lost"] > 0
        assert c.replica.tree.ledger.missing()
        assert a.driver.hub.followers.queue.size <= LIMITS.follow_bytes
        c.disk.faults.capacity_bytes = None
        await world.converged("a", "b", "c")
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_hundred_followers_that_come_again_at_once_are_told_each_tick_once(autojump_clock: MockClock) -> None:
    async with solo_node(limits=LIMITS) as node, node.client() as writer:
        ticks = dict[int, list[int]]()

        async def follow(number: int, above: int, count: int) -> None:
            async with node.client() as client:
                following = Following(client)
                await following.begin(nodes={"a": above})
                await take(following, count)
                ticks.setdefault(number, []).extend(event.tick for event in following.events)

        async with trio.open_nursery() as nursery:
            first = node.replica.tick + 1
            for number in range(100):
                nursery.start_soon(follow, number, first - 1, 20)
            await until(lambda: node.driver.hub.followers.count == 100, 0.01)
            for number in range(20):
                await writer.set(f"before.{number}", number)
        await until(lambda: node.driver.hub.followers.count == 0, 0.01)
        for number in range(20):
            await writer.set(f"between.{number}", number)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(follow, number, ticks[number][-1], 40)
            for number in range(20):
                await writer.set(f"after.{number}", number)
        assert {tuple(told) for told in ticks.values()} == {tuple(range(first, first + 60))}
