"""Writes that wait for other nodes: when they are answered, and what their answer counts.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know how nodes are asked.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.errors import PeerError
from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.wire.codec import Payload
from distkv.wire.request import PeerRequest
from tests.node.nodes import Node, World, new_world, solo_node

COMMIT_S = 1.0


@asynccontextmanager
async def three(commit_s: float = 0.002) -> AsyncIterator[World]:
    """The ready nodes `a`, `b` and `c`; a commit of `c` takes `commit_s`."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1)
        await world.ready("a")
        await world.start("b")
        await world.start("c", commit_s=commit_s)
        await world.ready("a", "b", "c")
        await trio.sleep(20)
        yield world
        nursery.cancel_scope.cancel()


async def timed_set(node: Node, **fields: object) -> tuple[float, int]:
    """How long a write takes, and how many nodes it is said to be on."""
    async with node.client() as client:
        await client.ask("ping")
        began = trio.current_time()
        reply = await client.set("x.y", 1, **fields)
        assert reply["changed"]
        return trio.current_time() - began, reply["replicas"]


@pytest.mark.trio
async def test_write_is_answered_when_so_many_nodes_hold_it(autojump_clock: MockClock) -> None:
    async with three() as world:
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=60)
        assert count == 3
        assert took_s < 30
        for node in world.nodes.values():
            async with node.client() as client:
                assert (await client.get("x.y"))["value"] == 1


@pytest.mark.trio
async def test_node_counts_when_it_has_the_write_on_its_disk(autojump_clock: MockClock) -> None:
    async with three(commit_s=COMMIT_S) as world:
        quick_s, _ = await timed_set(world.nodes["a"], replicas=2, timeout=60)
        all_s, count = await timed_set(world.nodes["b"], replicas=3, timeout=60)
        assert (quick_s < COMMIT_S <= all_s, count) == (True, 3)


@pytest.mark.trio
async def test_time_for_others_begins_when_the_write_is_on_the_own_disk(autojump_clock: MockClock) -> None:
    async with three(commit_s=COMMIT_S) as world:
        took_s, count = await timed_set(world.nodes["c"], replicas=3, timeout=COMMIT_S / 2)
        assert (took_s, count) == (pytest.approx(COMMIT_S, abs=0.1), 3)


LINKED = {"follow": True}


@asynccontextmanager
async def three_linked(commit_s: Callable[[], float] = lambda: 0.002) -> AsyncIterator[World]:
    """The ready nodes `a`, `b` and `c`, which follow each other; a commit of `c` takes `commit_s`."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        await world.start("a", init=1, settings=LINKED)
        await world.ready("a")
        await world.start("b", settings=LINKED)
        await world.start("c", settings=LINKED, commit_s=commit_s)
        await world.ready("a", "b", "c")
        await trio.sleep(20)
        assert {name: node.driver.follower_count for name, node in world.nodes.items()} == dict.fromkeys("abc", 2)
        yield world
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_nodes_that_follow_say_that_they_hold_a_write(autojump_clock: MockClock) -> None:
    async with three_linked() as world:
        asked = [world.nodes["a"].driver.counters["replicas_asked"]]
        for _ in range(20):
            took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=60)
            assert (count, took_s < 0.1) == (3, True)
        asked.append(world.nodes["a"].driver.counters["replicas_asked"])
        assert asked == [0, 0]


@pytest.mark.trio
async def test_node_whose_disk_stands_still_is_not_counted(autojump_clock: MockClock) -> None:
    commits_s = [0.002]
    async with three_linked(lambda: commits_s[0]) as world:
        commits_s[0] = 1000.0
        took_s, count = await timed_set(world.nodes["a"], replicas=2, timeout=5)
        assert (count, took_s < 0.1) == (2, True)
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=5)
        assert (count, took_s) == (2, pytest.approx(5, abs=0.1))


@pytest.mark.trio
async def test_node_that_does_not_follow_is_asked(autojump_clock: MockClock) -> None:
    async with three_linked() as world:
        disk = await killed(world, "c")
        await world.start("c", disk=disk, settings={"follow": False})
        await world.ready("c")
        await trio.sleep(20)
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=60)
        assert (count, took_s < 2) == (3, True)
        assert world.nodes["a"].driver.counters["replicas_asked"] > 0


@pytest.mark.trio
@pytest.mark.parametrize(
    ("by", "counts"),
    [({"node": "b"}, True), ({"node": "b", "life": 1}, False), ({"node": "nobody", "life": 0}, False), (None, False)],
)
async def test_only_what_registered_nodes_say_counts(
    autojump_clock: MockClock, by: dict[str, object] | None, counts: bool
) -> None:
    async with three() as world, world.nodes["a"].client() as client, world.nodes["a"].client() as writer:
        life = world.nodes["b"].replica.life or 0
        for name in "bc":
            await world.nodes[name].kill()
        fields = {} if by is None else {"as": {"life": life, **by}}
        await client.ask("follow", nodes={"a": world.nodes["a"].replica.tick}, **fields)
        await client.receive()  # that was all
        await writer.ask("ping")
        await writer.stream.send_all(writer.frame("set_value", path=["x"], value=1, replicas=2, timeout=0.3))
        item = await client.receive()
        assert item is not None
        assert item["want"] == "held"
        tick = world.nodes["a"].replica.tick
        await client.stream.send_all(client.frame("held", task=1, nodes={"a": tick}))
        assert await client.receive() == {"seq": client.seq, "counts": counts}
        written = await writer.receive()
        assert written is not None
        assert written["replicas"] == 1 + counts


@pytest.mark.trio
@pytest.mark.parametrize("said", [{"task": 9, "nodes": {"a": 2**60}}, {"task": 1, "nodes": {}}])
async def test_what_is_said_for_nothing_changes_nothing(autojump_clock: MockClock, said: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        assert (await client.ask("held", **said))["counts"] is False


async def commits_of_twenty_sets(world: World) -> int:
    """How many commits *b* makes of sets on *a* that come one each millisecond."""
    committer = world.nodes["b"].driver.committer
    before = committer.inline_count + committer.thread_count
    async with world.nodes["a"].client() as client:
        for number in range(20):
            await client.set("x.y", number)
            await trio.sleep(0.001)
    await trio.sleep(1)
    assert committer.is_idle
    return committer.inline_count + committer.thread_count - before


@pytest.mark.trio
async def test_follower_commits_together_what_nobody_there_waits_for(autojump_clock: MockClock) -> None:
    async with three_linked() as world:
        alone = await commits_of_twenty_sets(world)
        async with world.nodes["b"].client() as client:
            await client.ask("watch", path=["x"])
            told = await commits_of_twenty_sets(world)
        assert 0 < alone < told


@pytest.mark.trio
async def test_who_says_quietly_what_it_holds_gets_no_answer(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.stream.send_all(client.frame("held", task=9, nodes={}, quiet=True))
        assert await client.ask("ping") == {"seq": client.seq}


@pytest.mark.trio
async def test_write_is_counted_when_its_connection_writes_many_at_once(autojump_clock: MockClock) -> None:
    async with three_linked() as world, world.nodes["a"].client() as client:
        await client.ask("ping")
        count = 8
        frames = [client.frame("set_value", path=[f"n{at}"], value=1, replicas=3) for at in range(count)]
        await client.stream.send_all(b"".join(frames))
        answers = [await client.receive() for _ in range(count)]
        assert [answer and answer.get("replicas") for answer in answers] == [3] * count


@pytest.mark.trio
async def test_write_whose_connection_has_ended_is_waited_for_no_more(autojump_clock: MockClock) -> None:
    commits_s = [0.002]
    async with three_linked(lambda: commits_s[0]) as world:
        node, commits_s[0] = world.nodes["a"], 1000.0
        async with node.client() as client:
            await client.stream.send_all(client.frame("set_value", path=["x"], value=1, replicas=3, timeout=60))
            await trio.sleep(0.1)
            assert node.driver.hub.followers.holders.are_awaited
        await trio.sleep(0.1)
        assert not node.driver.hub.followers.holders.are_awaited


@pytest.mark.trio
async def test_nobody_is_asked_to_say_anything_when_nobody_waits(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        await client.ask("follow", nodes={"a": node.replica.tick})
        await client.receive()
        await writer.set("x", 1)
        item = await client.receive()
        assert item is not None
        assert "want" not in item


@pytest.mark.trio
async def test_write_that_too_few_nodes_hold_stands_and_says_how_many(autojump_clock: MockClock) -> None:
    async with three() as world:
        await world.nodes["c"].kill()
        took_s, count = await timed_set(world.nodes["a"], replicas=3, timeout=7.5)
        assert (took_s, count) == (pytest.approx(7.5, abs=0.1), 2)
        async with world.nodes["a"].client() as client:
            assert (await client.get("x.y"))["value"] == 1


class HoldsWhatFollows:
    """Every peer says that it holds the change behind the one that is asked for, and not that one."""

    def begin(self, nursery: trio.Nursery) -> None:
        pass

    async def call(self, addr: str, request: PeerRequest, take: Callable[[Payload], Awaitable[None]]) -> None:  # noqa: ARG002
        raise PeerError("nobody is asked anything else")

    async def wait_held(self, addr: str, nodes: dict[NodeName, Tick]) -> TickRanges:  # noqa: ARG002
        await trio.sleep(0.1)
        return {node: Ranges([(tick + 2, tick + 3)]) for node, tick in nodes.items()}


@pytest.mark.trio
async def test_node_with_a_gap_at_the_write_is_not_counted(autojump_clock: MockClock) -> None:
    async with three() as world:
        old = world.nodes["a"]
        await old.kill()
        again = await world.start("a", disk=old.disk.after_kill(), caller=HoldsWhatFollows())
        await world.ready("a")
        _, count = await timed_set(again, replicas=2, timeout=5)
        assert count == 1


@pytest.mark.trio
async def test_node_that_comes_back_in_time_is_counted(autojump_clock: MockClock) -> None:
    async with three() as world, trio.open_nursery() as nursery:
        disk = await killed(world, "c")
        answers: list[tuple[float, int]] = []

        async def write() -> None:
            answers.append(await timed_set(world.nodes["a"], replicas=3, timeout=600))

        nursery.start_soon(write)
        await trio.sleep(30)
        assert answers == []
        await world.start("c", disk=disk)
        with trio.fail_after(300):
            while not answers:  # noqa: ASYNC110
                await trio.sleep(1)
        assert answers[0][1] == 3


async def killed(world: World, name: str) -> object:
    """The disk of a node that was killed."""
    node = world.nodes[name]
    await node.kill()
    return node.disk.after_kill()


@pytest.mark.trio
async def test_requests_behind_a_write_that_waits_are_answered(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        waiting = client.frame("set_value", path=["x"], value=1, replicas=2, timeout=50)
        await client.stream.send_all(waiting)
        began = trio.current_time()
        assert (await client.get("x"))["value"] == 1
        assert trio.current_time() - began < 1
        late = await client.receive()
        assert late is not None
        assert (late["seq"], late["replicas"]) == (2, 1)
        assert trio.current_time() - began == pytest.approx(50, abs=0.1)


@pytest.mark.trio
async def test_write_that_waits_is_answered_when_it_is_stopped(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.ask("ping")
        await client.stream.send_all(client.frame("set_value", path=["x"], value=1, replicas=2, timeout=50))
        began = trio.current_time()
        await client.stream.send_all(client.frame("stop", task=2))
        replies = {(reply or {})["seq"]: reply for reply in await client.replies(2)}
        assert replies[3]["stopped"] is True
        assert replies[2]["replicas"] == 1
        assert trio.current_time() - began < 1


@pytest.mark.trio
async def test_refused_write_does_not_wait(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1)
        reply = await client.set("x", 2, new=True, replicas=2, timeout=50)
        assert reply["code"] == "exists"


@pytest.mark.trio
async def test_delete_may_wait_too(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        await client.set("x", 1)
        reply = await client.ask("delete_value", path=["x"], replicas=1)
        assert (reply["changed"], reply["replicas"]) == (True, 1)
        nothing = await client.ask("delete_value", path=["never"], replicas=5, timeout=50)
        assert (nothing["changed"], nothing["replicas"]) == (False, 1)


@pytest.mark.trio
async def test_more_waiting_writes_than_allowed_are_refused_and_not_written(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(event_waits=2)) as node, node.client() as client:
        await client.ask("ping")
        for name in "ab":
            await client.stream.send_all(client.frame("set_value", path=[name], value=1, replicas=2, timeout=50))
        assert (await client.set("c", 1, replicas=2))["code"] == "busy"
        assert "value" not in await client.get("c")


@pytest.mark.trio
@pytest.mark.parametrize(
    "fields", [{"replicas": 0}, {"replicas": "2"}, {"replicas": 2, "timeout": -1}, {"timeout": 3}, {"replicas": 9999}]
)
async def test_wish_that_makes_no_sense_is_refused(autojump_clock: MockClock, fields: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        reply = await client.set("x", 1, **fields)
        assert reply["code"] == "bad_request"
        assert "value" not in await client.get("x")


@pytest.mark.trio
async def test_operation_of_a_batch_may_not_wait(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        op = {"action": "set_value", "path": ["x"], "value": 1, "replicas": 2}
        reply = await client.ask("batch", ops=[op])
        assert reply["code"] == "bad_request"
