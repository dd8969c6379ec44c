"""What a node's messenger hears of the node's links.

Knows: whole nodes as `nodes` builds them.  Does not know what a messenger makes of it.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.node.nodes import Node, until
from tests.node.test_links_state import linked, two

QUIET_S = 20.0


def noticed(node: Node) -> list[tuple[str, bool]]:
    return node.sent.noticed


@pytest.mark.trio
async def test_a_node_that_says_nothing_but_that_it_is_there_is_noticed_each_second(autojump_clock: MockClock) -> None:
    async with two() as world:
        await linked(world)
        seen = noticed(world.nodes["a"])
        seen.clear()
        await trio.sleep(QUIET_S)
        assert set(seen) == {("b", True)}
        assert QUIET_S - 2 <= len(seen) <= QUIET_S + 1


@pytest.mark.trio
async def test_a_node_that_writes_all_the_time_is_noticed_no_more_than_each_second(autojump_clock: MockClock) -> None:
    async with two() as world:
        await linked(world)
        seen = noticed(world.nodes["a"])
        seen.clear()
        async with world.nodes["b"].client() as client:
            for number in range(100):
                await client.ask("set_value", path=["n"], value=number)
                await trio.sleep(0.05)
        assert 4 <= len(seen) <= 7


@pytest.mark.trio
async def test_a_link_that_breaks_is_noticed_at_once(autojump_clock: MockClock) -> None:
    async with two() as world:
        await linked(world)
        seen = noticed(world.nodes["a"])
        seen.clear()
        await world.nodes["b"].kill()
        with trio.fail_after(1):
            await until(lambda: ("b", False) in seen, 0.01)
