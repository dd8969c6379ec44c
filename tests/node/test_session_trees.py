"""Whole trees and batches over a connection: what is shown, in which order, when, and what is refused.

Knows: frames and a node that is ready.  Does not know how a tree is walked: `tests/property/test_model_index.py` does.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.services.tree import PAGE_NAMES, PAGE_STEPS, PART_ENTRIES
from tests.node.nodes import Client, Node, Reply, new_world, solo_node

pytestmark = pytest.mark.trio


async def fill(client: Client, *paths: str) -> None:
    for number, path in enumerate(paths):
        await client.set(path, number)


async def tree(client: Client, path: list[object], **fields: object) -> list[tuple[str, object]]:
    """What get_tree shows: paths as text, and values."""
    items = await client.items("get_tree", path=path, **fields)
    assert not [item for item in items if "error" in item], items
    return [(".".join(map(str, item["path"])), item["value"]) for item in items]


def op(action: str, path: str, **fields: object) -> dict[str, object]:
    return {"action": action, "path": path.split("."), **fields}


# -- get_tree -----------------------------------------------------------------------------------------------------


async def test_tree_is_shown_in_order_with_what_lies_at_its_path(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a.c", "b", "a", "a.b.d", "a.b")
        assert await tree(client, ["a"]) == [("a", 2), ("a.b", 4), ("a.b.d", 3), ("a.c", 0)]


async def test_tree_of_a_path_with_nothing_there_is_empty(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        assert await tree(client, ["a"]) == []


async def test_tree_shows_neither_deleted_values_nor_the_systems_own(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a", "b")
        await client.ask("delete_value", path=["a"])
        assert await tree(client, []) == [("", 1), ("b", 1)]
        assert [path for path, _ in await tree(client, [None])] == ["None", "None.node.a"]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"min_depth": 1}, ["a.b", "a.b.c", "a.d"]),
        ({"max_depth": 1}, ["a", "a.b", "a.d"]),
        ({"min_depth": 1, "max_depth": 1}, ["a.b", "a.d"]),
        ({"max_depth": 0}, ["a"]),
        ({"min_depth": 3}, []),
        ({"min_depth": 1000, "max_depth": 2**31 - 1}, []),
        ({"limit": 2}, ["a", "a.b"]),
        ({"limit": 0}, []),
        ({"limit": 100}, ["a", "a.b", "a.b.c", "a.d"]),
    ],
)
async def test_tree_is_cut_as_asked(autojump_clock: MockClock, fields: dict[str, int], shown: list[str]) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a", "a.b", "a.b.c", "a.d")
        assert [path for path, _ in await tree(client, ["a"], **fields)] == shown


async def test_items_of_a_tree_show_time_and_chain(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        wrote = await client.set("a", 1, nchain=1)
        (item,) = await client.items("get_tree", path=["a"], nchain=1)
        assert (item["tock"], item["chain"]) == (wrote["tock"], wrote["chain"])
        assert item["time"] > 1e9
        (bare,) = await client.items("get_tree", path=["a"])
        assert set(bare) == {"seq", "path", "value", "tock", "time"}


async def test_large_tree_comes_in_parts_and_whole(autojump_clock: MockClock) -> None:
    count = 2 * PART_ENTRIES + 10
    async with solo_node() as node, node.client() as client:
        for begin in range(0, count, 500):
            await client.ask("batch", ops=[op("set_value", f"t.{n:05}", value=n) for n in range(begin, begin + 500)])
        shown = await tree(client, ["t"])
        assert [value for _, value in shown] == list(range(len(shown)))
        assert len(shown) >= count


async def test_values_of_a_tree_are_sent_a_few_at_a_time(autojump_clock: MockClock) -> None:
    """A client that does not read makes the server keep one part, not the tree."""
    async with solo_node() as node, node.client() as client:
        for number in range(20):
            await client.set(f"t.{number:02}", b"x" * 200_000)
        sizes = node.sent.as_server[0].sizes
        before = len(sizes)
        assert len(await tree(client, ["t"])) == 20
        assert max(sizes[before:]) < 500_000


async def test_tree_that_changes_while_it_is_sent_shows_what_stays_once(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as other:
        for begin in range(0, 2000, 500):
            await other.ask("batch", ops=[op("set_value", f"t.{n:04}", value=n) for n in range(begin, begin + 500)])
        stream = node.connect(lockstep=True)
        reader = Client(stream)
        await reader.receive()
        await stream.send_all(reader.frame("get_tree", path=["t"]))
        assert await reader.receive() == {"seq": 1, "state": "start"}
        await other.ask("delete_tree", path=["t", "1999"])
        await other.set("t.0000x", "behind us")
        await other.set("t.1998x", "ahead")
        found: list[object] = []
        while (item := await reader.receive()) is not None and item.get("state") != "end":
            found.append(item["value"])
        assert found == [*range(1999), "ahead"]
        await trio.aclose_forcefully(stream)


async def test_tree_waits_for_the_commit_of_what_it_shows(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, node.client() as writer, node.client() as reader:
        await reader.ask("ping")
        await writer.stream.send_all(writer.frame("set_value", path=["a"], value=1))
        await trio.sleep(0.1)
        assert not node.committer.is_idle
        assert await tree(reader, ["a"]) == [("a", 1)]
        assert node.committer.is_idle


# -- list ---------------------------------------------------------------------------------------------------------


async def test_names_are_listed_with_whether_they_have_a_value_and_children(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a.b", "a.c.d", "a.c.e", "a.b.x.y", "z")
        assert (await client.ask("list", path=["a"]))["names"] == [["b", True, 1], ["c", False, 2]]


async def test_names_are_ordered_by_type_then_value(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        for name in ("b", b"b", "a", 2, 10, 1.5, True, False, None, "", -1):
            await client.ask("set_value", path=["p", name], value=1)
        names = [name for name, _, _ in (await client.ask("list", path=["p"]))["names"]]
        assert repr(names) == repr([None, False, True, -1, 2, 10, 1.5, b"b", "", "a", "b"])


async def test_name_whose_values_are_all_deleted_is_not_listed(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "p.a.b", "p.c")
        await client.ask("delete_value", path=["p", "a", "b"])
        assert (await client.ask("list", path=["p"]))["names"] == [["c", True, 0]]


async def test_system_is_listed_only_when_asked_for(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        assert (await client.ask("list", path=[]))["names"] == []
        assert (await client.ask("list", path=[None]))["names"] == [["node", False, 1]]


async def test_names_are_listed_in_pages(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "p.a", "p.b", "p.d.e")
        for name in (3, None):
            await client.ask("set_value", path=["p", name], value=1)
        assert "more" not in await client.ask("list", path=["p"], limit=5)
        found, page = [], await client.ask("list", path=["p"], limit=2)
        while True:
            found.append([name for name, _, _ in page["names"]])
            if "more" not in page:
                break
            page = await client.ask("list", path=["p"], limit=2, after=page["more"])
        assert found == [[None, 3], ["a", "b"], ["d"]]
        assert (await client.ask("list", path=["p"], after="aa"))["names"] == [["b", True, 0], ["d", False, 1]]
        assert (await client.ask("list", path=["p"], after="d"))["names"] == []


async def test_page_of_names_is_bounded_also_where_names_lead_to_no_value_any_more(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        names = [f"{number:05}" for number in range(PAGE_STEPS + 1)]
        for at in range(0, len(names), 1000):
            await client.ask("batch", ops=[op("set_value", f"p.{name}", value=1) for name in names[at : at + 1000]])
        page = await client.ask("list", path=["p"])
        assert [name for name, _, _ in page["names"]] == names[:PAGE_NAMES]
        assert page["more"] == names[PAGE_NAMES - 1]
        await client.ask("delete_tree", path=["p"])
        await fill(client, "p.x")
        page = await client.ask("list", path=["p"])
        assert (page["names"], page["more"]) == ([], names[PAGE_STEPS - 1])
        page = await client.ask("list", path=["p"], after=page["more"])
        assert (page["names"], "more" in page) == ([["x", True, 0]], False)


async def test_page_of_names_is_bounded_by_their_bytes(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        names = [f"{number:03}" + "x" * 3000 for number in range(100)]
        await client.ask("batch", ops=[op("set_value", f"p.{name}", value=1) for name in names])
        page = await client.ask("list", path=["p"])
        assert 80 < len(page["names"]) < 100


@pytest.mark.parametrize("fields", [{"limit": 0}, {"limit": "1"}, {"after": ["a"]}, {"after": "x" * 70_000}])
async def test_list_with_nonsense_is_refused(autojump_clock: MockClock, fields: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        assert "code" in await client.ask("list", path=["p"], **fields)


# -- delete_tree --------------------------------------------------------------------------------------------------


async def test_tree_is_deleted_and_counted(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a", "a.b", "a.c.d", "b")
        assert (await client.ask("delete_tree", path=["a"]))["count"] == 3
        assert await tree(client, []) == [("", 1), ("b", 3)]


async def test_deleting_an_empty_tree_burns_no_tick(autojump_clock: MockClock) -> None:
    """Lesson 10."""
    async with solo_node() as node, node.client() as client:
        await fill(client, "a.b")
        await client.ask("delete_tree", path=["a"])
        tick = node.replica.tick
        assert (await client.ask("delete_tree", path=["a"]))["count"] == 0
        assert node.replica.tick == tick


async def test_deleting_everything_leaves_the_systems_own(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a", "b")
        assert (await client.ask("delete_tree", path=[]))["count"] == 3
        assert await tree(client, []) == []
        assert len(await tree(client, [None])) == 2


@pytest.mark.parametrize("path", [[None], [None, "node", "a"]])
async def test_deleting_the_systems_own_is_refused(autojump_clock: MockClock, path: list[object]) -> None:
    async with solo_node() as node, node.client() as client:
        assert (await client.ask("delete_tree", path=path))["code"] == "bad_request"
        assert len(await tree(client, [None])) == 2


async def test_tree_up_to_the_limit_is_deleted_in_one_commit(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(batch_ops=50)) as node, node.client() as client:
        await client.ask("batch", ops=[op("set_value", f"t.{n}", value=n) for n in range(50)])
        batches, tick = node.log.statistics().batches, node.replica.tick
        assert (await client.ask("delete_tree", path=["t"]))["count"] == 50
        assert node.log.statistics().batches == batches + 1
        assert node.replica.tick == tick + 50


async def test_larger_tree_is_deleted_in_steps_and_others_are_served_between(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(batch_ops=10), commit_s=0.1) as node, node.client() as client:
        for begin in range(0, 100, 10):
            await client.ask("batch", ops=[op("set_value", f"t.{n}", value=n) for n in range(begin, begin + 10)])
        await client.stream.send_all(
            client.frame("delete_tree", path=["t"]) + client.frame("get_value", path=["t", 99])
        )
        await trio.sleep(0.25)
        async with node.client() as other:
            left = len(await tree(other, ["t"]))
        assert 0 < left < 100
        replies = await client.replies(2)
        assert replies == [{"seq": 11, "count": 100}, {"seq": 12}]


async def test_requests_behind_a_deletion_see_it(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a.b")
        await client.stream.send_all(
            client.frame("set_value", path=["a", "c"], value=1)
            + client.frame("delete_tree", path=["a"])
            + client.frame("get_value", path=["a", "b"])
        )
        replies = [reply for reply in await client.replies(3) if reply is not None]
        assert [reply["seq"] for reply in replies] == [2, 3, 4]
        assert replies[1]["count"] == 2
        assert "value" not in replies[2]


# -- batch --------------------------------------------------------------------------------------------------------


async def test_batch_does_all_in_order(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a")
        reply = await client.ask(
            "batch",
            ops=[
                op("set_value", "b", value={"x": [1]}),
                op("get_value", "b", nchain=1),
                op("delete_value", "a", prev_value=True),
                op("get_value", "a"),
            ],
        )
        wrote, read, gone, nothing = reply["results"]
        assert (wrote["changed"], read["value"]) == (True, {"x": [1]})
        assert (gone["changed"], gone["prev"], nothing) == (True, 0, {})
        assert read["chain"]["tick"] == wrote["tick"]
        assert gone["tick"] == wrote["tick"] + 1


async def test_batch_with_one_bad_operation_changes_nothing(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await fill(client, "a")
        tick = node.replica.tick
        reply = await client.ask(
            "batch", ops=[op("set_value", "b", value=1), op("set_value", "a", value=1, new=True)]
        )
        assert (reply["code"], reply["op"]) == ("exists", 1)
        assert reply["error"].startswith("op 1: a exists already")
        assert node.replica.tick == tick
        assert "value" not in await client.get("b")


async def test_batch_is_one_commit(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        batches = node.log.statistics().batches
        await client.ask("batch", ops=[op("set_value", f"t.{n}", value=n) for n in range(100)])
        assert node.log.statistics().batches == batches + 1


async def test_batch_waits_for_its_commit(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=1.0) as node, node.client() as client, node.client() as other:
        await other.ask("ping")
        began = trio.current_time()
        await client.ask("batch", ops=[op("set_value", "a", value=1)])
        assert node.committer.is_idle
        assert trio.current_time() - began >= 0.5


async def test_batch_of_more_operations_than_the_limit_is_too_large(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(batch_ops=2)) as node, node.client() as client:
        ops = [op("set_value", name, value=1) for name in ("a", "b", "c")]
        assert len((await client.ask("batch", ops=ops[:2]))["results"]) == 2
        assert (await client.ask("batch", ops=ops))["code"] == "too_large"
        assert "value" not in await client.get("c")


@pytest.mark.parametrize("wish", [op("get_value", "big"), op("delete_value", "big", prev_value=True)])
async def test_batch_that_would_show_too_much_is_refused_before_it_is_done(
    autojump_clock: MockClock, wish: dict[str, object]
) -> None:
    async with solo_node(limits=Limits(batch_bytes=1000)) as node, node.client() as client:
        await client.set("big", "x" * 2000)
        reply = await client.ask("batch", ops=[op("set_value", "b", value=1), wish])
        assert reply["code"] == "too_large"
        assert "value" not in await client.get("b")
        assert (await client.get("big"))["value"] == "x" * 2000


# -- the old value ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "prev"),
    [
        ({"value": 2, "prev_value": True}, {"prev": [1]}),
        ({"value": None, "prev_value": True}, {"prev": [1]}),
        ({"value": [1], "idem": True, "prev_value": True}, {"prev": [1]}),
        ({"value": 2}, {}),
        ({"value": 2, "prev_value": False}, {}),
    ],
)
async def test_write_shows_the_old_value_when_asked(
    autojump_clock: MockClock, fields: dict[str, object], prev: Reply
) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("a", [1])
        reply = await client.ask("set_value", path=["a"], **fields)
        assert {name: value for name, value in reply.items() if name == "prev"} == prev


async def test_write_of_a_new_path_shows_no_old_value(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        assert "prev" not in await client.set("a", 1, prev_value=True)


# -- before the node is ready -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "fields"),
    [("get_tree", {"path": []}), ("list", {"path": []}), ("delete_tree", {"path": []}), ("batch", {"ops": []})],
)
async def test_node_that_is_not_ready_refuses(
    autojump_clock: MockClock, action: str, fields: dict[str, object], waiting: Callable[[], Any]
) -> None:
    async with waiting() as node, node.client() as client:
        assert (await client.ask(action, **fields))["code"] == "not_ready"


@pytest.fixture
def waiting() -> Callable[[], Any]:
    @asynccontextmanager
    async def passive_node() -> AsyncIterator[Node]:
        async with trio.open_nursery() as nursery:
            yield await new_world(nursery).start("a")
            nursery.cancel_scope.cancel()

    return passive_node
