"""Carries actions out on whole servers: real replicas, drivers, commits, sessions and pulls, on a network in memory.

Knows: what each action does to them.  Does not know what is right: tests compare how a script ends, and what a seed
left (`seeds_on_engine`).

Invariant: nothing uses a thread or real time; what a server cannot be made to do is refused, not left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, assert_never

import trio

from distkv.config import Limits
from distkv.errors import NoSpaceError, StaleError
from distkv.graph.standing import standing_lines
from distkv.model.event import NodeName
from distkv.model.state import State
from distkv.sim.actions import (
    Action,
    Agents,
    Cluster,
    CutWay,
    Decide,
    DecideAny,
    Deed,
    Disks,
    Disturb,
    Divert,
    Fill,
    Foreign,
    Gather,
    Later,
    Lie,
    Move,
    PassTime,
    Recover,
    Retire,
    Rot,
    RotSome,
    ServiceAction,
    SetClock,
    SettingMap,
    Settings,
    Settle,
    Show,
    ShowService,
    ShowState,
    Split,
    StartNode,
    Swap,
    TellAll,
    ToNode,
    WaitState,
    Write,
)
from distkv.sim.rules.alike import are_alike
from distkv.sim.script import Script
from distkv.sim.settings import world_defaults
from distkv.storage.memory import MemoryDisk
from distkv.transport.memory import MessageFaults
from distkv.wire.message import KnownRecord, Start
from distkv.wire.records import encode_record
from tests.node.nodes import Node, World, durable_copy, new_world, until
from tests.scenarios.requests import requests_of

CLOCK_MS = 5000
QUIET_CLOCKS = 8
JOIN_S = 0.7
LOOK_S = 0.05
DOWNLOAD_S = 0.0005
"""How often a condition is looked at; for a download, which is over soon, more often."""
NOTHING = encode_record(KnownRecord({}))
ONE_LOOP = "all servers share one event loop, which cannot stop for one of them"
ONE_CLOCK = "all servers share one clock"
NO_ARCHIVE = "these servers keep no archive; tests/node/test_damage.py does it to servers that do"
STRANGERS = "what strangers do to a fleet only the simulator plays"
NO_TREE = "these servers have no server tree; tests/node/test_server_tree.py has some that do"
NO_SERVICES = "these servers have no services"
ITS_OWN = "what a server needs for it is drawn by the simulator only"

IMPOSSIBLE: dict[type | Deed, str] = {
    Deed.PAUSE: ONE_LOOP,
    Deed.RESUME: ONE_LOOP,
    Deed.NAMESAKE: STRANGERS,
    Deed.NAMESAKE_GONE: STRANGERS,
    Deed.OWN_ADDRESS: STRANGERS,
    Deed.DISK_SHORT: ITS_OWN,
    Deed.HALF_OPEN: "streams in memory end on both sides at once",
    Deed.STALL: NO_TREE,
    Deed.FLOW: NO_TREE,
    Foreign: STRANGERS,
    Lie: STRANGERS,
    Move: STRANGERS,
    SetClock: ONE_CLOCK,
    Rot: NO_ARCHIVE,
    RotSome: NO_ARCHIVE,
    Swap: ITS_OWN,
    TellAll: NO_TREE,
    Agents: ITS_OWN,
    Disturb: ITS_OWN,
    Disks: ITS_OWN,
    Gather: ITS_OWN,
    Recover: ITS_OWN,
    Later: ITS_OWN,
}
"""What whole servers in one process cannot be made to do, or need not be, and why."""


def why_not(action: Action) -> str:
    """Why an action cannot be carried out here; empty when it can."""
    if isinstance(action, ServiceAction | ShowService):
        return NO_SERVICES
    return IMPOSSIBLE.get(action.deed if isinstance(action, ToNode) else type(action), "")


def impossible(script: Script) -> list[str]:
    """Why a script cannot be carried out here; empty when it can."""
    commands = [command for block in script.blocks for command in block.commands]
    return [f"{command.text}: {why}" for command in commands if (why := why_not(command.action))]


class Servers:
    """All servers of one run."""

    def __init__(
        self,
        nursery: trio.Nursery,
        names: Iterable[str],
        *,
        seed: int,
        faults: MessageFaults,
        commit_s: float | Callable[[], float] = 0.002,
        limits: Limits | None = None,
    ) -> None:
        self.world: World = new_world(nursery, seed=seed, faults=faults)
        self.names = tuple(names)
        self.every: list[Node] = []
        """All that were ever started."""
        self.recalled: list[Node] = []
        """Those of them whose disk is older than what it has said: others tell them of ticks that they once used."""
        self._nursery = nursery
        self._commit_s, self._limits = commit_s, limits or Limits()
        self._disks: dict[str, MemoryDisk] = {name: MemoryDisk() for name in self.names}
        self._copies: dict[str, MemoryDisk] = {}
        self._set_back: set[str] = set()
        """Whose disks are older than what they have said; up to their next start."""
        self._agents_down: set[str] = set()
        self._core: dict[str, Any] = {"clock_ms": CLOCK_MS}
        self._began_s = trio.current_time()

    def standing(self) -> list[str]:
        """What `state` shows."""
        running = {node.name: node.replica for node in self.running()}
        return standing_lines(running) + [f"{name}: does not run" for name in self.names if name not in running]

    def running(self) -> list[Node]:
        return [node for node in self.world.nodes.values() if node.is_running]

    def find(self, name: str) -> Node | None:
        """The one of this name that runs."""
        node = self.world.nodes.get(name)
        return node if node is not None and node.is_running else None

    def has_backup(self, name: str) -> bool:
        return name in self._copies

    async def do(self, action: Action) -> None:
        """Carry out one action; what cannot be is an error."""
        if why := why_not(action):
            raise NotImplementedError(why)
        match action:
            case Settings(values=values):
                self._core |= {field: value for field, value in values.items() if field not in world_defaults()}
            case Cluster(nodes=nodes):
                await self._grow(nodes)
            case StartNode(node=node, init=init, settings=settings, named=named):
                await self._start(node, init, settings, named)
            case ToNode(node=node, deed=deed):
                await self._deed(node, deed)
            case Split() | CutWay() | Divert():
                self._to_network(action)
            case Write() | Fill() | Decide() | DecideAny():
                node = self.world.nodes[action.node]
                async with node.client() as client:
                    for request, fields in requests_of(action, node.replica.tree):
                        await client.ask(request, **fields)
            case Retire(node=name, other=other, is_forced=is_forced):
                async with self.world.nodes[name].client() as client:
                    await client.ask("retire_node", node=other, **{"force": True} if is_forced else {})
            case PassTime() | Settle() | WaitState():
                await self._pass(action)
            case Show() | ShowState():
                pass  # what is compared is how it ends
            case _:
                raise NotImplementedError(type(action).__name__)

    # -- servers

    async def _grow(self, names: tuple[str, ...]) -> None:
        clock_s = self._core["clock_ms"] / 1000
        await self._start(names[0], "root", {})
        await self.world.ready(names[0])
        for name in names[1:]:
            await trio.sleep(JOIN_S)
            await self._start(name, None, {})
        await self.world.ready(*names)
        await self.world.converged(*names)
        await trio.sleep(QUIET_CLOCKS * clock_s)
        before = self._chains(names)
        await self._until(lambda: len(now := self._chains(names)) == 1 and not now & before, 3 * clock_s)

    def _chains(self, names: tuple[str, ...]) -> set[object]:
        return {self.world.nodes[name].replica.ping_chain for name in names}

    async def _start(self, name: str, init: object, settings: SettingMap, named: str = "") -> None:
        told = {**self._core, **settings}
        node = await self.world.start(
            name,
            named=named,
            solo=told.pop("alone", False),
            disk=self._disks[name],
            init=init,
            is_up=name not in self._agents_down,
            commit_s=self._commit_s,
            limits=self._limits,
            settings={**told, "start": Start(time.time() + trio.current_time() - self._began_s, self.world.starts)},
        )
        self.every.append(node)
        if name in self._set_back:
            self._set_back.discard(name)
            self.recalled.append(node)
        again = {**settings, "restored": False, "restarts": int(settings.get("restarts", 0)) + 1}
        self._nursery.start_soon(self._begin_again, node, again)

    async def _begin_again(self, node: Node, settings: SettingMap) -> None:
        """A server whose disk turns out to be an old one starts anew, as the daemon has it."""
        await node.ended.wait()
        if isinstance(node.failure, StaleError):
            self._disks[node.name] = durable_copy(node.disk)
            self._set_back.add(node.name)
            await self._start(node.name, None, settings, node.named)

    async def _deed(self, name: str, deed: Deed) -> None:
        match deed:
            case Deed.STOP | Deed.CRASH:
                await self._end(name)
            case Deed.WIPE | Deed.BURN:
                await self._end(name)
                self._disks[name] = MemoryDisk()
                self._set_back.add(name)
            case Deed.BACKUP:
                self._copies[name] = durable_copy(self._disk(name))
            case Deed.ROLL_BACK:
                await self._end(name)
                self._disks[name] = durable_copy(self._copies[name])
                self._set_back.add(name)
            case Deed.AGENT_DOWN | Deed.AGENT_UP:
                self._agent(name, is_up=deed is Deed.AGENT_UP)
            case Deed.DISK_FULL | Deed.DISK_FREE:
                await self._space(name, is_full=deed is Deed.DISK_FULL)
            case Deed.ISOLATE:
                for other in set(self.names) - {name}:
                    self.world.network.cut(NodeName(name), NodeName(other))
                    self.world.network.cut(NodeName(other), NodeName(name))
            case Deed.REJOIN:
                self.world.network.heal()
            case (
                Deed.PAUSE | Deed.RESUME | Deed.DISK_SHORT | Deed.NAMESAKE | Deed.NAMESAKE_GONE | Deed.OWN_ADDRESS
                | Deed.HALF_OPEN | Deed.STALL | Deed.FLOW
            ):  # fmt: skip
                raise NotImplementedError(IMPOSSIBLE[deed])
            case _:
                assert_never(deed)

    def _disk(self, name: str) -> MemoryDisk:
        node = self.find(name)
        return self._disks[name] if node is None else node.disk

    async def _end(self, name: str) -> None:
        node = self.world.nodes.get(name)
        if node is not None and node.is_running:
            await node.kill()
            self._disks[name] = durable_copy(node.disk)
            self._disks[name].faults.capacity_bytes = node.disk.faults.capacity_bytes

    async def _space(self, name: str, *, is_full: bool) -> None:
        """A server has set space aside, which is used up first, by records that say nothing."""
        node = self.world.nodes.get(name)
        is_running = node is not None and node.is_running
        faults = (node.disk if is_running else self._disks[name]).faults
        faults.capacity_bytes = faults.used_bytes if is_full else None
        with suppress(NoSpaceError):
            while is_full and is_running:
                node.driver.check_room(0)
                await node.committer.wait_durable(node.committer.append([NOTHING] * 100, node.replica.tick))

    def _agent(self, name: str, *, is_up: bool) -> None:
        (self._agents_down.discard if is_up else self._agents_down.add)(name)
        node = self.world.nodes.get(name)
        if node is not None and node.is_running and node.transport is not None:
            if is_up:
                node.transport.reconnect()
            else:
                node.transport.disconnect()

    # -- between them

    def _to_network(self, action: Split | CutWay | Divert) -> None:
        network = self.world.network
        match action:
            case Split(sides=()):
                network.heal()
            case Split(sides=sides):
                alone = [(name,) for name in self.names if not any(name in side for side in sides)]
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
                await self._until(lambda: self.world.nodes[node].replica.state == state, within_ms / 1000, every_s)
            case Settle(within_ms=within_ms):
                await self._until(self._is_at_rest, within_ms / 1000)

    async def _until(self, condition: Callable[[], bool], within_s: float, every_s: float = LOOK_S) -> None:
        with trio.fail_after(within_s):
            await until(condition, every_s)

    def _is_at_rest(self) -> bool:
        return are_alike([node.replica for node in self.running()])
