"""A value is lost on the disk of a node that is alone: whoever asks is told so, until something stands there again
(docs/protocol, LIFE-13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from distkv.storage.archive import open_archive
from tests.node.nodes import Client, Node, World, new_world, run
from tests.node.test_damage import flip, of_path, stopped

PATHS = ("x", "x.y", "z")


async def restarted(world: World, node: Node) -> Node:
    """The same node, after it has settled all it has."""
    await stopped(node)
    again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
    await world.ready("a")
    return again


def with_lost_value(
    tmp_path: Path, test: Callable[[World, Node, Client], Awaitable[None]], *, column: str = "entry", bit: int = 20,
    keep: int | None = None,
) -> None:
    """Run a test on a node that has all of PATHS, and has lost what stood at x. `keep`: so many changes are left."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            node = await world.start("a", init="root", solo=True, archive=str(tmp_path / "a.sqlite"))
            async with node.client() as client:
                for path in PATHS:
                    await client.set(path, path)
            await stopped(node)
            with closing(open_archive(str(tmp_path / "a.sqlite"))) as archive:
                archive.prune_history(keep=keep)
            flip(tmp_path / "a.sqlite", "state", column, "hex(path) = '91A178'", bit=bit)
            again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
            await world.ready("a")
            async with again.client() as client:
                await test(world, again, client)
            nursery.cancel_scope.cancel()

    run(main)


async def code_of(client: Client, path: str = "x", **fields: object) -> object:
    return (await client.get(path, **fields)).get("code")


async def tree_of(client: Client, path: list[str]) -> tuple[list[object], object]:
    """The values at and below a path, and the code of the error behind them."""
    last, values = await client.ask("get_tree", path=path), list[object]()
    while last.get("state") != "end" and "code" not in last:
        reply = await client.receive()
        assert reply is not None
        last = reply
        values += [last["value"]] if "value" in last else []
    return values, last.get("code")


def test_lost_value_is_damaged_and_no_other(tmp_path: Path) -> None:
    """(docs/protocol, LIFE-22)"""
    async def test(_world: World, _node: Node, client: Client) -> None:
        assert [await code_of(client, path) for path in ("x", "x.y", "z", "nothing")] == ["damaged", None, None, None]

    with_lost_value(tmp_path, test)


def test_history_tells_whose_value_it_was_where_the_path_cannot_be_read(tmp_path: Path) -> None:
    """(docs/protocol, LIFE-23)"""
    async def test(world: World, node: Node, client: Client) -> None:
        found = [await code_of(client, path) for path in ("x", "x.y", "z", "y", "nothing")]
        assert found == ["damaged", None, None, None, None]
        again = await restarted(world, node)
        async with again.client() as client:
            assert [await code_of(client, path) for path in ("x", "y")] == ["damaged", None]
            assert [lost["path"] for lost in (await client.ask("get_state"))["scrub"]["lost"]] == ["x"]

    with_lost_value(tmp_path, test, column="path", bit=0)


def test_value_whose_path_nobody_knows_may_be_any_that_is_not_there(tmp_path: Path) -> None:
    """History was removed (docs/protocol, LIFE-23)."""

    async def test(_world: World, _node: Node, client: Client) -> None:
        found = [await code_of(client, path) for path in ("x", "x.y", "z", "nothing")]
        assert found == ["damaged", None, None, "damaged"]
        assert (await client.ask("list", path=[]))["lost"].startswith("perhaps not all is here")
        await client.set("nothing", 1)
        assert [await code_of(client, path) for path in ("x", "nothing")] == ["damaged", None]

    with_lost_value(tmp_path, test, column="path", bit=0, keep=2)


@pytest.mark.parametrize("way", ["set", "delete", "delete_tree", "batch"])
def test_whatever_replaces_a_lost_value_ends_that_for_good(tmp_path: Path, way: str) -> None:
    async def test(world: World, node: Node, client: Client) -> None:
        match way:
            case "set":
                await client.set("x", 7)
            case "delete":
                assert (await client.ask("delete_value", path=["x"]))["changed"] is True
            case "delete_tree":
                await client.ask("delete_tree", path=["x"])
            case "batch":
                ops = [{"action": "set_value", "path": ["x"], "value": 7}, {"action": "get_value", "path": ["x"]}]
                assert "code" not in await client.ask("batch", ops=ops)
        assert await code_of(client) is None
        assert (await tree_of(client, []))[1] is None
        again = await restarted(world, node)
        async with again.client() as client:
            assert (await client.get("x")).get("value") == (7 if way in ("set", "batch") else None)
            assert await code_of(client) is None
            assert (await client.ask("get_state"))["scrub"]["lost"] == []

    with_lost_value(tmp_path, test)


def test_lost_value_stays_lost_over_restarts(tmp_path: Path) -> None:
    async def test(world: World, node: Node, _client: Client) -> None:
        for _ in range(2):
            node = await restarted(world, node)
        async with node.client() as client:
            await client.set("other", 1)
            assert await code_of(client) == "damaged"

    with_lost_value(tmp_path, test)


@pytest.mark.parametrize("condition", [{"new": True}, {"prev": 1}, {"chain": None}])
def test_condition_on_a_lost_value_is_refused(tmp_path: Path, condition: dict[str, object]) -> None:
    """(docs/protocol, LIFE-22)"""
    async def test(_world: World, _node: Node, client: Client) -> None:
        assert (await client.set("x", 7, **condition))["code"] == "damaged"
        op = {"action": "set_value", "path": ["x"], "value": 7, **condition}
        refused = await client.ask("batch", ops=[op])
        assert (refused["code"], refused["op"]) == ("damaged", 0)

    with_lost_value(tmp_path, test)


def test_batch_that_reads_a_lost_value_is_refused(tmp_path: Path) -> None:
    async def test(_world: World, _node: Node, client: Client) -> None:
        reply = await client.ask("batch", ops=[{"action": "get_value", "path": [path]} for path in ("z", "x")])
        assert (reply["code"], reply["op"]) == ("damaged", 1)

    with_lost_value(tmp_path, test)


def test_tree_shows_what_is_there_and_ends_with_what_is_lost(tmp_path: Path) -> None:
    async def test(_world: World, _node: Node, client: Client) -> None:
        assert await tree_of(client, []) == (["root", "x.y", "z"], "damaged")
        assert await tree_of(client, ["x"]) == (["x.y"], "damaged")
        assert await tree_of(client, ["x", "y"]) == (["x.y"], None)
        assert await tree_of(client, ["z"]) == (["z"], None)

    with_lost_value(tmp_path, test)


def test_list_says_what_is_lost(tmp_path: Path) -> None:
    async def test(_world: World, _node: Node, client: Client) -> None:
        reply = await client.ask("list", path=[])
        assert [name for name, *_ in reply["names"]] == ["x", "z"]
        assert "x" in reply["lost"]
        assert "lost" not in await client.ask("list", path=["x"])

    with_lost_value(tmp_path, test)


@pytest.mark.parametrize("wants", [True, False])
def test_watch_that_shows_the_state_names_what_is_lost(tmp_path: Path, *, wants: bool) -> None:
    async def test(_world: World, _node: Node, client: Client) -> None:
        found = [await client.ask("watch", path=[], fetch=True, missed=wants)]
        while found[-1].get("state") != "uptodate":
            reply = await client.receive()
            assert reply is not None
            found.append(reply)
        assert [item["lost"] for item in found if "lost" in item] == ([["x"]] if wants else [])

    with_lost_value(tmp_path, test)


def test_lost_value_that_another_node_has_comes_back(tmp_path: Path) -> None:
    """Also one that is lost while the others cannot be reached."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            for name, init in (("a", "root"), ("b", None)):
                await world.start(name, init=init, archive=str(tmp_path / f"{name}.sqlite"))
                await world.ready(name)
            node = world.nodes["a"]
            async with node.client() as client:
                await client.set("x", 5)
            await world.converged("a", "b")
            other = world.nodes["b"]
            await stopped(node)
            await stopped(other)
            flip(tmp_path / "a.sqlite", "state", "entry", of_path("x"), bit=20)
            node = await world.start("a", archive=node.archive, disk=node.disk.after_kill())
            await world.ready("a")
            async with node.client() as client:
                assert await code_of(client) == "damaged"
            await world.start("b", archive=other.archive, disk=other.disk.after_kill())
            with trio.move_on_after(60):
                await node.ended.wait()
            if node.ended.is_set():  # it has found out that its disk is an old one
                node = await world.start("a", archive=node.archive, disk=node.disk.after_kill())
            await world.ready("a")
            await world.converged("a", "b")
            async with node.client() as client:
                assert (await client.get("x"))["value"] == 5
                assert (await client.ask("get_state"))["scrub"]["lost"] == []
            nursery.cancel_scope.cancel()

    run(main)
