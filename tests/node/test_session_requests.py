"""One connection: however requests are cut and mixed, each gets its reply, in order, and bad ones change nothing.

Knows: frames and a node that is ready.  Does not know disks that fail or limits that are reached.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from distkv.wire import packing
from distkv.wire.codec import tick_maps_map
from tests.node.nodes import Client, Node, Reply, new_world, run, solo_node
from tests.profiles import examples

pytestmark = pytest.mark.usefixtures("both_ways")


async def greeted(node: Node) -> Client:
    client = node.client()
    greeting = await client.receive()
    assert greeting is not None
    assert greeting["seq"] == 0
    return client


def mixed(client: Client, count: int) -> list[bytes]:
    """Writes, reads and pings in turn; the read of a path follows its write."""
    frames = []
    for number in range(count):
        frames.append(client.frame("set_value", path=["p", number % 3], value=number))
        frames.append(client.frame("get_value", path=["p", number % 3]))
        frames.append(client.frame("ping"))
    return frames


def check_mixed(replies: list[Reply | None]) -> None:
    """All in order; each read sees the write before it."""
    assert [reply["seq"] for reply in replies if reply is not None] == list(range(1, len(replies) + 1))
    assert [reply["value"] for reply in replies[1::3] if reply is not None] == list(range(len(replies) // 3))


@given(st.lists(st.integers(1, 400), max_size=30))
@examples(15)
def test_requests_cut_anywhere_are_answered_alike(cuts: list[int]) -> None:
    async def main() -> None:
        async with solo_node() as node, await greeted(node) as client:
            data = b"".join(mixed(client, 20))
            for size in cuts:
                await client.stream.send_all(data[:size])
                data = data[size:]
                await trio.sleep(0.0003)
            await client.stream.send_all(data)
            check_mixed(await client.replies(60))

    run(main)


@pytest.mark.trio
async def test_requests_arriving_byte_by_byte_are_answered(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        for byte in b"".join(mixed(client, 3)):
            await client.stream.send_all(bytes([byte]))
        check_mixed(await client.replies(9))


@pytest.mark.trio
async def test_pipelined_requests_share_one_commit(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        commits = node.log.statistics().batches
        await client.stream.send_all(b"".join(mixed(client, 200)))
        check_mixed(await client.replies(600))
        assert node.log.statistics().batches == commits + 1


@pytest.mark.trio
async def test_many_connections_at_once_share_few_commits(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=0.01) as node, trio.open_nursery() as nursery:
        commits = node.log.statistics().batches
        answered: list[Reply] = []

        async def write(number: int) -> None:
            async with node.client() as client:
                answered.append(await client.set(f"n{number}", number))

        for number in range(100):
            nursery.start_soon(write, number)
        await trio.sleep(1)
        assert len(answered) == 100
        assert len({reply["tick"] for reply in answered}) == 100
        assert node.log.statistics().batches - commits <= 10


@pytest.mark.trio
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"action": "get_value"}, "bad_path"),
        ({"action": "get_value", "path": [1.5, {}]}, "bad_path"),
        ({"action": "set_value", "path": ["x"]}, "bad_request"),
        ({"action": "set_value", "path": [None, "node", "a"], "value": 1}, "bad_request"),
        ({"action": "set_value", "path": ["x"], "value": 1, "ttl": 0}, "bad_request"),
        ({"action": "fly"}, "unknown_action"),
        ({"action": 7}, "bad_request"),
        ({}, "bad_request"),
        ({"action": "get_events", "nodes": 5}, "bad_request"),
        ({"action": "get_snapshot"}, "bad_request"),
        ({"action": "exchange", "maps": {}}, "bad_request"),
    ],
)
async def test_bad_request_is_answered_and_the_stream_goes_on(
    autojump_clock: MockClock, fields: dict[str, object], code: str
) -> None:
    async with solo_node() as node, await greeted(node) as client:
        before = node.replica.tick, node.replica.tree.digest
        good = packing.pack({"seq": 2, "action": "ping"})
        await client.stream.send_all(packing.pack({"seq": 1, **fields}) + good)
        bad, pong = await client.replies(2)
        assert bad is not None
        assert (bad["seq"], bad["code"]) == (1, code)
        assert pong == {"seq": 2}
        assert (node.replica.tick, node.replica.tree.digest) == before


@pytest.mark.trio
@pytest.mark.parametrize("seq", [0, -1, 1.0, "1", None, True, 2**63])
async def test_impossible_seq_is_answered_with_zero(autojump_clock: MockClock, seq: object) -> None:
    async with solo_node() as node, await greeted(node) as client:
        await client.stream.send_all(packing.pack({"seq": seq, "action": "ping"}) + client.frame("ping"))
        bad, pong = await client.replies(2)
        assert bad is not None
        assert (bad["seq"], bad["code"]) == (0, "bad_request")
        assert pong == {"seq": 1}


@pytest.mark.trio
async def test_seq_that_does_not_rise_is_refused_and_changes_nothing(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        tick = node.replica.tick
        for seq in (5, 5, 4, 6):
            await client.stream.send_all(
                packing.pack({"seq": seq, "action": "set_value", "path": ["x"], "value": seq})
            )
        replies = await client.replies(4)
        assert [reply.get("code") for reply in replies if reply] == [None, "bad_request", "bad_request", None]
        assert node.replica.tick == tick + 2


@pytest.mark.trio
@pytest.mark.parametrize("garbage", [b"\xc1", b"\x93\x01\x02\x03", b"GET / HTTP/1.1\r\n", packing.pack("x"), b"\x00"])
async def test_broken_stream_gets_the_replies_due_one_error_and_its_end(
    autojump_clock: MockClock, garbage: bytes
) -> None:
    async with solo_node() as node, await greeted(node) as client:
        await client.stream.send_all(client.frame("set_value", path=["x"], value=1) + client.frame("ping") + garbage)
        written, pong, error, end = await client.replies(4)
        assert written is not None
        assert written["changed"]
        assert pong == {"seq": 2}
        assert error is not None
        assert (error["seq"], error["code"]) == (0, "bad_request")
        assert end is None
        assert node.failure is None


@pytest.mark.trio
async def test_broken_stream_is_read_on_for_a_moment_so_that_the_error_arrives(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        await client.stream.send_all(b"\xc1")
        for _ in range(5):
            await client.stream.send_all(bytes(1000))
            await trio.sleep(0.1)
        error, end = await client.replies(2)
        assert error is not None
        assert (error["code"], end) == ("bad_request", None)
        await trio.sleep(2)
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.send_all(b"x")


@pytest.mark.trio
async def test_client_that_goes_away_harms_nothing(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=0.1) as node:
        fields: dict[str, object] = {"path": ["x"], "value": 1, "nodes": {"a": [[1, 9]]}, "node": "z", "created": 1.0}
        for action in ("set_value", "get_events", "get_snapshot"):
            client = await greeted(node)
            await client.stream.send_all(client.frame(action, **fields, addr="z:1"))
            await trio.sleep(0.01)
            await client.stream.aclose()
        await trio.sleep(1)
        async with node.client() as other:
            assert (await other.get("x"))["value"] == 1
        assert node.failure is None


@pytest.mark.trio
async def test_of_doubted_events_only_those_that_are_superseded_are_told(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        ticks = [(await client.set("x", number))["tick"] for number in range(3)]
        answer = await client.items("get_events", nodes={"a": [ticks[0]]}, doubted={"a": ticks[1:]})
    assert answer == [{"seq": answer[0]["seq"], "pulled": {"known": {"a": [[ticks[0], ticks[2]]]}, "lacks": {}}}]


@pytest.mark.trio
async def test_long_answer_lets_simple_ones_pass(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        frames = [client.frame("set_value", path=["p", n], value=bytes(200)) for n in range(3000)]
        await client.stream.send_all(b"".join(frames))
        await client.replies(3000)
        async with await greeted(node) as slow:
            await slow.stream.send_all(slow.frame("get_events", nodes={"a": [[1, 4000]]}))
            seen: list[tuple[int, object]] = []
            while not seen or seen[-1] != (1, "end"):
                reply = (await slow.replies(1))[0]
                assert reply is not None
                seen.append((reply["seq"], reply.get("state")))
                if len(seen) in (1, 2, 3):
                    await slow.stream.send_all(slow.frame("ping"))
        assert seen[0] == (1, "start")
        pings = [seq for seq, _ in seen if seq > 1]
        assert pings == [2, 3, 4]
        assert len([1 for seq, _ in seen if seq == 1]) >= 8


@pytest.mark.trio
async def test_two_long_answers_on_one_connection_are_both_whole(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client:
        await client.stream.send_all(b"".join(client.frame("set_value", path=["p", n], value=n) for n in range(1200)))
        await client.replies(1200)
        pull = {"nodes": {"a": [[1, 2000]]}}
        first, second = client.frame("get_events", **pull), client.frame("get_events", **pull)
        await client.stream.send_all(first + second)
        counts = {1201: 0, 1202: 0}
        ends = 0
        while ends < 2:
            reply = (await client.replies(1))[0]
            assert reply is not None
            counts[reply["seq"]] += len(reply.get("events", []))
            ends += reply.get("state") == "end"
        assert counts[1201] == counts[1202] >= 1200


@pytest.mark.trio
async def test_long_answer_while_the_tree_changes_is_whole(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node) as client, await greeted(node) as writer:
        await client.stream.send_all(b"".join(client.frame("set_value", path=["p", n], value=n) for n in range(1500)))
        await client.replies(1500)
        await client.stream.send_all(
            client.frame("get_snapshot", node="z", created=1.0, addr="z:1")
            + client.frame("get_events", nodes={"a": [[1, 4000]]})
        )
        ends = 0
        while ends < 2:
            reply = (await client.replies(1))[0]
            assert reply is not None
            ends += reply.get("state") == "end"
            await writer.set("p", "changes")
            await writer.ask("set_value", path=["p", ends], value=None)
        assert node.failure is None


# -- states -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def waiting_node(state: str) -> AsyncIterator[Node]:
    """A node that is not ready: nobody is there, or (recovering) it has data and its peer does not answer."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        if state == "passive":
            node = await world.start("a")
        else:
            first = await world.start("a", init=1)
            await world.ready("a")
            await world.start("b")
            await world.ready("b")
            await first.kill()
            node = await world.start("a", disk=first.disk.after_kill())
        assert node.replica.state == state
        yield node
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize("state", ["passive", "recovering"])
async def test_node_that_is_not_ready_answers_state_and_ping_and_refuses_the_rest(
    autojump_clock: MockClock, state: str
) -> None:
    async with waiting_node(state) as node, await greeted(node) as client:
        await client.stream.send_all(
            client.frame("get_value", path=["x"])
            + client.frame("set_value", path=["x"], value=1)
            + client.frame("delete_value", path=["x"])
            + client.frame("get_state")
            + client.frame("ping")
        )
        get, put, delete, shown, pong = await client.replies(5)
        assert [reply["code"] for reply in (get, put, delete) if reply] == ["not_ready"] * 3
        assert shown is not None
        assert (shown["state"], bool(shown["waits_for"])) == (state, True)
        assert pong == {"seq": 5}


@pytest.mark.trio
@pytest.mark.parametrize("state", ["passive", "recovering"])
async def test_node_that_is_not_ready_answers_peers(autojump_clock: MockClock, state: str) -> None:
    async with waiting_node(state) as node, await greeted(node) as client:
        maps = tick_maps_map(node.replica.maps())
        assert "maps" in await client.ask("exchange", maps={**maps, "node": "q"})
        assert await client.items("get_events", nodes={"a": [1]})
        assert "page" in (await client.items("get_pages", size=1))[-1]
        answer = await client.items("get_snapshot", node="z", created=1.0, addr="z:1")
        assert (answer[0].get("code") == "not_ready") == (state == "passive")
