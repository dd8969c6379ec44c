"""Watches over a real session: what a watcher is told, when, and in which order.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know the queue of a watcher.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from tests.node.nodes import Client, Node, Reply, new_world, solo_node

pytestmark = pytest.mark.usefixtures("both_ways")


@asynccontextmanager
async def watching(node: Node, path: str | None, **fields: object) -> AsyncIterator[Client]:
    """A client whose watch has begun; its start was received."""
    async with node.client() as client:
        start = await client.ask("watch", path=path.split(".") if path else [], **fields)
        assert start["state"] == "start"
        yield client


async def frames(client: Client, count: int) -> list[Reply]:
    found = await client.replies(count)
    assert None not in found
    return [frame for frame in found if frame is not None]


async def until_state(client: Client, state: str) -> list[Reply]:
    """The frames before the one with this state."""
    found: list[Reply] = []
    while (frame := (await frames(client, 1))[0]).get("state") != state:
        found.append(frame)
    return found


def told(items: list[Reply]) -> list[tuple[str, Any]]:
    """Path and value of each item; no value: None."""
    return [(".".join(map(str, item["path"])), item.get("value")) for item in items]


# -- changes ------------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_watcher_is_told_of_sets_and_deletions_in_order(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w") as watcher, node.client() as writer:
        await writer.set("w.a", 1)
        await writer.set("w", {"b": 2})
        await writer.set("w.a", 3)
        await writer.ask("delete_value", path=["w", "a"])
        assert told(await frames(watcher, 4)) == [("w.a", 1), ("w", {"b": 2}), ("w.a", 3), ("w.a", None)]


@pytest.mark.trio
async def test_item_says_which_change_it_was(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w") as watcher, node.client() as writer:
        done = await writer.set("w.a", 1)
        (item,) = await frames(watcher, 1)
        assert item.keys() == {"seq", "path", "value", "node", "tick", "tock", "time", "token"}
        assert (item["seq"], item["node"], item["tick"], item["tock"]) == (1, "a", done["tick"], done["tock"])


@pytest.mark.trio
async def test_watcher_is_not_told_of_other_paths(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w.x") as watcher, node.client() as writer:
        for path in ("w", "wx", "w.y", "v.w.x", "w.xx", "w.x.y"):
            await writer.set(path, 1)
        assert told(await frames(watcher, 1)) == [("w.x.y", 1)]


@pytest.mark.trio
async def test_depths_bound_what_a_watcher_is_told(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w", min_depth=1, max_depth=2) as watcher, node.client() as writer:
        for path in ("w", "w.a", "w.a.b", "w.a.b.c", "w.z"):
            await writer.set(path, 1)
        assert told(await frames(watcher, 3)) == [("w.a", 1), ("w.a.b", 1), ("w.z", 1)]


@pytest.mark.trio
async def test_watcher_of_the_root_is_not_told_of_the_systems_paths(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1)
        await world.ready("a")
        async with watching(a, None) as watcher, a.client() as writer:
            await world.start("b")  # a registers it
            await world.ready("b")
            await writer.set("x", 1)
            assert told(await frames(watcher, 1)) == [("x", 1)]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_change_is_told_only_after_its_commit(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, watching(node, "w") as watcher, node.client() as writer:
        await writer.stream.send_all(writer.frame("set_value", path=["w"], value=1))
        with trio.move_on_after(0.9):
            await watcher.receive()
            pytest.fail("told before the commit")
        assert told(await frames(watcher, 1)) == [("w", 1)]


@pytest.mark.trio
async def test_write_sent_before_the_watch_is_not_told(autojump_clock: MockClock) -> None:
    # The other watcher makes the node hold the change until its commit, when the new one is there already.
    async with solo_node(commit_s=0.1) as node, watching(node, "w") as other, node.client() as client:
        parts = [
            client.frame("set_value", path=["w"], value=1),
            client.frame("watch", path=["w"]),
            client.frame("set_value", path=["w"], value=2),
        ]
        await client.stream.send_all(b"".join(parts))
        found = await frames(client, 5)
        assert told([frame for frame in found if "path" in frame]) == [("w", 2)]
        assert told(await frames(other, 2)) == [("w", 1), ("w", 2)]


@pytest.mark.trio
async def test_change_of_another_node_is_told(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        async with watching(b, "w") as watcher, a.client() as writer:
            for number in range(50):
                await writer.set(f"w.{number}", number)
            items = await frames(watcher, 50)
            assert sorted(item["value"] for item in items) == list(range(50))
            assert {item["node"] for item in items} == {"a"}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_concurrent_writes_are_told_as_a_conflict(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        async with watching(a, "w") as watcher, a.client() as at_a, b.client() as at_b:
            await at_a.stream.send_all(at_a.frame("set_value", path=["w"], value="a"))
            await at_b.stream.send_all(at_b.frame("set_value", path=["w"], value="b"))
            conflict = next(f["conflict"] for f in await until_conflict(watcher))
            loser = a.replica.tree.conflicted()[0].losers[0]
            assert conflict["path"] == ["w"]
            assert [(row["node"], row["tick"]) for row in conflict["open"]] == [loser.link]
        nursery.cancel_scope.cancel()


async def until_conflict(client: Client) -> list[Reply]:
    while "conflict" not in (frame := (await frames(client, 1))[0]):
        pass
    return [frame]


# -- stopping -----------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_stop_ends_one_watch_and_no_other(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w") as client, node.client() as writer:
        assert (await client.ask("watch", path=["v"]))["state"] == "start"
        await client.stream.send_all(client.frame("stop", task=1))
        found = await frames(client, 2)
        assert {"seq": 3, "stopped": True} in found
        assert {"seq": 1, "state": "end"} in found
        await writer.set("w", 1)
        await writer.set("v", 1)
        assert told(await frames(client, 1)) == [("v", 1)]


@pytest.mark.trio
async def test_stop_of_what_is_no_watch_says_so(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        assert (await client.ask("stop", task=7))["stopped"] is False


@pytest.mark.trio
async def test_connection_that_ends_leaves_no_watcher_behind(autojump_clock: MockClock) -> None:
    async with solo_node() as node:
        async with watching(node, "w"):
            assert node.driver.hub.count == 1
        await trio.testing.wait_all_tasks_blocked()
        assert node.driver.hub.count == 0


@pytest.mark.trio
async def test_watches_beyond_the_limit_are_refused_and_the_others_go_on(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(watches=1)) as node, watching(node, "w") as client, node.client() as writer:
        assert (await client.ask("watch", path=["v"]))["code"] == "busy"
        await writer.set("w", 1)
        assert told(await frames(client, 1)) == [("w", 1)]


@pytest.mark.trio
async def test_watch_before_the_node_is_ready_is_refused(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        node = await new_world(nursery).start("a")
        async with node.client() as client:
            assert (await client.ask("watch", path=["w"]))["code"] == "not_ready"
        nursery.cancel_scope.cancel()
