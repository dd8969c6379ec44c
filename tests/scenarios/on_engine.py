"""Carries a script out on whole servers: real replicas, drivers, commits, sessions and pulls, on a network in memory.

Knows: what each action does to them.  Does not know what is right: the test compares how a script ends.

Invariant: nothing uses a thread or real time; what a server cannot be made to do is refused, not left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, assert_never

import trio

from distkv.errors import NoSpaceError, StaleError
from distkv.graph.standing import standing_lines
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.sim.grammar import WORLD
from distkv.sim.rules.alike import are_alike
from distkv.sim.script import (
    Action,
    Cluster,
    CutWay,
    Decide,
    Deed,
    Divert,
    Fill,
    PassTime,
    Retire,
    Rot,
    Script,
    SettingMap,
    Settings,
    Settle,
    Show,
    ShowState,
    Split,
    StartNode,
    ToNode,
    WaitState,
    Write,
)
from distkv.storage.memory import MemoryDisk
from distkv.transport.memory import MessageFaults
from distkv.wire.message import KnownRecord, Start, State
from distkv.wire.records import encode_record
from tests.node.nodes import Node, World, durable_copy, new_world, until

CLOCK_MS = 5000
QUIET_CLOCKS = 8
JOIN_S = 0.7
LOOK_S = 0.05
DOWNLOAD_S = 0.0005
"""How often a condition is looked at; for a download, which is over soon, more often."""
NOTHING = encode_record(KnownRecord({}))
IMPOSSIBLE = {
    Deed.PAUSE: "all servers share one event loop, which cannot stop for one of them",
    Deed.RESUME: "all servers share one event loop, which cannot stop for one of them",
}
"""Deeds that whole servers in one process cannot be made to do, and why."""


NO_ARCHIVE = "these servers keep no archive; tests/node/test_damage.py does it to servers that do"


def impossible(script: Script) -> list[str]:
    """Why a script cannot be carried out here; empty when it can."""
    deeds = [command.action.deed for b in script.blocks for command in b.commands if isinstance(command.action, ToNode)]
    found = [f"{deed}: {IMPOSSIBLE[deed]}" for deed in dict.fromkeys(deeds) if deed in IMPOSSIBLE]
    if any(isinstance(command.action, Rot) for block in script.blocks for command in block.commands):
        found.append(f"rot: {NO_ARCHIVE}")
    return found


class Servers:
    """All servers of one script."""

    def __init__(self, nursery: trio.Nursery, script: Script) -> None:
        delay_s = int(script.world["delay_ms"]) / 1000
        self._world: World = new_world(
            nursery, seed=int(script.world["seed"]), faults=MessageFaults(delay_s=(delay_s, delay_s))
        )
        self._nursery = nursery
        self._names = script.nodes
        self._disks: dict[str, MemoryDisk] = {name: MemoryDisk() for name in script.nodes}
        self._copies: dict[str, MemoryDisk] = {}
        self._agents_down: set[str] = set()
        self._core: dict[str, Any] = {"clock_ms": CLOCK_MS}
        self._began_s = trio.current_time()

    def standing(self) -> list[str]:
        """What `state` shows."""
        running = {node.name: node.replica for node in self._running()}
        return standing_lines(running) + [f"{name}: does not run" for name in self._names if name not in running]

    async def do(self, action: Action) -> None:
        match action:
            case Settings(values=values):
                world = {field for field, _ in WORLD.values()}
                self._core |= {field: value for field, value in values.items() if field not in world}
            case Cluster(nodes=nodes):
                await self._grow(nodes)
            case StartNode(node=node, init=init, settings=settings, named=named):
                await self._start(node, init, settings, named)
            case Rot():
                raise NotImplementedError(NO_ARCHIVE)
            case ToNode(node=node, deed=deed):
                await self._deed(node, deed)
            case Split() | CutWay() | Divert():
                self._to_network(action)
            case Write() | Fill():
                await self._write(action)
            case Decide():
                await self._decide(action)
            case Retire(node=node, other=other, is_forced=is_forced):
                await self._ask(node, "retire_node", node=other, **{"force": True} if is_forced else {})
            case PassTime() | Settle() | WaitState():
                await self._pass(action)
            case Show() | ShowState():
                pass  # what is compared is how it ends
            case _:
                assert_never(action)

    # -- servers

    async def _grow(self, names: tuple[str, ...]) -> None:
        clock_s = self._core["clock_ms"] / 1000
        await self._start(names[0], "root", {})
        await self._world.ready(names[0])
        for name in names[1:]:
            await trio.sleep(JOIN_S)
            await self._start(name, None, {})
        await self._world.ready(*names)
        await self._world.converged(*names)
        await trio.sleep(QUIET_CLOCKS * clock_s)
        before = self._chains(names)
        await self._until(lambda: len(now := self._chains(names)) == 1 and not now & before, 3 * clock_s)

    def _chains(self, names: tuple[str, ...]) -> set[object]:
        return {self._world.nodes[name].replica.ping_chain for name in names}

    async def _start(self, name: str, init: object, settings: SettingMap, named: str = "") -> None:
        told = {**self._core, **settings}
        node = await self._world.start(
            name,
            named=named,
            solo=told.pop("alone", False),
            disk=self._disks[name],
            init=init,
            is_up=name not in self._agents_down,
            settings={**told, "start": Start(time.time() + trio.current_time() - self._began_s, self._world.starts)},
        )

        again = {**settings, "restored": False, "restarts": int(settings.get("restarts", 0)) + 1}
        self._nursery.start_soon(self._begin_again, node, again)

    async def _begin_again(self, node: Node, settings: SettingMap) -> None:
        """A server whose disk turns out to be an old one starts anew, as the daemon has it."""
        await node.ended.wait()
        if isinstance(node.failure, StaleError):
            self._disks[node.name] = durable_copy(node.disk)
            await self._start(node.name, None, settings, node.named)

    async def _deed(self, name: str, deed: Deed) -> None:
        match deed:
            case Deed.STOP | Deed.CRASH:
                await self._end(name)
            case Deed.WIPE:
                await self._end(name)
                self._disks[name] = MemoryDisk()
            case Deed.BACKUP:
                self._copies[name] = durable_copy(self._disks[name])
            case Deed.ROLL_BACK:
                await self._end(name)
                self._disks[name] = durable_copy(self._copies[name])
            case Deed.AGENT_DOWN | Deed.AGENT_UP:
                self._agent(name, is_up=deed is Deed.AGENT_UP)
            case Deed.PAUSE | Deed.RESUME:
                raise NotImplementedError(IMPOSSIBLE[deed])
            case Deed.DISK_FULL | Deed.DISK_FREE:
                await self._space(name, is_full=deed is Deed.DISK_FULL)
            case _:
                assert_never(deed)

    async def _end(self, name: str) -> None:
        node = self._world.nodes.get(name)
        if node is not None and node.is_running:
            await node.kill()
            self._disks[name] = durable_copy(node.disk)
            self._disks[name].faults.capacity_bytes = node.disk.faults.capacity_bytes

    async def _space(self, name: str, *, is_full: bool) -> None:
        """A server has set space aside, which is used up first, by records that say nothing."""
        node = self._world.nodes.get(name)
        is_running = node is not None and node.is_running
        faults = (node.disk if is_running else self._disks[name]).faults
        faults.capacity_bytes = faults.used_bytes if is_full else None
        with suppress(NoSpaceError):
            while is_full and is_running:
                node.driver.check_room(0)
                await node.committer.wait_durable(node.committer.append([NOTHING] * 100, node.replica.tick))

    def _agent(self, name: str, *, is_up: bool) -> None:
        (self._agents_down.discard if is_up else self._agents_down.add)(name)
        node = self._world.nodes.get(name)
        if node is not None and node.is_running and node.transport is not None:
            if is_up:
                node.transport.reconnect()
            else:
                node.transport.disconnect()

    def _running(self) -> list[Node]:
        return [node for node in self._world.nodes.values() if node.is_running]

    async def _write(self, action: Write | Fill) -> None:
        paths = [action.path]
        if isinstance(action, Fill):
            paths = [Path((*action.path.names, str(number))) for number in range(action.count)]
        async with self._world.nodes[action.node].client() as client:
            for number, path in enumerate(paths):
                value = action.value if isinstance(action, Write) else number
                if value is None:
                    await client.ask("delete_value", path=[*path.names])
                else:
                    await client.ask("set_value", path=[*path.names], value=value, **_conditions(action))

    async def _decide(self, action: Decide) -> None:
        found = await self._ask(action.node, "conflicts", path=[*action.path.names])
        (id,) = [item["id"] for item in found["items"] if item["node"] == action.loser_of]
        await self._ask(action.node, "restore" if action.is_restored else "dismiss", id=id)

    async def _ask(self, name: str, request: str, **fields: object) -> dict[str, Any]:
        async with self._world.nodes[name].client() as client:
            return await client.ask(request, **fields)

    # -- between them

    def _to_network(self, action: Split | CutWay | Divert) -> None:
        network = self._world.network
        match action:
            case Split(sides=()):
                network.heal()
            case Split(sides=sides):
                alone = [(name,) for name in self._names if not any(name in side for side in sides)]
                network.partition(*([NodeName(name) for name in side] for side in (*sides, *alone)))
            case CutWay(sender=sender, receiver=receiver):
                network.cut(NodeName(sender), NodeName(receiver))
            case Divert(diversion=diversion):
                if diversion is None:
                    network.diversions.clear()
                else:
                    network.diversions.append(diversion.fresh())

    # -- time

    async def _pass(self, action: PassTime | Settle | WaitState) -> None:
        match action:
            case PassTime(for_ms=for_ms):
                await trio.sleep(for_ms / 1000)
            case WaitState(node=node, state=state, within_ms=within_ms):
                every_s = DOWNLOAD_S if state is State.DOWNLOADING else LOOK_S
                await self._until(lambda: self._world.nodes[node].replica.state == state, within_ms / 1000, every_s)
            case Settle(within_ms=within_ms):
                await self._until(self._is_at_rest, within_ms / 1000)

    async def _until(self, condition: Callable[[], bool], within_s: float, every_s: float = LOOK_S) -> None:
        with trio.fail_after(within_s):
            await until(condition, every_s)

    def _is_at_rest(self) -> bool:
        return are_alike([node.replica for node in self._running()])


def _conditions(action: Write | Fill) -> dict[str, object]:
    """What a request says besides path and value."""
    if isinstance(action, Fill):
        return {}
    said: dict[str, object] = {"new": True} if action.is_new else {}
    return said if action.ttl_s is None else {**said, "ttl": action.ttl_s}
