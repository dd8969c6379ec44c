"""Watches that show what is there: the hand-over to what changes, and beginning anew when changes were dropped.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know the queue of a watcher.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.model.event import Event, Kind, Tick, Tock
from distkv.model.path import Path
from distkv.transport.base import GossipHeard
from distkv.wire.message import Header, Update
from distkv.wire.values import pack_value
from tests.node.nodes import Client, Node, Reply, new_world, solo_node, until
from tests.node.test_watch import frames, told, until_state, watching

MANY = 1700
"""More than one part of the state."""


async def write_many(node: Node, count: int = MANY) -> None:
    async with node.client() as writer:
        await writer.stream.send_all(
            b"".join(writer.frame("set_value", path=["w", f"{n:05}"], value=n) for n in range(count))
        )
        await frames(writer, count + 1)


class Stalled:
    """A client that watches `w` over a stream without any buffer, and reads only when it is told to."""

    def __init__(self, node: Node) -> None:
        self.client = node.client(lockstep=True)

    async def __aenter__(self) -> Client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.client.stream.send_all, self.client.frame("watch", path=["w"]))
            found = await frames(self.client, 2)
        assert found[1]["state"] == "start"
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.client.stream)


# -- fetch --------------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_fetch_shows_values_in_the_order_of_a_tree_and_then_says_so(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as writer:
        for path in ("w.b", "v", "w", "w.a.c", "w.gone", "w.B"):
            await writer.set(path, path)
        await writer.ask("delete_value", path=["w", "gone"])
        async with watching(node, "w", fetch=True) as watcher:
            items = await until_state(watcher, "uptodate")
        assert told(items) == [(path, path) for path in ("w", "w.B", "w.a.c", "w.b")]
        assert all("token" not in item for item in items)


@pytest.mark.trio
async def test_fetch_of_nothing_is_up_to_date_at_once(autojump_clock: MockClock) -> None:
    async with solo_node() as node, watching(node, "w", fetch=True) as watcher:
        (mark,) = await frames(watcher, 1)
        assert mark.keys() == {"seq", "state", "token"}
        assert mark["state"] == "uptodate"


@pytest.mark.trio
async def test_fetch_respects_depths(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as writer:
        for path in ("w", "w.a", "w.a.b", "w.a.b.c"):
            await writer.set(path, 1)
        async with watching(node, "w", fetch=True, min_depth=1, max_depth=2) as watcher:
            assert told(await until_state(watcher, "uptodate")) == [("w.a", 1), ("w.a.b", 1)]


@pytest.mark.trio
async def test_fetch_waits_for_the_commit_of_what_it_shows(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, node.client() as client:
        began = trio.current_time()
        await client.stream.send_all(
            client.frame("set_value", path=["w"], value=1) + client.frame("watch", path=["w"], fetch=True)
        )
        assert told([f for f in await frames(client, 5) if "path" in f]) == [("w", 1)]
        assert trio.current_time() - began >= 0.99


@pytest.mark.trio
@pytest.mark.parametrize("first", [0, MANY - 1], ids=["upwards", "downwards"])
async def test_changes_during_a_fetch_are_told_once_each_and_none_is_missing(
    autojump_clock: MockClock, first: int
) -> None:
    async with solo_node(commit_s=0.05) as node:
        await write_many(node)
        async with node.client(lockstep=True) as watcher, trio.open_nursery() as nursery:
            nursery.start_soon(rewrite, node, first)
            nursery.start_soon(watcher.stream.send_all, watcher.frame("watch", path=["w"], fetch=True))
            await frames(watcher, 2)
            items = await until_state(watcher, "uptodate")
            while not is_done(items):
                items += [frame for frame in await frames(watcher, 1) if "path" in frame]
        ticks = [item["tick"] for item in items]
        assert len(set(ticks)) == len(ticks), "something was told twice"
        for number in range(MANY):
            values = [item["value"] for item in items if item["path"][-1] == f"{number:05}"]
            assert values in ([number, -number - 1], [-number - 1]), "each value, in order, or only the last one"


def is_done(items: list[Reply]) -> bool:
    latest = {item["path"][-1]: item["value"] for item in items}
    return len(latest) == MANY and all(value < 0 for value in latest.values())


async def rewrite(node: Node, first: int) -> None:
    """Change each value once, so slowly that a fetch overlaps."""
    async with node.client() as writer:
        for at in range(MANY):
            number = abs(first - at)
            await writer.stream.send_all(writer.frame("set_value", path=["w", f"{number:05}"], value=-number - 1))
            if at % 50 == 0:
                await trio.sleep(0.001)
        await frames(writer, MANY + 1)


@pytest.mark.trio
async def test_open_conflicts_are_shown_before_up_to_date(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a, b = await world.start("a", init=1), await world.start("b")
        await world.ready("a", "b")
        async with a.client() as at_a, b.client() as at_b:
            await at_a.stream.send_all(at_a.frame("set_value", path=["w"], value="a"))
            await at_b.stream.send_all(at_b.frame("set_value", path=["w"], value="b"))
            await world.converged("a", "b")
            await until(lambda: bool(a.replica.tree.conflicted()), 0.1)
        async with watching(a, "w", fetch=True) as watcher:
            items = await until_state(watcher, "uptodate")
        assert [list(item["conflict"]["path"]) for item in items if "conflict" in item] == [["w"]]
        nursery.cancel_scope.cancel()


# -- a watcher that cannot follow ---------------------------------------------------------------------------------


@pytest.mark.trio
async def test_watcher_that_stalls_gets_resync_then_everything_then_up_to_date(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(watch_changes=10)) as node, node.client() as writer:
        await writer.set("w.gone", 1)
        async with Stalled(node) as watcher:
            for number in range(30):
                await writer.set(f"w.n{number:02}", number)
            await writer.ask("delete_value", path=["w", "gone"])
            before = await until_state(watcher, "resync")
            items = await until_state(watcher, "uptodate")
            assert len(before) <= 11
            assert told(items) == [("w.gone", None), *((f"w.n{n:02}", n) for n in range(30))]
            await writer.set("w.after", 1)
            assert told(await frames(watcher, 1)) == [("w.after", 1)]


@pytest.mark.trio
async def test_large_values_count_by_their_bytes(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(watch_bytes=100_000)) as node, node.client() as writer, Stalled(node) as watcher:
        for _ in range(20):
            await writer.set("w.big", b"x" * 10_000)
        before = await until_state(watcher, "resync")
        assert len(before) <= 12
        assert len(await until_state(watcher, "uptodate")) == 1


@pytest.mark.trio
async def test_stalled_watcher_holds_up_nobody_else(autojump_clock: MockClock) -> None:
    limits = Limits(watch_changes=10)
    async with solo_node(limits=limits) as node, Stalled(node), watching(node, "w") as other, node.client() as writer:
        began = trio.current_time()
        for number in range(100):
            await writer.set("w.x", number)
            assert told(await frames(other, 1)) == [("w.x", number)]
        assert trio.current_time() - began < 1


@pytest.mark.trio
async def test_other_requests_of_a_watching_connection_are_answered_between_its_items(
    autojump_clock: MockClock,
) -> None:
    async with solo_node() as node, watching(node, "w") as client, node.client() as writer:
        for number in range(20):
            await writer.set("w", number)
            await client.stream.send_all(client.frame("get_value", path=["w"]))
        found = await frames(client, 40)
        assert [item["value"] for item in found if "path" in item] == list(range(20))
        assert sum("path" not in item and "value" in item for item in found) == 20


@pytest.mark.trio
async def test_resync_is_counted(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(watch_changes=1)) as node, node.client() as writer, Stalled(node) as watcher:
        for number in range(5):
            await writer.set("w", number)
        await until_state(watcher, "uptodate")
        assert (await writer.ask("get_state"))["counters"]["watch_resync"] == 1


# -- commits that take long ---------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_conflict_about_a_change_whose_commit_is_under_way_is_shown_after_it(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world, pace = new_world(nursery), [0.002]
        a = await world.start("a", init=1, commit_s=lambda: pace[0])
        b = await world.start("b")
        await world.ready("a", "b")
        async with a.client() as writer, a.client(lockstep=True) as watcher:
            await writer.set("w.old", 1)
            pace[0] = 3.0
            nursery.start_soon(watcher.stream.send_all, watcher.frame("watch", path=["w"], fetch=True))
            found = await frames(watcher, 2)  # and the part of the state waits for being read
            assert found[1]["state"] == "start"
            began = trio.current_time()
            await writer.stream.send_all(writer.frame("set_value", path=["w", "new"], value=1))
            await trio.sleep(0.1)
            tick, tock = Tick(b.replica.tick + 1), Tock(a.replica.tock + 9)
            header = Header(b.replica.name, tick, tock, b.replica.life or 0, a.replica.network_id, None)
            event = Event(Path(["w", "new"]), Kind.SET, pack_value(2), ((b.replica.name, tick),), tock, 0.0)
            a.driver.hear(GossipHeard(Update(header, (event,))))
            assert a.replica.tree.conflict_count == 1
            old, conflict = await frames(watcher, 2)
            assert old["path"] == ["w", "old"]
            assert len(conflict["conflict"]["open"]) == 1
            assert trio.current_time() - began >= 3.0
        nursery.cancel_scope.cancel()
