"""What waits on one edge of a server, and in which order it leaves (docs/protocol, TREE-11)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from distkv.core.edges import TAKEN_ITEMS
from distkv.engine.tree_edges import Edge
from distkv.model.event import NodeName
from distkv.wire.edges import EdgeItem, ServiceFrames, SubtreeHeight, TreeFrame


def _frames(service: str, number: int) -> ServiceFrames:
    return ServiceFrames(service, (TreeFrame(NodeName("o"), 1, number, service, b""),))


@pytest.mark.trio
async def test_all_else_leaves_before_frames_and_services_take_turns() -> None:
    edge = Edge(lambda: None)
    busy, calm = [_frames("busy", number) for number in range(1, 5)], _frames("calm", 1)
    for item in [*busy, calm, SubtreeHeight(3)]:
        edge.say(item)
    assert [await edge.next() for _ in range(6)] == [SubtreeHeight(3), busy[0], calm, *busy[1:]]


@pytest.mark.trio
async def test_what_waited_leaves_before_the_end() -> None:
    edge = Edge(lambda: None)
    edge.say(_frames("busy", 1))
    edge.end()
    assert await edge.next() == _frames("busy", 1)
    with pytest.raises(trio.EndOfChannel):
        await edge.next()


@pytest.mark.trio
async def test_nothing_is_taken_by_who_waits_in_vain() -> None:
    edge = Edge(lambda: None)
    with trio.move_on_after(0):
        await edge.next()
    edge.say(SubtreeHeight(1))
    assert await edge.next() == SubtreeHeight(1)


@pytest.mark.trio
async def test_machine_is_told_of_items_that_left_and_not_of_frames() -> None:
    taken = list[bool]()
    edge = Edge(lambda: taken.append(True))
    for number in range(1, TAKEN_ITEMS + 1):
        edge.say(_frames("busy", number))
        edge.say(SubtreeHeight(1))
    found = [await edge.next() for _ in range(2 * TAKEN_ITEMS - 1)]
    assert (found[0], len(taken)) == (SubtreeHeight(1), 1)


@pytest.mark.trio
async def test_what_comes_at_rest_is_pushed_and_what_the_connection_does_not_take_waits() -> None:
    edge, pushed = Edge(lambda: None), list[EdgeItem]()
    found = list[EdgeItem]()

    def push(item: EdgeItem) -> bool:
        pushed.append(item)
        return len(pushed) == 1

    async def take() -> None:
        found.append(await edge.next())

    edge.push = push
    async with trio.open_nursery() as nursery:
        edge.say(SubtreeHeight(1))
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        for number in (1, 2, 3):
            edge.say(_frames("busy", number))
        await wait_all_tasks_blocked()
    assert (found, pushed) == ([SubtreeHeight(1), _frames("busy", 2)], [_frames("busy", 1), _frames("busy", 2)])
    assert await edge.next() == _frames("busy", 3)


@pytest.mark.trio
async def test_machine_is_told_of_items_that_were_pushed() -> None:
    taken = list[bool]()
    edge = Edge(lambda: taken.append(True))
    edge.push = lambda _: True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(edge.next)
        await wait_all_tasks_blocked()
        for _ in range(TAKEN_ITEMS):
            edge.say(SubtreeHeight(1))
    assert taken == [True]
