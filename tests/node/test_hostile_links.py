"""Strangers at both ends of a link: a client that lies in `follow`, and a node that is followed and lies in its answer.

Knows: whole nodes as `nodes` builds them, and frames.  Does not know what the core believes of an item that is
well-formed (`tests/property/test_hostile_links`).

Invariant: whatever they send, the node holds what it held, counts it, and serves others as before.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from distkv.core.gossip import TICKS_AHEAD
from distkv.errors import BusyError
from distkv.model.event import COUNT_BITS, TICK_MAX, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.storage.memory import MemoryDisk
from distkv.transport.base import GossipHeard
from distkv.transport.pull import ANSWER_BYTES_MAX
from distkv.wire import packing
from distkv.wire.following import ITEM_EVENTS_MAX, encode_alive, encode_known, encode_records
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventRecord, LifeRecord, PurgeRecord, ResetRecord
from distkv.wire.records import encode_record
from distkv.wire.replies import Hello, addressed, encode_end, encode_error, encode_hello, encode_start
from tests.node.gossip_samples import A, update
from tests.node.nodes import OVER_SOCKETS, Node, new_world, run, solo_node, until
from tests.profiles import examples
from tests.property import strategies

FOLLOW = {"follow": True}
B, C, STRANGER = NodeName("b"), NodeName("c"), NodeName("stranger")

# -- a node that is followed --------------------------------------------------------------------------------------

Lie = Callable[["Liar"], bytes]
"""What it says in the midst of a follow, after a sign of life."""


@attrs.define(eq=False)
class Liar:
    """Stands at the address of `b`: it greets as `b`, refuses all but `follow`, and answers that with lies.

    What b gossips is b's own, so the node that follows sees it alive.
    """

    b: Node
    last: Tick
    """The last tick of `b` that the follower has."""
    seq: int = 0
    """That of the follow."""
    lies: list[Lie] = attrs.field(factory=list)
    """The next ones; a follow that has none left falls silent but for signs of life."""
    told: int = 0
    """How many were told."""
    is_over: bool = False
    """It hangs up."""
    follows: int = 0
    name: str = "b"
    is_running: bool = True

    @property
    def addr(self) -> str:
        return self.b.addr

    def connect(self) -> trio.abc.HalfCloseableStream:
        """As a node is connected to."""
        ours, theirs = memory_stream_pair()
        self.b.world.nursery.start_soon(self._serve, theirs)
        return ours

    def event(self, node: NodeName = B, ahead: int = 1, tock: int = 1) -> bytes:
        """The record of one, so far ahead of what is known of b."""
        chain = ((node, Tick(self.last + ahead)),)
        return encode_record(EventRecord(Event(Path(["lie"]), Kind.SET, b"\x01", chain, Tock(tock), 1.0, False), 0.0))

    def records(self, *records: bytes) -> bytes:
        return addressed(encode_records(records), self.seq)

    def known(self, node: NodeName, begin: int) -> bytes:
        return addressed(encode_known({node: Ranges([(begin, begin + 1)])}), self.seq)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        try:
            async with stream, trio.open_nursery() as nursery:
                await stream.send_all(self._hello())
                reader = FrameReader()
                async for data in stream:
                    reader.feed(bytes(data))
                    for frame in reader:
                        await self._answer(stream, cast(dict[str, Any], packing.unpack(frame)), nursery)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def _hello(self) -> bytes:
        b = self.b.replica
        return encode_hello(Hello((0, 1, 0), B, b.tick, b.tock, State.READY, b.network_id, b.life or 0))

    async def _answer(self, stream: trio.abc.Stream, asked: dict[str, Any], nursery: trio.Nursery) -> None:
        seq, action = asked["seq"], asked["action"]
        if action == "follow":
            self.seq, self.follows = seq, self.follows + 1
            nursery.start_soon(self._lie, stream)
        elif action in ("ping", "held", "stop"):
            await stream.send_all(packing.pack({"seq": seq}))
        else:
            await stream.send_all(packing.pack({"seq": seq, "error": "not here", "code": "bad_request"}))

    async def _lie(self, stream: trio.abc.Stream) -> None:
        await stream.send_all(encode_start(self.seq) + addressed(encode_alive(), self.seq))
        while True:
            await trio.sleep(0.5)
            lie = self.lies.pop(0)(self) if self.lies else None
            self.told += lie is not None
            if lie:
                await stream.send_all(lie)
            elif lie is not None or self.is_over:
                await stream.aclose()
            else:
                await stream.send_all(addressed(encode_alive(), self.seq))


@asynccontextmanager
async def lied_to(*, is_all_a_lie: bool = True) -> AsyncIterator[tuple[Node, Liar]]:
    """The ready node `a`, which follows `c`, and a `b` that it cannot tell from the true one. If what it is told
    `is_all_a_lie`, it gets at the end what the true one writes."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "cba":
            await world.start(name, init=1 if name == "c" else None)
            await world.ready(name)
        await world.converged("a", "b", "c")
        b, disk = world.nodes["b"], await killed(world.nodes["a"])
        liar = Liar(b, b.replica.tick)
        world.nodes["b"] = cast(Node, liar)
        a = await world.start("a", disk=disk, settings=FOLLOW)
        await world.ready("a")
        with trio.fail_after(600):
            await until(lambda: liar.follows > 0 and is_up(a), 0.1)
        yield a, liar
        assert a.failure is None
        if is_all_a_lie:
            world.nodes["b"], liar.is_over = b, True
            async with b.client() as client:
                await client.set("true", 1)
            await world.converged("a", "b", "c")
        nursery.cancel_scope.cancel()


async def killed(node: Node) -> MemoryDisk:
    """The disk of a node that is killed."""
    await node.kill()
    return node.disk.after_kill()


def is_up(node: Node) -> bool:
    parent = node.replica.following.parents.get(B)
    return parent is not None and parent.is_up


def held(node: Node) -> tuple[object, ...]:
    """What lies may not change."""
    tree = node.replica.tree
    return tree.digest, tree.ledger.ticks(), str(tree.ledger.held()), str(tree.ledger.lost()), node.replica.tick


def complaints(node: Node) -> int:
    """How often something was refused or dropped."""
    return sum(node.driver.counters[name] for name in ("link_unasked", "tick_jump", "tock_jump", "link_lost"))


async def tell(node: Node, liar: Liar, *lies: Lie) -> None:
    """Until these were told and taken, and the link is up again."""
    told = liar.told + len(lies)
    liar.lies += lies
    with trio.fail_after(6000):
        await until(lambda: liar.told == told, 0.1)
        await trio.sleep(5)  # virtual
        await until(lambda: is_up(node), 0.1)


async def is_served(node: Node) -> None:
    """Clients write and read as before."""
    async with node.client() as client:
        before = (await client.get("served")).get("value", 0)
        await client.set("served", before + 1)
        assert (await client.get("served"))["value"] == before + 1


FAR = TICKS_AHEAD + 100
LIES: dict[str, Lie] = {
    "event of a writer that is not asked for": lambda liar: liar.records(liar.event(C)),
    "event of a stranger": lambda liar: liar.records(liar.event(STRANGER)),
    "tick far ahead": lambda liar: liar.records(liar.event(ahead=FAR)),
    "last tick of all": lambda liar: liar.records(liar.event(ahead=TICK_MAX - liar.last)),
    "tock far ahead": lambda liar: liar.records(liar.event(tock=1 << 60)),
    "tock of our own clock": lambda liar: liar.records(liar.event(tock=(1 << 63) - 1)),
    "record of a reset": lambda liar: liar.records(encode_record(ResetRecord())),
    "record of a life": lambda liar: liar.records(encode_record(LifeRecord(NodeName("a"), 7))),
    "record of a purge": lambda liar: liar.records(encode_record(PurgeRecord(Path(["x"]), ((B, Tick(1)),)))),
    "record that is none": lambda liar: liar.records(b"\xc1"),
    "record of nothing": lambda liar: liar.records(b""),
    "two records in one": lambda liar: liar.records(liar.event() * 2),
    "records that are text": lambda liar: packing.pack({"seq": liar.seq, "records": "abc"}),
    "records of text": lambda liar: packing.pack({"seq": liar.seq, "records": ["abc"]}),
    "too many records": lambda liar: liar.records(*[liar.event()] * (ITEM_EVENTS_MAX + 1)),
    "known of a stranger": lambda liar: liar.known(STRANGER, 1),
    "known of a writer that is not asked for": lambda liar: liar.known(C, liar.last + 1),
    "known far ahead": lambda liar: liar.known(B, liar.last + FAR),
    "known of no ticks": lambda liar: packing.pack({"seq": liar.seq, "known": {"b": []}}),
    "known across lives": lambda liar: packing.pack({"seq": liar.seq, "known": {"b": [[1, 1 << (COUNT_BITS + 1)]]}}),
    "known that is a list": lambda liar: packing.pack({"seq": liar.seq, "known": [1, 2]}),
    "item of nothing": lambda liar: packing.pack({"seq": liar.seq}),
    "ping that is none": lambda liar: packing.pack({"seq": liar.seq, "ping": 1}),
    "item for nobody": lambda liar: addressed(encode_records([liar.event()]), liar.seq + 1000),
    "item for the greeting": lambda liar: addressed(encode_records([liar.event()]), 0),
    "another greeting": lambda _: encode_hello(Hello((0, 1, 0), C, Tick(1), Tock(1), State.READY, bytes(8), 0)),
    "refusal": lambda liar: encode_error(liar.seq, BusyError("no more")),
    "refusal of the connection": lambda _: encode_error(0, BusyError("no more")),
    "end of the follow": lambda liar: encode_end(liar.seq),
    "event behind the end": lambda liar: encode_end(liar.seq) + liar.records(liar.event()),
    "end of the stream": lambda _: b"",
    "item that is cut off": lambda liar: liar.records(liar.event())[:-3] + b"\xc1",
    "no msgpack": lambda _: b"\xc1",
    "another protocol": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "list": lambda _: packing.pack([1, 2]),
    "names that are no text": lambda liar: packing.pack({"seq": liar.seq, 1: 2}),
    "frame above the limit": lambda _: b"\xc6\x05\x00\x00\x00" + bytes(ANSWER_BYTES_MAX),
}


@pytest.mark.trio
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_lie_on_a_link_changes_nothing_and_is_counted(autojump_clock: MockClock, lie: Lie) -> None:
    async with lied_to() as (node, liar):
        before, complained = held(node), complaints(node)
        await tell(node, liar, lie)
        assert held(node) == before
        assert complaints(node) > complained
        await is_served(node)


@pytest.mark.trio
async def test_true_item_of_the_same_stranger_is_believed(autojump_clock: MockClock) -> None:
    async with lied_to(is_all_a_lie=False) as (node, liar):
        await tell(node, liar, lambda liar: liar.records(liar.event()))
        assert node.replica.tree.head(Path(["lie"])) is not None
        assert complaints(node) == 0


_ANY_FIELDS = st.dictionaries(
    st.sampled_from(["records", "known", "ping", "want", "state", "error", "code", "events", "held"]),
    strategies.values | st.none() | st.lists(strategies.records.map(encode_record), max_size=3),
    max_size=3,
)


@examples(10, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(set(LIES) - {"frame above the limit"})) | _ANY_FIELDS | st.binary(), max_size=8))
def test_any_row_of_lies_and_nonsense_is_survived(said: list[str | bytes | dict[str, object]]) -> None:
    def lie_of(one: str | bytes | dict[str, object]) -> Lie:
        if isinstance(one, str):
            return LIES[one]
        if isinstance(one, bytes):
            return lambda _: one
        return lambda liar: packing.pack({**one, "seq": liar.seq})

    async def main() -> None:
        async with lied_to() as (node, liar):
            await tell(node, liar, *map(lie_of, said))
            await is_served(node)

    run(main)


# -- a client that follows ----------------------------------------------------------------------------------------

_TICKS = st.sampled_from([0, 1, 5, TICK_MAX, -1, 1 << 63, "1", None, [1], True]) | strategies.integers
_NODES = st.dictionaries(st.sampled_from(["a", "b", "nobody", "", "../x", 7, None]), _TICKS, max_size=3)
_AS = st.fixed_dictionaries({"node": st.sampled_from(["a", "b", "nobody", "", 7]), "life": strategies.integers})
_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "nodes": _NODES | strategies.values,
    "silent": st.sampled_from([0.1, 1, 3600, 0, -1, "1", float("nan"), float("inf")]) | strategies.scalars,
    "as": _AS | strategies.values,
    "network": st.binary(min_size=8, max_size=8) | strategies.values,
    "task": st.integers(-1, 12) | strategies.scalars,
}
_REQUESTS = st.tuples(st.sampled_from(["follow", "held", "stop"]), st.fixed_dictionaries({}, optional=_FIELDS))


@examples(15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_REQUESTS, min_size=1, max_size=12), st.booleans())
def test_whatever_a_client_says_of_follows_it_is_answered_and_changes_nothing(
    requests: list[tuple[str, dict[str, object]]], over_sockets: bool
) -> None:
    async def main() -> None:
        async with solo_node() as node, node.client() as writer:
            await writer.set("x", 1)
            before = held(node)
            async with node.client() as client:
                for action, fields in requests:
                    with trio.fail_after(600):
                        reply = await client.ask(action, **fields)
                    if action == "held":
                        assert reply.get("code") == "bad_request" or reply["counts"] is False
                    else:
                        assert reply.get("code") in ("bad_request", "busy") or {"state", "stopped"} & reply.keys()
                await writer.set("while.followed", 1)
                assert node.driver.hub.followers.count <= len(requests)
            with trio.fail_after(600):
                await until(lambda: node.driver.hub.followers.count == 0, 0.1)
            await writer.ask("delete_value", path=["while", "followed"])
            assert held(node)[-1] == before[-1] + 2  # type: ignore[operator]
            assert node.driver.follower_count == 0

    token = OVER_SOCKETS.set(over_sockets)
    try:
        run(main)
    finally:
        OVER_SOCKETS.reset(token)


# -- a node of another network at a known address -----------------------------------------------------------------


@pytest.mark.trio
async def test_node_that_was_founded_anew_in_another_network_is_not_pulled_from(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        for name in "ab":
            await world.start(name, init=1 if name == "a" else None)
            await world.ready(name)
        await world.converged("a", "b")
        a, b = world.nodes["a"], world.nodes["b"]
        await a.kill()
        b.driver.hear(GossipHeard(update(A, a.replica.tick + 5)))
        assert b.replica.tree.ledger.missing()
        other = await world.start("a", init=2, solo=True)  # its first life, as that of the founder
        await world.ready("a")
        async with other.client() as client:
            for number in range(20):
                await client.set(f"foreign.{number}", number)
        await trio.sleep(60)
        assert all(b.replica.tree.head(Path(["foreign", str(number)])) is None for number in range(20))
        nursery.cancel_scope.cancel()
