"""The network in memory: what it loses, delays, copies and cuts, and that one seed gives one history.

Knows: `MemoryNetwork` as the tests of the engine use it.  Does not know the engine.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.model.event import NodeName
from distkv.transport.base import Announce, Down, GossipHeard, Members, Transport, Up
from distkv.transport.diversion import Diversion
from distkv.transport.memory import WAITING_MAX, MemoryNetwork, MemoryTransport, MessageFaults
from distkv.wire.message import Ping
from tests.node.gossip_samples import A, B, C, Reports, info, ping, update

STEADY = MessageFaults(delay_s=(0.1, 0.1))


@attrs.define
class Bench:
    network: MemoryNetwork
    transports: dict[NodeName, MemoryTransport]
    reports: dict[NodeName, Reports]

    def heard(self, node: NodeName) -> list[tuple[str, int]]:
        """(sender, tick) of the pings."""
        found = [report.message for report in self.reports[node] if isinstance(report, GossipHeard)]
        return [(m.header.node, m.header.tick) for m in found if isinstance(m, Ping)]


@asynccontextmanager
async def bench(faults: MessageFaults, *, seed: int = 1, nodes: Sequence[NodeName] = (A, B, C)) -> AsyncIterator[Bench]:
    network = MemoryNetwork(random.Random(seed), faults)
    made = Bench(network, {node: network.transport(node, f"{node}:1") for node in nodes}, {n: Reports() for n in nodes})
    async with trio.open_nursery() as nursery:
        for node, transport in made.transports.items():
            checked: Transport = transport
            await nursery.start(checked.run, made.reports[node].append)
        yield made
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_message_reaches_all_after_its_delay_and_comes_back_at_once(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[A].broadcast(ping(A, 1))
        await trio.sleep(0.05)
        assert (b.heard(A), b.heard(B)) == ([("a", 1)], [])
        await trio.sleep(0.06)
        assert b.heard(B) == b.heard(C) == [("a", 1)]


@pytest.mark.trio
async def test_all_kinds_pass_the_codec_unchanged(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        for message in (ping(A, 1), info(A, 2, ["b"]), update(A, 3)):
            b.transports[A].broadcast(message)
        await trio.sleep(1)
        first, second, third = [report.message for report in b.reports[B] if isinstance(report, GossipHeard)]
        assert (first, second) == (ping(A, 1), info(A, 2, ["b"]))
        assert third.header == update(A, 3).header


@pytest.mark.trio
async def test_loss_takes_its_share_but_not_of_our_own(autojump_clock: MockClock) -> None:
    async with bench(MessageFaults(loss=0.3)) as b:
        for tick in range(1000):
            b.transports[A].broadcast(ping(A, tick))
        await trio.sleep(1)
        assert len(b.heard(A)) == 1000
        assert 600 < len(b.heard(B)) < 800
        assert b.heard(B) != b.heard(C)


@pytest.mark.trio
async def test_duplication_and_a_spread_of_delays_repeat_and_reorder(autojump_clock: MockClock) -> None:
    async with bench(MessageFaults(duplication=0.5)) as b:
        for tick in range(100):
            b.transports[A].broadcast(ping(A, tick))
        await trio.sleep(1)
        heard = b.heard(B)
        assert 130 < len(heard) < 170
        assert set(heard) == {("a", tick) for tick in range(100)}
        assert heard != sorted(heard)


async def history(seed: int) -> list[list[tuple[str, int]]]:
    async with bench(MessageFaults(loss=0.2, duplication=0.2), seed=seed) as b:
        for tick in range(50):
            for node, transport in b.transports.items():
                transport.broadcast(ping(node, tick))
            await trio.sleep(0.01)
        await trio.sleep(1)
        return [b.heard(node) for node in b.transports]


@pytest.mark.trio
async def test_one_seed_gives_one_history(autojump_clock: MockClock) -> None:
    first = await history(7)
    assert await history(7) == first
    assert await history(8) != first


@pytest.mark.trio
async def test_partition_separates_and_heals(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.network.partition([A, B])
        for node in (A, C):
            b.transports[node].broadcast(ping(node, 1))
        await trio.sleep(1)
        assert (b.heard(B), b.heard(C)) == ([("a", 1)], [("c", 1)])
        assert b.reports[C].of(Members)[-1] == Members({"c": "c:1"})
        b.network.heal()
        b.transports[A].broadcast(ping(A, 2))
        await trio.sleep(1)
        assert b.heard(C) == [("c", 1), ("a", 2)]
        assert b.reports[C].of(Members)[-1] == Members({"a": "a:1", "b": "b:1", "c": "c:1"})


@pytest.mark.trio
async def test_cut_closes_one_direction_only(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.network.cut(A, B)
        b.transports[A].broadcast(ping(A, 1))
        b.transports[B].broadcast(ping(B, 1))
        await trio.sleep(1)
        assert b.heard(B) == [("b", 1)]
        assert set(b.heard(A)) == {("a", 1), ("b", 1)}


@pytest.mark.trio
async def test_paused_node_hears_and_says_everything_later(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[B].pause()
        b.transports[A].broadcast(ping(A, 1))
        b.transports[B].broadcast(ping(B, 1))
        await trio.sleep(10)
        assert (b.heard(B), b.heard(A)) == ([], [("a", 1)])
        b.transports[B].resume()
        await trio.sleep(1)
        assert set(b.heard(B)) == set(b.heard(A)) == {("a", 1), ("b", 1)}
        assert not b.reports[B].of(Down)


@pytest.mark.trio
async def test_paused_node_lets_no_more_wait_than_its_limit(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[B].pause()
        for tick in range(WAITING_MAX + 10):
            b.transports[A].broadcast(ping(A, tick))
        await trio.sleep(1)
        assert b.transports[B].statistics()["lost_queue"] == 10


@pytest.mark.trio
async def test_disconnected_node_is_down_and_misses_everything(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[B].disconnect("the agent is gone")
        b.transports[A].broadcast(ping(A, 1))
        b.transports[B].broadcast(ping(B, 1))
        await trio.sleep(1)
        assert b.reports[B][-1] == Down("the agent is gone")
        assert b.reports[A].of(Members)[-1] == Members({"a": "a:1", "c": "c:1"})
        b.transports[B].reconnect()
        b.transports[A].broadcast(ping(A, 2))
        await trio.sleep(1)
        assert b.reports[B].of(Up) == [Up(1300), Up(1300)]
        assert b.heard(B) == [("a", 2)]
        assert b.heard(A) == [("a", 1), ("a", 2)]


@pytest.mark.trio
async def test_update_that_was_not_carried_is_announced_once(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[A].broadcast(update(A, 1, 2000))
        b.transports[A].broadcast(update(A, 2, 2000))
        await trio.sleep(1)
        assert b.reports[A].of(Announce) == [Announce()]
        assert b.reports[B].of(GossipHeard) == []


@pytest.mark.trio
async def test_update_while_down_is_announced_after_reconnecting(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        b.transports[A].disconnect()
        b.transports[A].broadcast(update(A, 1))
        await trio.sleep(1)
        assert not b.reports[A].of(Announce)
        b.transports[A].reconnect()
        await trio.sleep(1)
        assert b.reports[A].kinds()[-3:] == ["Up", "Members", "Announce"]


@pytest.mark.trio
async def test_restarted_node_takes_the_place_of_the_old_one(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b, trio.open_nursery() as nursery:
        again, reports = b.network.transport(B, "b:2"), Reports()
        await nursery.start(again.run, reports.append)
        b.transports[A].broadcast(ping(A, 1))
        await trio.sleep(1)
        assert b.heard(B) == []
        assert reports.of(GossipHeard) == [GossipHeard(ping(A, 1))]
        assert b.reports[A].of(Members)[-1] == Members({"a": "a:1", "b": "b:2", "c": "c:1"})
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_diverted_messages_are_lost_or_late_on_their_way_only(autojump_clock: MockClock) -> None:
    async with bench(STEADY) as b:
        lost = Diversion("ping", receivers=frozenset([B]), count=1)
        late = Diversion("gossip", receivers=frozenset([C]), delay_ms=500)
        b.network.diversions += [lost, late]
        for tick in (1, 2):
            b.transports[A].broadcast(ping(A, tick))
        await trio.sleep(0.2)
        assert (b.heard(A), b.heard(B), b.heard(C)) == ([("a", 1), ("a", 2)], [("a", 2)], [])
        await trio.sleep(0.5)
        assert b.heard(C) == [("a", 1), ("a", 2)]


@pytest.mark.trio
async def test_partition_holds_for_nodes_that_come_later(autojump_clock: MockClock) -> None:
    async with bench(STEADY, nodes=(A, B)) as b:
        b.network.partition([A, B], [C])
        b.network.transport(C, "c:1")
        assert not b.network.reaches(A, C)
