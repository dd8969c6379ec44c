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
from distkv.wire.serf_frames import LogLine, MemberEvent, QueryAnswer, QueryEvent, UserEvent
from tests.process.agents import Agents, open_agents, wait_until

KEY = "HvY8ubRZMgafUOWvrOEwckwa1wXMo5DVGdMQuQpFfmE="
OTHER_KEY = "5K9OtfP7efFrNKe5WCQvXvnaXJ5cWP0SvXiwe0kkjM4="


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
            await rpc.set_tags({}, delete=["role"])
            assert [m.tags for m in await rpc.members_filtered(name="a", status="alive", tags={"new": "1"})] == [
                {"new": "1"}
            ]
            assert await rpc.members_filtered(name="nobody") == ()
            assert (await rpc.stats())["serf"]["members"] == "1"
            coordinate = await rpc.coordinate("a")
            assert coordinate is not None
            assert len(coordinate) == 10
            assert await rpc.coordinate("nobody") is None


@pytest.mark.trio
async def test_bad_regular_expression_closes_the_connection_and_fails_the_call(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc() as rpc:
            with pytest.raises((RpcLostError, RpcRefusedError)):
                await rpc.members_filtered(name="(")


@pytest.mark.trio
async def test_two_agents_join_gossip_query_and_leave(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a, b = await agents.start("a"), await agents.start("b")
        async with a.open_rpc() as rpc_a, b.open_rpc() as rpc_b:
            joins = await rpc_a.open_stream("member-join,member-leave")
            events = await rpc_b.open_stream("user:x,query")
            with pytest.raises(RpcRefusedError, match="refused"):
                await rpc_a.join(["127.0.0.1:1"])
            assert await rpc_a.join([b.address], replay=True) == 1
            assert await receive_join_of(joins, "b")
            await rpc_a.send_event("x", b"\x00\xff")
            heard = await receive(events)
            assert isinstance(heard, UserEvent)
            assert (heard.name, heard.payload) == ("x", b"\x00\xff")
            await rpc_a.send_event("x", b"")
            assert isinstance(empty := await receive(events), UserEvent)
            assert empty.payload == b""
            answers = await rpc_a.open_query("how", b"?", ack=True, nodes=["b"], wait_s=3)
            asked = await receive(events)
            assert isinstance(asked, QueryEvent)
            assert (asked.name, asked.payload) == ("how", b"?")
            await rpc_b.respond(asked.id, b"well")
            got = [await receive(answers) for _ in range(3)]
            assert QueryAnswer("ack", "b", b"") in got
            assert QueryAnswer("response", "b", b"well") in got
            assert got[-1] == QueryAnswer("done", "", b"")
            with pytest.raises(RpcRefusedError):
                await rpc_b.respond(4711, b"")
            await rpc_b.leave()
            left = await receive(joins)
            assert isinstance(left, MemberEvent)
            assert (left.kind, left.members[0].name) == ("member-leave", "b")


async def receive_join_of(stream: RecordStream, name: str) -> bool:
    while True:
        record = await receive(stream)
        if isinstance(record, MemberEvent) and name in [member.name for member in record.members]:
            return record.kind == "member-join"


@pytest.mark.trio
async def test_stopped_stream_and_monitor_send_nothing_more(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a")
        async with a.open_rpc() as rpc:
            monitor = await rpc.open_monitor("DEBUG")
            assert isinstance(await receive(monitor), LogLine)
            await rpc.stop(monitor)
            stream = await rpc.open_stream("*")
            await rpc.stop(stream)
            await rpc.send_event("x", b"1")
            with pytest.raises(RpcLostError, match="stopped"):
                await receive(stream)
            with pytest.raises(RpcRefusedError, match="filter"):
                await rpc.open_stream("nonsense")


@pytest.mark.trio
async def test_failed_agent_can_be_forced_to_leave(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a", profile="local")
        b = await agents.start("b", profile="local", join=[a])
        async with a.open_rpc() as rpc:
            await wait_status(rpc, "b", "alive")
            b.kill()
            await wait_status(rpc, "b", "failed")
            await rpc.force_leave("b")
            await wait_status(rpc, "b", "left")
            await rpc.force_leave("b", prune=True)
            await wait_status(rpc, "b", None)


async def wait_status(rpc: SerfRpc, name: str, status: str | None) -> None:
    async def has_it() -> bool:
        return {member.name: member.status for member in await rpc.members()}.get(name) == status

    await wait_until(has_it, f"{name} is {status}", 20)


@pytest.mark.trio
async def test_keys_of_an_encrypted_agent_are_managed(tmp_path: Path) -> None:
    async with open_agents(tmp_path) as agents:
        a = await agents.start("a", options=[f"-encrypt={KEY}"])
        async with a.open_rpc() as rpc:
            assert (await rpc.list_keys()).keys == {KEY: 1}
            assert (await rpc.install_key(OTHER_KEY)).failed == 0
            assert (await rpc.use_key(OTHER_KEY)).agents == 1
            assert (await rpc.remove_key(KEY)).messages == {}
            assert (await rpc.list_keys()).keys == {OTHER_KEY: 1}
            with pytest.raises(RpcRefusedError, match="base64"):
                await rpc.install_key("bad")
            assert (await rpc.stats())["serf"]["encrypted"] == "true"  # the refused call's body was read, too


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
