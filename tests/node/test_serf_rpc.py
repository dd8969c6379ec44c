"""Our RPC client against a fake agent: time, order, limits, garbage.

Knows: what tests/process shows of a real agent.  Does not know the transport.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgpack
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.errors import DecodeError
from distkv.transport.serf_rpc import CALLS_MAX, STREAMS_MAX, SerfRpc, connect
from distkv.transport.serf_stream import (
    RECORDS_MAX,
    AuthRefusedError,
    Overflow,
    RpcLostError,
    RpcRefusedError,
    RpcTimeoutError,
)
from distkv.wire.serf_frames import ReplyDecoder, Shape, UserEvent, encode_request
from tests.node.fake_agent import FakeAgent


@asynccontextmanager
async def connected(agent: FakeAgent, nursery: trio.Nursery) -> AsyncIterator[SerfRpc]:
    yield await connect(nursery, "agent", 1, dial=agent.dial)
    nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_silent_agent_fails_the_call_after_its_timeout(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, mute={"tags"})
        async with connected(agent, nursery) as rpc:
            began = trio.current_time()
            with pytest.raises(RpcTimeoutError, match="'tags' within 2 s"):
                await rpc.set_tags({})
            assert trio.current_time() - began == pytest.approx(2.0)
            assert (await rpc.members())[0].name == "agent-a"


@pytest.mark.trio
async def test_agent_that_never_answers_is_not_asked_without_end(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, mute={"tags"})
        async with connected(agent, nursery) as rpc:
            async with trio.open_nursery() as callers:
                for _ in range(CALLS_MAX):
                    callers.start_soon(expect_timeout, rpc)
            with pytest.raises(RpcTimeoutError, match="owes"):
                await rpc.stats()


async def expect_timeout(rpc: SerfRpc) -> None:
    with pytest.raises(RpcTimeoutError):
        await rpc.set_tags({})


@pytest.mark.trio
async def test_answers_out_of_order_reach_their_calls(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, mute={"event"})
        found: list[str] = []
        async with connected(agent, nursery) as rpc, trio.open_nursery() as callers:
            callers.start_soon(refused_with, rpc, "one", found)
            await wait_all_tasks_blocked()
            callers.start_soon(refused_with, rpc, "two", found)
            await wait_all_tasks_blocked()
            for seq, text in ((4, "to two"), (3, "to one")):  # 1 was the handshake, 2 the question for a key
                await agent.send_raw(msgpack.packb({"Seq": seq, "Error": text}))
        assert sorted(found) == ["one: to one", "two: to two"]


async def refused_with(rpc: SerfRpc, name: str, found: list[str]) -> None:
    with pytest.raises(RpcRefusedError) as caught:
        await rpc.send_event(name, b"")
    found.append(f"{name}: {caught.value.text}")


@pytest.mark.trio
async def test_lost_connection_fails_waiting_calls_and_streams_at_once(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, mute={"members"})
        async with connected(agent, nursery) as rpc:
            stream = await rpc.open_stream("*")
            began = trio.current_time()
            async with trio.open_nursery() as callers:
                callers.start_soon(expect_lost, rpc.members)
                callers.start_soon(expect_lost, stream.receive)
                callers.start_soon(expect_lost, rpc.wait_lost)
                await wait_all_tasks_blocked()
                await agent.stop()
            with pytest.raises(RpcLostError, match="closed the connection"):
                await rpc.stats()
            assert trio.current_time() == began


async def expect_lost(call: object) -> None:
    assert callable(call)
    with pytest.raises(RpcLostError):
        await call()


GARBAGE = {
    "not msgpack": b"\xc1",
    "not a map": msgpack.packb([1, 2]),
    "no number": msgpack.packb({"Error": ""}),
    "no error": msgpack.packb({"Seq": 3}),
    "unknown number": msgpack.packb({"Seq": 4711, "Error": ""}),
    "body of another kind": msgpack.packb({"Seq": 3, "Error": ""}) + msgpack.packb({"Members": [{"Name": 3}]}),
    "body no map": msgpack.packb({"Seq": 3, "Error": ""}) + msgpack.packb(7),
    "key that has no hash": b"\x81\x90\x01",
    "declared length": b"\xdd\xff\xff\xff\xff",
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.trio
async def test_garbage_from_the_agent_ends_the_connection(autojump_clock: MockClock, answer: bytes) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, raw={"members": answer})
        async with connected(agent, nursery) as rpc:
            with pytest.raises(RpcLostError):
                await rpc.members()
            with pytest.raises(RpcLostError):
                await rpc.stats()


@given(data=st.binary(max_size=200), cut=st.integers(0, 200))
def test_any_bytes_decode_to_frames_or_one_error(data: bytes, cut: int) -> None:
    shapes = {1: Shape.BODY, 3: Shape.EMPTY, 4: Shape.RECORDS}
    decoder = ReplyDecoder(shapes.get)
    good = msgpack.packb({"Seq": 1, "Error": ""}) + msgpack.packb({"a": 1})
    frames = []
    with contextlib.suppress(DecodeError):
        for part in (good, data[:cut], data[cut:]):
            frames += list(decoder.feed(part))
    assert frames[0].body == {b"a": 1}


def test_frames_cut_anywhere_come_out_whole() -> None:
    data = b"".join(
        [
            msgpack.packb({"Seq": 1, "Error": "no"}),
            msgpack.packb({"Seq": 2, "Error": ""}),
            msgpack.packb({"Seq": 1, "Error": ""}) + msgpack.packb({"Num": 1}),
        ]
    )
    for cut in range(len(data)):
        decoder = ReplyDecoder({1: Shape.BODY, 2: Shape.EMPTY}.get)
        frames = [frame for part in (data[:cut], data[cut:]) for frame in decoder.feed(part)]
        assert [frame.body for frame in frames] == [None, None, {b"Num": 1}]


def test_request_is_a_header_and_a_body() -> None:
    unpacker = msgpack.Unpacker()
    unpacker.feed(encode_request("event", 7, {"Name": "x", "Payload": b"\xff"}))
    assert list(unpacker) == [{"Command": "event", "Seq": 7}, {"Name": "x", "Payload": b"\xff"}]


@pytest.mark.trio
async def test_slow_consumer_finds_a_mark_where_records_were_dropped(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery)
        async with connected(agent, nursery) as rpc:
            stream = await rpc.open_stream("user:x")
            await agent.inject("x", b"1", RECORDS_MAX + 3)
            await wait_all_tasks_blocked()
            await agent.inject("x", b"2")
            await wait_all_tasks_blocked()
            kept = [await stream.receive() for _ in range(RECORDS_MAX)]
            assert set(kept) == {UserEvent("x", b"1", 1)}
            assert await stream.receive() == Overflow(4)
            await agent.inject("x", b"3")
            assert await stream.receive() == UserEvent("x", b"3", 1)


@pytest.mark.trio
async def test_unread_stream_delays_no_call(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery)
        async with connected(agent, nursery) as rpc:
            await rpc.open_stream("user:x")
            began = trio.current_time()
            for _ in range(3):
                await agent.inject("x", bytes(1000), RECORDS_MAX)
                await rpc.stats()
            assert trio.current_time() == began


@pytest.mark.trio
async def test_streams_of_one_connection_are_limited(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery)
        async with connected(agent, nursery) as rpc:
            for _ in range(STREAMS_MAX):
                await rpc.open_stream("*")
            with pytest.raises(RpcRefusedError, match="use a new one"):
                await rpc.open_stream("*")


@pytest.mark.trio
async def test_request_that_cannot_be_sent_in_time_ends_the_connection(autojump_clock: MockClock) -> None:
    ours, _ = trio.testing.lockstep_stream_pair()  # nobody reads at the other end
    async with trio.open_nursery() as nursery:
        rpc = SerfRpc(ours)
        nursery.start_soon(rpc.run)
        for _ in range(2):
            with pytest.raises(RpcLostError, match="could not be sent"):
                await rpc.stats()
        assert trio.current_time() == pytest.approx(2.0)


@pytest.mark.trio
async def test_agent_that_wants_a_key_says_which_setting(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, auth="secret")
        with pytest.raises(AuthRefusedError, match=r"serf\.auth"):
            await connect(nursery, "agent", 1, dial=agent.dial)
        with pytest.raises(AuthRefusedError, match=r"serf\.auth"):
            await connect(nursery, "agent", 1, dial=agent.dial, auth="wrong")
        rpc = await connect(nursery, "agent", 1, dial=agent.dial, auth="secret")
        assert len(await rpc.members()) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_connecting_to_nobody_fails_with_the_address(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        agent = FakeAgent(nursery, is_stopped=True)
        with pytest.raises(RpcLostError, match="agent:7373"):
            await connect(nursery, "agent", 7373, dial=agent.dial)


@pytest.mark.trio
async def test_connection_that_is_never_taken_times_out(autojump_clock: MockClock) -> None:
    async def dial(host: str, port: int) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise OSError(host, port)

    async with trio.open_nursery() as nursery:
        with pytest.raises(RpcTimeoutError, match="did not take"):
            await connect(nursery, "agent", 7373, dial=dial)
        assert trio.current_time() == pytest.approx(2.0)
