"""What connections that take nothing, or send half a request, cost all together: it is bounded, and given back.

Knows: real sockets, in virtual time.  Does not know how large a process is.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.engine.followers import OF_A_NODE, OF_OTHERS, FollowLimits
from distkv.errors import BusyError
from distkv.model.event import NodeName
from distkv.services.idle import HALF_S, LOOK_S
from tests.node.nodes import OVER_SOCKETS, solo_node

HALF = 6_000


@pytest.fixture(autouse=True)
def _over_sockets() -> Iterator[None]:
    token = OVER_SOCKETS.set(True)
    yield
    OVER_SOCKETS.reset(token)


@pytest.mark.trio
async def test_half_requests_of_all_connections_are_bounded_and_the_oldest_goes(autojump_clock: MockClock) -> None:
    """In the issue: 120 half-sent requests of 600 KB kept 130 MiB."""
    limits = Limits(request_bytes=10_000, half_bytes=3 * HALF + 10)
    async with solo_node(limits=limits) as node, trio.open_nursery() as nursery:
        ended = list[int]()

        async def send_half(number: int) -> None:
            async with node.client() as client:
                await client.replies(1)
                await client.stream.send_all(client.frame("set_value", path=["x"], value=bytes(9_000))[:HALF])
                error = await client.receive() or {}
                assert error["code"] == "busy"
                ended.append(number)

        for number in range(8):
            nursery.start_soon(send_half, number)
            await trio.sleep(0.1)
        assert ended == [0, 1, 2, 3, 4]
        async with node.client() as client:
            assert await client.set("y", 1)
        await trio.sleep(HALF_S + 2 * LOOK_S)
        assert sorted(ended) == [*range(8)], "what nobody completes is given back"


@pytest.mark.trio
async def test_request_that_comes_in_many_parts_is_answered(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.replies(1)
        for _ in range(3):
            frame = client.frame("set_value", path=["x"], value=bytes(9_000))
            for begin in range(0, len(frame), 1000):
                await client.stream.send_all(frame[begin : begin + 1000])
                await trio.sleep(HALF_S / 12)
            assert (await client.replies(1))[0] is not None


@pytest.mark.trio
async def test_connection_with_a_part_of_a_new_request_each_time_is_not_ended(autojump_clock: MockClock) -> None:
    """Each read ends within a request, as in a pipeline; none of them is old."""
    async with solo_node() as node, node.client() as client:
        await client.replies(1)
        frame = client.frame("ping")
        await client.stream.send_all(frame[:-2])
        for _ in range(20):
            after = client.frame("ping")
            await client.stream.send_all(frame[-2:] + after[:-2])
            assert (await client.replies(1))[0] is not None
            frame = after
            await trio.sleep(HALF_S / 4)


class Open:
    """A follow that is open."""

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def test_newest_follows_of_a_node_stay() -> None:
    """A real node that comes back is served, whoever used its name before."""
    limits, name = FollowLimits({"b"}.__contains__), NodeName("b")
    follows = [Open() for _ in range(OF_A_NODE + 3)]
    for one in follows:
        limits.check(name)
        limits.begin(name, one)
    assert [one.is_stopped for one in follows] == [True] * 3 + [False] * OF_A_NODE
    assert limits.count == OF_A_NODE
    for one in follows:
        limits.end(name, one)
    assert limits.count == 0


@pytest.mark.parametrize("names", [[None], [None, NodeName("stranger")]])
def test_others_have_a_few_follows_together(names: list[NodeName | None]) -> None:
    limits = FollowLimits({"b"}.__contains__)
    follows = [(names[at % len(names)], Open()) for at in range(OF_OTHERS)]
    for name, one in follows:
        limits.check(name)
        limits.begin(name, one)
    for name in names:
        with pytest.raises(BusyError, match="clients follow this node already"):
            limits.check(name)
    limits.check(NodeName("b"))
    limits.end(*follows[0])
    limits.check(None)


@pytest.mark.trio
async def test_connections_that_follow_without_end_are_refused(autojump_clock: MockClock) -> None:
    """In the issue: 100 connections with 16 follows each that read nothing took 277 MiB."""
    async with solo_node(limits=Limits(event_waits=16)) as node, trio.open_nursery() as nursery:
        refused = list[int]()

        async def follow() -> None:
            async with node.client() as client:
                await client.replies(1)
                for _ in range(16):
                    await client.stream.send_all(client.frame("follow", nodes={"a": 0}, silent=3600.0))
                while True:
                    reply = (await client.replies(1))[0] or {}
                    if reply.get("code") == "busy":
                        refused.append(1)

        for _ in range(20):
            nursery.start_soon(follow)
        await trio.sleep(1)
        assert node.driver.follow_limits.count == OF_OTHERS
        assert len(refused) == 320 - OF_OTHERS
        nursery.cancel_scope.cancel()
