"""Watchers are told how many changes were overwritten before they came to their node.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know how a node learns what it missed.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.model.event import NodeName
from tests.node.nodes import Node, Reply, World, new_world
from tests.node.test_watch import frames, until_state, watching

pytestmark = pytest.mark.usefixtures("both_ways")

COUNT = 50


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[World, Node, Node]]:
    """Two nodes that are ready; `options` are of the second."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b", **options)
        await world.ready("a", "b")
        await world.converged("a", "b")
        yield world, a, b
        for node in (a, b):
            await node.kill()
        nursery.cancel_scope.cancel()


def cut(world: World, *groups: str) -> None:
    """Let only these hear each other, a letter for each node."""
    world.network.partition(*([NodeName(name) for name in group] for group in groups))


async def overwrite_while_apart(world: World, a: Node, count: int = COUNT) -> None:
    """One path on `a`, so often, while nothing reaches `b`."""
    cut(world, "a", "b")
    async with a.client() as writer:
        for number in range(count):
            await writer.set("w", number)
    world.network.heal()
    await world.converged("a", "b")


def summed(items: list[Reply]) -> tuple[list[object], Counter[str]]:
    """The values of the path, and how many changes of which node were missed."""
    missed = Counter[str]()
    for item in items:
        missed.update(item.get("missed", {}))
    return [item["value"] for item in items if item.get("path") == ["w"]], missed


async def all_up_to(client: Any, value: object) -> list[Reply]:
    """What is told until the path has this value, and what else is told then."""
    found: list[Reply] = []
    while not (found and found[-1].get("value") == value):
        found += await frames(client, 1)
    with trio.move_on_after(5):
        while True:
            found += await frames(client, 1)
    return found


@pytest.mark.trio
async def test_values_and_missed_come_to_what_was_written(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), watching(b, "w", missed=True) as watcher:
        await overwrite_while_apart(world, a)
        values, missed = summed(await all_up_to(watcher, COUNT - 1))
        assert values[-1] == COUNT - 1
        assert len(values) + missed["a"] == COUNT
        assert missed["a"] > 0


@pytest.mark.trio
async def test_watcher_that_did_not_ask_is_told_of_values_only(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), watching(b, "w") as watcher:
        await overwrite_while_apart(world, a)
        assert all("path" in item for item in await all_up_to(watcher, COUNT - 1))


@pytest.mark.trio
async def test_watcher_of_another_path_is_told_what_was_missed(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), watching(b, "elsewhere", missed=True) as watcher:
        await overwrite_while_apart(world, a)
        (item,) = await frames(watcher, 1)
        assert item["missed"] == {"a": COUNT - 1}


@pytest.mark.trio
async def test_all_watchers_are_sent_the_same(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), watching(b, "w", missed=True) as one, watching(b, "w", missed=True) as other:
        await overwrite_while_apart(world, a)
        assert await all_up_to(one, COUNT - 1) == await all_up_to(other, COUNT - 1)


@pytest.mark.trio
async def test_nothing_is_missed_while_nodes_hear_each_other(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), watching(b, "w", missed=True) as watcher, a.client() as writer:
        for number in range(COUNT):
            await writer.set("w", number)
            await world.converged("a", "b")
        assert summed(await all_up_to(watcher, COUNT - 1)) == ([*range(COUNT)], Counter())


@pytest.mark.trio
async def test_what_was_missed_before_uptodate_is_not_told(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b):
        await overwrite_while_apart(world, a)
        async with watching(b, "w", missed=True, fetch=True) as watcher:
            assert summed(await until_state(watcher, "uptodate")) == ([COUNT - 1], Counter())


@pytest.mark.trio
@pytest.mark.parametrize("is_settled", [False, True], ids=["from the log", "from the archive"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_watch_that_goes_on_is_told_what_was_missed_meanwhile(
    autojump_clock: MockClock, tmp_path: Path, is_settled: bool, is_restarted: bool
) -> None:
    async with pair(archive=str(tmp_path / "state.sqlite")) as (world, a, b):
        async with watching(b, "w", missed=True, fetch=True) as watcher:
            (mark,) = await frames(watcher, 1)
        await overwrite_while_apart(world, a)
        if is_settled:
            assert b.driver.settler is not None
            await b.driver.settler.settle()
        if is_restarted:
            await b.kill()
            b = await world.start("b", archive=b.archive, disk=b.disk)
            await world.ready("b")
        async with watching(b, "w", missed=True, since=mark["token"]) as watcher:
            items = await until_state(watcher, "uptodate")
        assert summed(items) == ([COUNT - 1], Counter(a=COUNT - 1))
        for number, item in enumerate(items):
            async with watching(b, "w", missed=True, since=item["token"]) as watcher:
                assert await until_state(watcher, "uptodate") == items[number + 1 :]
        await b.kill()


@pytest.mark.trio
async def test_change_that_a_later_one_names_before_it_came_is_missed(autojump_clock: MockClock) -> None:
    async with pair() as (world, a, b), trio.open_nursery() as nursery:
        c = await world.start("c")
        await world.ready("c")
        await world.converged("a", "b", "c")
        async with watching(c, "w", missed=True) as watcher, a.client() as at_a, b.client() as at_b:
            cut(world, "ab", "c")
            await at_a.set("w", 1)
            await world.converged("a", "b")
            cut(world, "a", "bc")
            await at_b.set("w", 2)
            assert summed(await all_up_to(watcher, 2)) == ([2], Counter(a=1))
            world.network.heal()
            await world.converged("a", "b", "c")
            with trio.move_on_after(5):
                assert await frames(watcher, 1) == []
        await c.kill()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_history_has_nothing_at_the_place_where_it_keeps_what_was_missed(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with pair(archive=str(tmp_path / "state.sqlite")) as (world, a, b):
        await overwrite_while_apart(world, a)
        assert b.driver.settler is not None
        await b.driver.settler.settle()
        async with b.client() as client:
            assert await client.items("history", path=[None, "missed"]) == []
