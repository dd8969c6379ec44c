"""The limits of a connection and of a node: what is too much is refused or waits, and memory stays bounded.

Knows: nodes with small limits, and clients that do not read.  Does not know frames in detail.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from tests.node.nodes import Client, Node, new_world, solo_node


async def greeted(node: Node, *, lockstep: bool = False) -> Client:
    client = node.client(lockstep=lockstep)
    greeting = await client.receive()
    assert greeting is not None
    assert "error" not in greeting
    return client


@pytest.mark.trio
async def test_request_above_the_limit_is_refused_and_the_connection_closed(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(request_bytes=10_000)) as node, await greeted(node) as client:
        assert (await client.set("x", bytes(9000)))["changed"]
        await client.stream.send_all(client.frame("set_value", path=["y"], value=bytes(10_001)))
        error, end = await client.replies(2)
        assert error is not None
        assert (error["code"], end) == ("too_large", None)
        async with await greeted(node) as other:
            assert "value" not in await other.get("y")


@pytest.mark.trio
async def test_huge_declared_length_is_refused_before_it_arrives(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(request_bytes=10_000)) as node, await greeted(node) as client:
        await client.stream.send_all(b"\xc6\xff\xff\xff\xff" + bytes(20_000))
        error, end = await client.replies(2)
        assert error is not None
        assert (error["code"], end) == ("too_large", None)


@pytest.mark.trio
async def test_replies_to_what_came_at_once_leave_in_one_send(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        await client.stream.send_all(b"".join(client.frame("set_value", path=["x"], value=n) for n in range(200)))
        await client.replies(200)
        assert len(node.sent.as_server[0].sizes) == 2, "the greeting, and all the rest"


@pytest.mark.trio
async def test_replies_leave_in_parts_when_they_pile_up(autojump_clock: MockClock) -> None:
    limit = 1 << 20
    async with solo_node(limits=Limits(reply_bytes=limit)) as node, await greeted(node) as client:
        await client.set("big", bytes(300_000))
        await client.stream.send_all(b"".join(client.frame("get_value", path=["big"]) for _ in range(30)))
        replies = await client.replies(30)
        assert [len(reply["value"]) for reply in replies if reply] == [300_000] * 30
        sizes = node.sent.as_server[0].sizes
        assert max(sizes) <= limit + 300_100
        assert len(sizes) <= 12


@pytest.mark.trio
async def test_client_that_does_not_read_is_not_read_from(autojump_clock: MockClock) -> None:
    async with solo_node() as node:
        async with await greeted(node) as client:
            await client.set("big", bytes(300_000))
        lazy = await greeted(node, lockstep=True)
        frames = [lazy.frame("get_value", path=["big"]) for _ in range(1000)]
        with trio.move_on_after(60) as patience:
            for frame in frames:
                await lazy.stream.send_all(frame)
        assert patience.cancelled_caught
        assert node.sent.as_server[1].sizes[1:] == []
        async with await greeted(node) as other:
            assert await other.ask("ping")
        await trio.aclose_forcefully(lazy.stream)


@pytest.mark.trio
async def test_long_answers_beyond_the_limit_wait_for_their_turn(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(open_requests=2)) as node:
        async with await greeted(node) as client:
            frames = [client.frame("set_value", path=["p", n], value=n) for n in range(900)]
            await client.stream.send_all(b"".join(frames))
            await client.replies(900)
        async with await greeted(node) as client:
            pulls = [client.frame("get_events", nodes={"a": [[1, 2000]]}) for _ in range(5)]
            await client.stream.send_all(b"".join(pulls) + client.frame("ping"))
            states: list[tuple[int, str]] = []
            while len(states) < 11:
                reply = (await client.replies(1))[0]
                assert reply is not None
                assert "error" not in reply
                if "state" in reply or reply["seq"] == 6:
                    states.append((reply["seq"], reply.get("state", "pong")))
        open_now = most = 0
        for _, state in states:
            open_now += {"start": 1, "end": -1}.get(state, 0)
            most = max(most, open_now)
        assert most == 2
        assert states[-1][1] == "end"
        assert sorted(states).count((6, "pong")) == 1


@pytest.mark.trio
async def test_pulls_of_a_peer_that_does_not_read_hold_one_item_in_memory(autojump_clock: MockClock) -> None:
    async with solo_node() as node:
        async with await greeted(node) as client:
            for number in range(30):
                await client.set(f"big{number}", bytes(100_000))
        lazy = await greeted(node, lockstep=True)
        pulls = [lazy.frame("get_events", nodes={"a": [[1, 2000]]}) for _ in range(100)]
        await lazy.stream.send_all(b"".join(pulls))
        await trio.sleep(60)
        assert sum(node.sent.as_server[1].sizes[1:]) == 0
        for _ in range(40):
            assert (await lazy.receive() or {})["seq"]
        assert node.failure is None
        await trio.aclose_forcefully(lazy.stream)


@pytest.mark.trio
async def test_connection_beyond_the_limit_is_told_busy_and_the_next_one_served(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(connections=2)) as node:
        async with await greeted(node), await greeted(node), node.client() as third:
            error, end = await third.replies(2)
            assert error is not None
            assert (error["seq"], error["code"], end) == (0, "busy", None)
        await trio.sleep(0.1)
        async with await greeted(node) as client:
            assert (await client.set("x", 1))["changed"]
        assert node.driver.counters["connections_refused"] == 1


@pytest.mark.trio
async def test_connection_beyond_the_limit_that_is_gone_already_harms_nothing(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(connections=1)) as node, await greeted(node) as client:
        for _ in range(3):
            await trio.aclose_forcefully(node.connect())
            await trio.sleep(0.1)
        assert node.driver.counters["connections_refused"] == 3
        assert await client.ask("ping")
        assert node.failure is None


@pytest.mark.trio
async def test_writers_wait_when_too_much_is_uncommitted(autojump_clock: MockClock) -> None:
    limits = Limits(uncommitted_bytes=10_000)
    async with solo_node(limits=limits, commit_s=0.1) as node, trio.open_nursery() as nursery:
        most = 0

        async def write(name: str) -> None:
            async with await greeted(node) as client:
                frames = [client.frame("set_value", path=[name, n], value=bytes(1000)) for n in range(60)]
                await client.stream.send_all(b"".join(frames))
                replies = await client.replies(60)
                assert all(reply is not None and reply["changed"] for reply in replies)

        for number in range(3):
            nursery.start_soon(write, f"w{number}")
        while node.replica.tree.live_count < 180:
            most = max(most, node.committer.waiting_bytes)
            await trio.sleep(0.005)
        assert 10_000 < most < 10_000 + 3 * 1300 + 10_000, "the next batch, one more from each, and what is under way"


@pytest.mark.trio
async def test_updates_of_others_are_dropped_when_too_much_is_uncommitted_and_come_later(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("b", init=1)
        await world.ready("b")
        a = await world.start("a", limits=Limits(uncommitted_bytes=3000), commit_s=0.5)
        await world.ready("a")
        async with world.nodes["b"].client() as client:
            for number in range(30):
                await client.set(f"x{number}", bytes(1000))
        await world.converged("a", "b")
        assert a.driver.counters["dropped_uncommitted"] > 0
        assert a.replica.tree.digest == world.nodes["b"].replica.tree.digest
        nursery.cancel_scope.cancel()
