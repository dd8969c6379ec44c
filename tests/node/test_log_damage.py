"""The log of a stopped node is damaged: it refuses to start, and told to go on it gets back what others hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from distkv.engine.settler import SETTLE_S
from distkv.errors import LogDamagedError
from distkv.storage.memory import MemoryDisk
from distkv.storage.segment import content_end
from tests.node.nodes import Node, World, new_world, run, until

NAMES = ("x", "y", "z")


def _segments(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.names() if name.startswith("segment-") and content_end(disk.content(name)) > 100]


def _flip_last_batch(disk: MemoryDisk) -> None:
    name = _segments(disk)[-1]
    at = content_end(disk.content(name)) - 9
    disk.corrupt(name, at, bytes([disk.content(name)[at] ^ 8]))


def _truncate(disk: MemoryDisk) -> None:
    name = _segments(disk)[-1]
    disk.truncate(name, content_end(disk.content(name)) * 2 // 3)


spoils = pytest.mark.parametrize("spoil", [_flip_last_batch, _truncate], ids=["flipped", "shorter"])
archives = pytest.mark.parametrize("has_archive", [False, True], ids=["log-only", "archive"])


async def _two(world: World, path: Path, has_archive: bool) -> None:
    """Nodes a and b, of which a has written at each of the names; both hold the same."""
    for name, init in (("a", "root"), ("b", None)):
        await world.start(name, init=init, archive=str(path / f"{name}.sqlite") if has_archive else None)
        await world.ready(name)
    settler = world.nodes["a"].driver.settler
    if settler is not None:
        await settler.settle()
    async with world.nodes["a"].client() as client:
        for where in NAMES:
            await client.set(where, where.upper())
    await world.converged("a", "b")


async def _values(node: Node) -> list[object]:
    async with node.client() as client:
        return [(await client.get(where)).get("value") for where in NAMES]


@spoils
@archives
def test_damaged_log_is_refused_and_with_restored_all_that_others_hold_comes_back(
    tmp_path: Path, spoil: Callable[[MemoryDisk], None], has_archive: bool
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            await _two(world, tmp_path, has_archive)
            node = world.nodes["a"]
            old_life = node.replica.life
            await node.kill()
            disk = node.disk.after_kill()
            spoil(disk)
            refused = await world.start("a", archive=node.archive, disk=disk)
            assert isinstance(refused.failure, LogDamagedError)
            assert "start once with --restored" in str(refused.failure)
            again = await world.start("a", archive=node.archive, disk=disk.after_kill(), settings={"restored": True})
            assert again.log.recovered.cut != ""
            await world.ready("a")
            await world.converged("a", "b")
            assert [await _values(world.nodes[name]) for name in ("a", "b")] == [["X", "Y", "Z"]] * 2
            async with again.client() as client:
                await client.set("x", "new")
            await world.converged("a", "b")
            assert (await _values(world.nodes["b"]))[0] == "new"
            assert again.replica.life != old_life
            await again.kill()
            last = await world.start("a", archive=node.archive, disk=again.disk.after_kill())
            assert last.log.recovered.cut == ""
            await world.ready("a")
            assert await _values(last) == ["new", "Y", "Z"]
            nursery.cancel_scope.cancel()

    run(main)


@archives
def test_node_that_ended_right_after_a_cut_is_an_old_disk_still(tmp_path: Path, has_archive: bool) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            await _two(world, tmp_path, has_archive)
            node = world.nodes["a"]
            old_life = node.replica.life
            await node.kill()
            disk = node.disk.after_kill()
            _flip_last_batch(disk)
            disk.faults.crash_at = disk.faults.operations + 12
            await world.start("a", archive=node.archive, disk=disk, settings={"restored": True})
            again = await world.start("a", archive=node.archive, disk=disk.after_kill())
            await world.ready("a")
            await world.converged("a", "b")
            assert await _values(again) == ["X", "Y", "Z"]
            assert again.replica.life != old_life
            nursery.cancel_scope.cancel()

    run(main)


def test_log_that_is_lost_right_after_the_founding_is_no_new_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery)
            await world.start("a", init="root", archive=str(tmp_path / "a.sqlite"))
            await world.ready("a")
            node = world.nodes["a"]
            settler = node.driver.settler
            assert settler is not None
            with trio.fail_after(SETTLE_S / 2):
                await until(lambda: settler.statistics()["settled_lsn"] > 0, 0.01)
            await node.kill()
            disk = node.disk.after_kill()
            for name in _segments(disk):
                disk.unlink(name)
            refused = await world.start("a", archive=node.archive, disk=disk)
            assert isinstance(refused.failure, LogDamagedError)
            nursery.cancel_scope.cancel()

    run(main)
