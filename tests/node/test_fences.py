"""Writes under the fences of tokens, from the client's frame to what clients are shown of them.

Knows: frames and whole nodes in virtual time.  Does not know how fences order events: `tests/property` does.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from distkv.model.event import NodeName
from tests.node.nodes import Client, Reply, World, solo_node
from tests.node.test_conflicts import NAMES, ask, fleet, listed
from tests.node.test_watch import frames, watching

pytestmark = pytest.mark.trio

OLD, NEW = ["job", 7, 1], ["job", 7, 2]
OTHER = ["other", 9, 9]


async def shown(client: Client, path: str) -> tuple[object, object, object]:
    """The value, the fence and the base of a path."""
    reply = await client.get(path, nchain=1)
    return reply.get("value"), reply.get("fence"), reply.get("base")


# -- single writes ------------------------------------------------------------------------------------------------


async def test_write_under_a_fence_is_shown_with_it(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=OLD)
        assert await shown(client, "x") == (1, OLD, None)


async def test_read_without_a_chain_shows_no_fence(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=OLD)
        assert "fence" not in await client.get("x")


@pytest.mark.parametrize("fence", [OLD, OTHER, None], ids=["earlier", "other token", "none"])
async def test_write_that_is_not_of_the_latest_holder_is_fenced_off(
    autojump_clock: MockClock, fence: list[object] | None
) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", "kept", fence=NEW)
        tick = node.replica.tick
        fields = {} if fence is None else {"fence": fence}
        assert (await client.set("x", "late", **fields))["code"] == "fenced"
        assert (await client.ask("delete_value", path=["x"], **fields))["code"] == "fenced"
        assert await shown(client, "x") == ("kept", NEW, None)
        assert node.replica.tick == tick


async def test_refusal_says_which_fence_holds_the_path(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=NEW)
        error = (await client.set("x", 2, fence=OLD))["error"]
        assert "x was last written under the fence job:7.2" in str(error)


@pytest.mark.parametrize("fence", [NEW, ["job", 7, 3], ["job", 8, 0]], ids=["same", "counter", "epoch"])
async def test_holder_and_later_ones_may_write(autojump_clock: MockClock, fence: list[object]) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=NEW)
        assert (await client.set("x", 2, fence=fence))["changed"] is True
        assert await shown(client, "x") == (2, fence, None)


async def test_deletion_by_the_holder_fences_off_who_comes_late(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=OLD)
        assert (await client.ask("delete_value", path=["x"], fence=NEW))["changed"] is True
        assert (await client.set("x", 2, fence=OLD))["code"] == "fenced"
        assert await shown(client, "x") == (None, None, None)


async def test_refence_lifts_the_fence_and_counts_it(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=NEW)
        await client.set("x", 2, refence=True)
        assert await shown(client, "x") == (2, None, 1)
        await client.set("x", 3)
        assert await shown(client, "x") == (3, None, 1)
        await client.set("x", 4, fence=OLD)
        assert await shown(client, "x") == (4, OLD, 1)


async def test_write_that_waits_for_replicas_may_have_a_fence(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1, fence=NEW, replicas=2, timeout=0.1)
        assert await shown(client, "x") == (1, NEW, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"fence": "job:7.1"},
        {"fence": ["job", 7]},
        {"fence": ["job", 7, 1, 0]},
        {"fence": ["", 7, 1]},
        {"fence": ["job\n", 7, 1]},
        {"fence": ["j" * 256, 7, 1]},
        {"fence": ["job", -1, 1]},
        {"fence": ["job", 7, 2**62]},
        {"fence": ["job", 7.0, 1]},
        {"fence": ["job", True, 1]},
        {"fence": None},
        {"refence": 1},
        {"fence": OLD, "refence": True},
    ],
    ids=str,
)
async def test_fence_of_another_shape_is_a_bad_request(autojump_clock: MockClock, fields: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        reply = await client.set("x", 1, **fields)
        assert reply["code"] == "bad_request"
        assert "fence'" in str(reply["error"])
        assert await shown(client, "x") == (None, None, None)


# -- several paths ------------------------------------------------------------------------------------------------


def op(path: str, fence: list[object] | None, action: str = "set_value") -> dict[str, object]:
    value = {"value": "late"} if action == "set_value" else {}
    return {"action": action, "path": [path], **value, **({} if fence is None else {"fence": fence})}


@pytest.mark.parametrize("action", ["set_value", "delete_value"])
async def test_batch_with_one_late_write_is_refused_as_a_whole(autojump_clock: MockClock, action: str) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("y", "kept", fence=NEW)
        reply = await client.ask("batch", ops=[op("x", OLD), op("y", OLD, action), op("z", None)])
        assert (reply["code"], reply["op"]) == ("fenced", 1)
        assert await shown(client, "x") == (None, None, None)
        assert await shown(client, "y") == ("kept", NEW, None)


async def test_batch_writes_and_shows_fences(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("y", 1, fence=NEW)
        lifted = {"action": "set_value", "path": ["y"], "value": 2, "refence": True}
        reads: list[object] = [{"action": "get_value", "path": [name], "nchain": 1} for name in "xy"]
        reply: dict[str, Any] = dict(await client.ask("batch", ops=[op("x", OLD), lifted, *reads]))
        x, y = reply["results"][2:]
        assert (x["fence"], "base" in x) == (OLD, False)
        assert ("fence" in y, y["base"]) == (False, 1)


async def test_deleted_tree_keeps_and_counts_what_tokens_hold(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("t.a", 1)
        await client.set("t.b", 1, fence=OLD)
        await client.set("t.c", 1, fence=OLD)
        await client.set("t.c", 1, refence=True)
        assert await client.ask("delete_tree", path=["t"]) == {"seq": client.seq, "count": 2, "fenced": 1}
        assert [item["path"] for item in await client.items("get_tree", path=["t"])] == [["t", "b"]]


async def test_items_of_a_tree_show_fences_with_the_chain(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("t.a", 1)
        await client.set("t.b", 1, fence=OLD)
        items = await client.items("get_tree", path=["t"], nchain=1)
        assert [item.get("fence") for item in items] == [None, OLD]


# -- what happened ------------------------------------------------------------------------------------------------


async def test_history_and_watchers_are_shown_each_fence(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with (
        solo_node(archive=str(tmp_path / "a.sqlite")) as node, node.client() as client, watching(node, "x") as watcher
    ):  # fmt: skip
        await client.set("x", 1)
        await client.set("x", 2, fence=OLD)
        await client.ask("delete_value", path=["x"], fence=NEW)
        await client.set("x", 3, refence=True)
        expected = [(None, None), (OLD, None), (NEW, None), (None, 1)]
        assert list(map(both, await frames(watcher, 4))) == expected
        assert list(map(both, await client.items("history", path=["x"])))[::-1] == expected


def both(item: Reply) -> tuple[object, object]:
    return item.get("fence"), item.get("base")


# -- conflicts ----------------------------------------------------------------------------------------------------


async def holders_meet(world: World) -> None:
    """While they hear nothing of each other, *a* writes as an earlier holder and *b* as a later one."""
    world.network.partition(*([NodeName(name)] for name in NAMES))
    async with world.nodes["b"].client() as client:
        await client.set("w.x", "of b", fence=NEW)
    async with world.nodes["a"].client() as client:
        for number in range(5):
            await client.set("own.a", number)  # so that its tock is higher
        await client.set("w.x", "of a", fence=OLD)
    world.network.heal()
    await world.converged(*NAMES)


async def value_on_all(world: World) -> list[tuple[object, object, object]]:
    found = []
    for name in NAMES:
        async with world.nodes[name].client() as client:
            found.append(await shown(client, "w.x"))
    return found


async def test_later_holder_wins_everywhere_whatever_the_tocks_say(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await holders_meet(world)
        assert await value_on_all(world) == [("of b", NEW, None)] * 3


async def test_late_write_is_listed_and_told_with_its_fence(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fleet(tmp_path) as world:
        await holders_meet(world)
        for node in world.nodes.values():
            (item,) = await listed(node)
            assert (item["value"], item["fence"]) == ("of a", OLD)
        async with watching(world.nodes["c"], "w", fetch=True) as watcher:
            _, conflict = await frames(watcher, 2)
            told: dict[str, Any] = dict(conflict)
            assert [loser["fence"] for loser in told["conflict"]["open"]] == [OLD]


@pytest.mark.parametrize(
    ("action", "after"), [("restore", ("of a", None, 1)), ("dismiss", ("of b", NEW, None))], ids=["restore", "dismiss"]
)
async def test_restore_lifts_the_fence_and_dismiss_keeps_it(
    autojump_clock: MockClock, tmp_path: Path, action: str, after: tuple[object, object, object]
) -> None:
    async with fleet(tmp_path) as world:
        await holders_meet(world)
        (item,) = await listed(world.nodes["c"])
        await ask(world.nodes["c"], action, id=item["id"])
        await world.converged(*NAMES)
        assert await value_on_all(world) == [after] * 3


async def test_closed_loser_is_listed_with_its_fence_and_restoring_it_lifts_that_of_the_path(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with fleet(tmp_path) as world:
        await holders_meet(world)
        node = world.nodes["a"]
        (item,) = await listed(node)
        await ask(node, "dismiss", id=item["id"])
        (closed,) = await listed(node, path=["w", "x"], closed=True)
        assert closed["fence"] == OLD
        await ask(node, "restore", id=item["id"], closed=True)
        async with node.client() as client:
            assert await shown(client, "w.x") == ("of a", None, 1)
