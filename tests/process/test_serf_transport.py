"""The Serf transport on real agents: messages arrive, losses are noticed, the agents' queue stays short.

Knows: Debian's agent.  Does not know the engine.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from distkv.config import SerfConfig
from distkv.errors import TransportError
from distkv.model.event import NodeName
from distkv.transport.base import Announce, Down, Gap, GossipHeard, Members, Report, Up
from distkv.transport.budget import BURST
from distkv.transport.serf import TAG, SerfTransport
from distkv.wire.gossip import encode_message
from distkv.wire.message import Message
from tests.node.gossip_samples import Reports, info, ping, update
from tests.process.agents import Agent, open_agents, wait_members, wait_until


@attrs.define
class Node:
    """A transport beside an agent, and what it reported."""

    name: NodeName
    agent: Agent
    transport: SerfTransport
    reports: Reports

    def heard(self) -> list[Message]:
        return [report.message for report in self.reports if isinstance(report, GossipHeard)]

    async def wait_report(self, kind: type[Report], count: int = 1, deadline_s: float = 30.0) -> None:
        await wait_until(lambda: _is(len(self.reports.of(kind)) >= count), f"{count} of {kind.__name__}", deadline_s)


async def _is(value: bool) -> bool:
    return value


@asynccontextmanager
async def nodes(
    directory: Path, names: str, settings: SerfConfig | None = None, **options: object
) -> AsyncIterator[list[Node]]:
    """Agents that see each other, with a running transport each."""
    async with open_agents(directory) as agents, trio.open_nursery() as nursery:
        made: list[Node] = []
        start: Callable[..., Awaitable[Agent]] = agents.start
        for name in names:
            agent = await start(name, join=[node.agent for node in made[:1]], **options)
            node = NodeName(name)
            own = attrs.evolve(settings or SerfConfig(), port=agent.rpc_port, auth=agent.auth)
            transport = SerfTransport(own, node, f"127.0.0.1:{agent.rpc_port + 1}", random.Random(1))
            transport.appear()
            made.append(Node(node, agent, transport, Reports()))
        for one in made:
            await wait_members(one.agent, len(made))
            await nursery.start(one.transport.run, one.reports.append)
        yield made
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_messages_of_all_kinds_reach_the_other_agent_and_come_back(tmp_path: Path) -> None:
    async with nodes(tmp_path, "ab") as (a, b):
        assert a.reports[0] == Up(472)
        for message in (ping(a.name, 1), info(a.name, 2), update(a.name, 3)):
            a.transport.broadcast(message)
        await b.wait_report(GossipHeard, 3)
        await a.wait_report(GossipHeard, 3)
        assert {type(message).__name__ for message in b.heard()} == {"Ping", "Info", "Update"}
        assert ping(a.name, 1) in b.heard()
        assert info(a.name, 2) in b.heard()


@pytest.mark.trio
async def test_largest_packet_arrives_through_stock_and_widened_agents(tmp_path: Path) -> None:
    for folder, limit, event_bytes in (("stock", 512, 472), ("wide", 1390, 1300)):
        directory = tmp_path / folder
        directory.mkdir()
        async with nodes(directory, "ab", config={"user_event_size_limit": limit}) as (a, b):
            assert a.reports[0] == Up(event_bytes)
            sizes = {len("distkv.update") + len(encode_message(update(a.name, 1, size))): size for size in range(1300)}
            largest = update(a.name, 1, sizes[event_bytes])
            a.transport.broadcast(largest)
            await b.wait_report(GossipHeard)
            assert not a.reports.of(Announce)


@pytest.mark.trio
async def test_probe_for_the_size_reaches_nobody(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        b = await agents.start("b", join=[a])
        await wait_members(a, 2)
        async with b.open_rpc() as rpc, trio.open_nursery() as nursery:
            stream = await rpc.open_stream("user")
            transport = SerfTransport(SerfConfig(port=a.rpc_port), NodeName("a"), "h:1", random.Random(1))
            await nursery.start(transport.run, Reports().append)
            async with a.open_rpc() as other:
                await other.send_event("last", b"")
            with trio.fail_after(30):
                assert getattr(await stream.receive(), "name", "") == "last"
            nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_tags_tell_name_and_address_and_keep_the_others(tmp_path: Path) -> None:
    async with nodes(tmp_path, "ab", options=["-tag=role=x"]) as (a, b):
        expected = {str(n.name): f"127.0.0.1:{n.agent.rpc_port + 1}" for n in (a, b)}
        await wait_until(lambda: _is(Members(expected) in a.reports), "a sees both addresses")
        async with b.agent.open_rpc() as rpc:
            (tags,) = [member.tags for member in await rpc.members() if member.name == "b"]
        assert tags == {"role": "x", TAG: f"b@{expected['b']}"}


@pytest.mark.trio
async def test_killed_agent_is_down_and_restarted_one_is_up(tmp_path: Path) -> None:
    async with nodes(tmp_path, "a") as (a,):
        a.agent.kill()
        await a.wait_report(Down)
        (down,) = [report for report in a.reports if isinstance(report, Down)]
        assert "did not answer" not in down.reason, "nobody waited for it"
        a.agent.launch()
        await a.wait_report(Up, 2)
        await a.wait_report(Gap)
        a.transport.broadcast(ping(a.name, 1))
        await a.wait_report(GossipHeard)
        async with a.agent.open_rpc() as rpc:
            assert TAG in (await rpc.members())[0].tags


@pytest.mark.trio
async def test_frozen_agent_is_down_within_ten_seconds_and_thawed_one_is_up(tmp_path: Path) -> None:
    async with nodes(tmp_path, "a") as (a,):
        a.agent.freeze()
        await a.wait_report(Down, deadline_s=10)
        a.agent.thaw()
        await a.wait_report(Up, 2)


@pytest.mark.trio
async def test_agent_away_at_the_start_is_reported_and_found_later(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents, trio.open_nursery() as nursery:
        agent = await agents.start("a")
        agent.kill()
        transport = SerfTransport(SerfConfig(port=agent.rpc_port), NodeName("a"), "h:1", random.Random(1))
        reports = Reports()
        await nursery.start(transport.run, reports.append)
        assert reports.kinds() == ["Down"]
        agent.launch()
        await wait_until(lambda: _is("Up" in reports.kinds()), "the transport is up")
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_key_of_the_agent_is_needed(tmp_path: Path) -> None:
    async with nodes(tmp_path, "a", auth="secret") as (a,):
        assert a.reports[0] == Up(472)
        settings = SerfConfig(port=a.agent.rpc_port)
        with pytest.raises(TransportError, match=r"set serf\.auth"):
            await SerfTransport(settings, a.name, "h:1", random.Random(1)).run(Reports().append)


@pytest.mark.trio
async def test_flood_of_updates_leaves_the_agents_queue_short(tmp_path: Path) -> None:
    async with nodes(tmp_path, "abc") as made:
        longest, tick = 0, 0
        ends = trio.current_time() + 8
        began = trio.current_time()
        while trio.current_time() < ends:
            for node in made:
                for _ in range(50):
                    tick += 1
                    node.transport.broadcast(update(node.name, tick))
            longest = max(longest, *[await _queue(node.agent) for node in made])
            await trio.sleep(0.05)
        passed_s = trio.current_time() - began
        await trio.sleep(0.1)
        assert longest < 64
        for node in made:
            used = int(node.transport.statistics()["sent_update"]) + len(node.reports.of(Announce))
            assert 3 <= used <= 2 * BURST + 2.5 * passed_s
        total = sum(int(node.transport.statistics()["sent_update"]) for node in made)
        assert total + sum(len(node.reports.of(Announce)) for node in made) <= 3 * BURST + 2.5 * passed_s + 3


async def _queue(agent: Agent) -> int:
    async with agent.open_rpc() as rpc:
        return int((await rpc.stats())["serf"]["event_queue"])
