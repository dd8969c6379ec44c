"""Services write entries under the fences of tokens, once every registered node says that it can read that.

Knows: whole nodes with an echo in a server tree, and a network that can be cut.  Does not know tokens.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from distkv.config import TreeConfig
from distkv.core.registry import service_path
from distkv.errors import FencedError, NotReadyError, RequestError
from distkv.model.event import Event, Kind, NodeName
from distkv.model.fence import Fence
from distkv.wire.values import pack_value
from tests.node.nodes import World, new_world
from tests.node.test_services import answered, ask
from tests.proof.core.echo.machine import ECHO, Echo

pytestmark = pytest.mark.trio

ONE, TWO = pack_value(1), pack_value(2)
EARLY, LATE, OTHER = Fence(0, 1, 1, "t"), Fence(0, 1, 2, "t"), Fence(0, 9, 9, "another")


@asynccontextmanager
async def nodes(*names: str, without: str = "") -> AsyncIterator[World]:
    """Ready nodes in a tree, but one of these names, which announces nothing."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in names:
            tree = None if name == without else TreeConfig()
            await world.start(name, init=1 if name == names[0] else None, services={ECHO: Echo()}, tree=tree)
            await world.ready(name)
        await world.converged(*names)
        yield world
        nursery.cancel_scope.cancel()


def head(world: World, name: str, key: str = "x") -> Event | None:
    return world.nodes[name].replica.tree.head(service_path(ECHO, key))


async def refusal(world: World, name: str, **request: object) -> type[object]:
    return type(await answered(ask(world.nodes[name], key="x", **request)))


async def allowed(world: World, name: str, key: str = "probe") -> None:
    """Until it may write under fences."""
    with trio.fail_after(600):
        while True:
            answers = ask(world.nodes[name], key=key, value=ONE, fence=EARLY)
            await trio.sleep(1)
            if not answers:
                return
            assert isinstance(answers[0], NotReadyError)


async def test_fenced_entry_is_written_on_all_nodes_when_all_announced_that_they_know_it(
    autojump_clock: MockClock,
) -> None:
    """(docs/protocol, FENCE-8)"""
    async with nodes("a", "b") as world:
        await allowed(world, "a")
        ask(world.nodes["a"], key="x", value=ONE, fence=LATE)
        await world.converged("a", "b")
        on_b = head(world, "b")
        assert on_b is not None
        assert (on_b.value, on_b.fence) == (ONE, LATE)


async def test_node_that_does_not_announce_it_keeps_fences_away_until_it_is_retired(autojump_clock: MockClock) -> None:
    """(docs/protocol, FENCE-8)"""
    async with nodes("a", "b", "c", without="c") as world:
        await trio.sleep(300)
        answers = ask(world.nodes["a"], key="x", value=ONE, fence=EARLY)
        error = await answered(answers)
        assert isinstance(error, NotReadyError)
        assert str(error).startswith("c did not announce yet")
        assert head(world, "a") is None
        await world.nodes["c"].kill()
        async with world.nodes["a"].client() as client:
            with trio.fail_after(600):
                while "code" in await client.ask("retire_node", node="c", force=True):  # noqa: ASYNC110
                    await trio.sleep(5)
        await allowed(world, "a")


async def test_node_that_announced_it_and_is_away_keeps_no_fences_away(autojump_clock: MockClock) -> None:
    """(docs/protocol, FENCE-8)"""
    async with nodes("a", "b", "c") as world:
        await trio.sleep(60)
        await world.nodes["c"].kill()
        await trio.sleep(300)
        answers = ask(world.nodes["a"], key="x", value=ONE, fence=EARLY)
        await trio.sleep(1)
        assert not answers


async def test_node_that_starts_again_writes_under_fences_while_another_one_is_away(autojump_clock: MockClock) -> None:
    """(docs/protocol, FENCE-8)"""
    async with nodes("a", "b", "c") as world:
        await allowed(world, "a")
        await world.converged("a", "b", "c")
        await world.nodes["c"].kill()
        await world.nodes["b"].kill()
        await world.start("b", disk=world.nodes["b"].disk, services={ECHO: Echo()}, tree=TreeConfig())
        await world.ready("b")
        answers = ask(world.nodes["b"], key="x", value=ONE, fence=EARLY)
        await trio.sleep(1)
        assert not answers


async def test_alone_nobody_has_to_announce_it(autojump_clock: MockClock) -> None:
    async with nodes("a", without="a") as world:
        await allowed(world, "a")


async def test_writes_below_the_fence_of_an_entry_are_refused_with_their_purpose(autojump_clock: MockClock) -> None:
    """(docs/protocol, FENCE-2, FENCE-8)"""
    async with nodes("a", without="a") as world:
        ask(world.nodes["a"], key="x", value=ONE, fence=LATE)
        for request in ({"value": TWO, "fence": EARLY}, {"value": TWO, "fence": OTHER}, {"value": TWO}, {}):
            assert await refusal(world, "a", **request) is FencedError
        assert await answered(ask(world.nodes["a"], key="", value=ONE, fence=LATE)) is not None
        now = head(world, "a")
        assert now is not None
        assert (now.value, now.fence) == (ONE, LATE)


async def test_entry_without_a_key_has_no_fence(autojump_clock: MockClock) -> None:
    async with nodes("a", without="a") as world:
        assert type(await answered(ask(world.nodes["a"], key="", value=ONE, fence=LATE))) is RequestError


async def test_higher_fence_wins_when_two_sides_meet(autojump_clock: MockClock) -> None:
    async with nodes("a", "b") as world:
        await allowed(world, "a")
        await allowed(world, "b")
        await world.converged("a", "b")
        world.network.partition([NodeName("a")], [NodeName("b")])
        ask(world.nodes["a"], key="x", value=ONE, fence=LATE)
        ask(world.nodes["b"], key="x", value=TWO, fence=EARLY)
        await trio.sleep(1)
        world.network.heal()
        await world.converged("a", "b")
        found = [head(world, name) for name in ("a", "b")]
        assert [event and event.value for event in found] == [ONE, ONE]


async def test_entry_that_is_deleted_under_a_fence_refuses_earlier_holders(autojump_clock: MockClock) -> None:
    """(docs/protocol, FENCE-5)"""
    async with nodes("a", without="a") as world:
        ask(world.nodes["a"], key="x", value=ONE, fence=EARLY)
        ask(world.nodes["a"], key="x", fence=LATE)
        gone = head(world, "a")
        assert gone is not None
        assert (gone.kind, gone.fence) == (Kind.DELETE, LATE)
        assert await refusal(world, "a", value=TWO, fence=EARLY) is FencedError
        assert head(world, "a") is gone
