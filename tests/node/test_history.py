"""The past of a path over a connection, in parts.

Knows: a whole node with an archive, and frames.  Does not know where the past is kept.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from distkv.services.history import PAGE_ROWS
from tests.node.nodes import new_world, solo_node

pytestmark = pytest.mark.trio

COUNT = 2 * PAGE_ROWS + 50


@pytest.mark.parametrize("limit", [None, PAGE_ROWS + 1])
@pytest.mark.parametrize("is_settled", [False, True])
async def test_long_history_has_each_change_once_the_newest_first(
    autojump_clock: MockClock, tmp_path: Path, is_settled: bool, limit: int | None
) -> None:
    async with solo_node(archive=str(tmp_path / "state.sqlite")) as node, node.client() as client:
        frames = [client.frame("set_value", path=["x"], value=number) for number in range(COUNT)]
        await client.stream.send_all(b"".join(frames))
        await client.replies(COUNT + 1)
        if is_settled:
            await trio.sleep(10)
            assert node.driver.settler is not None
            assert node.driver.settler.statistics()["unsettled"] == 0
        fields = {} if limit is None else {"limit": limit}
        found = [item["value"] for item in await client.items("history", path=["x"], **fields)]
        assert found == list(reversed(range(COUNT)))[:limit]


async def test_time_before_the_past_of_a_node_is_no_absence(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A node that joins has no past before it joined; its sponsor has."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init="root", archive=str(tmp_path / "a.sqlite"))
        await world.ready("a")
        founded = time.time()
        async with world.nodes["a"].client() as client:
            await client.set("x", 1)
        written = time.time()
        await world.start("b", archive=str(tmp_path / "b.sqlite"))
        await world.ready("b")
        joined = time.time()
        async with world.nodes["a"].client() as client:
            assert (await client.get("x", at=written))["value"] == 1
            assert (await client.get("x", at=0.0))["code"] == "damaged"
            assert "error" not in await client.get("x", at=founded)
        async with world.nodes["b"].client() as client:
            assert (await client.get("x", at=joined))["value"] == 1
            for moment in (written, founded, 0.0):
                refused = await client.get("x", at=moment)
                assert refused["code"] == "damaged"
                assert refused["error"].startswith("b knows nothing before 20")
            assert (await client.get("y", at=joined)).keys() == {"seq"}
        nursery.cancel_scope.cancel()


async def test_time_that_was_forgotten_is_no_absence(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with solo_node(archive=str(tmp_path / "state.sqlite")) as node, node.client() as client:
        await client.set("x", 1)
        for number in range(5):
            await client.set("y", number)
        assert node.driver.settler is not None
        assert node.opened is not None
        await node.driver.settler.settle()
        node.opened.prune_history(keep=3)
        assert (await client.get("y", at=time.time()))["value"] == 4
        for path, moment in (("x", time.time()), ("x", 1.0), ("y", 1.0)):
            refused = await client.get(path, at=moment)
            assert (refused["code"], refused["error"].endswith("ask another node")) == ("damaged", True)
        assert (await client.get("x"))["value"] == 1
