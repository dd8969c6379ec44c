"""The past of a path over a connection, in parts.

Knows: a whole node with an archive, and frames.  Does not know where the past is kept.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from distkv.services.history import PAGE_ROWS
from tests.node.nodes import solo_node

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
