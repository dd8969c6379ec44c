"""A look at everything on the disk of a running node: what rots meanwhile is found and mended (engine/scrub.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path as FilePath

import pytest
import trio

from distkv.config import ScrubConfig
from distkv.core.client_writes import LocalSet
from distkv.engine.scrub import AFTER_START_S, PAUSE_S
from distkv.engine.settler import LOOKS, SETTLE_BYTES, SETTLE_S
from distkv.errors import BusyError
from distkv.model.path import Path
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.node.nodes import Node, Reply, run, solo_node, until
from tests.node.test_damage import flip, of_path

Main = Callable[[Node], Awaitable[None]]
PATIENCE_S = 10_000.0
"""Of virtual time."""
VALUES = {"x": "one", "y": "two"}


def on_a_node(path: FilePath, main: Main, scrub: ScrubConfig | None = None) -> None:
    """Run `main` with a node alone, which has settled `VALUES`, each written twice."""

    async def whole() -> None:
        async with solo_node(archive=str(path / "a.sqlite"), scrub=scrub or ScrubConfig()) as node:
            async with node.client() as client:
                for where, value in VALUES.items():
                    await client.set(where, "before")
                    await client.set(where, value)
            assert node.driver.settler is not None
            await node.driver.settler.settle()
            with trio.fail_after(PATIENCE_S):
                await main(node)

    run(whole)


async def scrubbed(node: Node, **fields: object) -> Reply:
    """The last word of a look that a client asks for."""
    async with node.client() as client:
        reply: Reply = (await client.items("scrub", **fields))[-1]["found"]
        return reply


def zero_first_page_of(file: FilePath, table: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(file, "r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(bytes(size))


async def read(node: Node) -> dict[str, object]:
    async with node.client() as client:
        return {where: (await client.get(where)).get("value") for where in VALUES}


def test_look_at_an_intact_disk_finds_nothing_and_counts_all_rows(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        found = await scrubbed(node)
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            tables = ("progress", "ledger", "meta", "state", "history")
            counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
        assert (found["last"]["rows"], found["last"]["damaged"]) == (sum(counts), 0)
        assert (found["places"], found["lost"]) == ([], [])

    on_a_node(tmp_path, main)


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("state", "entry", of_path("x")),
        ("state", "path", of_path("x")),
        ("ledger", "book", "1"),
        ("meta", "value", "key = 'tock'"),
    ],
)
def test_row_of_the_present_that_rots_is_written_anew_from_memory(
    tmp_path: FilePath, table: str, column: str, where: str
) -> None:
    async def main(node: Node) -> None:
        flip(tmp_path / "a.sqlite", table, column, where, bit=1)
        found = await scrubbed(node)
        assert len(found["places"]) == 1
        assert found["places"][0].startswith(table)
        assert found["lost"] == []
        assert (await scrubbed(node))["last"]["damaged"] == 0
        await node.kill()
        again = await node.world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
        await node.world.ready("a")
        assert again.driver.counters["damaged"] == 0
        assert await read(again) == VALUES

    on_a_node(tmp_path, main)


@pytest.mark.parametrize("change", ["DELETE FROM state WHERE {}", "UPDATE state SET checked = 0 WHERE {}"])
def test_row_of_the_state_that_vanishes_or_is_another_one_is_written_anew(tmp_path: FilePath, change: str) -> None:
    async def main(node: Node) -> None:
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            connection.execute(change.format(of_path("y")))
            connection.commit()
        assert (await scrubbed(node))["last"]["damaged"] == 1
        assert (await scrubbed(node))["last"]["damaged"] == 0
        await node.kill()
        again = await node.world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
        await node.world.ready("a")
        assert await read(again) == VALUES

    on_a_node(tmp_path, main)


def test_rotten_row_of_the_history_is_lost_and_named(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        flip(tmp_path / "a.sqlite", "history", "record", f"{of_path('x')} AND instr(record, 'before') > 0")
        found = await scrubbed(node)
        assert [lost["path"] for lost in found["lost"]] == ["x"]
        again = await scrubbed(node)
        assert (again["last"]["damaged"], again["lost"]) == (0, found["lost"])
        async with node.client() as client:
            shown = await client.items("history", path=["x"])
            assert [item.get("value", item.get("code")) for item in shown] == ["one", "damaged"]
            assert (await client.ask("get_state"))["scrub"]["lost_count"] == 1

    on_a_node(tmp_path, main)


def test_value_at_a_time_is_refused_where_a_rotten_row_may_have_been_it(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        flip(tmp_path / "a.sqlite", "history", "record", f"{of_path('x')} AND instr(record, 'one') > 0")
        async with node.client() as client:
            assert (await client.get("x", at=1e12))["code"] == "damaged"
            assert (await client.get("y", at=1e12))["value"] == "two"
        await scrubbed(node)
        async with node.client() as client:
            assert (await client.get("x", at=1e12))["code"] == "damaged"

    on_a_node(tmp_path, main)


def test_watch_that_resumes_over_a_rotten_row_is_told_to_resynchronise(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        async with node.client() as client:
            since = (await client.ask("watch", path=[])).get("token")
            await client.set("x", "three")
            await client.set("x", "four")
        assert node.driver.settler is not None
        await node.driver.settler.settle()
        flip(tmp_path / "a.sqlite", "history", "record", f"{of_path('x')} AND instr(record, 'three') > 0")
        async with node.client() as client:
            await client.ask("watch", path=[], since=since)
            reply = await client.receive()
            assert reply is not None
            assert reply.get("state") == "resync"

    on_a_node(tmp_path, main)


@pytest.mark.parametrize("index", ["history_by_path", "history_by_tick", "history_by_arrival"])
def test_index_that_passes_over_a_row_is_made_anew(tmp_path: FilePath, index: str) -> None:
    async def main(node: Node) -> None:
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (f"{sql} WHERE lsn < 3", index))
            connection.execute("PRAGMA schema_version = 1000")
            connection.commit()
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            connection.execute(f"REINDEX {index}")  # now it holds three rows only
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, index))
            connection.execute("PRAGMA schema_version = 1001")
            connection.commit()
        found = await scrubbed(node)
        assert f"history, index {index}" in found["places"]
        assert found["lost"] == []
        assert (await scrubbed(node))["last"]["damaged"] == 0
        async with node.client() as client:
            assert len(await client.items("history", path=["y"])) == 2

    on_a_node(tmp_path, main)


@pytest.mark.parametrize("table", ["state", "ledger", "meta", "history", "history_by_path", "history_by_arrival"])
def test_page_that_sqlite_cannot_read_is_written_anew_and_nothing_that_came_meanwhile_is_lost(
    tmp_path: FilePath, table: str
) -> None:
    """Settling has to wait for it, the log keeps what is written."""

    async def main(node: Node) -> None:
        zero_first_page_of(tmp_path / "a.sqlite", table)
        async with node.client() as client:
            await client.set("x", "three")
            assert node.driver.settler is not None
            with suppress(BusyError):
                await node.driver.settler.settle()
            await client.set("y", "four")
        found = await scrubbed(node)
        assert len(found["places"]) == 1
        assert (await scrubbed(node))["last"]["damaged"] == 0
        await node.driver.settler.settle()
        assert node.driver.settler.statistics()["unsettled"] == 0
        await node.kill()
        again = await node.world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
        await node.world.ready("a")
        assert again.driver.counters["damaged"] == 0
        assert await read(again) == {"x": "three", "y": "four"}

    on_a_node(tmp_path, main)


def test_history_that_sqlite_cannot_read_is_refused_until_it_is_mended_by_itself(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        scrub = node.driver.scrub
        assert scrub is not None
        await until(lambda: scrub.last is not None, 1)
        first = scrub.last
        zero_first_page_of(tmp_path / "a.sqlite", "history")
        async with node.client() as client:
            began = trio.current_time()
            (refused,) = await client.items("history", path=["y"])
            assert refused["code"] == "damaged"
            assert (await client.get("y"))["value"] == "two"
            await until(lambda: scrub.last is not first, 1)
            assert trio.current_time() - began <= PAUSE_S + SETTLE_S
            (lacking,) = await client.items("history", path=["y"])  # all of it was on that page
            assert lacking["code"] == "damaged"
        (lost,) = scrub.lost
        assert lost.place.startswith("history, rows 0 to ")

    on_a_node(tmp_path, main)


def test_looks_come_by_themselves_and_again_when_they_are_due(tmp_path: FilePath) -> None:
    every_s = 500.0

    async def main(node: Node) -> None:
        scrub = node.driver.scrub
        assert scrub is not None
        await until(lambda: scrub.last is not None, 1)
        first = scrub.last
        assert first is not None
        assert trio.current_time() - first.begun <= SETTLE_S
        assert trio.current_time() >= AFTER_START_S
        await until(lambda: scrub.last is not first, 1)
        assert scrub.last is not None
        assert every_s <= scrub.last.begun - first.begun <= every_s + PAUSE_S + 1

    on_a_node(tmp_path, main, ScrubConfig(every_s=every_s))


def test_look_is_as_slow_as_it_is_told_unless_it_is_to_be_fast(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        began = trio.current_time()
        await scrubbed(node)
        slow_s = trio.current_time() - began
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            (size,) = connection.execute("SELECT sum(length(record) + length(path)) FROM history").fetchone()
        assert slow_s >= size / 1024
        began = trio.current_time()
        await scrubbed(node, fast=True)
        assert trio.current_time() - began < slow_s / 2

    on_a_node(tmp_path, main, ScrubConfig(bytes_per_s=1024))


def test_second_client_joins_the_look_that_is_under_way(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        found: list[Reply] = []

        async def ask() -> None:
            found.append(await scrubbed(node))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        assert found[0]["last"] == found[1]["last"]

    on_a_node(tmp_path, main, ScrubConfig(bytes_per_s=1024))


def test_large_writes_while_all_is_written_anew_leave_nothing_out(tmp_path: FilePath) -> None:
    """What comes meanwhile would else be settled in a part of its own, with what was looked at until then."""
    names = [f"n{number}" for number in range(20 * LOOKS)]
    large = "x" * (SETTLE_BYTES // 8)

    async def main(node: Node) -> None:
        settler = node.driver.settler
        assert settler is not None
        async with node.client() as client:
            for name in names:
                await client.set(name, name)
            await settler.settle()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(settler.write_anew)
                for number in range(16):  # at every pause of the look at all paths
                    await trio.lowlevel.checkpoint()
                    node.driver.step(LocalSet(SetValue(1, Path(("large", str(number))), pack_value(large))))
            await node.committer.wait_durable(node.driver.position)
        await node.kill()
        again = await node.world.start("a", solo=True, archive=node.archive, disk=node.disk.after_kill())
        await node.world.ready("a")
        assert again.driver.counters["damaged"] == 0
        async with again.client() as client:
            assert [(await client.get(name)).get("value") for name in names] == names
            assert (await client.get("large.15"))["value"] == large

    on_a_node(tmp_path, main)


def test_backup_of_a_rotten_disk_is_refused_until_it_is_mended(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        flip(tmp_path / "a.sqlite", "state", "entry", of_path("x"))
        async with node.client() as client:
            (refused,) = await client.items("backup")
            assert refused["code"] == "damaged"
            await scrubbed(node)
            assert all("data" in item for item in await client.items("backup"))

    on_a_node(tmp_path, main)
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("backup")] == []


def test_part_of_a_path_that_is_left_is_told_as_one_that_cannot_be_read(tmp_path: FilePath) -> None:
    async def main(node: Node) -> None:
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
            cut = f"UPDATE history SET path = CAST(substr(path, 1, 2) AS BLOB) WHERE {of_path('x')} AND tick = 4"
            assert connection.execute(cut).rowcount == 1
            connection.commit()
        found = await scrubbed(node)
        assert [lost["path"] for lost in found["lost"]] == [None]

    on_a_node(tmp_path, main)
