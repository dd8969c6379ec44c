"""Connections over real sockets: what is served without a task, and what goes back to one, is answered as one stream.

Knows: pairs of sockets with small buffers, and nodes with small limits.  Does not know when the server does which.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from tests.node.nodes import OVER_SOCKETS, Client, solo_node

COMMIT_S = 1.0


@pytest.fixture(autouse=True)
def _over_sockets() -> Iterator[None]:
    token = OVER_SOCKETS.set(True)
    yield
    OVER_SOCKETS.reset(token)


async def send_at_once(client: Client, *frames: bytes) -> None:
    with trio.fail_after(30):
        await client.stream.send_all(b"".join(frames))


@pytest.mark.trio
async def test_quick_and_slow_requests_are_answered_in_their_order(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        frames = []
        for _ in range(20):
            frames.append(client.frame("set_value", path=["x", "y"], value=1))
            frames.append(client.frame("get_value", path=["x", "y"]))
            frames.append(client.frame("delete_tree", path=["x"]))
            frames.append(client.frame("get_value", path=["x", "y"]))
        await send_at_once(client, *frames)
        replies = [reply or {} for reply in await client.replies(81)][1:]
        assert [reply["seq"] for reply in replies] == list(range(1, 81))
        shown = [(second.get("value"), third["count"], fourth.get("value"))
                 for second, third, fourth in zip(replies[1::4], replies[2::4], replies[3::4], strict=True)]
        assert shown == [(1, 1, None)] * 20


@pytest.mark.trio
async def test_replies_that_the_socket_takes_in_parts_arrive_whole_and_in_order(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("big", bytes(300_000))
        await send_at_once(client, *(client.frame("get_value", path=["big"]) for _ in range(50)))
        replies = [reply or {} for reply in await client.replies(50)]
        assert [(reply["seq"], len(reply["value"])) for reply in replies] == [(seq, 300_000) for seq in range(2, 52)]


@pytest.mark.trio
async def test_client_that_does_not_read_holds_up_nobody_and_is_not_read_from(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as lazy, node.client() as other:
        await other.set("big", bytes(300_000))
        with trio.move_on_after(60) as patience:
            for _ in range(100_000):
                await lazy.stream.send_all(lazy.frame("get_value", path=["big"]))
        assert patience.cancelled_caught
        assert (await other.get("big"))["value"]


@pytest.mark.trio
async def test_items_of_a_watch_and_replies_of_its_connection_do_not_tear_each_other(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        assert (await client.ask("watch", path=["w"]))["state"] == "start"
        for number in range(30):
            await client.stream.send_all(client.frame("get_value", path=["w"]))
            await writer.set("w", bytes([number]) * 20_000)
            await client.stream.send_all(client.frame("ping"))
        found = [reply or {} for reply in await client.replies(90)]
        items = [reply["value"] for reply in found if reply["seq"] == 1]
        assert items == [bytes([number]) * 20_000 for number in range(30)]
        assert [reply["seq"] for reply in found if reply["seq"] > 1] == list(range(2, 62))


@pytest.mark.trio
async def test_requests_that_come_during_a_commit_are_answered_after_it(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=COMMIT_S) as node, node.client() as client, node.client() as other:
        await client.ask("ping")
        await other.ask("ping")
        await client.stream.send_all(client.frame("set_value", path=["x"], value=1))
        await trio.sleep(COMMIT_S / 4)
        began = trio.current_time()
        await client.stream.send_all(client.frame("get_value", path=["x"]))
        await other.ask("ping")
        assert trio.current_time() == began
        written, shown = await client.replies(2)
        assert ((written or {})["changed"], (shown or {})["value"]) == (True, 1)
        assert trio.current_time() == pytest.approx(began + COMMIT_S * 3 / 4)


@pytest.mark.trio
async def test_client_that_goes_away_during_its_commit_leaves_the_server_serving(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=COMMIT_S) as node, node.client() as other:
        for linger in (b"\0" * 8, b"\1\0\0\0\0\0\0\0"):
            client = node.client()
            await client.ask("ping")
            await client.stream.send_all(client.frame("set_value", path=["x"], value=linger))
            await trio.sleep(COMMIT_S / 4)
            assert isinstance(client.stream, trio.SocketStream)
            client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            await trio.aclose_forcefully(client.stream)
            await trio.sleep(2 * COMMIT_S)
            assert (await other.get("x"))["value"] == linger


@pytest.mark.trio
@pytest.mark.parametrize("garbage", [b"\xc1", b"\x93\1\2\3", b"\xc6\xff\xff\xff\xff" + bytes(2_000_000)])
async def test_garbage_behind_good_requests_gets_one_error_and_an_end(
    autojump_clock: MockClock, garbage: bytes
) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        good = [client.frame("set_value", path=["x"], value=1), client.frame("get_value", path=["x"])]
        await send_at_once(client, *good, garbage)
        written, shown, error, end = await client.replies(4)
        assert ((written or {})["changed"], (shown or {})["value"]) == (True, 1)
        assert (error or {})["seq"] == 0
        assert "code" in (error or {})
        assert end is None


@pytest.mark.trio
async def test_long_answers_beyond_the_limit_stop_the_reading_until_one_has_ended(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(open_requests=2)) as node, node.client() as client:
        await client.set("x", 1)
        frames = [client.frame("get_tree", path=[]) for _ in range(30)] + [client.frame("ping")]
        await send_at_once(client, *frames)
        replies = [reply or {} for reply in await client.replies(121)]
        assert sorted(reply["seq"] for reply in replies if reply.get("state") == "end") == list(range(2, 32))
        assert [reply["seq"] for reply in replies if "path" not in reply and "state" not in reply] == [32]


@pytest.mark.trio
async def test_node_that_ends_closes_the_connections_at_rest(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        await node.kill()
        assert await client.replies(1) == [None]
