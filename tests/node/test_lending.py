"""A node that others cannot dial lends them connections, on which they ask it (docs/protocol, LINK-9).

Knows: whole nodes as `nodes` builds them, who dials whom, and frames.  Does not know when one is offered
(`tests/unit/core/test_lending`).
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from distkv.config import TreeConfig
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.state import State
from distkv.services.connections import QUIET_S
from distkv.transport.loans import PROBE_S
from distkv.transport.peer_line import CONNECT_S, LINGER_S
from distkv.wire import packing
from distkv.wire.following import encode_alive
from distkv.wire.replies import Hello, addressed, encode_hello, encode_start
from tests.node.nodes import OVER_SOCKETS, Client, Node, Reply, World, new_world, until

LARGE = "x" * 20_000
"""What no gossip carries."""
CANNOT_U = f"cannot connect: no answer within {CONNECT_S:g} s"


@asynccontextmanager
async def walled(*, tree: TreeConfig | None = None, follow: bool = True) -> AsyncIterator[World]:
    """The ready nodes `a`, `b` and `u`, which nobody can dial."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        world.shut = {("a", "u"), ("b", "u")}
        for name in "uab" if tree is not None else "abu":
            if name == "a" and tree is not None:
                world.shut = set()
            is_first = not world.nodes
            await world.start(name, init=1 if is_first else None, tree=tree, settings={"follow": follow})
            await world.ready(name)
        yield world
        nursery.cancel_scope.cancel()


async def link(node: Node, name: str) -> dict[str, Any]:
    """What a node says of its link to another one."""
    async with node.client() as client:
        links = (await client.ask("get_state"))["links"]
    return next(found for found in links if found["node"] == name)


def is_up(node: Node, name: str) -> bool:
    parent = node.replica.following.parents.get(NodeName(name))
    return parent is not None and parent.is_up


async def lent(world: World) -> None:
    """Wait until all others follow `u` on connections that it lends."""
    with trio.fail_after(120):
        await until(lambda: all(is_up(world.nodes[name], "u") for name in "ab"), 0.1)
    for name in "ab":
        assert (await link(world.nodes[name], "u"))["lent"] is True


def lend(node: Node, name: str = "u", **fields: Any) -> dict[str, Any]:
    """The fields with which this node lends a connection, or others."""
    replica = node.replica
    return {"as": {"node": name, "life": replica.life or 0}, "network": replica.network_id, **fields}


# -- what it is for -----------------------------------------------------------------------------------------------


@pytest.mark.trio
@pytest.mark.parametrize("over_sockets", [False, True])
async def test_large_values_of_a_node_that_nobody_can_dial_arrive_at_once(
    autojump_clock: MockClock, over_sockets: bool
) -> None:
    OVER_SOCKETS.set(over_sockets)
    async with walled() as world:
        await lent(world)
        async with world.nodes["u"].client() as u, world.nodes["a"].client() as a:
            began = trio.current_time()
            assert (await u.set("from.u", LARGE, replicas=3, timeout=5))["replicas"] == 3
            await a.set("from.a", LARGE)
            assert trio.current_time() - began < 0.5
        await world.converged("a", "b", "u")
        assert world.nodes["a"].replica.tree.live_count == world.nodes["u"].replica.tree.live_count
        assert world.nodes["a"].replica.deliveries.events_pulled == 0


@pytest.mark.trio
async def test_state_says_that_the_link_is_lent_and_why(autojump_clock: MockClock) -> None:
    async with walled() as world:
        await lent(world)
        found = await link(world.nodes["b"], "u")
        assert (found["state"], found["lent"], found["reason"]) == ("up", True, f"u:1: {CANNOT_U}")
        for pair in (("u", "a"), ("u", "b"), ("a", "b"), ("b", "a")):
            found = await link(world.nodes[pair[0]], pair[1])
            assert (found["state"], "lent" in found, "reason" in found) == ("up", False, False)


@pytest.mark.trio
async def test_nodes_that_can_dial_each_other_lend_nothing(autojump_clock: MockClock) -> None:
    async with walled() as world:
        await lent(world)
        await trio.sleep(120)
        counts = {name: node.driver.counters["line_lent"] for name, node in world.nodes.items()}
        assert counts == {"a": 1, "b": 1, "u": 0}
        assert {name: node.driver.clients for name, node in world.nodes.items()} == {"a": 0, "b": 0, "u": 0}


@pytest.mark.trio
async def test_in_a_larger_network_connections_are_lent_to_those_through_whom_the_others_follow(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        world.shut = {(name, "u") for name in "abcd"}
        for name in "abcdu":
            await world.start(name, init=1 if name == "a" else None, settings={"follow": True, "fanout": 2})
            await world.ready(name)
        with trio.fail_after(120):
            await until(lambda: all(is_up(world.nodes[name], "u") for name in "ab"), 0.1)
            await until(lambda: not any(node.replica.following.unlinked(_others(node)) for node in _all(world)), 0.1)
        async with world.nodes["u"].client() as client:
            await client.set("x", LARGE)
        await trio.sleep(0.5)
        assert all(node.replica.tree.digest == world.nodes["u"].replica.tree.digest for node in _all(world))
        counts = {name: node.driver.counters["line_lent"] for name, node in world.nodes.items()}
        assert counts == {"a": 1, "b": 1, "c": 0, "d": 0, "u": 0}
        nursery.cancel_scope.cancel()


def _all(world: World) -> list[Node]:
    return [*world.nodes.values()]


def _others(node: Node) -> list[NodeName]:
    return [name for name in node.replica.registry.nodes if name != node.replica.name]


@pytest.mark.trio
async def test_node_that_nobody_can_dial_is_a_parent_in_the_tree(autojump_clock: MockClock) -> None:
    """(docs/protocol, LINK-19)"""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        tree = TreeConfig(announce_s=5.0)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None, tree=tree, settings={"follow": True})
            await world.ready(name)
        world.shut = {("b", "a")}
        nodes = list(world.nodes.values())
        with trio.fail_after(300):
            await until(lambda: all(_hears_all(node) for node in nodes), 0.1)
            await until(lambda: is_up(world.nodes["b"], "a"), 0.1)
        await world.nodes["b"].kill()
        await world.start("b", disk=world.nodes["b"].disk.after_kill(), tree=tree, settings={"follow": True})
        await world.ready("b")
        with trio.fail_after(300):
            await until(lambda: _parents(world) == {"a": None, "b": "a"}, 0.1)
        assert (await link(world.nodes["b"], "a"))["lent"] is True
        nursery.cancel_scope.cancel()


def _parents(world: World) -> dict[str, str | None]:
    trees = {name: node.replica.server_tree for name, node in world.nodes.items()}
    return {name: tree.parent for name, tree in trees.items() if tree is not None and tree.path}


def _hears_all(node: Node) -> bool:
    tree = node.replica.server_tree
    return tree is not None and not tree.apart(node.driver.now_ms())


# -- how it ends --------------------------------------------------------------------------------------------------


@pytest.mark.trio
async def test_node_that_can_be_dialled_again_is_asked_on_an_own_connection(autojump_clock: MockClock) -> None:
    """(docs/protocol, LINK-20)"""
    async with walled() as world:
        await lent(world)
        world.shut.clear()
        with trio.fail_after(2 * PROBE_S):
            while "lent" in (found := await link(world.nodes["a"], "u")) or found["state"] != "up":  # noqa: ASYNC110
                await trio.sleep(0.5)
        assert "reason" not in found
        await trio.sleep(60)
        assert world.nodes["a"].driver.counters["line_lent"] == 1
        assert world.nodes["u"].driver.counters["lend_ended"] == 2
        async with world.nodes["u"].client() as u:
            assert (await u.set("x", LARGE, replicas=3, timeout=5))["replicas"] == 3


@pytest.mark.trio
async def test_connection_that_breaks_is_lent_again(autojump_clock: MockClock) -> None:
    async with walled() as world:
        await lent(world)
        world.network.partition([NodeName("u")], [NodeName("a"), NodeName("b")])
        with trio.fail_after(120):
            await until(lambda: not any(is_up(world.nodes[name], "u") for name in "ab"), 0.1)
        async with world.nodes["u"].client() as u:
            await u.set("x", LARGE)
        world.network.heal()
        await lent(world)
        await world.converged("a", "b", "u")


@pytest.mark.trio
async def test_node_that_was_restarted_lends_again(autojump_clock: MockClock) -> None:
    async with walled() as world:
        await lent(world)
        await world.nodes["u"].kill()
        await trio.sleep(5)
        u = await world.start("u", disk=world.nodes["u"].disk.after_kill(), settings={"follow": True})
        await world.ready("u")
        async with u.client() as client:
            await client.set("x", LARGE)
        await lent(world)
        await world.converged("a", "b", "u")


# -- what is refused ----------------------------------------------------------------------------------------------


async def offered(node: Node, fields: dict[str, Any], *, before: bool = False, behind: bytes = b"") -> Reply:
    """The answer to an offer; before it something else is asked, or something stands behind it."""
    async with node.client() as client:
        if before:
            await client.ask("ping")
        data = client.frame("lend", **fields)
        await client.stream.send_all(data + behind)
        with trio.fail_after(60):
            while (reply := await client.receive()) is not None and reply["seq"] != client.seq:
                pass
            assert reply is not None
            if not behind:
                assert (await client.ask("ping")).get("error") is None
        return reply


@pytest.mark.trio
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"as": {"node": "a", "life": 0}}, "no other registered node"),
        ({"as": {"node": "z", "life": 0}}, "no other registered node"),
        ({"as": {"node": "u", "life": 7}}, "no other registered node"),
        ({"network": b"12345678"}, "another network"),
        ({"network": None}, "network"),
        ({"as": None}, "as"),
    ],
)
async def test_offer_of_somebody_else_is_refused(
    autojump_clock: MockClock, fields: dict[str, Any], says: str
) -> None:
    """(docs/protocol, LINK-18)"""
    async with walled(follow=False) as world:
        reply = await offered(world.nodes["a"], lend(world.nodes["u"], **fields))
        assert says in reply["error"]


@pytest.mark.trio
async def test_offer_of_a_node_that_can_be_dialled_is_refused(autojump_clock: MockClock) -> None:
    """(docs/protocol, LINK-18)"""
    async with walled(follow=False) as world:
        reply = await offered(world.nodes["a"], lend(world.nodes["b"], "b"))
        assert "can be dialled" in reply["error"]


@pytest.mark.trio
async def test_second_offer_of_a_node_is_refused(autojump_clock: MockClock) -> None:
    """(docs/protocol, LINK-18)"""
    async with walled() as world:
        await lent(world)
        reply = await offered(world.nodes["a"], lend(world.nodes["u"]))
        assert reply["code"] == "busy"
        assert (await link(world.nodes["a"], "u"))["lent"] is True


@pytest.mark.trio
async def test_offer_that_is_not_the_only_request_is_refused(autojump_clock: MockClock) -> None:
    async with walled(follow=False) as world:
        fields = lend(world.nodes["u"])
        assert "only request" in (await offered(world.nodes["a"], fields, before=True))["error"]
        assert "only request" in (await offered(world.nodes["a"], fields, behind=b"\x81"))["error"]


# -- who lies -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def taken(world: World) -> AsyncIterator[Client]:
    """A stranger whose connection `a` has taken for one of `u`."""
    async with world.nodes["a"].client() as client:
        with trio.fail_after(60):
            reply = await client.ask("lend", **lend(world.nodes["u"]))
        assert "error" not in reply
        yield client


def hello(world: World, **changes: Any) -> bytes:
    """As `u` greets, but for these."""
    u = world.nodes["u"].replica
    told = {"node": u.name, "network": u.network_id, "life": u.life or 0, **changes}
    return encode_hello(
        Hello((0, 1, 0), told["node"], Tick(1), Tock(1), State.READY, told["network"], told["life"])
    )


@pytest.mark.trio
@pytest.mark.parametrize("said", ["another node", "another network", "another life", "garbage", "no greeting"])
async def test_connection_on_which_somebody_else_greets_is_closed_and_not_used(
    autojump_clock: MockClock, said: str
) -> None:
    """(docs/protocol, LINK-19)"""
    async with walled(follow=False) as world:
        greetings = {
            "another node": hello(world, node=NodeName("b")),
            "another network": hello(world, network=b"12345678"),
            "another life": hello(world, life=5),
            "garbage": b"\xc1\xc1\xc1",
            "no greeting": packing.pack({"seq": 1}),
        }
        async with taken(world) as client:
            await client.stream.send_all(greetings[said])
            assert await client.receive() is None
        assert "lent" not in await link(world.nodes["a"], "u")
        assert world.nodes["a"].driver.counters["line_lent"] == 0


@pytest.mark.trio
async def test_connection_on_which_nobody_greets_is_closed_after_a_while(autojump_clock: MockClock) -> None:
    async with walled(follow=False) as world, taken(world) as client:
        began = trio.current_time()
        assert await client.receive() is None
        assert trio.current_time() - began == pytest.approx(LINGER_S, abs=0.5)


@pytest.mark.trio
async def test_of_two_connections_that_were_taken_at_once_one_is_used(autojump_clock: MockClock) -> None:
    async with walled(follow=False) as world, taken(world) as first, taken(world) as second:
        await first.stream.send_all(hello(world))
        await trio.sleep(0.1)
        await second.stream.send_all(hello(world))
        assert await second.receive() is None
        assert world.nodes["a"].driver.counters["line_lent"] == 1


@pytest.mark.trio
async def test_connection_that_is_not_used_is_closed_after_a_while(autojump_clock: MockClock) -> None:
    """(docs/protocol, LINK-21)"""
    async with walled(follow=False) as world, taken(world) as client:
        await client.stream.send_all(hello(world))
        with trio.fail_after(3 * LINGER_S):
            while await client.receive() is not None:
                pass
        loans = world.nodes["a"].driver.loans
        assert loans is not None
        await until(lambda: loans.reason("u:1") is None, 0.1)


# -- whoever takes one and falls silent ---------------------------------------------------------------------------


@attrs.define(eq=False)
class Taker:
    """Stands at the address of `a`: it lets itself be followed, takes each connection that `u` offers, maybe asks once
    on it, and then falls silent."""

    a: Node
    asks: bool
    offered_at: list[float] = attrs.field(factory=list)
    name: str = "a"
    is_running: bool = True

    @property
    def addr(self) -> str:
        return self.a.addr

    def connect(self) -> trio.abc.HalfCloseableStream:
        """As a node is connected to."""
        ours, theirs = memory_stream_pair()
        self.a.world.nursery.start_soon(self._serve, Client(theirs))
        return ours

    async def _serve(self, client: Client) -> None:
        a = self.a.replica
        await client.stream.send_all(
            encode_hello(Hello((0, 1, 0), a.name, a.tick, a.tock, State.READY, a.network_id, a.life or 0))
        )
        while (asked := await client.receive()) is not None:
            seq, action = asked["seq"], asked["action"]
            if action == "lend" and asked["as"]["node"] != "u":
                await client.stream.send_all(packing.pack({"seq": seq, "error": "no", "code": "busy"}))
            elif action == "lend":
                self.offered_at.append(trio.current_time())
                await client.stream.send_all(packing.pack({"seq": seq}))
                assert (await client.receive() or {}).get("node") == "u"
                if self.asks:
                    await client.stream.send_all(client.frame("ping"))
                await trio.sleep_forever()
            elif action == "follow":
                self.a.world.nursery.start_soon(self._be_followed, client, seq)
            else:
                await client.stream.send_all(packing.pack({"seq": seq}))

    async def _be_followed(self, client: Client, seq: int) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await client.stream.send_all(encode_start(seq))
            while True:
                await client.stream.send_all(addressed(encode_alive(), seq))
                await trio.sleep(1)


@pytest.mark.trio
@pytest.mark.parametrize("asks", [True, False])
async def test_connection_on_which_nothing_more_is_asked_is_given_up_and_offered_again(
    autojump_clock: MockClock, asks: bool
) -> None:
    """(docs/protocol, LINK-21)"""
    async with walled() as world:
        await lent(world)
        a, u = world.nodes["a"], world.nodes["u"]
        await a.kill()
        taker = Taker(a, asks)
        world.nodes["a"] = cast(Node, taker)
        with trio.fail_after(300):
            await until(lambda: len(taker.offered_at) == 3, 0.5)
        assert u.driver.counters["lend_ended"] == 3
        pauses = [later - sooner for sooner, later in pairwise(taker.offered_at)]
        assert all(QUIET_S < pause < 2 * QUIET_S + 12 for pause in pauses)
