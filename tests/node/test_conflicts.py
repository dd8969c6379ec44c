"""Conflicts over a connection: listed alike on all nodes, told to watchers, decided about on one and over on all.

Knows: whole nodes as `nodes` builds them, with archives, a network that can be cut, and frames.  Does not know how a
decision is written: `tests/unit/core/test_decisions.py` does.
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

from distkv.model.event import NodeName
from distkv.transport.pull import PeerCaller
from tests.node.nodes import Client, Node, Reply, World, new_world, until
from tests.node.test_watch import frames, watching

pytestmark = pytest.mark.trio

NAMES = ("a", "b", "c")


@asynccontextmanager
async def fleet(path: Path) -> AsyncIterator[World]:
    """Three ready nodes with archives."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in NAMES:
            init = 1 if name == "a" else None
            await world.start(name, init=init, archive=str(path / f"{name}.sqlite"))
            await world.ready(name)
        yield world
        for node in world.nodes.values():
            await node.kill()
        nursery.cancel_scope.cancel()


async def cut_and_write(world: World, path: str = "w.x", **writes: object) -> None:
    """Each of these nodes writes at `path` while it hears nobody, `c` last; then the network is whole again."""
    world.network.partition(*([NodeName(name)] for name in NAMES))
    for number, (name, value) in enumerate(writes.items()):
        async with world.nodes[name].client() as client:
            for at in range(number):
                await client.set(f"own.{name}", at)  # so that its tock is higher
            if value is None:
                await client.ask("delete_value", path=path.split("."))
            else:
                await client.set(path, value)
    world.network.heal()
    await world.converged(*NAMES)


async def ask(node: Node, action: str, **fields: object) -> Reply:
    async with node.client() as client:
        return await client.ask(action, **fields)


async def listed(node: Node, **fields: object) -> list[dict[str, Any]]:
    reply = await ask(node, "conflicts", **fields)
    found = reply["items"]
    assert isinstance(found, list)
    return found


async def ids(node: Node, **fields: object) -> list[str]:
    return [item["id"] for item in await listed(node, **fields)]


# -- what is listed -----------------------------------------------------------------------------------------------


async def test_all_nodes_list_equal_conflicts(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b", c="of c")
        found = [await listed(node) for node in world.nodes.values()]
        assert found[1:] == found[:1] * 2
        head = world.nodes["a"].replica.tree.conflicted()[0].head
        first, second = found[0]
        assert {first["value"], second["value"]} == {"of a", "of b", "of c"} - {"of c"}
        assert first["winner"] == {"node": head.node, "tick": head.tick}
        shown = {"id", "path", "value", "node", "tick", "tock", "time", "winner", "winner_time", "winner_value"}
        assert set(first) == shown
        assert first["path"] == ["w", "x"]
        assert first["tock"] > second["tock"]


async def test_loser_that_is_a_deletion_has_no_value(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await ask(world.nodes["a"], "set_value", path=["w", "x"], value=1)
        await world.converged(*NAMES)
        await cut_and_write(world, a=None, b=2)
        (item,) = await listed(world.nodes["c"])
        assert "value" not in item


async def test_conflicts_are_those_at_and_below_the_path(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a=1, b=2)
        node = world.nodes["c"]
        for path in ([], ["w"], ["w", "x"]):
            assert len(await ids(node, path=path)) == 1
        for path in (["w", "x", "y"], ["v"], ["x"], [None]):
            assert await ids(node, path=path) == []


async def test_long_list_is_told_in_pages(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        world.network.partition(*([NodeName(name)] for name in NAMES))
        for name in ("a", "b"):
            async with world.nodes[name].client() as client:
                for number in range(20):
                    await client.set(f"w.n{number:02}", name)
        world.network.heal()
        await world.converged(*NAMES)
        whole = await ids(world.nodes["c"])
        found: list[str] = []
        fields: dict[str, object] = {"limit": 6}
        pages = 0
        while True:
            reply = await ask(world.nodes["c"], "conflicts", **fields)
            found += [item["id"] for item in reply["items"]]
            pages += 1
            if "more" not in reply:
                break
            fields["after"] = reply["more"]
        assert (len(whole), found, pages) == (20, whole, 4)


async def test_joiner_downloads_more_losers_than_one_frame_has_room_for(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        world.network.partition(*([NodeName(name)] for name in NAMES))
        for name in ("a", "b"):
            async with world.nodes[name].client() as client:
                for number in range(20):
                    await client.set(f"w.n{number:02}", name * 50_000)
        world.network.heal()
        await world.converged(*NAMES)

        async def dial(host: str, port: int) -> trio.abc.Stream:
            return await world.dial("d", f"{host}:{port}")

        caller = PeerCaller(connect=dial, answer_bytes_max=500_000)
        await world.start("d", archive=str(tmp_path / "d.sqlite"), caller=caller)
        await world.ready("d")
        await world.converged(*NAMES, "d")
        assert await ids(world.nodes["d"]) == await ids(world.nodes["a"])


async def test_node_that_is_not_ready_refuses(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        node = await new_world(nursery).start("a")
        for action, fields in (("conflicts", {}), ("restore", {"id": "a:1"}), ("dismiss", {"id": "a:1"})):
            assert (await ask(node, action, **fields))["code"] == "not_ready"
        nursery.cancel_scope.cancel()


# -- what is decided ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", NAMES)
@pytest.mark.parametrize("action", ["restore", "dismiss"])
async def test_decision_on_one_node_closes_that_conflict_on_all_and_no_other(
    autojump_clock: MockClock, tmp_path: Path, at: str, action: str
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b", c="of c")
        first, second = await listed(world.nodes[at])
        reply = await ask(world.nodes[at], action, id=second["id"], nchain=1)
        assert reply["changed"] is True
        await world.converged(*NAMES)
        for node in world.nodes.values():
            assert await ids(node) == [first["id"]]
            held = await ask(node, "get_value", path=["w", "x"])
            assert held["value"] == (second["value"] if action == "restore" else "of c")


async def test_decision_is_durable(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        await ask(world.nodes["c"], "restore", id=item["id"])
        node = world.nodes["c"]
        await node.kill()
        again = await world.start("c", archive=node.archive, disk=node.disk.after_kill())
        await world.ready("c")
        assert await ids(again) == []
        assert (await ask(again, "get_value", path=["w", "x"]))["value"] == item["value"]


async def test_conflict_that_is_not_open_is_not_found(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a=1, b=2)
        (id,) = await ids(world.nodes["a"])
        await ask(world.nodes["a"], "dismiss", id=id)
        reply = await ask(world.nodes["a"], "restore", id=id)
        assert reply["code"] == "not_found"
        assert reply["error"].startswith(f"{id} is no open conflict any more")


async def test_conflict_elsewhere_than_at_the_path_is_not_found(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a=1, b=2)
        (id,) = await ids(world.nodes["a"])
        reply = await ask(world.nodes["a"], "restore", id=id, path=["v"])
        assert reply["code"] == "not_found"
        assert reply["error"] == f"{id} is a change of w.x, which is not at or below v"
        assert "code" not in await ask(world.nodes["a"], "restore", id=id, path=["w"])


async def test_decision_on_a_path_that_changed_is_refused_when_that_was_asked(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a=1, b=2)
        node = world.nodes["a"]
        (item,) = await listed(node)
        await ask(node, "set_value", path=["w", "x"], value=3)
        reply = await ask(node, "dismiss", id=item["id"], chain=item["winner"])
        assert reply["code"] == "not_found" if item["node"] == "a" else reply["code"] == "chain_mismatch"


# -- what was closed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
async def test_closed_loser_is_listed_with_what_closed_it(
    autojump_clock: MockClock, tmp_path: Path, is_settled: bool
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        assert await listed(world.nodes["c"], path=["w", "x"], closed=True) == []
        reply = await ask(world.nodes["c"], "dismiss", id=item["id"])
        await world.converged(*NAMES)
        for node in world.nodes.values():
            if is_settled:
                assert node.driver.settler is not None
                await node.driver.settler.settle()
            (closed,) = await listed(node, path=["w", "x"], closed=True)
            for name in ("winner", "winner_time", "winner_value"):
                item.pop(name, None)
            assert {name: closed[name] for name in item} == item
            assert closed["closed_by"] == {"node": "c", "tick": reply["tick"]}


async def test_values_that_were_replaced_by_somebody_who_knew_them_are_no_closed_losers(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        for number, node in enumerate(world.nodes.values()):
            await ask(node, "set_value", path=["w", "x"], value=number)
            await world.converged(*NAMES)
        assert [await listed(node, path=["w", "x"], closed=True) for node in world.nodes.values()] == [[]] * 3


@pytest.mark.parametrize("value", [7, {"on": True, "level": 3}, None], ids=["number", "map", "deletion"])
async def test_loser_that_said_the_same_as_the_winner_is_no_closed_one(
    autojump_clock: MockClock, tmp_path: Path, value: object
) -> None:
    """Two of three sides wrote one value: only what was listed is a closed one (docs/protocol, OPEN-4)."""
    async with fleet(tmp_path) as world:
        async with world.nodes["a"].client() as client:
            await client.set("w.x", "first")
        await world.converged(*NAMES)
        again = dict(reversed(value.items())) if isinstance(value, dict) else value
        await cut_and_write(world, a="other", b=value, c=again)
        (item,) = await listed(world.nodes["c"])
        assert item["node"] == "a"
        await ask(world.nodes["c"], "dismiss", id=item["id"])
        await world.converged(*NAMES)
        for node in world.nodes.values():
            assert [found["id"] for found in await listed(node, path=["w", "x"], closed=True)] == [item["id"]]


async def test_loser_that_said_the_same_only_at_last_is_a_closed_one(autojump_clock: MockClock, tmp_path: Path) -> None:
    """While it was open, the path had another value than its own."""
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        await ask(world.nodes["c"], "set_value", path=["w", "x"], value=item["value"])
        await ask(world.nodes["c"], "set_value", path=["w", "x"], value="later")
        await world.converged(*NAMES)
        for node in world.nodes.values():
            assert await ids(node) == []
            assert await ids(node, path=["w", "x"], closed=True) == [item["id"]]


async def test_closed_loser_can_be_restored_all_the_same(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        await ask(world.nodes["c"], "dismiss", id=item["id"])
        await world.converged(*NAMES)
        assert "code" not in await ask(world.nodes["b"], "restore", id=item["id"], closed=True)
        await world.converged(*NAMES)
        for node in world.nodes.values():
            assert (await ask(node, "get_value", path=["w", "x"]))["value"] == item["value"]
            assert await ids(node) == []


async def test_open_loser_restored_as_if_it_were_closed_is_closed(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        await ask(world.nodes["c"], "restore", id=item["id"], closed=True)
        assert await ids(world.nodes["c"]) == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"id": "x:77"}, "not_found"), ({"id": "a:1"}, "not_found"), ({"id": "a:5", "path": ["v"]}, "not_found")],
)
async def test_change_that_cannot_be_restored_is_refused(
    autojump_clock: MockClock, tmp_path: Path, fields: dict[str, object], code: str
) -> None:
    """Not known; the system's own; elsewhere."""
    async with fleet(tmp_path) as world:
        async with world.nodes["a"].client() as client:
            for value in range(5):
                await client.set("w.x", value)
        assert (await ask(world.nodes["a"], "restore", closed=True, **fields))["code"] == code


# -- what watchers are told ---------------------------------------------------------------------------------------


async def contested(watcher: Client, *, is_open: bool) -> dict[str, Any]:
    """The next conflict of this kind that a watcher is told of."""
    while True:
        (frame,) = await frames(watcher, 1)
        if "conflict" in frame and bool(frame["conflict"]["open"]) is is_open:
            found = frame["conflict"]
            assert isinstance(found, dict)
            return found


@pytest.mark.parametrize("action", ["restore", "dismiss"])
async def test_watchers_of_all_nodes_are_told_when_a_conflict_opens_and_when_it_is_over(
    autojump_clock: MockClock, tmp_path: Path, action: str
) -> None:
    async with (
        fleet(tmp_path) as world, watching(world.nodes["a"], "w") as at_a,
        watching(world.nodes["b"], "w") as at_b,
        watching(world.nodes["c"], "w") as at_c,
    ):
        await cut_and_write(world, a="of a", b="of b")
        (item,) = await listed(world.nodes["c"])
        told = [await contested(watcher, is_open=True) for watcher in (at_a, at_b, at_c)]
        assert [[row["tick"] for row in one["open"]] for one in told] == [[item["tick"]]] * 3
        await ask(world.nodes["c"], action, id=item["id"])
        over = [await contested(watcher, is_open=False) for watcher in (at_a, at_b, at_c)]
        assert [one["path"] for one in over] == [["w", "x"]] * 3


async def test_deletion_is_told_as_a_conflict_only_while_a_value_stands_against_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        await ask(world.nodes["a"], "set_value", path=["w", "x"], value=1)
        await world.converged(*NAMES)
        async with watching(world.nodes["c"], "w") as watcher:
            await cut_and_write(world, a=None, b=2)
            await contested(watcher, is_open=True)
            await ask(world.nodes["b"], "delete_value", path=["w", "x"])
            await until(lambda: not world.nodes["c"].replica.tree.conflicted()[0].is_live, 0.1)
            assert await ids(world.nodes["c"]) == []
            await contested(watcher, is_open=False)


async def test_watch_that_goes_on_shows_the_conflicts_that_are_open_and_none_that_is_over(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        await cut_and_write(world, a="of a", b="of b")
        await cut_and_write(world, "w.y", a="of a", b="of b")
        node = world.nodes["c"]
        async with watching(node, "w", fetch=True) as watcher:
            shown = await frames(watcher, 5)
        assert [frame["conflict"]["path"] for frame in shown if "conflict" in frame] == [["w", "x"], ["w", "y"]]
        (decided,) = await ids(node, path=["w", "x"])
        await ask(node, "restore", id=decided)
        async with watching(node, "w", since=shown[-1]["token"]) as watcher:
            change, conflict, mark = await frames(watcher, 3)
        assert change["path"] == ["w", "x"]
        assert (conflict["conflict"]["path"], len(conflict["conflict"]["open"])) == (["w", "y"], 1)
        assert mark["state"] == "uptodate"
