"""A value with a ttl, from the client's frame to what clients are shown when its time is over.

Knows: frames and whole nodes in virtual time.  Does not know who ends a value.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.node.nodes import Client, new_world, solo_node

pytestmark = pytest.mark.usefixtures("both_ways")


async def greeted(client: Client) -> Client:
    assert await client.receive() is not None
    return client


@pytest.mark.trio
async def test_value_goes_at_its_time_on_a_node_to_which_nothing_else_happens(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node.client()) as client:
        await trio.sleep(100)
        await client.set("x", 1, ttl=2.5)
        await trio.sleep(2.4)
        assert (await client.get("x"))["value"] == 1
        await trio.sleep(0.2)
        assert "value" not in await client.get("x")
        assert (await client.ask("get_state"))["counters"]["expired"] == 1


@pytest.mark.trio
async def test_ttl_is_shown_with_the_chain(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node.client()) as client:
        await client.set("x", 1, ttl=60)
        assert "ttl" not in await client.get("x")
        assert (await client.get("x", nchain=1))["ttl"] == 60.0
        await client.set("x", 1)
        assert "ttl" not in await client.get("x", nchain=1)


@pytest.mark.trio
async def test_batch_stores_values_that_go(autojump_clock: MockClock) -> None:
    async with solo_node() as node, await greeted(node.client()) as client:
        ops = [{"action": "set_value", "path": [name], "value": 1, "ttl": 1} for name in "xy"]
        await client.ask("batch", ops=ops)
        await trio.sleep(1.1)
        assert (await client.ask("list", path=[]))["names"] == []


@pytest.mark.trio
async def test_watchers_and_history_tell_that_a_value_expired(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with solo_node(archive=str(tmp_path / "a.sqlite")) as node, await greeted(node.client()) as client:
        async with await greeted(node.client()) as watcher:
            await watcher.stream.send_all(watcher.frame("watch", path=["x"]))
            await client.set("x", 1, ttl=1)
            started, stored, ended = await watcher.replies(3)
            assert started is not None
            assert stored is not None
            assert ended is not None
            assert (stored["value"], "expired" in stored) == (1, False)
            assert ("value" in ended, ended["expired"]) == (False, True)
        items = [item for item in await client.items("history", path=["x"]) if "path" in item]
        assert [(item.get("value"), item.get("expired"), item.get("ttl")) for item in items] == [
            (None, True, None),
            (1, None, 1.0),
        ]


@pytest.mark.trio
async def test_value_that_was_settled_counts_anew_after_a_restart(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    archive = str(tmp_path / "a.sqlite")
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1, solo=True, archive=archive)
        await world.ready("a")
        async with await greeted(node.client()) as client:
            await client.set("x", 1, ttl=10)
        await trio.sleep(9)
        await node.kill()
        node = await world.start("a", solo=True, archive=archive, disk=node.disk)
        await world.ready("a")
        async with await greeted(node.client()) as client:
            await trio.sleep(9)
            assert (await client.get("x"))["value"] == 1
            await trio.sleep(2)
            assert "value" not in await client.get("x")
        nursery.cancel_scope.cancel()
