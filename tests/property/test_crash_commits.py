"""A disk that crashes at every operation, while clients read and write and a peer looks on: nobody saw what is undone.

Knows: the promises of docs/architecture ('Ready') and the README.  Does not know how they are kept.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import attrs
import pytest
import trio
from hypothesis import Phase, given
from hypothesis import strategies as st

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.storage.log import open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, Tear, keep_all, keep_none, tear_at, tear_by_sectors
from distkv.transport.base import Gap
from distkv.wire.codec import tick_maps_map
from distkv.wire.values import unpack_value
from tests.node.claims import Claims, check_order, claims_of
from tests.node.nodes import SEGMENT_BYTES, Node, World, new_world, replayed, run, until
from tests.profiles import examples

pytestmark = pytest.mark.slow

TEARS: list[Tear] = [
    keep_none,
    keep_all,
    tear_at(20),
    tear_at(-1),
    tear_by_sectors(lambda sector: sector % 2 == 0),
]
FOUNDER, JOINER = "a", "b"


@attrs.frozen
class Plan:
    """One run: who crashes, at which operation of its disk, and how long its commits take."""

    crashing: str
    commit_s: float | Callable[[], float]
    crash_at: int | None = None
    seed: int = 0


@attrs.define
class Crash:
    """What a run left behind: the disk, what the node had said, and what the clients were promised."""

    disk: MemoryDisk
    operations: int
    claims: Claims
    acknowledged: dict[str, list[int]]
    peer_held: Ranges


def other_of(name: str) -> str:
    return JOINER if name == FOUNDER else FOUNDER


# -- what goes on -------------------------------------------------------------------------------------------------


async def write(node: Node, path: str, rng: random.Random, acknowledged: list[int]) -> None:
    """Rising numbers; a number is noted when it is answered. Some leave in one send."""
    number = 0
    async with node.client() as client:
        for _ in range(6):
            frames = []
            for _ in range(rng.choice([1, 1, 3])):
                number += 1
                frames.append(client.frame("set_value", path=path.split("."), value=number, nchain=2))
            first = number - len(frames) + 1
            await client.stream.send_all(b"".join(frames))
            while len(frames) > 0 and (reply := await client.receive()) is not None:
                if reply["seq"] and reply.get("changed"):
                    acknowledged.append(first)
                    first += 1
                    frames.pop()
            await trio.sleep(rng.uniform(0, 0.05))


async def read(node: Node, rng: random.Random) -> None:
    """Reads of what others write, states, and what peers ask."""
    maps = tick_maps_map(node.world.nodes[other_of(node.name)].replica.maps())
    async with node.client() as client:
        while True:
            await client.get(f"p{rng.randrange(3)}", nchain=3)
            await client.ask("get_state")
            await client.ask("exchange", maps=maps)
            if rng.random() < 0.2:
                await client.items("get_events", nodes={node.name: [[1, 200]]})
            if rng.random() < 0.02:
                await client.items("get_snapshot", node="zed", created=1.7e9, addr="zed:1")
            await trio.sleep(rng.uniform(0, 0.01))


async def watch(node: Node, _: random.Random) -> None:
    """Be told of everything as soon as it may be."""
    async with node.client() as client:
        await client.stream.send_all(client.frame("watch", path=[], fetch=True))
        while await client.receive() is not None:
            pass


async def watch_anew(node: Node, rng: random.Random) -> None:
    """Begin to watch from this moment on, again and again: each time one is told where in the log that is."""
    async with node.client() as client:
        while True:
            seq = (await client.ask("watch", path=["p0"]))["seq"]
            await trio.sleep(rng.uniform(0, 0.02))
            await client.ask("stop", task=seq)


async def compare(node: Node, rng: random.Random) -> None:
    """Let a node exchange tick maps with the other one again and again."""
    while node.is_running:
        node.driver.hear(Gap())
        await trio.sleep(rng.uniform(0.005, 0.01))


async def until_it_ends(node: Node, what: Callable[[], Awaitable[None]]) -> None:
    """A client or a peer, which the death of its node leaves alone."""
    try:
        await what()
    except (trio.BrokenResourceError, trio.ClosedResourceError, EOFError, DiskCrashed, DistkvError):
        with trio.fail_after(1):
            await node.ended.wait()


def is_settled(world: World, node: Node) -> bool:
    """Whether there is nothing more to wait for: it serves, or it or its sponsor is dead."""
    return not (world.nodes[FOUNDER].is_running and node.is_running) or node.replica.is_serving


async def both_ready(world: World, plan: Plan, disk: MemoryDisk) -> bool:
    """Found a network and join it; False when one of them crashed before."""
    for name, init in ((FOUNDER, "hello"), (JOINER, None)):
        its_disk = disk if name == plan.crashing else MemoryDisk()
        node = await world.start(name, init=init, commit_s=plan.commit_s, disk=its_disk)
        with trio.move_on_after(20):
            await until(partial(is_settled, world, node), 0.005)
        if not node.is_running:
            return False
    return all(node.is_running and node.replica.is_serving for node in world.nodes.values())


async def load(world: World, plan: Plan, acknowledged: dict[str, list[int]]) -> None:
    """Writers and readers on the node that will crash, some writes on the other, and comparisons both ways."""
    rng = random.Random(plan.seed)
    node = world.nodes[plan.crashing]
    other = world.nodes[other_of(plan.crashing)]
    async with trio.open_nursery() as background:
        for part in (read, watch, watch_anew, compare):
            background.start_soon(until_it_ends, node, partial(part, node, random.Random(rng.random())))
        background.start_soon(until_it_ends, other, partial(compare, other, random.Random(rng.random())))
        async with trio.open_nursery() as writers:
            for number in range(3):
                path = f"p{number}"
                chance, done = random.Random(rng.random()), acknowledged.setdefault(path, [])
                writers.start_soon(until_it_ends, node, partial(write, node, path, chance, done))
            writers.start_soon(until_it_ends, other, partial(write, other, "q", random.Random(1), []))
        background.cancel_scope.cancel()


def crash(plan: Plan) -> Crash:
    """Carry out a plan, up to the crash or to its end."""
    found: list[Crash] = []

    async def main() -> None:
        disk = MemoryDisk()
        disk.faults.crash_at = plan.crash_at
        acknowledged: dict[str, list[int]] = {}
        async with trio.open_nursery() as nursery:
            world = new_world(nursery, seed=plan.seed)
            if await both_ready(world, plan, disk):
                await load(world, plan, acknowledged)
            other = world.nodes.get(other_of(plan.crashing))
            nursery.cancel_scope.cancel()
        held = other.replica.tree.ledger.held() if other is not None else {}
        claims = claims_of(plan.crashing, world.nodes[plan.crashing].sent)
        found.append(
            Crash(disk, disk.faults.operations, claims, acknowledged, held.get(NodeName(plan.crashing), Ranges()))
        )

    run(main)
    return found[0]


# -- what must hold -----------------------------------------------------------------------------------------------


def check_survivor(plan: Plan, after: Crash, disk: MemoryDisk) -> None:
    """The node that starts from `disk` has what was acknowledged, and stands by what anybody saw."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    replica = replayed(plan.crashing, log)
    replica.begin(0, 1.7e9)
    after.claims.check(replica)
    held = replica.tree.ledger.held().get(replica.name, Ranges())
    assert not after.peer_held - held, "the peer has more of us than we"
    for path, numbers in after.acknowledged.items():
        if numbers:
            event = replica.tree.get(Path([path]))
            assert event is not None
            value = unpack_value(event.head.value)
            assert isinstance(value, int), value
            assert value >= numbers[-1], f"{path}: {numbers[-1]} was acknowledged, {value} is there"
    log.close()


def crashes(crashing: str, commit_s: float, seed: int = 0) -> Iterator[tuple[Plan, Crash]]:
    whole = crash(Plan(crashing, commit_s, seed=seed))
    assert all(len(numbers) >= 4 for numbers in whole.acknowledged.values()), "the load was not carried"
    for crash_at in range(whole.operations):
        plan = Plan(crashing, commit_s, crash_at, seed)
        yield plan, crash(plan)


@pytest.mark.parametrize("commit_s", [0.0005, 0.008], ids=["fast", "slow"])
@pytest.mark.parametrize("crashing", [FOUNDER, JOINER])
@given(seed=st.integers(0, 1 << 20))  # in hypothesis also because it makes trio's scheduling repeatable
@examples(1)
def test_disk_crashing_anywhere_undoes_nothing_that_anybody_saw(crashing: str, commit_s: float, seed: int) -> None:
    for plan, after in crashes(crashing, commit_s, seed):
        for tear in TEARS:
            for keep_names in (False, True):
                check_survivor(plan, after, after.disk.after_power_loss(tear, keep_names=keep_names))
        check_survivor(plan, after, after.disk.after_kill())


# -- commits that overlap -----------------------------------------------------------------------------------------

DRAWN_S = (0.0005, 0.003, 0.01, 0.01, 0.03, 0.03, 0.1)
"""What a commit takes: less than the time between two requests of a client, up to many of them."""


@pytest.mark.parametrize("looked_at", [FOUNDER, JOINER])
@given(seed=st.integers(0, 1 << 20))
@examples(8, phases=[Phase.generate])  # a smaller seed is no simpler run
def test_nothing_leaves_before_its_own_commit_while_others_are_under_way(looked_at: str, seed: int) -> None:
    rng = random.Random(seed)
    plan = Plan(looked_at, lambda: rng.choice(DRAWN_S), seed=seed)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            world = new_world(nursery, seed=seed)
            assert await both_ready(world, plan, MemoryDisk())
            await load(world, plan, {})
            nursery.cancel_scope.cancel()
        for node in world.nodes.values():
            assert node.committer.thread_count > 10
            check_order(node.name, node.sent)

    run(main)


# -- the next start -----------------------------------------------------------------------------------------------


async def restart(world: World, plan: Plan, tear: Tear) -> Node:
    """Start the node that crashed from what its disk kept, as an operator does, and the other one if it never ran."""
    old = world.nodes[plan.crashing]
    await old.kill()
    disk = old.disk.after_power_loss(tear)
    log = open_log(disk.after_power_loss(), segment_bytes=SEGMENT_BYTES)
    is_founded = replayed(plan.crashing, log).network_id is not None
    init = "hello" if plan.crashing == FOUNDER and not is_founded else None
    node = await world.start(plan.crashing, init=init, commit_s=plan.commit_s, disk=disk)
    if JOINER not in world.nodes:
        await world.start(JOINER)
    await world.ready(FOUNDER, JOINER)
    return node


async def check_after_restart(world: World, node: Node, before: Claims, acknowledged: dict[str, list[int]]) -> None:
    """Acknowledged writes are read, new ticks and tocks lie above the old ones, and the peer agrees."""
    other = world.nodes[other_of(node.name)]
    async with node.client() as client:
        for path, numbers in acknowledged.items():
            if numbers:
                assert (await client.get(path))["value"] >= numbers[-1]
        for path in ("p0", "p1", "new"):
            reply = await client.set(path, "later")
            assert reply["tick"] > before.last
            assert reply["tock"] > before.tock
    await world.converged(node.name, other.name)
    before.check(node.replica)
    before.check_no_tick_used_twice(claims_of(node.name, node.sent))
    before.check_no_tick_used_twice(claims_of(other.name, other.sent))
    for one in (node, other):
        assert one.failure is None
        alarms = ("two_contents", "rolled_back", "name_twice", "foreign_network")
        assert {name: one.driver.counters[name] for name in alarms} == dict.fromkeys(alarms, 0)


@given(
    st.sampled_from([FOUNDER, JOINER]),
    st.sampled_from([0.0005, 0.002, 0.008]),
    st.integers(0, 70),
    st.integers(0, 1000),
    st.one_of(st.sampled_from(TEARS), st.integers(0, 3000).map(tear_at)),
)
@examples(15)
def test_node_restarting_after_any_crash_keeps_its_word_and_converges(
    crashing: str, commit_s: float, crash_at: int, seed: int, tear: Tear
) -> None:
    plan = Plan(crashing, commit_s, crash_at, seed)

    async def main() -> None:
        disk = MemoryDisk()
        disk.faults.crash_at = crash_at
        acknowledged: dict[str, list[int]] = {}
        async with trio.open_nursery() as nursery:
            world = new_world(nursery, seed=seed)
            if await both_ready(world, plan, disk):
                await load(world, plan, acknowledged)
            if crashing in world.nodes:
                before = claims_of(crashing, world.nodes[crashing].sent)
                node = await restart(world, plan, tear)
                await check_after_restart(world, node, before, acknowledged)
            nursery.cancel_scope.cancel()

    run(main)
