"""Whatever is written, however slowly a watcher reads: at every `uptodate` it knows the tree, and misses no change.

Knows: what a client does with the frames of a watch.  Does not know how they came about.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from distkv.config import Limits
from distkv.wire.values import unpack_value
from tests.node.nodes import Client, Node, Reply, new_world, run
from tests.profiles import examples

pytestmark = pytest.mark.slow

NAMES = ("", "a", "b", "a.x", "a.x.y", "b.x")


@attrs.frozen
class Plan:
    """One run."""

    commit_s: float
    fetch: bool
    watch_changes: int
    watch_bytes: int
    writes: list[tuple[str, int | None, int]]
    """Path below `w`, value or deletion, and how large the value is."""
    writes_before: int
    pauses_ms: list[int]
    """How long the watcher looks away, again and again."""


plans = st.builds(
    Plan,
    st.sampled_from([0.0005, 0.02]),
    st.booleans(),
    st.sampled_from([1, 2, 5, 1000]),
    st.sampled_from([3000, 1 << 20]),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.none() | st.integers(0, 9), st.sampled_from([0, 1000])),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 10),
    st.lists(st.integers(0, 30), min_size=1, max_size=10),
)


@attrs.define
class Reader:
    """A client that watches `w`."""

    known: dict[str, Any] = attrs.field(factory=dict)
    ticks: list[int] = attrs.field(factory=list)
    """Of the changes that it was told of since the last resync, in their order."""
    resyncs: int = 0
    is_up_to_date: bool = False

    def take(self, frame: Reply) -> None:
        match frame.get("state"):
            case "resync":
                self.known.clear()
                self.resyncs += 1
                self.is_up_to_date = False
            case "uptodate":
                self.is_up_to_date = True
        if "path" in frame:
            self.ticks.append(frame["tick"])
            path = ".".join(frame["path"])
            self.known.pop(path, None)
            if "value" in frame:
                self.known[path] = frame["value"]


def tree_of(node: Node) -> dict[str, Any]:
    entries = [entry for entry in node.replica.tree.entries() if entry.is_live and entry.head.path.names[:1] == ("w",)]
    return {".".join(map(str, entry.head.path.names)): unpack_value(entry.head.value) for entry in entries}


async def write(client: Client, writes: list[tuple[str, int | None, int]]) -> None:
    frames = []
    for name, number, size in writes:
        path = ["w", *name.split(".")] if name else ["w"]
        value = None if number is None else f"{number}{'x' * size}"
        frames.append(client.frame("set_value", path=path, value=value))
    for at in range(0, len(frames), 3):
        await client.stream.send_all(b"".join(frames[at : at + 3]))
        await trio.sleep(0.003)
    while frames and (reply := await client.receive()) is not None and reply["seq"] < client.seq:
        pass


async def watch(node: Node, plan: Plan, reader: Reader, *, task_status: trio.TaskStatus[None]) -> None:
    async with node.client(lockstep=True) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, client.frame("watch", path=["w"], fetch=plan.fetch))
        await client.replies(2)
        task_status.started()
        count = 0
        while (frame := await client.receive()) is not None:
            reader.take(frame)
            count += 1
            await trio.sleep(plan.pauses_ms[count % len(plan.pauses_ms)] / 1000)


async def follow(plan: Plan) -> None:
    async with trio.open_nursery() as nursery:
        limits = Limits(watch_changes=plan.watch_changes, watch_bytes=plan.watch_bytes)
        node = await new_world(nursery).start("a", init=1, solo=True, commit_s=plan.commit_s, limits=limits)
        await node.driver.wait_ready()
        reader = Reader()
        async with node.client() as writer:
            await write(writer, plan.writes[: plan.writes_before])
            before = {} if plan.fetch else tree_of(node)
            first = node.replica.tick
            reader.known.update(before)
            await nursery.start(partial(watch, node, plan, reader))
            await write(writer, plan.writes[plan.writes_before :])
        await trio.sleep(10)  # all that waits has been read by then
        check(plan, node, reader, first)
        nursery.cancel_scope.cancel()


def check(plan: Plan, node: Node, reader: Reader, first: int) -> None:
    assert reader.known == tree_of(node)
    assert reader.is_up_to_date or not (plan.fetch or reader.resyncs)
    if not reader.resyncs:
        told = [tick for tick in reader.ticks if tick > first]
        assert told == sorted(set(told))
        if not plan.fetch:
            assert told == list(range(first + 1, node.replica.tick + 1)), "every change, once, in order"


@given(plans)
@examples(30)
def test_watcher_knows_the_tree_and_missed_nothing_without_being_told(plan: Plan) -> None:
    run(partial(follow, plan))

