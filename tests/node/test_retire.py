"""A client says that a node is gone for good.

Knows: the client's frames and the answers.  Does not know what becomes of the node.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.node.nodes import Client, new_world, solo_node

pytestmark = pytest.mark.usefixtures("both_ways")


async def greeted(client: Client) -> Client:
    assert await client.receive() is not None
    return client


@pytest.mark.trio
async def test_retired_node_is_shown_as_retired(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1)
        await world.ready("a")
        await world.start("b")
        await world.ready("b")
        await world.nodes["b"].kill()
        await trio.sleep(10)
        async with world.nodes["a"].client() as client:
            await greeted(client)
            reply = await client.ask("retire_node", node="b")
            again = await client.ask("retire_node", node="b")
            assert (reply["changed"], again["changed"]) == (True, False)
            assert reply["life"] == again["life"] > 0
            (member,) = (await client.ask("get_state"))["members"]
            assert (member["node"], member["state"]) == ("b", "retired")
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_node_that_answers_is_not_retired(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None)
            await world.ready(name)
        async with world.nodes["a"].client() as client:
            await greeted(client)
            reply = await client.ask("retire_node", node="b")
            assert (reply["code"], "b answers at its address: stop it" in reply["error"]) == ("exists", True)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_node_that_was_just_heard_is_retired_a_moment_later(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None)
            await world.ready(name)
        await trio.sleep(5)
        await world.nodes["b"].kill()
        async with world.nodes["a"].client() as client:
            await greeted(client)
            reply = await client.ask("retire_node", node="b")
            assert "was heard less than" in reply["error"]
            assert (await client.ask("retire_node", node="b", force=True))["changed"]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize(
    ("fields", "code"),
    [({"node": "z"}, "not_found"), ({"node": "a"}, "bad_request"), ({"node": 1}, "bad_request"), ({}, "bad_request"),
     ({"node": "z", "force": 1}, "bad_request")],
)  # fmt: skip
async def test_retirement_that_cannot_be_is_refused(
    autojump_clock: MockClock, fields: dict[str, object], code: str
) -> None:
    async with solo_node() as node, await greeted(node.client()) as client:
        tick = node.replica.tick
        assert (await client.ask("retire_node", **fields))["code"] == code
        assert node.replica.tick == tick
