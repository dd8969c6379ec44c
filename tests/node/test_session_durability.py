"""What a connection may show before a commit is done, and what has to wait for it.

Knows: a node whose disk is slow.  Does not know how the committer batches.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from distkv.model.path import Path
from distkv.wire.codec import tick_maps_map
from tests.node.nodes import Client, Node, new_world

COMMIT_S = 1.0

pytestmark = pytest.mark.usefixtures("both_ways")


@attrs.define
class Bench:
    """A node on a slow disk, with an entry `old`; `writer` has just sent `set new 1`."""

    node: Node
    writer: Client
    reader: Client
    third: Client

    async def waited(self, action: str, **fields: object) -> float:
        """How long the reader waits for its reply."""
        began = trio.current_time()
        await self.reader.ask(action, **fields)
        return trio.current_time() - began


@asynccontextmanager
async def slow_write() -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1, solo=True, commit_s=COMMIT_S)
        await world.ready("a")
        async with node.client() as writer, node.client() as reader, node.client() as third:
            await writer.set("old", "value")
            await reader.ask("ping")
            await third.ask("ping")
            await writer.stream.send_all(writer.frame("set_value", path=["new"], value=1))
            await trio.sleep(0.1)
            yield Bench(node, writer, reader, third)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_write_is_answered_after_its_commit_only(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        began = trio.current_time()
        assert (await b.writer.receive() or {})["changed"]
        assert trio.current_time() - began == pytest.approx(COMMIT_S - 0.1)


@pytest.mark.trio
async def test_reply_behind_a_write_of_the_same_send_waits_with_it(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        began = trio.current_time()
        await b.third.stream.send_all(
            b.third.frame("set_value", path=["third"], value=1) + b.third.frame("get_value", path=["old"])
        )
        assert ((await b.third.receive() or {})["changed"], (await b.third.receive() or {})["value"]) == (True, "value")
        assert trio.current_time() - began >= COMMIT_S


@pytest.mark.trio
async def test_write_during_a_commit_is_answered_after_the_next_one(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        began = trio.current_time()
        await b.third.set("third", 1)
        assert trio.current_time() - began == pytest.approx(2 * COMMIT_S - 0.1)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("get_value", {"path": ["old"]}),
        ("get_value", {"path": ["nothing"]}),
        ("get_value", {"path": []}),
        ("ping", {}),
    ],
)
async def test_what_shows_nothing_uncommitted_is_answered_at_once(
    autojump_clock: MockClock, action: str, fields: dict[str, object]
) -> None:
    async with slow_write() as b:
        assert await b.waited(action, **fields) < 0.01


@pytest.mark.trio
@pytest.mark.parametrize("action", ["get_value", "get_state", "exchange", "get_events", "get_snapshot"])
async def test_what_shows_an_uncommitted_own_event_waits_for_its_commit(autojump_clock: MockClock, action: str) -> None:
    async with slow_write() as b:
        fields = {
            "path": ["new"],
            "maps": tick_maps_map(b.node.replica.maps()),
            "nodes": {"a": [[1, 99]]},
            "node": "z",
            "created": 1.0,
            "addr": "z:1",
        }
        assert await b.waited(action, **fields) >= COMMIT_S - 0.11


@pytest.mark.trio
async def test_uncommitted_delete_is_not_shown_either(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        await b.third.stream.send_all(b.third.frame("delete_value", path=["old"]))
        await trio.sleep(0.01)
        assert await b.waited("get_value", path=["old"]) >= COMMIT_S - 0.2


@pytest.mark.trio
async def test_refused_write_does_not_wait_for_the_commits_of_others(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        assert await b.waited("set_value", path=[None], value=1) < 0.01


@pytest.mark.trio
async def test_reader_of_an_uncommitted_event_gets_what_was_written_then(autojump_clock: MockClock) -> None:
    async with slow_write() as b:
        assert (await b.reader.get("new"))["value"] == 1
        assert b.node.committer.is_idle


@pytest.mark.trio
async def test_own_event_of_an_earlier_start_is_durable_before_the_first_commit_of_this_one(
    autojump_clock: MockClock,
) -> None:
    async with slow_write() as b:
        await b.node.kill()
        node = await b.node.world.start("a", disk=b.node.disk.after_kill(), solo=True, commit_s=COMMIT_S)
        entry = node.replica.tree.get(Path(["old"]))
        assert entry is not None
        assert not node.committer.is_idle
        assert node.driver.is_durable(entry.head)
