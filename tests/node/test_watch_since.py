"""Watches that go on where another one was, by its token; and what a token is not good for.

Knows: whole nodes as `nodes` builds them, with an archive, and frames.  Does not know what is in a token.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.node.nodes import Client, Node, Reply, World, new_world
from tests.node.test_watch import frames, told, until_state, watching

pytestmark = pytest.mark.usefixtures("both_ways")


@asynccontextmanager
async def archived(path: Path, **options: Any) -> AsyncIterator[Node]:
    """One ready node `a` with an archive."""
    async with trio.open_nursery() as nursery:
        node = await new_world(nursery).start("a", init=1, solo=True, archive=str(path / "state.sqlite"), **options)
        await node.driver.wait_ready()
        await node.driver.committer.wait_durable(node.driver.position)
        yield node
        await node.kill()
        nursery.cancel_scope.cancel()


async def last_token(node: Node) -> bytes:
    """The token of now."""
    async with watching(node, "w", fetch=True) as watcher:
        (mark,) = await frames(watcher, 1)
        while mark.get("state") != "uptodate":
            (mark,) = await frames(watcher, 1)
    token = mark["token"]
    assert isinstance(token, bytes)
    return token


async def settled(node: Node) -> None:
    assert node.driver.settler is not None
    await node.driver.settler.settle()


async def missed(node: Node, token: bytes) -> list[Reply]:
    """What a watch is told that goes on from a token, up to `uptodate`; a resync is among it."""
    async with watching(node, "w", since=token) as watcher:
        return await until_state(watcher, "uptodate")


async def restarted(node: Node) -> Node:
    """The same directory in a new process."""
    await node.kill()
    world: World = node.world
    again = await world.start("a", solo=True, archive=node.archive, disk=node.disk)
    await again.driver.wait_ready()
    return again


async def write(client: Client, *values: object) -> None:
    for value in values:
        await client.set("w.x", value)


@pytest.mark.trio
@pytest.mark.parametrize("settle_at", [(), (0,), (1,), (0, 1)], ids=str)
async def test_token_brings_each_change_since_it_wherever_it_lies_now(
    autojump_clock: MockClock, tmp_path: Path, settle_at: tuple[int, ...]
) -> None:
    async with archived(tmp_path) as node, node.client() as writer:
        await write(writer, "before")
        token = await last_token(node)
        await write(writer, 1, 2)
        await writer.set("v", "elsewhere")
        if 0 in settle_at:
            await settled(node)
        await write(writer, 3)
        await writer.ask("delete_value", path=["w", "x"])
        if 1 in settle_at:
            await settled(node)
        assert told(await missed(node, token)) == [("w.x", 1), ("w.x", 2), ("w.x", 3), ("w.x", None)]


@pytest.mark.trio
async def test_token_of_each_change_goes_on_right_behind_it(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path) as node, watching(node, "w") as watcher, node.client() as writer:
        ops = [{"action": "set_value", "path": ["w", n], "value": n} for n in range(5)]
        await writer.ask("batch", ops=ops)  # five changes in one step
        items = await frames(watcher, 5)
        for number, item in enumerate(items):
            assert [later["value"] for later in await missed(node, item["token"])] == list(range(number + 1, 5))


@pytest.mark.trio
async def test_watch_that_goes_on_is_told_of_later_changes_once(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path) as node, node.client() as writer:
        token = await last_token(node)
        await write(writer, *range(1200))
        await settled(node)
        await write(writer, *range(1200, 1300))
        async with watching(node, "w", since=token) as watcher:
            await write(writer, *range(1300, 1400))
            items = await until_state(watcher, "uptodate")
            items += await frames(watcher, 1400 - len(items))
            assert [item["value"] for item in items] == list(range(1400))


@pytest.mark.trio
async def test_token_of_a_change_that_was_caught_up_with_goes_on_right_behind_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with archived(tmp_path) as node, node.client() as writer:
        token = await last_token(node)
        await write(writer, 1, 2, 3)
        first, *_ = await missed(node, token)
        assert told(await missed(node, first["token"])) == [("w.x", 2), ("w.x", 3)]


@pytest.mark.trio
async def test_token_outlives_a_restart(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path) as node:
        async with node.client() as writer:
            await write(writer, 1)
            token = await last_token(node)
            await write(writer, 2)
            await settled(node)
            await write(writer, 3)
        again = await restarted(node)
        async with again.client() as writer:
            await write(writer, 4)
            assert told(await missed(again, token)) == [("w.x", 2), ("w.x", 3), ("w.x", 4)]
        await again.kill()


@pytest.mark.trio
async def test_token_older_than_history_brings_resync(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path) as node, node.client() as writer:
        token = await last_token(node)
        await write(writer, 1, 2)
        await settled(node)
        await write(writer, 3)
        await settled(node)
        assert node.opened is not None
        node.opened.prune_history(keep=1)
        first, *items = await missed(node, token)
        assert first["state"] == "resync"
        assert told(items) == [("w.x", 3)]


@pytest.mark.trio
@pytest.mark.parametrize(
    "token",
    [b"", b"nonsense", b"\x93\xa1b\x00\x01", b"\x93\xa1a\x01\x01", b"\x93\xa1a\x00\xcd\xff\xff"],
    ids=["empty", "nonsense", "other node", "other life", "future"],
)
async def test_token_of_somebody_else_or_of_the_future_brings_resync(
    autojump_clock: MockClock, tmp_path: Path, token: bytes
) -> None:
    async with archived(tmp_path) as node, node.client() as writer:
        await write(writer, 1)
        first, *items = await missed(node, token)
        assert first["state"] == "resync"
        assert told(items) == [("w.x", 1)]


@pytest.mark.trio
async def test_token_on_a_node_without_archive_brings_resync(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        node = await new_world(nursery).start("a", init=1, solo=True)
        await node.driver.wait_ready()
        token = await last_token(node)
        assert [frame.get("state") for frame in await missed(node, token)] == ["resync"]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_since_that_is_no_token_is_refused(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path) as node, node.client() as client:
        assert (await client.ask("watch", path=["w"], since=7))["code"] == "bad_request"


@pytest.mark.trio
async def test_token_is_given_only_when_what_it_covers_is_durable(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archived(tmp_path, commit_s=1.0) as node, node.client() as client:
        began = trio.current_time()
        await client.stream.send_all(client.frame("set_value", path=["w"], value=1) + client.frame("watch", path=["w"]))
        found = await frames(client, 3)
        assert any(frame.get("state") == "start" and "token" in frame for frame in found)
        assert trio.current_time() - began >= 0.99
