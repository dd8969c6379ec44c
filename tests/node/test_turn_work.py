"""A turn of the event loop has a budget: whoever asks for much, others have their turn soon.

Knows: real sockets, and what is done between two turns, in units.  Does not know how long anything takes.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from distkv.engine.turn_work import PORTION, SERVICE_STEP, TURN
from distkv.services.service_messages import SMALL
from distkv.wire.peering import TELL_BODIES_MAX
from tests.node.nodes import OVER_SOCKETS, Client, Node, solo_node

LONGEST = 2 * (TURN + 2 * (PORTION + SERVICE_STEP * SMALL))
"""Connections at rest, one that goes on, and what the last requests of both cost; twice, because whoever looks may be
the first of a turn and the last of the next one."""


@pytest.fixture(autouse=True)
def _over_sockets() -> Iterator[None]:
    token = OVER_SOCKETS.set(True)
    yield
    OVER_SOCKETS.reset(token)


@asynccontextmanager
async def watched(node: Node) -> AsyncIterator[list[int]]:
    """How much was done in each turn of somebody else."""
    found = list[int]()

    async def look() -> None:
        while True:
            before = node.driver.work.done
            await trio.lowlevel.checkpoint()
            found.append(node.driver.work.done - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        yield found
        nursery.cancel_scope.cancel()


def tell(client: Client, bodies: int, *, quiet: bool = True) -> bytes:
    return client.frame(
        "node_tell", service="tokens", bodies=[b"\x00"] * bodies, quiet=quiet, **{"as": {"node": "b", "life": 0}}
    )


async def all_answered(client: Client, *frames: bytes) -> None:
    """Send them at once, and wait until what stands behind them is answered."""
    last = client.frame("ping")
    with trio.fail_after(60):
        await client.stream.send_all(b"".join([*frames, last]))
        while (await client.replies(1))[0]["seq"] != client.seq:  # type: ignore[index]
            pass


@pytest.mark.parametrize("count", [1, 4, 12])
@pytest.mark.trio
async def test_tells_of_many_bodies_are_taken_in_portions(count: int, autojump_clock: MockClock) -> None:
    """The example of the issue: one connection brought others' get from 0.4 to 531 ms."""
    async with solo_node() as node, watched(node) as turns:
        async with node.client() as client:
            await all_answered(client, *(tell(client, TELL_BODIES_MAX) for _ in range(count)))
        assert sum(turns) >= count * TELL_BODIES_MAX * SERVICE_STEP
        assert max(turns) <= LONGEST


@pytest.mark.parametrize("bodies", [1, 31, 32, 33, TELL_BODIES_MAX])
@pytest.mark.trio
async def test_many_connections_together_have_one_budget(bodies: int, autojump_clock: MockClock) -> None:
    async with solo_node() as node, watched(node) as turns, trio.open_nursery() as nursery:

        async def ask() -> None:
            async with node.client() as client:
                await all_answered(client, *(tell(client, bodies) for _ in range(8)))

        for _ in range(20):
            nursery.start_soon(ask)
    assert max(turns) <= LONGEST


@pytest.mark.trio
async def test_requests_that_come_together_are_answered_in_portions_and_in_their_order(
    autojump_clock: MockClock,
) -> None:
    async with solo_node() as node, watched(node) as turns, node.client() as client:
        frames = [client.frame("get_value", path=["x"]) for _ in range(5 * PORTION)]
        with trio.fail_after(60):
            await client.stream.send_all(b"".join(frames))
            replies = [reply or {} for reply in await client.replies(1 + len(frames))]
        assert [reply["seq"] for reply in replies] == list(range(1 + len(frames)))
        assert max(turns) <= LONGEST


@pytest.mark.trio
async def test_tell_of_many_bodies_is_answered_once_and_before_what_comes_after_it(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        frames = [tell(client, TELL_BODIES_MAX, quiet=False), client.frame("ping"), tell(client, 1, quiet=False)]
        with trio.fail_after(60):
            await client.stream.send_all(b"".join(frames))
            assert [(reply or {})["seq"] for reply in await client.replies(4)] == [0, 1, 2, 3]
