"""A row of the archive rots while its node is stopped: nobody is told what stands there, and it comes back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from distkv.errors import LogDamagedError
from tests.node.nodes import Node, World, new_world, run


def flip(file: Path, table: str, column: str, where: str = "1", *, bit: int = 0) -> None:
    """Change one bit of a column, as a disk does: behind the archive's back."""
    with closing(sqlite3.connect(file)) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
        data = bytearray(value)
        data[-1 - bit // 8] ^= 1 << bit % 8
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (bytes(data),))
        connection.commit()


def of_path(name: str) -> str:
    return f"instr(path, CAST('{name}' AS BLOB)) > 0"


async def stopped(node: Node) -> None:
    """It has settled all it has, and ended."""
    assert node.driver.settler is not None
    await node.driver.settler.settle()
    await node.kill()


async def three(world: World, path: Path) -> None:
    """Nodes a, b and c, of which a has written twice at x, and once at y; all hold the same."""
    for name, init in (("a", "root"), ("b", None), ("c", None)):
        await world.start(name, init=init, archive=str(path / f"{name}.sqlite"))
        await world.ready(name)
    async with world.nodes["a"].client() as client:
        for where, value in (("x", 1), ("x", 2), ("y", 5)):
            await client.set(where, value)
    await world.converged("a", "b", "c")


async def value_at(node: Node, where: str) -> object:
    async with node.client() as client:
        return (await client.get(where)).get("value")


@pytest.mark.parametrize("column", ["entry", "path"])
@pytest.mark.parametrize("where", ["x", "y"])
def test_rotten_row_is_not_served_and_comes_back_from_others(tmp_path: Path, column: str, where: str) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            await three(world, tmp_path)
            node = world.nodes["a"]
            await stopped(node)
            flip(tmp_path / "a.sqlite", "state", column, of_path(where), bit=1)
            again = await world.start("a", archive=node.archive, disk=node.disk.after_kill())
            await world.ready("a")
            assert again.driver.counters["damaged"] == 1
            await world.converged("a", "b", "c")
            for name in ("a", "b", "c"):
                assert [await value_at(world.nodes[name], at) for at in ("x", "y")] == [2, 5]
            await stopped(again)
            last = await world.start("a", archive=node.archive, disk=again.disk.after_kill())
            await world.ready("a")
            assert last.driver.counters["damaged"] == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_rotten_row_of_a_node_alone_is_told_as_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            node = await world.start("a", init="root", solo=True, archive=str(tmp_path / "a.sqlite"))
            async with node.client() as client:
                for where in ("x", "y"):
                    await client.set(where, where)
            await stopped(node)
            flip(tmp_path / "a.sqlite", "state", "entry", of_path("x"), bit=20)
            again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
            await world.ready("a")
            async with again.client() as client:
                assert (await client.get("x"))["code"] == "damaged"
            assert await value_at(again, "y") == "y"
            assert again.opened is not None
            assert [damage.path for damage in again.opened.damage.all()] == [b"\x91\xa1x"]
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("meta", "value", "key = 'tock'"),
        ("meta", "value", "key = 'digest'"),
        ("ledger", "book", "node = 'a'"),
        ("state", "entry", "instr(path, CAST('node' AS BLOB)) = 0 AND hex(path) = '91C0'"),
    ],
)
def test_start_is_refused_where_the_damage_cannot_be_narrowed_down(
    tmp_path: Path, table: str, column: str, where: str
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            node = await world.start("a", init="root", solo=True, archive=str(tmp_path / "a.sqlite"))
            await stopped(node)
            flip(tmp_path / "a.sqlite", table, column, where)
            again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
            assert isinstance(again.failure, LogDamagedError)
            assert "damaged" in str(again.failure)
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE progress SET {}_sum = {}_sum + 1"])
@pytest.mark.parametrize("table", ["ledger", "meta"])
def test_row_of_ledger_or_meta_that_vanishes_is_noticed(tmp_path: Path, table: str, change: str) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            node = await world.start("a", init="root", solo=True, archive=str(tmp_path / "a.sqlite"))
            await stopped(node)
            with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
                connection.execute(change.replace("{}", table) )
                connection.commit()
            again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
            assert isinstance(again.failure, LogDamagedError)
            nursery.cancel_scope.cancel()

    run(main)


def test_row_of_the_state_that_vanishes_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            node = await world.start("a", init="root", solo=True, archive=str(tmp_path / "a.sqlite"))
            async with node.client() as client:
                await client.set("x", 1)
            await stopped(node)
            with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
                connection.execute(f"DELETE FROM state WHERE {of_path('x')}")
                connection.commit()
            again = await world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
            assert isinstance(again.failure, LogDamagedError)
            nursery.cancel_scope.cancel()

    run(main)
