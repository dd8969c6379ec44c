"""The server tree of whole nodes: who is whose parent, and what reaches all of them (docs/protocol, TREE-1 to TREE-13).

Knows: nodes on a network in memory, in virtual time.  Does not know in which cases a parent is chosen: scenarios and
tests/property/test_server_tree.py show these.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import TreeConfig
from distkv.core.ground.frames import Heard
from distkv.core.ready import ServiceAsked
from distkv.core.server_tree.machine import ServerTree
from distkv.sim.sayings import SAY, Sayings, SayText
from tests.node.nodes import Client, Node, World, new_world, until
from tests.proof.core.echo.machine import ECHO, Echo

TREE = TreeConfig(announce_s=5.0)
WITHIN_S = 120.0


def _tree(node: Node) -> ServerTree:
    assert node.replica.server_tree is not None
    return node.replica.server_tree


def _is_whole(nodes: list[Node]) -> bool:
    """Whether they are one tree, and each hears all."""
    trees, names = [_tree(node) for node in nodes], {node.name for node in nodes}
    roots = {tree.path[-1] if tree.path else None for tree in trees}
    return len(roots) == 1 and None not in roots and all(names <= tree.announced.keys() for tree in trees)


@asynccontextmanager
async def _grown(*names: str, tree: TreeConfig = TREE) -> AsyncIterator[tuple[World, list[Node]]]:
    """A network of ready nodes in one tree."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        nodes = [await world.start(names[0], init=1, tree=tree, services={SAY: Sayings(), ECHO: Echo()})]
        await world.ready(names[0])
        nodes += [await world.start(name, tree=tree, services={SAY: Sayings(), ECHO: Echo()}) for name in names[1:]]
        await world.ready(*names)
        with trio.fail_after(WITHIN_S):
            await until(lambda: _is_whole(nodes), 0.1)
        yield world, nodes
        nursery.cancel_scope.cancel()


def _heard(node: Node) -> list[tuple[str, bytes]]:
    """What a node heard for a service."""
    machine = node.replica.services[SAY]
    assert isinstance(machine, Sayings)
    return [(told.origin.node, told.body) for told in machine.heard if isinstance(told, Heard)]


async def _neighbours(node: Node) -> object:
    found: list[Any] = []
    node.driver.services.ask(ECHO, {"neighbours": True}, found.append)
    await until(lambda: bool(found), 0.1)
    return found[0]["neighbours"]


def _say(node: Node, *texts: bytes) -> None:
    for number, text in enumerate(texts, 1):
        node.driver.step(ServiceAsked(SAY, -number, SayText(0, text)))


async def _attach(node: Node, **fields: Any) -> list[dict[str, Any]]:
    """What a node answers to somebody who asks it to be the parent, until it is silent for a while."""
    items = list[dict[str, Any]]()
    async with node.client() as client:
        await client.stream.send_all(client.frame("attach", silent=60, **fields))
        with trio.move_on_after(5):
            while (reply := await client.receive()) is not None and reply.get("state") != "end":
                items.append(reply)
    return items


@pytest.mark.trio
async def test_what_a_node_says_reaches_each_other_node_once_and_in_order(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes):
        _say(nodes[1], *(b"%d" % number for number in range(300)))
        await trio.sleep(1)
        told = [("b", b"%d" % number) for number in range(300)]
        assert [_heard(node) for node in nodes] == [told, [], told]


@pytest.mark.trio
async def test_a_service_sees_its_neighbours_the_parent_first(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes):
        await trio.sleep(2)
        seen = {node.name: await _neighbours(node) for node in nodes}
        assert seen == {
            node.name: [name for name in (_tree(node).parent, *_tree(node).children) if name is not None]
            for node in nodes
        }
        assert sum(map(len, seen.values())) == 4


@pytest.mark.trio
async def test_state_shows_place_and_announcements(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes), nodes[1].client() as client:
        await trio.sleep(2 * TREE.announce_s)
        tree = (await client.ask("get_state"))["tree"]
        assert {key: tree[key] for key in ("phase", "parent", "level", "path", "root", "children", "apart")} == {
            "phase": "attached", "parent": "a", "level": 1, "path": ["b", "a"], "root": "a", "children": [],
            "apart": [],
        }  # fmt: skip
        assert tree["announced"]["a"] == {
            "addr": "a:1", "load": 0, "level": 0, "height": 1, "children": 2, "parent": None,
            "services": {"ground": {"fences": 1}},
        }  # fmt: skip


@pytest.mark.trio
async def test_load_is_the_number_of_clients(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes), nodes[0].client() as one, nodes[0].client() as two:
        await one.ask("ping")
        await two.ask("ping")
        await trio.sleep(2 * TREE.announce_s)
        assert [_tree(node).announced["a"].load for node in nodes] == [2, 2, 2]  # type: ignore[index]


@pytest.mark.trio
async def test_children_of_a_root_that_is_killed_have_another_one(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes):
        await nodes[0].kill()
        with trio.fail_after(WITHIN_S):
            await until(lambda: _is_whole(nodes[1:]), 0.1)
        _say(nodes[1], b"on")
        await trio.sleep(1)
        assert _tree(nodes[1]).path == ("b",)
        assert _heard(nodes[2]) == [("b", b"on")]


@pytest.mark.trio
async def test_service_adds_to_what_is_announced(autojump_clock: MockClock) -> None:
    async with _grown("a", "b") as (_, nodes):
        _tree(nodes[0]).broadcast.own.change("activity", {"clients": 7}, 0)
        await trio.sleep(2 * TREE.announce_s)
        announced = _tree(nodes[1]).announced
        assert [what.services["activity"] for name, what in announced.items() if name == "a"] == [{"clients": 7}]


@pytest.mark.trio
@pytest.mark.parametrize("asking", [{"node": "z", "life": 1}, {"node": "b", "life": 1}, {"node": "a", "life": 1}])
async def test_who_is_no_other_registered_node_is_refused(
    autojump_clock: MockClock, asking: dict[str, object]
) -> None:
    async with _grown("a", "b") as (_, nodes):
        items = await _attach(nodes[0], **{"as": asking})
        assert [item["refused"]["reason"] for item in items if "refused" in item] == ["unknown"]
        assert _tree(nodes[0]).children == ["b"]


@pytest.mark.trio
async def test_node_that_only_asks_is_no_child(autojump_clock: MockClock) -> None:
    async with _grown("a", "b") as (_, nodes):
        life = nodes[1].replica.life
        items = await _attach(nodes[0], **{"as": {"node": "b", "life": life}})
        assert [item["offer"] for item in items if "offer" in item] == [{"path": ["a"], "height": 1}]
        assert _tree(nodes[0]).children == ["b"]


@pytest.mark.trio
async def test_what_nobody_attached_for_has_no_effect(autojump_clock: MockClock) -> None:
    async with _grown("a", "b") as (_, nodes), nodes[0].client() as client:
        reply = await client.ask("tree_say", task=77, height=3)
        assert reply["counts"] is False
        assert _tree(nodes[0]).height == 1


@pytest.mark.trio
@pytest.mark.parametrize(
    "item",
    [
        {}, {"height": -1}, {"told": "x"}, {"acked": 2**63}, {"ping": 1}, {"frames": [[1, 2]]},
        {"frames": [["b", 1, 1, "say", "no bytes"]]}, {"info": {"path": ["a", "a"], "height": 0, "turn": 0}},
        {"join": {"height": 1}}, {"offer": []}, {"refused": {"reason": "", "others": []}},
        {"frames": [["b", 1, 1, "say", bytes(81921)]]}, {"service": "say", "said": [["b", 1, 1, "hum", b""]]},
    ],
    ids=range(13),
)  # fmt: skip
async def test_item_that_is_none_is_refused(autojump_clock: MockClock, item: dict[str, object]) -> None:
    async with _grown("a", "b") as (_, nodes), nodes[0].client() as client:
        reply = await client.ask("tree_say", task=1, **item)
        assert "error" in reply
        assert _tree(nodes[0]).children == ["b"]


async def _join(client: Client, node: Node) -> int:
    """A fake child of `a`, in the name of b; the `seq` of its edge."""
    await client.stream.send_all(client.frame("attach", silent=60, **{"as": {"node": "b", "life": node.replica.life}}))
    seq = client.seq
    while "offer" not in (await client.receive() or {"offer": "none came"}):
        pass
    await client.ask("tree_say", task=seq, join={"height": 0, "have": {}, "up": 0, "services": {}})
    return seq


@pytest.mark.trio
async def test_frames_in_the_name_of_strangers_go_nowhere(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes), nodes[0].client() as client:
        seq = await _join(client, nodes[1])
        await client.ask("tree_say", task=seq, service="say", said=[["stranger", 1, 1, "say", b"lie"]])
        await trio.sleep(1)
        assert [_heard(node) for node in nodes] == [[], [], []]


@pytest.mark.trio
async def test_announcement_that_is_none_is_counted(autojump_clock: MockClock) -> None:
    async with _grown("a", "b") as (_, nodes), nodes[0].client() as client:
        seq = await _join(client, nodes[1])
        await client.ask("tree_say", task=seq, frames=[["b", 2**41, 1, "announce", b"\xc1"]])
        assert _tree(nodes[0]).statistics()["bad_announcements"] == 1


@pytest.mark.trio
async def test_what_is_said_on_an_edge_that_was_just_stopped_ends_nothing_else(autojump_clock: MockClock) -> None:
    """Both come at once, so the node takes them in before it has ended the edge."""
    async with _grown("a", "b") as (_, nodes), nodes[0].client() as client:
        seq = await _join(client, nodes[1])
        stop = client.frame("stop", task=seq)
        frames = client.frame("tree_say", task=seq, frames=[["b", 2**50, 1, "announce", b"late"]])
        await client.stream.send_all(stop + frames + client.frame("ping"))
        replies = dict[int, dict[str, Any]]()
        while client.seq not in replies and (reply := await client.receive()) is not None:
            replies[reply["seq"]] = reply
        assert replies[client.seq - 2]["stopped"] is True
        assert replies[client.seq - 1]["counts"] is False
        assert "error" not in replies[client.seq]


@pytest.mark.trio
async def test_edge_that_is_stopped_before_it_begins_never_does(autojump_clock: MockClock) -> None:
    async with _grown("a", "b") as (_, nodes), nodes[0].client() as client:
        asking = {"node": "b", "life": nodes[1].replica.life}
        attach = client.frame("attach", silent=60, **{"as": asking})
        await client.stream.send_all(attach + client.frame("stop", task=client.seq))
        states = [reply.get("state") for reply in await client.replies(4) if reply is not None]
        assert {"start", "end"} <= set(states)


@pytest.mark.trio
async def test_child_that_reads_nothing_is_given_up(autojump_clock: MockClock) -> None:
    async with _grown("a", "b", "c") as (_, nodes):
        stuck = nodes[0].client(lockstep=True)
        await stuck.receive()  # the greeting
        asking = {"node": "b", "life": nodes[1].replica.life}
        await stuck.stream.send_all(stuck.frame("attach", silent=1, **{"as": asking}))
        await trio.sleep(60)
        with trio.fail_after(WITHIN_S):
            await until(lambda: _is_whole(nodes), 0.1)
        assert sorted(_tree(nodes[0]).children) == ["b", "c"]
