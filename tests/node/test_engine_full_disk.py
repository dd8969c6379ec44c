"""A full disk: writes are refused and change nothing, all else goes on, and what was missed comes back later.

Knows: whole nodes whose disk has a capacity.  Does not know segments.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from distkv.errors import PeerError
from distkv.model.event import NodeName, Tick, first_tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.storage.memory import MemoryDisk
from distkv.transport.base import Gap
from distkv.wire.codec import Payload, tick_maps_map
from distkv.wire.message import PullEnd
from distkv.wire.request import ExchangeRequest, GetEvents, PeerRequest
from tests.node.nodes import Node, new_world, until

B, Z = NodeName("b"), NodeName("z")
VALUE = bytes(10_000)


async def fill(node: Node) -> None:
    """Write until there is no room but for replication control."""
    node.disk.faults.capacity_bytes = node.disk.faults.used_bytes
    async with node.client() as client:
        for number in range(200):
            reply = await client.set(f"fill.n{number}", VALUE)
            if "error" in reply:
                break
        assert reply["code"] == "no_space"


@asynccontextmanager
async def full_node() -> AsyncIterator[tuple[Node, Node]]:
    """Node `a`, ready and full up to what replication control may use, and its peer `b`, which has space."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1)
        await world.ready("a")
        b = await world.start("b")
        await world.ready("b")
        await trio.sleep(1)
        await fill(a)
        await world.converged("a", "b")
        yield a, b
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_write_on_a_full_disk_is_refused_and_changes_nothing(autojump_clock: MockClock) -> None:
    async with full_node() as (a, _), a.client() as client:
        before = a.replica.tick, a.replica.tree.digest, a.disk.faults.operations
        for path in ("fill.n0", "new"):
            reply = await client.set(path, VALUE)
            assert reply["code"] == "no_space"
            assert "nothing was changed" in reply["error"]
        assert (a.replica.tick, a.replica.tree.digest) == before[:2]
        assert "value" not in await client.get("new")
        await trio.sleep(10)
        assert a.failure is None


@pytest.mark.trio
async def test_reads_pings_and_exchanges_go_on_while_the_disk_is_full(autojump_clock: MockClock) -> None:
    async with full_node() as (a, b), a.client() as client:
        gossip = len(a.sent.gossip)
        assert (await client.get("fill.n0"))["value"] == VALUE
        assert "error" not in await client.ask("ping")
        assert (await client.ask("get_state"))["state"] == "ready"
        assert "error" not in await client.ask("exchange", maps=tick_maps_map(b.replica.maps()))
        assert len(await client.items("get_events", nodes={"a": [[1, 50]]})) >= 2
        await trio.sleep(10)
        assert len(a.sent.gossip) > gossip


@pytest.mark.trio
async def test_remote_updates_are_dropped_while_full_and_come_back_with_space(autojump_clock: MockClock) -> None:
    async with full_node() as (a, b), b.client() as client:
        for number in range(100):  # by gossip; what is larger has to be pulled
            await client.set(f"b.n{number}", bytes(1000))
        for number in range(8):
            await client.set(f"b.big{number}", VALUE)
        b.driver.hear(Gap())
        await trio.sleep(10)
        assert a.driver.counters["dropped_no_space"] > 0
        assert a.failure is None
        assert a.replica.tree.digest != b.replica.tree.digest
        a.disk.faults.capacity_bytes = None
        await a.world.converged("a", "b")
        assert a.replica.tree.live_count == b.replica.tree.live_count


@attrs.define
class LongLedger:
    """A peer that has every second of many ticks of `b`, all superseded: as many ranges as a pull can bring."""

    peer: Node
    known: TickRanges
    exchanges: int = 0
    pulls: int = 0

    def begin(self, nursery: trio.Nursery) -> None:
        pass

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:
        await trio.sleep(0.01)
        if addr != self.peer.addr:
            raise PeerError(f"nobody listens at {addr}")
        if isinstance(request, ExchangeRequest):
            last = Tick(self.known[B].last())
            await take(attrs.evolve(self.peer.replica.maps(), ticks={B: [last]}, held=self.known))
            self.exchanges += 1
        elif isinstance(request, GetEvents):
            self.pulls += 1
            await take(PullEnd(self.known, {}))


@pytest.mark.trio
async def test_long_ledger_from_a_peer_does_not_end_a_node_whose_disk_is_full(autojump_clock: MockClock) -> None:
    """What a pull says of superseded ticks is recorded as well, and may be more than what is left free."""
    async with full_node() as (a, b):
        first = int(first_tick(b.replica.life or 0))
        peer = LongLedger(b, {B: Ranges.from_ticks(range(first, first + 20_000, 2))})
        await a.kill()
        disk = a.disk.after_kill()
        disk.faults.capacity_bytes = disk.faults.used_bytes
        again = await a.world.start("a", disk=disk, caller=peer)
        again.driver.hear(Gap())
        await trio.sleep(3)
        assert peer.pulls > 0
        assert again.failure is None
        assert again.driver.counters["dropped_no_space"] > 0


@pytest.mark.trio
async def test_node_whose_disk_is_full_to_the_last_goes_on_comparing_itself_with_others(
    autojump_clock: MockClock,
) -> None:
    """Little is written down of an exchange, and a node must learn by it, for one, that its disk is old."""
    async with full_node() as (a, b), a.client() as client:
        for _ in range(400):
            answer = await client.items("get_snapshot", node="z", created=1.0, addr="z:1")
            if "error" in answer[0]:
                break
        peer = LongLedger(b, {B: Ranges.from_ticks([int(first_tick(b.replica.life or 0))])})
        await a.kill()
        disk = a.disk.after_kill()
        disk.faults.capacity_bytes = disk.faults.used_bytes
        again = await a.world.start("a", disk=disk, caller=peer)
        again.driver.hear(Gap())
        await trio.sleep(3)
        assert peer.exchanges > 0
        assert again.failure is None


@pytest.mark.trio
async def test_joiner_with_a_full_disk_has_nobody_register_it_until_there_is_space(autojump_clock: MockClock) -> None:
    async with full_node() as (a, b):
        disk = MemoryDisk()
        disk.faults.capacity_bytes = 200_000
        c = await a.world.start("c", disk=disk)
        await trio.sleep(20)
        assert "c" not in b.replica.registry.nodes
        assert c.failure is None
        disk.faults.capacity_bytes = None
        await a.world.ready("c")
        await a.world.converged("b", "c")


@attrs.define
class Forgetful:
    """A peer that knows every second of many ticks of `z` as superseded, and lacks the others, as everybody does."""

    peer: Node
    known: TickRanges
    lacks: TickRanges
    speaks_of_z: bool = False

    def begin(self, nursery: trio.Nursery) -> None:
        pass

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:
        assert addr == self.peer.addr
        await trio.sleep(0.01)
        if isinstance(request, ExchangeRequest):
            maps = self.peer.replica.maps()
            if self.speaks_of_z:
                last = Tick(self.known[Z].last())
                maps = attrs.evolve(maps, ticks={**maps.ticks, Z: [last]}, held={**maps.held, **self.known})
            await take(maps)
        elif isinstance(request, GetEvents):
            await take(PullEnd(self.known, self.lacks))


@pytest.mark.trio
async def test_many_ticks_that_nobody_has_do_not_end_a_node_whose_disk_is_full(autojump_clock: MockClock) -> None:
    """That they are given up is recorded as well, without anybody having asked for room."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1)
        await world.ready("a")
        b = await world.start("b")
        await world.ready("b")
        await trio.sleep(1)
        await a.kill()
        first = int(first_tick(1_000_000))
        known, lacks = ({Z: Ranges.from_ticks(range(begin, first + 20_000, 2))} for begin in (first + 1, first))
        peer = Forgetful(b, known, lacks)
        again = await world.start("a", disk=a.disk.after_kill(), caller=peer)
        await world.ready("a")
        peer.speaks_of_z = True
        again.driver.hear(Gap())
        await until(lambda: again.replica.tree.ledger.has((Z, Tick(first + 1))), 0.01)
        await fill(again)
        assert not again.replica.tree.ledger.lost()
        await trio.sleep(5)
        assert again.failure is None
        assert again.replica.tree.ledger.lost() == lacks
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_joiner_is_told_of_the_full_disk_of_its_sponsor(autojump_clock: MockClock) -> None:
    async with full_node() as (a, _), a.client() as client:
        for number in range(400):
            answer = await client.items("get_snapshot", node=f"z{number}", created=1.0, addr=f"z{number}:1")
            if "error" in answer[0]:
                break
        assert answer[0]["code"] == "no_space"
        assert a.failure is None


@pytest.mark.trio
async def test_restart_on_a_full_disk_serves_reads(autojump_clock: MockClock) -> None:
    async with full_node() as (a, _):
        await a.kill()
        disk = a.disk.after_kill()
        disk.faults.capacity_bytes = disk.faults.used_bytes
        again = await a.world.start("a", disk=disk)
        await a.world.ready("a")
        async with again.client() as client:
            assert (await client.get("fill.n0"))["value"] == VALUE
            assert (await client.set("fill.n0", VALUE))["code"] == "no_space"
