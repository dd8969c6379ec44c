"""Our RPC client against real agents: every command once, and what the agent's answers look like.

Knows: Debian's agent.  Does not know the transport.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from distkv.transport.serf_rpc import SerfRpc
from distkv.transport.serf_stream import (
    AuthRefusedError,
    RecordStream,
    RpcLostError,
    RpcRefusedError,
    RpcTimeoutError,
)
from distkv.wire.serf_frames import MemberEvent, UserEvent
from tests.process.agents import Agents, open_agents, wait_until


async def receive(stream: RecordStream) -> object:
    with trio.fail_after(30):
        return await stream.receive()


@pytest.mark.trio
async def test_members_tags_and_stats_are_answered(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a", options=["-tag=role=x"])
        async with a.open_rpc() as rpc:
            await rpc.set_tags({"new": "1"})
            (member,) = await rpc.members()
            assert (member.name, member.host, member.port, member.status) == ("a", "127.0.0.1", a.port, "alive")
            assert member.tags == {"role": "x", "new": "1"}
            assert (await rpc.stats())["serf"]["members"] == "1"


@pytest.mark.trio
async def test_two_agents_join_gossip_and_part(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a", profile="local")
        async with a.open_rpc() as rpc_a:
            joins = await rpc_a.open_stream("member-join,member-failed")
            b = await agents.start("b", profile="local", join=[a])
            assert await receive_join_of(joins, "b")
            async with b.open_rpc() as rpc_b:
                events = await rpc_b.open_stream("user:x")
                for payload in (b"\x00\xff", b""):
                    await rpc_a.send_event("x", payload)
                    heard = await receive(events)
                    assert isinstance(heard, UserEvent)
                    assert (heard.name, heard.payload) == ("x", payload)
            b.kill()
            failed = await receive(joins)
            assert isinstance(failed, MemberEvent)
            assert (failed.kind, failed.members[0].name) == ("member-failed", "b")


async def receive_join_of(stream: RecordStream, name: str) -> bool:
    while True:
        record = await receive(stream)
        if isinstance(record, MemberEvent) and name in [member.name for member in record.members]:
            return record.kind == "member-join"


@pytest.mark.trio
async def test_stream_of_what_there_is_none_of_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc() as rpc:
            with pytest.raises(RpcRefusedError, match="filter"):
                await rpc.open_stream("nonsense")
            assert (await rpc.stats())["agent"]["name"] == "a"


@pytest.mark.trio
async def test_wrong_missing_and_unwanted_keys_are_refused(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a", auth="secret")
        for key, text in (("wrong", "refused the key"), (None, "wants a key")):
            a.auth = key
            with pytest.raises(AuthRefusedError, match=text):
                await open_and_close(agents, "a")
        b = await agents.start("b")
        b.auth = "unwanted"
        with pytest.raises(AuthRefusedError, match="leave it out"):
            await open_and_close(agents, "b")


async def open_and_close(agents: Agents, name: str) -> None:
    (agent,) = [agent for agent in agents.started if agent.name == name and agent.process]
    async with agent.open_rpc():
        pass


@pytest.mark.trio
async def test_oversized_event_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc() as rpc:
            with pytest.raises(RpcRefusedError, match="limit of 512 bytes"):
                await rpc.send_event("x", bytes(513))
            await rpc.send_event("x", bytes(400))


@pytest.mark.trio
async def test_call_to_a_frozen_agent_times_out_and_its_late_answer_is_no_harm(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc(timeout_s=3.0) as rpc:
            a.freeze()
            with pytest.raises(RpcTimeoutError, match="'members'"):
                await rpc.members()
            a.thaw()

            async def answers() -> bool:
                try:
                    return (await rpc.stats())["agent"]["name"] == "a"
                except RpcTimeoutError:  # it may take its time, like any
                    return False

            await wait_until(answers, "a answers on the same connection")


@pytest.mark.trio
async def test_killed_agent_fails_a_waiting_call_at_once(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc() as rpc:
            stream = await rpc.open_stream("*")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(raises_lost, stream)
                a.freeze()
                nursery.start_soon(asks_and_loses, rpc)
                await trio.testing.wait_all_tasks_blocked(0.05)
                a.kill()
            with pytest.raises(RpcLostError):
                await rpc.stats()


async def raises_lost(stream: RecordStream) -> None:
    with pytest.raises(RpcLostError):
        await stream.receive()


async def asks_and_loses(rpc: SerfRpc) -> None:
    with pytest.raises(RpcLostError):  # not RpcTimeoutError, which would come later
        await rpc.members()
