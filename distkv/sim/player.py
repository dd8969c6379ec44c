"""Carries a script out on a simulated network, and gives its trace.

Knows: what each action does.  Does not know how scripts are written, nor whether their trace is the expected one.

Invariant: one script is one trace, on every machine and under any hash seed; the rules that must hold in every run are
watched in this one, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, assert_never

import attrs

from distkv.core.ready import Input, LocalDecision, LocalSet, RetireNode
from distkv.errors import DistkvError
from distkv.graph.recorder import outside
from distkv.graph.standing import standing_lines
from distkv.graph.trace import Moment
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.grammar import WORLD
from distkv.sim.host import Host, Process
from distkv.sim.network import NetworkFaults
from distkv.sim.recording import Recording
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules import always
from distkv.sim.rules.alike import is_at_rest, not_at_rest
from distkv.sim.rules.contents import OneContent
from distkv.sim.rules.covered import SupersededIsCovered
from distkv.sim.screen import Screen
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
from distkv.wire.message import KnownRecord, PingChain, State
from distkv.wire.request import Dismiss, Restore, SetValue
from distkv.wire.values import pack_value

GROW_CLOCKS: Final = 20
QUIET_CLOCKS: Final = 8
"""A cluster that has grown goes on for so long, so that nothing of its growth is left to do when the trace begins."""
JOIN_MS: Final = 700

DEEDS: Final = {
    Deed.STOP: "is stopped",
    Deed.CRASH: "loses power",
    Deed.WIPE: "loses its disk",
    Deed.BACKUP: "is backed up",
    Deed.ROLL_BACK: "is set back to its backup",
    Deed.PAUSE: "pauses",
    Deed.RESUME: "goes on",
    Deed.AGENT_DOWN: "agent stops",
    Deed.AGENT_UP: "agent starts",
    Deed.DISK_FULL: "has no space on its disk",
    Deed.DISK_FREE: "has space again",
}


class ScriptFailedError(DistkvError):
    """What a script waits for does not come, or what it wants done cannot be; or a rule is broken."""

    moments: tuple[Moment, ...] = ()
    """What happened up to there."""


@attrs.frozen
class Played:
    """What became of a script."""

    moments: tuple[Moment, ...]
    """Everything since the cluster had grown, or the start."""
    outputs: tuple[tuple[str, ...], ...]
    """What each block shows."""


def play(script: Script) -> Played:
    """Carry out a whole script.

    Raises:
        ScriptFailedError: with file, line and what went wrong there.
    """
    player = Player(script)
    outputs: list[tuple[str, ...]] = []
    for block in script.blocks:
        for command in block.commands:
            try:
                player.do(command.action, command.text)
            except (DistkvError, BrokenRuleError) as error:
                failed = ScriptFailedError(f"{script.name}, line {command.line}: {error}")
                failed.moments = tuple(player.moments)
                raise failed from error
        outputs.append(player.take_output())
    return Played(tuple(player.moments), tuple(outputs))


class Player:
    """One run of one script."""

    def __init__(self, script: Script) -> None:
        world = script.world
        delay_ms, answer_ms = int(world["delay_ms"]), int(world["answer_ms"])
        faults = NetworkFaults(
            delay_ms=(delay_ms, delay_ms), answer_ms=(answer_ms, answer_ms), silence_ms=int(world["silence_ms"])
        )
        self.moments: list[Moment] = []
        self._fleet = Fleet(
            int(world["seed"]),
            faults,
            members_seen=bool(world["members"]),
            observers=[*always(), OneContent(), SupersededIsCovered(), Recording(self._happened)],
        )
        for name in script.nodes:
            self._fleet.host(name)
        self._screen = Screen(script.nodes)
        self._core: dict[str, Any] = {}
        self._agents_down: set[str] = set()
        self._copies: dict[str, MemoryDisk] = {}
        self._zero_ms = 0

    def take_output(self) -> tuple[str, ...]:
        """What was to be shown since the last call."""
        return self._screen.take()

    def do(self, action: Action, text: str) -> None:
        """Carry out one action; `text` is how it is written.

        Raises:
            ScriptFailedError: it cannot be.
            BrokenRuleError: the run broke a rule.
        """
        match action:
            case Settings(values=values):
                world = {field for field, _ in WORLD.values()}
                self._core |= {field: value for field, value in values.items() if field not in world}
            case Cluster(nodes=nodes):
                self._grow(nodes)
            case StartNode(node=node, init=init, settings=settings, named=named):
                self._fleet.hosts[node].node = NodeName(named or node)
                self._start(node, init, settings)
            case ToNode(node=node, deed=deed):
                self._say(node, DEEDS[deed])
                self._deed(self._fleet.hosts[node], deed)
            case Rot(node=node, path=path):
                self._say(node, f"ends, and its disk rots at {path}")
                if not self._fleet.rot(node, lambda paths: [path] if path in paths else []):
                    raise ScriptFailedError(f"{node} has nothing at {path} that may rot, or rotted before")
            case Split() | CutWay() | Divert():
                self._say("", text)
                self._to_network(action)
            case Write() | Fill():
                self._write(action)
            case Decide():
                self._decide(action)
            case Retire(node=node, other=other, is_forced=is_forced):
                self._ask(node, RetireNode(NodeName(other), is_forced))
            case PassTime() | Settle() | WaitState():
                self._pass(action)
            case Show(tags=tags, nodes=names):
                self._screen.show(tags, names)
            case ShowState():
                self._screen.put(self._standing())
            case _:
                assert_never(action)

    # -- nodes

    def _grow(self, names: tuple[str, ...]) -> None:
        fleet, clock_ms = self._fleet, self._clock_ms
        self._screen.is_growing = True
        self._start(names[0], "root", {})
        self._until(lambda: self._state(names[0]) == State.READY, 2 * clock_ms, f"{names[0]} founds no network")
        for number, name in enumerate(names[1:], 1):
            fleet.later(JOIN_MS * number, partial(self._start, name, None, {}))
        fleet.run(JOIN_MS * len(names))
        self._check_somebody_runs()
        self._until(lambda: is_at_rest(fleet), GROW_CLOCKS * clock_ms, "the cluster does not come up")
        fleet.run(QUIET_CLOCKS * clock_ms)
        before = self._chains(names)
        fleet.run_until(lambda: len(now := self._chains(names)) == 1 and not now & before, 3 * clock_ms)
        fleet.run(1)  # who does not run yet shall not hear that ping either
        self._screen.is_growing = False
        self._zero_ms = fleet.now_ms
        self.moments.clear()

    def _chains(self, names: tuple[str, ...]) -> set[PingChain]:
        """The chains that they follow; one, when all are in the same round."""
        return {self._running(name).replica.ping_chain for name in names}

    def _start(self, name: str, init: object, settings: SettingMap) -> None:
        host = self._fleet.hosts[name]
        if host.process is not None:
            raise ScriptFailedError(f"{name} runs already")
        told = {**self._core, **settings}
        is_up = name not in self._agents_down and not told.get("alone", False)
        self._fleet.start(name, init=init, up=is_up, **told)

    def _deed(self, host: Host, deed: Deed) -> None:
        fleet, name = self._fleet, host.name
        match deed:
            case Deed.STOP:
                fleet.end(host)
            case Deed.CRASH:
                fleet.lose_power(host)
            case Deed.WIPE:
                fleet.wipe(name, is_copied=True)
            case Deed.BACKUP:
                self._copies[name] = host.disk.copy()
            case Deed.ROLL_BACK:
                if name not in self._copies:
                    raise ScriptFailedError(f"{name} has no backup")
                fleet.set_back(name, self._copies[name], is_copied=True)
            case Deed.PAUSE:
                host.pause()
            case Deed.RESUME:
                host.resume()
            case Deed.AGENT_DOWN | Deed.AGENT_UP:
                self._agent(name, is_up=deed is Deed.AGENT_UP)
            case Deed.DISK_FULL:
                self._fill(host)
            case Deed.DISK_FREE:
                host.disk.make_space()
            case _:
                assert_never(deed)

    def _fill(self, host: Host) -> None:
        """The room that the log has set aside is used up, too, by records that say nothing."""
        host.disk.fill()
        process = host.process
        while process is not None and host.disk.has_room(0):
            host.disk.append([KnownRecord({})] * 100)
            self._fleet.commit(process)

    def _agent(self, name: str, *, is_up: bool) -> None:
        (self._agents_down.discard if is_up else self._agents_down.add)(name)
        if self._fleet.hosts[name].process is not None:
            self._fleet.transport(name, up=is_up)

    def _running(self, name: str) -> Process:
        process = self._fleet.hosts[name].process
        if process is None:
            raise ScriptFailedError(f"{name} does not run")
        return process

    def _write(self, action: Write | Fill) -> None:
        if isinstance(action, Write):
            raw = None if action.value is None else pack_value(action.value)
            requests = [SetValue(1, action.path, raw, new=action.is_new, ttl=action.ttl_s)]
        else:
            paths = [Path((*action.path.names, str(number))) for number in range(action.count)]
            requests = [SetValue(1, path, pack_value(number)) for number, path in enumerate(paths)]
        for request in requests:
            self._ask(action.node, LocalSet(request))

    def _decide(self, action: Decide) -> None:
        entry = self._running(action.node).replica.tree.get(action.path)
        losers = entry.conflicts() if entry is not None else ()
        links = [loser.link for loser in losers if loser.node == action.loser_of]
        if not links:
            raise ScriptFailedError(f"{action.loser_of} has lost nothing at {action.path}, as {action.node} sees it")
        self._ask(action.node, LocalDecision((Restore if action.is_restored else Dismiss)(1, links[0])))

    def _ask(self, name: str, what: Input) -> None:
        """A client's request; a process that pauses takes it later."""
        process = self._running(name)
        process.host.give(process, partial(process.step, what))

    # -- between them

    def _to_network(self, action: Split | CutWay | Divert) -> None:
        network = self._fleet.network
        match action:
            case Split(sides=()):
                self._fleet.heal()
            case Split(sides=sides):
                self._fleet.partition(*sides)
            case CutWay(sender=sender, receiver=receiver):
                network.cut.add((sender, receiver))
            case Divert(diversion=diversion):
                if diversion is None:
                    network.diversions.clear()
                else:
                    network.diversions.append(diversion.fresh())
            case _:
                assert_never(action)

    # -- time

    def _pass(self, action: PassTime | Settle | WaitState) -> None:
        fleet = self._fleet
        match action:
            case PassTime(for_ms=for_ms):
                fleet.run(for_ms)
            case WaitState(node=node, state=state, within_ms=within_ms):
                self._until(lambda: self._state(node) == state, within_ms, f"{node} is not {state}")
            case Settle(within_ms=within_ms):
                self._check_somebody_runs()
                if not fleet.run_until(lambda: is_at_rest(fleet), within_ms):
                    raise not_at_rest(fleet, within_ms)
            case _:
                assert_never(action)

    def _until(self, condition: Callable[[], bool], within_ms: int, what: str) -> None:
        if not self._fleet.run_until(condition, within_ms):
            raise ScriptFailedError(f"{what} within {within_ms / 1000:g} s")

    def _check_somebody_runs(self) -> None:
        if not any(True for _ in self._fleet.running()):
            raise ScriptFailedError("nobody runs")

    @property
    def _clock_ms(self) -> int:
        return int(self._core.get("clock_ms", 5000))

    def _state(self, name: str) -> str:
        process = self._fleet.hosts[name].process
        return "" if process is None else process.replica.state

    def _standing(self) -> list[str]:
        hosts = self._fleet.hosts.items()
        lines = standing_lines({name: host.live for name, host in hosts if host.process is not None})
        return lines + [f"{name}: does not run" for name, host in hosts if host.process is None]

    # -- what is shown

    def _say(self, node: str, what: str) -> None:
        self._happened(outside(self._fleet.now_ms, node, what))

    def _happened(self, moment: Moment) -> None:
        moment = attrs.evolve(moment, at_ms=moment.at_ms - self._zero_ms)
        self.moments.append(moment)
        self._screen.happened(moment)
