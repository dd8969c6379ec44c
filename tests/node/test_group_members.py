"""`get_members` where the transport does not find out who is there."""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.node.nodes import new_world


@pytest.mark.parametrize("solo", [False, True])
@pytest.mark.trio
async def test_over_another_transport_members_are_disabled(solo: bool, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", solo=solo, init=1)
        async with node.client() as client:
            reply = await client.ask("get_members")
        assert (reply["code"], reply["error"]) == (
            "disabled", "only the transport swim has members, and a uses another one",
        )  # fmt: skip
        nursery.cancel_scope.cancel()
