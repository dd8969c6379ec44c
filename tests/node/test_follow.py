"""`follow` over a real session: what a follower is told, in which order, and when.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know how a commit finds those who follow.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from distkv.config import Limits
from distkv.model.event import Event
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, joined
from distkv.wire.following import read_item
from tests.node.claims import check_order
from tests.node.nodes import Client, Node, Reply, new_world, solo_node, until
from tests.node.test_session_requests import waiting_node


class Following:
    """A client that follows."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.events: list[Event] = []
        self.known: TickRanges = {}
        self.pings = 0

    async def begin(self, **fields: object) -> None:
        """Ask, and see that it begins."""
        with trio.fail_after(600):
            reply = await self.client.ask("follow", **fields)
        assert reply.get("state") == "start", reply

    async def take(self) -> Reply:
        """One frame of it."""
        with trio.fail_after(600):
            reply = await self.client.receive()
        assert reply is not None
        if "state" not in reply and "stopped" not in reply:
            item = read_item(reply)
            self.events += item.events
            self.known = joined(self.known, item.known)
            self.pings += not item.events and not item.known
        return reply

    async def take_all(self) -> None:
        """What is held: a sign of life says that it was all."""
        while not (await self.take()).get("ping"):
            pass

    async def until(self, node: Node, tick: int) -> None:
        """Until it was told of all ticks of a node up to one."""
        with trio.fail_after(600):
            while self.told(node.name) != Ranges([(1, tick + 1)]):
                await self.take()

    def told(self, name: str) -> Ranges:
        ticks = [event.tick for event in self.events if event.node == name]
        found = Ranges.from_ticks(sorted({*ticks}))
        for node, known in self.known.items():
            if node == name:
                found.update(known)
        return found


@pytest.mark.trio
async def test_follower_is_told_what_is_held_then_what_comes(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        for number in range(5):
            await writer.set(f"x{number}", number)
        following = Following(client)
        await following.begin(nodes={"a": 0})
        await following.until(node, node.replica.tick)
        for number in range(5):
            await writer.set(f"y{number}", number)
        await following.until(node, node.replica.tick)
        ticks = [event.tick for event in following.events]
        assert ticks == sorted({*ticks})
        assert str(following.events[-1].path) == "y4"


@pytest.mark.trio
async def test_only_what_is_above_the_tick_is_told(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        await writer.set("x", 1)
        following = Following(client)
        await following.begin(nodes={"a": node.replica.tick})
        await following.take_all()
        done = await writer.set("y", 1)
        await following.take()
        assert [event.tick for event in following.events] == [done["tick"]]


@pytest.mark.trio
async def test_sign_of_life_says_that_all_was_told_that_was_held(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        for number in range(700):
            await writer.set(f"x{number}", number)
        following, began = Following(client), trio.current_time()
        await following.begin(nodes={"a": 0})
        await following.take_all()
        assert following.told("a") == Ranges([(1, node.replica.tick + 1)])
        assert trio.current_time() - began < 1


@pytest.mark.trio
async def test_superseded_ticks_are_told_as_known(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        first = await writer.set("x", 0)
        for number in range(20):
            await writer.set("x", number)
        following = Following(client)
        await following.begin(nodes={"a": first["tick"] - 1})
        await following.take()
        await following.take()
        assert [event.tick for event in following.events] == [node.replica.tick]
        assert following.known == {"a": Ranges([(first["tick"], node.replica.tick)])}


@pytest.mark.trio
async def test_live_follower_gets_every_value_of_a_path(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        following = Following(client)
        await following.begin(nodes={"a": node.replica.tick})
        await writer.stream.send_all(b"".join(writer.frame("set_value", path=["x"], value=n) for n in range(700)))
        while len(following.events) < 700:
            await following.take()
        assert [event.value[-1] for event in following.events[:100]] == list(range(100))
        assert following.known == {}


@pytest.mark.trio
async def test_events_of_other_nodes_are_told_to_who_names_them(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        first = await world.start("a", init=1)
        await world.ready("a")
        second = await world.start("b")
        await world.ready("b")
        async with second.client() as client, first.client() as writer:
            following = Following(client)
            await following.begin(nodes={"a": 0, "nobody": 0})
            await following.until(first, first.replica.tick)
            done = await writer.set("x", 1)
            await following.until(first, done["tick"])
            assert {event.node for event in following.events} == {"a"}
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_silence_is_filled_with_signs_of_life(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        following = Following(client)
        began = trio.current_time()
        await following.begin(nodes={"a": node.replica.tick}, silent=2)
        await following.take_all()
        for _ in range(5):
            await following.take()
        assert (following.pings, trio.current_time() - began) == (6, pytest.approx(10, abs=0.1))
        await writer.set("x", 1)
        await following.take()
        assert (following.pings, len(following.events)) == (6, 1)
        await following.take()
        assert trio.current_time() - began == pytest.approx(12, abs=0.1)


@pytest.mark.trio
async def test_stop_ends_it(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client, node.client() as writer:
        following = Following(client)
        await following.begin(nodes={"a": node.replica.tick})
        await following.take_all()
        await client.stream.send_all(client.frame("stop", task=client.seq))
        replies = [await following.take(), await following.take()]
        assert {"seq": client.seq, "stopped": True} in replies
        assert {"seq": client.seq - 1, "state": "end"} in replies
        await writer.set("x", 1)
        assert node.driver.hub.followers.count == 0
        assert (await client.ask("ping")) == {"seq": client.seq}
        assert following.events == []


@pytest.mark.trio
@pytest.mark.parametrize("limits", [{"follow_events": 10}, {"follow_bytes": 4000}], ids=["events", "bytes"])
async def test_follower_that_falls_out_of_the_queue_is_told_everything_all_the_same(
    autojump_clock: MockClock, limits: dict[str, int]
) -> None:
    bounds = Limits(**limits)
    async with solo_node(limits=bounds) as node, node.client(lockstep=True) as client, node.client() as writer:
        await client.receive()  # the greeting: nothing of this stream waits in a buffer
        following = Following(client)
        await following.begin(nodes={"a": 0})
        await following.until(node, node.replica.tick)
        for number in range(100):
            await writer.set(f"x{number}", number)
        queue = node.driver.hub.followers.queue
        assert queue.end - queue.first <= 10
        assert queue.size <= 4000
        await following.until(node, node.replica.tick)
        await writer.set("last", 1)
        await following.until(node, node.replica.tick)
    assert node.driver.counters["follow_overtaken"] >= 1


@pytest.mark.trio
async def test_nothing_is_told_before_it_is_durable(autojump_clock: MockClock) -> None:
    async with solo_node(commit_s=5) as node, node.client() as client, node.client() as writer:
        following = Following(client)
        await following.begin(nodes={"a": 0})
        await writer.stream.send_all(writer.frame("set_value", path=["x"], value=1))
        await following.until(node, node.replica.tick)
        await trio.sleep(1)
        await writer.stream.send_all(writer.frame("set_value", path=["y"], value=1))
        await trio.sleep(1)
        await following.until(node, node.replica.tick)
    check_order("a", node.sent)


@pytest.mark.trio
async def test_node_that_is_not_ready_gives_signs_of_life_only(autojump_clock: MockClock) -> None:
    async with waiting_node("passive") as node, node.client() as client:
        following = Following(client)
        await following.begin(nodes={"a": 0})
        for _ in range(3):
            await following.take()
        assert following.pings == 3
        await client.stream.send_all(client.frame("stop", task=client.seq))
        while (await following.take()) != {"seq": client.seq - 1, "state": "end"}:
            pass


@pytest.mark.trio
async def test_one_connection_has_few_follows(autojump_clock: MockClock) -> None:
    async with solo_node(limits=Limits(event_waits=2)) as node, node.client() as client:
        for _ in range(2):
            assert (await client.ask("follow", nodes={"a": 0}))["state"] == "start"
        assert (await client.ask("follow", nodes={"a": 0}))["code"] == "busy"


@pytest.mark.trio
async def test_connection_that_ends_leaves_nothing(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as writer:
        async with node.client() as client:
            following = Following(client)
            await following.begin(nodes={"a": 0})
            await following.until(node, node.replica.tick)
            assert node.driver.hub.followers.count == 1
        await trio.sleep(3)
        await writer.set("x", 1)
        assert node.driver.hub.followers.count == 0
        assert node.driver.hub.followers.queue.end == node.driver.hub.followers.queue.first


@pytest.mark.trio
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"nodes": {"a": -1}},
        {"nodes": {"a": [1]}},
        {"nodes": {"a": 1 << 63}},
        {"nodes": {f"n{n}": 0 for n in range(1025)}},
        {"nodes": {"a": 0}, "silent": 0},
        {"nodes": {"a": 0}, "silent": "1"},
        {"nodes": {"a": 0}, "as": "b"},
        {"nodes": {"a": 0}, "as": {"node": "b", "life": -1}},
    ],
    ids=str,
)
async def test_nonsense_is_refused_in_one_line(autojump_clock: MockClock, fields: dict[str, object]) -> None:
    async with solo_node() as node, node.client() as client:
        reply = await client.ask("follow", **fields)
        assert reply["code"] == "bad_request"
        assert "\n" not in reply["error"]
        assert node.driver.hub.followers.count == 0


@pytest.mark.trio
async def test_follow_of_another_network_is_refused(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        following = Following(client)
        await following.begin(nodes={"a": 0}, network=b"stranger")
        assert (await client.receive() or {})["code"] == "bad_request"
        assert node.driver.counters["follow_foreign"] == 1
        assert node.driver.hub.followers.count == 0


@pytest.mark.trio
async def test_follow_of_the_own_network_is_served(autojump_clock: MockClock) -> None:
    async with solo_node() as node, node.client() as client:
        following = Following(client)
        await following.begin(nodes={"a": 0}, network=node.replica.network_id)
        await following.until(node, node.replica.tick)
        assert node.driver.counters["follow_foreign"] == 0


@pytest.mark.trio
async def test_node_that_was_founded_anew_in_another_network_brings_nothing(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None, settings={"follow": True})
            await world.ready(name)
        await world.converged("a", "b")
        await world.nodes["b"].kill()
        a, other = world.nodes["a"], await world.start("b", init=2, solo=True)  # it has a life, ticks and address of b
        await world.ready("b")
        async with other.client() as client:
            for number in range(100):
                await client.set(f"foreign.{number}", number)
        with trio.fail_after(600):
            await until(lambda: other.driver.counters["follow_foreign"] > 0, 0.1)
        await trio.sleep(30)
        assert a.replica.tree.head(Path(["foreign", "99"])) is None
        async with a.client() as client:
            (link,) = (await client.ask("get_state"))["links"]
        assert "another network" in link["reason"]
        nursery.cancel_scope.cancel()
