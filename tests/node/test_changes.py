"""`get_changes` over a real session: what content a node has of which ticks, wherever it is kept.

Knows: whole nodes with an archive as `nodes` builds them, and frames.  Does not know how pages are read.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.engine.changes import WON_UNKNOWN, PageBounds
from distkv.model.event import COUNT_BITS, Kind
from distkv.model.ranges import Ranges
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_records
from tests.node.nodes import Client, Node, new_world, solo_node, until

pytestmark = pytest.mark.trio

PAGE_RECORDS, PAGE_BYTES = PageBounds().records, PageBounds().size


@asynccontextmanager
async def archiving(tmp_path: Path, **told: object) -> AsyncIterator[tuple[Node, Client]]:
    async with solo_node(archive=str(tmp_path / "state.sqlite"), **told) as node, node.client() as client:
        yield node, client


async def settled(node: Node) -> None:
    """All that was written is in the archive."""
    assert node.driver.settler is not None
    settler = node.driver.settler
    await until(lambda: settler.statistics()["unsettled"] == 0, 0.1)


async def forgotten(node: Node, keep: int) -> None:
    """The archive has all, and let go of all its history but so many rows."""
    await settled(node)
    assert node.opened is not None
    node.opened.prune_history(keep=keep)


async def asked(client: Client, nodes: object, **fields: object) -> tuple[list[EventRecord], bytes, object]:
    """The records, whether each won, and what is absent."""
    *pages, last = await client.items("get_changes", nodes=nodes, **fields)
    records: list[EventRecord] = []
    for page in pages:
        for one in decode_records(page["records"]):
            assert isinstance(one, EventRecord)
            assert one.event.node == page["node"]
            records.append(one)
    won = b"".join(page["won"] for page in pages)
    assert len(won) == len(records)
    return records, won, last["absent"]


def shown(records: list[EventRecord]) -> list[tuple[int, str, bytes]]:
    return [(one.event.tick, str(one.event.path), one.event.value) for one in records]


# -- wherever it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_settled", [False, True])
async def test_every_change_comes_once_in_order_of_tick_with_what_was_superseded(
    autojump_clock: MockClock, tmp_path: Path, is_settled: bool
) -> None:
    async with archiving(tmp_path) as (node, client):
        first = node.replica.tick + 1
        for number in range(5):
            await client.set("x", number)
        await client.ask("delete_value", path=["x"])
        if is_settled:
            await settled(node)
        records, won, absent = await asked(client, {"a": [[first, first + 6]]})
        assert shown(records) == [(first + n, "x", bytes([n])) for n in range(5)] + [(first + 5, "x", b"")]
        assert (records[-1].event.kind, won, absent) == (Kind.DELETE, b"\1" * 6, {})


async def test_change_that_is_settled_while_it_is_asked_for_comes_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Half of it in the archive, half not yet; the second page is asked for when all is settled."""
    async with archiving(tmp_path) as (node, client):
        first, count = node.replica.tick + 1, PAGE_RECORDS + 1500
        for at in range(0, count, 500):
            ops = [{"action": "set_value", "path": [f"k{n}"], "value": n} for n in range(at, at + 500)]
            assert "results" in await client.ask("batch", ops=ops)
            if at == 2000:
                await settled(node)
        records, _, absent = await asked(client, {"a": [[first, first + count]]})
        assert [one.event.tick for one in records] == list(range(first, first + count))
        assert absent == {}


async def test_event_that_only_the_tree_has_left_comes_without_its_arrival(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with archiving(tmp_path) as (node, client):
        first = node.replica.tick + 1
        await client.set("gone", 1)
        await client.set("gone", 2)
        await client.set("kept", 3)
        await forgotten(node, keep=0)
        await client.set("new", 4)
        records, won, absent = await asked(client, {"a": [[first, first + 4]]})
        assert shown(records) == [(first + 1, "gone", b"\2"), (first + 2, "kept", b"\3"), (first + 3, "new", b"\4")]
        assert [bool(one.arrived) for one in records] == [False, False, True]
        assert (won, absent) == (bytes([WON_UNKNOWN, WON_UNKNOWN, 1]), {"a": [first]})


async def test_tick_that_was_never_heard_of_is_absent(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path) as (_, client):
        tick = (await client.set("x", 1))["tick"]
        assert isinstance(tick, int)
        records, _, absent = await asked(client, {"a": [[tick, tick + 3]], "q": [[5, 9]]})
        assert ([one.event.tick for one in records], absent) == ([tick], {"a": [[tick + 1, tick + 3]], "q": [[5, 9]]})


async def test_both_lives_of_a_name_come(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1, archive=str(tmp_path / "state.sqlite"))
        await world.start("b")
        await world.ready("a", "b")
        async with a.client() as client:
            old = int(str((await client.set("x", 1))["tick"]))
        await world.converged("a", "b")
        await a.kill()
        again = await world.start("a", archive=a.archive, disk=a.disk.after_kill(), settings={"restored": True})
        await world.ready("a")
        async with again.client() as client:
            new = int(str((await client.set("x", 2))["tick"]))
            assert new >> COUNT_BITS > old >> COUNT_BITS
            records, _, absent = await asked(client, {"a": [old, new]})
            assert (shown(records), absent) == ([(old, "x", b"\1"), (new, "x", b"\2")], {})
        nursery.cancel_scope.cancel()


async def test_changes_of_another_node_come_too(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        a = await world.start("a", init=1)
        b = await world.start("b", archive=str(tmp_path / "state.sqlite"))
        await world.ready("a", "b")
        async with a.client() as at_a, b.client() as at_b:
            tick = (await at_a.set("x", 1))["tick"]
            await world.converged("a", "b")
            records, won, absent = await asked(at_b, {"a": [tick]})
            assert (shown(records), won, absent) == ([(tick, "x", b"\1")], b"\1", {})
        nursery.cancel_scope.cancel()


async def test_change_whose_row_rotted_is_absent_and_told(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path) as (node, client):
        first = node.replica.tick + 1
        for number in range(3):
            await client.set("x", number)
        await settled(node)
        assert node.opened is not None
        assert node.archive is not None
        with closing(sqlite3.connect(node.archive)) as disk, disk:
            disk.execute("UPDATE history SET record = zeroblob(length(record)) WHERE tick = ?", (first + 1,))
        records, _, absent = await asked(client, {"a": [[first, first + 3]]})
        assert ([one.event.tick for one in records], absent) == ([first, first + 2], {"a": [first + 1]})
        assert len(node.opened.damage.all()) == 1


# -- what is asked ------------------------------------------------------------------------------------------------


async def test_path_leaves_out_what_happened_elsewhere_which_is_not_absent(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with archiving(tmp_path) as (node, client):
        first = node.replica.tick + 1
        for path in ("s", "s.x", "sx", "t", "s.x.y"):
            await client.set(path, 1)
        wanted = {"a": [[first, first + 6]]}
        records, _, absent = await asked(client, wanted, path=["s"])
        assert [str(one.event.path) for one in records] == ["s", "s.x", "s.x.y"]
        assert absent == {"a": [first + 5]}
        (item,) = await client.items("get_changes", nodes=wanted, path=["s"], content=False)
        assert (item["here"], item["absent"]) == ({"a": [[first, first + 2], first + 4]}, {"a": [first + 5]})


async def test_path_of_more_than_fifteen_names_is_found_below_a_short_one(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """The names of a path stand behind their count, which takes more bytes from sixteen on."""
    async with archiving(tmp_path) as (_, client):
        deep = [f"n{number}" for number in range(20)]
        tick = (await client.ask("set_value", path=deep, value=1))["tick"]
        for count in (1, 15, 16, 20):
            records, _, _ = await asked(client, {"a": [tick]}, path=deep[:count])
            assert len(records) == 1
        records, _, _ = await asked(client, {"a": [tick]}, path=[*deep[:15], "else"])
        assert records == []


async def test_without_content_it_says_what_is_here(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path) as (node, client):
        first = node.replica.tick + 1
        for number in range(3):
            await client.set("x", number)
        await forgotten(node, keep=1)
        await client.set("y", 1)
        (item,) = await client.items("get_changes", nodes={"a": [[first, first + 9]], "q": [1]}, content=False)
        assert item["here"] == {"a": [[first + 2, first + 4]]}
        assert item["absent"] == {"a": [[first, first + 2], [first + 4, first + 9]], "q": [1]}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, "nodes"),
        ({"nodes": {"a": 5}}, "nodes"),
        ({"nodes": {"a": [[5, 2]]}}, "nodes"),
        ({"nodes": {}, "path": "x"}, "path"),
        ({"nodes": {}, "content": 1}, "content"),
    ],
)
async def test_request_that_is_wrong_is_refused(
    autojump_clock: MockClock, tmp_path: Path, fields: dict[str, object], names: str
) -> None:
    async with archiving(tmp_path) as (_, client):
        reply = await client.ask("get_changes", **fields)
        assert reply["code"] in ("bad_request", "bad_path")
        assert names in str(reply["error"])


async def test_node_without_an_archive_refuses(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        replies = await client.items("get_changes", nodes={"a": [1]})
        assert "keeps no history" in str(replies[-1]["error"])


# -- bounds -------------------------------------------------------------------------------------------------------


async def test_large_values_come_in_small_pages(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path) as (node, client):
        first, size = node.replica.tick + 1, PAGE_BYTES // 3
        for number in range(8):
            await client.set(f"k{number}", bytes(size))
        for is_settled in (False, True):
            if is_settled:
                await settled(node)
            *pages, last = await client.items("get_changes", nodes={"a": [[first, first + 8]]})
            assert last["absent"] == {}
            assert [len(page["won"]) for page in pages] == [3, 3, 2]


async def test_answer_waits_until_what_it_shows_is_durable(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path, commit_s=lambda: 5.0) as (node, writer), node.client() as client:
        await client.ask("ping")
        tick = node.replica.tick + 1
        await writer.stream.send_all(writer.frame("set_value", path=["x"], value=1))
        await until(lambda: node.replica.tick == tick, 0.01)
        assert node.committer.durable_mark < tick
        records, _, _ = await asked(client, {"a": [tick]})
        assert ([one.event.tick for one in records], node.committer.durable_mark) == ([tick], tick)


async def test_more_pages_than_allowed_wait_until_one_is_made(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with archiving(tmp_path, limits=Limits(change_reads=1)) as (node, client):
        first = node.replica.tick + 1
        await client.set("x", 1)
        async with node.client() as reader:
            await reader.ask("ping")
            async with node.driver.change_reads:
                await reader.stream.send_all(reader.frame("get_changes", nodes={"a": [first]}))
                with trio.move_on_after(60) as patience:
                    assert (await reader.replies(1))[0] == {"seq": 2, "state": "start"}
                    await reader.receive()
                assert patience.cancelled_caught
            page = await reader.receive()
            assert page is not None
            assert len(page["won"]) == 1


async def test_reader_that_stops_reading_holds_up_nobody(autojump_clock: MockClock, tmp_path: Path) -> None:
    """It takes nothing behind its request; the other one, with as many allowed, gets all."""
    async with archiving(tmp_path, limits=Limits(change_reads=1)) as (node, client):
        first = node.replica.tick + 1
        for number in range(4):
            await client.set(f"k{number}", bytes(PAGE_BYTES // 2))
        wanted = {"a": [[first, first + 4]]}
        async with node.client(lockstep=True) as stalled, node.client() as other:
            await stalled.receive()
            assert (await stalled.ask("get_changes", nodes=wanted))["state"] == "start"
            with trio.fail_after(60):
                records, _, absent = await asked(other, wanted)
            assert (len(records), absent) == (4, {})
            page = await stalled.receive()
            assert page is not None
            assert len(page["won"]) == 2


async def test_what_retention_takes_between_two_pages_is_absent(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The first page was sent; then history goes, and of the rest the tree has what is present."""
    async with archiving(tmp_path) as (node, writer):
        first = node.replica.tick + 1
        for number in range(4):
            await writer.set("x", bytes([number]) * (PAGE_BYTES // 2))
        await settled(node)
        async with node.client(lockstep=True) as reader:
            await reader.receive()
            assert (await reader.ask("get_changes", nodes={"a": [[first, first + 4]]}))["state"] == "start"
            page = await reader.receive()
            await forgotten(node, keep=0)
            rest = [page, *[await reader.receive() for _ in range(3)]]
        records = [one for item in rest if item and "records" in item for one in decode_records(item["records"])]
        ticks = [one.event.tick for one in records if isinstance(one, EventRecord)]
        absent = [item["absent"] for item in rest if item and "absent" in item]
        assert ticks[0] == first
        assert ticks[-1] == first + 3
        assert absent == [{"a": Ranges.from_ticks(sorted({*range(first, first + 4)} - {*ticks})).to_list()}]
        assert len(ticks) == 3
