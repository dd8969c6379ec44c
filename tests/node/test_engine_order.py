"""The driver's fixed order: what a step decides leaves after its commit, in order, and within bounds.

Knows: whole nodes as `nodes` builds them.  Does not know how the driver keeps its outbox.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.core.ready import PeerAnswered
from distkv.errors import DuplicateNameError, InitRefusedError, StorageFailedError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges
from distkv.storage.memory import MemoryDisk
from distkv.transport.base import Gap, GossipHeard
from distkv.transport.pull import PeerCaller
from distkv.wire.codec import Payload, tick_maps_map
from distkv.wire.message import Header, Info, Ping, PingLink, Start, TickMaps, Update
from distkv.wire.request import PeerRequest
from tests.node.nodes import Node, World, new_world


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        yield new_world(nursery)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def founder(**options: Any) -> AsyncIterator[Node]:
    """One ready node `a`, with nothing left to commit."""
    async with world() as w:
        node = await w.start("a", init=1, **options)
        await w.ready("a")
        await node.driver.committer.wait_durable(node.driver.position)
        yield node


def network_id(node: Node) -> bytes | None:
    return node.replica.network_id


def updates(node: Node) -> list[int]:
    """The own ticks in the updates that left."""
    return [event.tick for m in node.sent.gossip if isinstance(m, Update) for event in m.events]


@pytest.mark.trio
async def test_updates_leave_after_their_commit_in_order(autojump_clock: MockClock) -> None:
    async with founder(commit_s=0.1) as node, node.client() as client:
        before = updates(node)
        frames = [client.frame("set_value", path=["p"], value=number) for number in range(5)]
        await client.stream.send_all(b"".join(frames[:2]))
        await trio.sleep(0.09)
        await client.stream.send_all(b"".join(frames[2:]))
        assert updates(node) == before
        await trio.sleep(0.02)
        assert updates(node) == [*before, before[-1] + 1, before[-1] + 2]
        await trio.sleep(0.2)
        assert updates(node) == list(range(1, before[-1] + 6))


@pytest.mark.trio
async def test_tick_in_a_ping_is_a_durable_one(autojump_clock: MockClock) -> None:
    async with founder(commit_s=0.7) as node, node.client() as client:
        said: list[tuple[int, int]] = []
        for number in range(1000):
            if number % 15 == 0:
                await client.stream.send_all(client.frame("set_value", path=["p"], value=number))
            count = len(node.sent.gossip)
            await trio.sleep(0.01)
            pings = [message for message in node.sent.gossip[count:] if isinstance(message, Ping)]
            said += [(ping.header.tick, node.committer.durable_mark) for ping in pings]
        assert len(said) >= 3
        assert all(tick <= durable for tick, durable in said)


@pytest.mark.trio
async def test_outbox_that_overflows_announces_what_it_dropped_and_the_peer_gets_all(autojump_clock: MockClock) -> None:
    async with founder(commit_s=0.1, limits=Limits(outbox=3)) as a:
        b = await a.world.start("b")
        await a.world.ready("b")
        async with a.client() as client:
            frames = [client.frame("set_value", path=["p", n], value=n) for n in range(20)]
            await client.stream.send_all(b"".join(frames))
            await client.replies(21)
        assert a.driver.counters["outbox_full"] >= 17
        announced = [m.ticks for m in a.sent.gossip if isinstance(m, Info) and m.ticks == {"a": [a.replica.tick]}]
        assert announced
        await a.world.converged("a", "b")
        assert b.replica.tree.live_count == a.replica.tree.live_count >= 20


@pytest.mark.trio
async def test_ask_that_meets_a_full_outbox_is_asked_all_the_same(autojump_clock: MockClock) -> None:
    pace = [0.002]
    async with founder(commit_s=lambda: pace[0], limits=Limits(outbox=1)) as a:
        await a.world.start("b")
        await a.world.ready("b")
        await a.committer.wait_durable(a.driver.position)
        await trio.sleep(5)
        async with a.client() as client:
            pace[0] = 3.0
            frames = [client.frame("set_value", path=["p", n], value=n) for n in range(20)]
            await client.stream.send_all(b"".join(frames))
            await trio.sleep(0.1)
            asked = len(a.sent.as_client)
            a.driver.hear(Gap())
            await trio.sleep(1)
            assert len(a.sent.as_client) == asked
            await trio.sleep(3)
            assert len(a.sent.as_client) > asked


@pytest.mark.trio
async def test_updates_that_the_disk_cannot_follow_are_dropped_and_come_later(autojump_clock: MockClock) -> None:
    pace = [0.002]
    async with founder() as a, a.client() as client:
        b = await a.world.start("b", commit_s=lambda: pace[0], limits=Limits(uncommitted_bytes=2000))
        await a.world.ready("b")
        await a.world.converged("a", "b")
        pace[0] = 1.0
        for number in range(30):
            await client.set(f"p.{number}", "x" * 200)
        await trio.sleep(0.1)
        assert b.committer.waiting_bytes < 4000
        assert b.driver.counters["dropped_uncommitted"] > 0
        await a.world.converged("a", "b")


class OneAfterAnother:
    """Asks as nodes do, and sees after each part of an answer whether it is durable."""

    def __init__(self, world: World, name: str) -> None:
        self.parts: list[bool] = []
        self._world = world
        self._name = name
        self._inner = PeerCaller(connect=self._dial)

    def begin(self, nursery: trio.Nursery) -> None:
        self._inner.begin(nursery)

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:
        async def taken(answer: Payload) -> None:
            await take(answer)
            self.parts.append(self._world.nodes[self._name].committer.is_idle)

        await self._inner.call(addr, request, taken)

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:
        return await self._inner.wait_held(addr, nodes)

    async def _dial(self, host: str, port: int) -> trio.abc.Stream:
        return await self._world.dial(self._name, f"{host}:{port}")


@pytest.mark.trio
async def test_each_part_of_a_download_is_durable_before_the_next_is_read(autojump_clock: MockClock) -> None:
    async with founder() as a, a.client() as client:
        for number in range(1200):
            await client.stream.send_all(client.frame("set_value", path=["p", number], value=number))
        await client.replies(1201)
        caller = OneAfterAnother(a.world, "b")
        await a.world.start("b", commit_s=0.05, caller=caller)
        await a.world.ready("b")
        assert len(caller.parts) >= 4
        assert all(caller.parts)


@pytest.mark.trio
async def test_deadlines_of_odd_milliseconds_do_not_spin(autojump_clock: MockClock) -> None:
    async with founder() as node:
        steps = 0
        began_ms = node.driver.now_ms()
        while node.driver.now_ms() < began_ms + 60_000:
            steps += 1
            await trio.sleep(0.0137)
        assert node.driver.now_ms() - began_ms < 60_050
        assert steps > 4000


@pytest.mark.trio
@pytest.mark.parametrize("commit_s", [0.0005, 0.05], ids=["inline", "thread"])
@pytest.mark.parametrize("fault", ["fail_write_at", "fail_sync_at"])
async def test_failed_disk_ends_the_node_without_a_reply(
    autojump_clock: MockClock, fault: str, commit_s: float
) -> None:
    async with founder(commit_s=commit_s) as node, node.client() as client:
        for number in range(30):
            await client.set("p", number)
        before, gossip = node.disk.faults.operations, list(updates(node))
        setattr(node.disk.faults, fault, before + (fault == "fail_sync_at"))
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await client.set("p", "never")
        await node.ended.wait()
        assert isinstance(node.failure, StorageFailedError)
        assert updates(node) == gossip
        assert node.disk.faults.operations == before + 1 + (fault == "fail_sync_at"), "nothing is tried again"


@pytest.mark.trio
async def test_driver_ends_by_itself_when_a_session_met_the_failure_inline(autojump_clock: MockClock) -> None:
    async with founder(commit_s=0.0005) as node, node.client() as client:
        for number in range(30):
            await client.set("p", number)
        inline = node.committer.inline_count
        await client.set("p", "inline")
        assert node.committer.inline_count == inline + 1
        node.disk.faults.fail_sync_at = node.disk.faults.operations + 1
        await client.stream.send_all(client.frame("set_value", path=["p"], value=1))
        with trio.fail_after(1):
            await node.ended.wait()
        assert isinstance(node.failure, StorageFailedError)


@pytest.mark.trio
async def test_restart_goes_on_with_ticks_above_the_old_ones(autojump_clock: MockClock) -> None:
    async with founder() as node:
        async with node.client() as client:
            reply = await client.set("p", 1)
        await node.kill()
        again = await node.world.start("a", disk=node.disk.after_kill())
        await node.world.ready("a")
        async with again.client() as client:
            later = await client.set("p", 2)
            assert later["tick"] > reply["tick"]
            assert later["tock"] > reply["tock"]


@pytest.mark.trio
async def test_greeting_after_a_restart_shows_no_tick_that_is_not_durable(autojump_clock: MockClock) -> None:
    async with founder() as node:
        await node.kill()
        again = await node.world.start("a", disk=node.disk.after_kill(), commit_s=0.5)
        await node.world.ready("a")
        async with again.client() as writer, again.client() as reader:
            await writer.receive()
            durable = again.replica.tick
            await writer.stream.send_all(writer.frame("set_value", path=["p"], value=1))
            late = again.client()
            await trio.sleep(0.1)
            assert again.replica.tick == durable + 1
            assert again.sent.as_server[2].data == b"", "the greeting waits for the commit"
            assert (await late.receive() or {})["tick"] == durable + 1
            assert again.committer.durable_mark == durable + 1
            assert (await reader.receive() or {})["tick"] == durable


@pytest.mark.trio
async def test_directory_in_use_stops_the_second_server(autojump_clock: MockClock) -> None:
    async with founder() as node:
        second = await node.world.start("b", disk=node.disk)
        assert "is in use by another server" in str(second.failure)
        assert node.is_running


@pytest.mark.trio
async def test_init_on_a_directory_with_data_stops_the_start(autojump_clock: MockClock) -> None:
    async with founder() as node:
        await node.kill()
        again = await node.world.start("a", init=2, disk=node.disk.after_kill())
        with trio.fail_after(1):
            await again.ended.wait()
        assert isinstance(again.failure, InitRefusedError)


@pytest.mark.trio
async def test_damage_before_the_tail_stops_the_start_and_says_so(autojump_clock: MockClock) -> None:
    async with founder() as node:
        async with node.client() as client:
            for number in range(10):
                await client.set("p", number)
        await node.kill()
        disk = node.disk.after_kill()
        first = min(disk.names())
        disk.corrupt(first, 200, bytes(8))
        again = await node.world.start("a", disk=disk)
        assert "is damaged at offset" in str(again.failure)
        assert "move memory aside" in str(again.failure)


@pytest.mark.trio
async def test_torn_tail_is_cut_counted_and_survived(autojump_clock: MockClock) -> None:
    async with founder() as node:
        async with node.client() as client:
            await client.set("p", "kept")
            node.disk.faults.crash_at = node.disk.faults.operations + 1
            with pytest.raises((EOFError, trio.BrokenResourceError)):
                await client.set("p", "torn")
        await node.ended.wait()
        torn: MemoryDisk = node.disk.after_power_loss(lambda start, end: [(start, end - 3)])
        again = await node.world.start("a", disk=torn)
        assert again.log.recovered.torn_bytes > 0
        assert "memory/" in again.log.recovered.torn_at
        await node.world.ready("a")
        async with again.client() as client:
            assert (await client.get("p"))["value"] == "kept"


@pytest.mark.trio
async def test_name_used_twice_ends_the_younger_node(autojump_clock: MockClock) -> None:
    async with founder() as node:
        older = Start(1.0, 1)
        tock = Tock(node.replica.tock + 5)
        header = Header(NodeName("a"), Tick(9), tock, 0, network_id(node), older)
        link = PingLink(NodeName("a"), Tick(9), tock)
        node.driver.hear(GossipHeard(Ping(header, (link,), "x:1", State.READY, 1, bytes(8))))
        # The node asks at x:1, its first question; this is what the one there answers.
        node.driver.step(PeerAnswered(1, TickMaps(header, "x:1", State.READY, {}, {}, {}, 1)))
        with trio.fail_after(1):
            await node.ended.wait()
        assert isinstance(node.failure, DuplicateNameError)


@pytest.mark.trio
@pytest.mark.parametrize("addr", ["nobody:1", "a..b:1", "x:99999", "no-port:", f"{'y' * 200}:1"])
async def test_peer_that_cannot_be_reached_is_counted_and_harms_nothing(autojump_clock: MockClock, addr: str) -> None:
    async with founder() as node:
        tock = Tock(node.replica.tock + 5)
        header = Header(NodeName("z"), Tick(9), tock, 0, network_id(node), None)
        ticks = {NodeName("z"): [Tick(9)]}
        node.driver.hear(GossipHeard(Info(header, addr, State.READY, ticks, bytes(8))))
        node.driver.hear(Gap())
        await trio.sleep(20)
        assert node.driver.counters["peer_failed"] > 0
        assert node.failure is None
        async with node.client() as client:
            assert (await client.set("p", 1))["changed"]


@pytest.mark.trio
async def test_answer_of_a_peer_breaking_off_is_asked_for_again(autojump_clock: MockClock) -> None:
    async with founder() as a:
        b = await a.world.start("b")
        await a.world.ready("b")
        a.world.network.partition([NodeName("a")], [NodeName("b")])
        async with a.client() as client:
            for number in range(5):
                await client.set("p", number)
        b.driver.hear(Gap())
        await trio.sleep(5)
        assert b.driver.counters["peer_failed"] > 0
        a.world.network.heal()
        await a.world.converged("a", "b")
        assert b.replica.tree.digest == a.replica.tree.digest


@pytest.mark.trio
async def test_exchange_with_an_absurd_tock_does_not_spoil_the_log(autojump_clock: MockClock) -> None:
    async with founder() as node, node.client() as client:
        await client.ask("exchange", maps={**tick_maps_map(node.replica.maps()), "node": "q", "tock": 2**63 - 1})
        await client.set("p", 1)
        await node.kill()
        again = await node.world.start("a", disk=node.disk.after_kill())
        assert again.failure is None


@pytest.mark.trio
async def test_ready_node_refuses_an_offer_far_ahead_of_its_clock_and_asks_back(autojump_clock: MockClock) -> None:
    async with founder() as node, node.client() as client:
        tock = node.replica.tock
        maps = {**tick_maps_map(node.replica.maps()), "node": "q", "tock": tock + 2**33}
        reply = await client.ask("exchange", maps=maps)
        assert "too far ahead" in str(reply["error"])
        assert node.replica.tock < tock + 100
        assert node.driver.counters["tock_jump"] == 1
