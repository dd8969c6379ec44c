"""`get_members`, `get_keys` and `change_key` where the transport does not find out who is there."""

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


@pytest.mark.parametrize("request_", [("get_keys", {}), ("change_key", {"change": "use", "key": b"1234"})])
@pytest.mark.trio
async def test_over_another_transport_keys_are_disabled(
    request_: tuple[str, dict[str, object]], autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1)
        async with node.client() as client:
            reply = await client.ask(request_[0], **request_[1])
        assert (reply["code"], reply["error"]) == (
            "disabled", "only the transport swim has keys, and a uses another one",
        )  # fmt: skip
        nursery.cancel_scope.cancel()
