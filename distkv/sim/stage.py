"""Carries actions out on a fleet: those of a scenario file and those that a seed drew alike.

Knows: what each action does, and when it cannot be done.  Does not know how actions are written, nor what is right.

Invariant: an action that cannot be done changes nothing; after `Recover` no fault is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, assert_never

from distkv.core.client_writes import Retired, RetireNode
from distkv.errors import DuplicateNameError
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.model.tick_ranges import is_within
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
    Happening,
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
from distkv.sim.fairness import Fairness, is_by_client
from distkv.sim.fleet import Fleet
from distkv.sim.growth import NotPossibleError, check_somebody_runs, gather, grow, until
from distkv.sim.host import Host, Process
from distkv.sim.last_words import speak_last
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.alike import is_at_rest, not_at_rest
from distkv.sim.sayings import say
from distkv.sim.service import sim_parts
from distkv.sim.strangers import Strangers, namesake_of
from distkv.sim.wording import words_for
from distkv.sim.workload import Workload
from distkv.storage.memory import MemoryDisk
from distkv.wire.message import KnownRecord


class Stage:
    """One fleet, and what happens to it."""

    def __init__(self, fleet: Fleet, names: Sequence[str]) -> None:
        """`names`: all nodes that any action names."""
        self._fleet: Final = fleet
        for name in names:
            fleet.host(name)
        self._core: Final[dict[str, Any]] = {}
        """What every start from here on is told."""
        self._agents_down: Final[set[str]] = set()
        self._copies: Final[dict[str, MemoryDisk]] = {}
        self._workload: Final = Workload(fleet)
        self._crowds: Final = {part.name: part.crowd(fleet) for part in sim_parts()}
        """The clients of each service."""
        self._strangers: Final = Strangers(fleet, self._core)
        self._fairness: Final = Fairness(fleet, self._copies)
        self._recoveries = 0
        """How often all faults ended."""

    def do(self, action: Action) -> None:
        """Carry out one action.

        Raises:
            NotPossibleError: it cannot be.
            BrokenRuleError: the run broke a rule.
        """
        if isinstance(action, Happening):
            self._happen(action)
            return
        match action:
            case Settings(values=values):
                self._core.update(values)
            case Agents() | Disturb() | Disks():
                self._make(action)
            case Cluster(nodes=nodes):
                grow(self._fleet, self._start, nodes, self._clock_ms)
            case Gather(nodes=nodes):
                gather(self._fleet, self._start, nodes, self._clock_ms)
            case PassTime() | Settle() | WaitState() | Recover():
                self._pass(action)
            case Later(after_ms=after_ms, action=happening):
                self._fleet.later(after_ms, partial(self._do_if_fair, happening, self._recoveries))
            case Show() | ShowState() | ShowService():
                raise NotPossibleError("there is no trace here")
            case _:
                assert_never(action)

    def service_lines(self) -> list[str]:
        """What clients have of services, in words."""
        return [line for crowd in self._crowds.values() for line in crowd.lines()]

    def shown(self, action: ShowService) -> list[str]:
        """What nodes know of a service, in words."""
        return self._crowds[action.service].shown(action)

    # -- what takes no time

    def _do_if_fair(self, action: Happening, recoveries: int) -> None:
        """Where it does not apply any more, it is left out; also a fault that was planned before all faults ended."""
        is_over = recoveries < self._recoveries and not is_by_client(action)
        if not is_over and self._fairness.allows(action):
            with suppress(NotPossibleError):
                self._happen(action, is_planned=True)

    def _happen(self, action: Happening, *, is_planned: bool = False) -> None:
        match action:
            case ServiceAction():
                _check_done(self._crowds[action.service].do(action))
            case ToNode(node=node):
                self._deed(self._fleet.hosts[node], action)
            case StartNode():
                self._start(action)
            case SetClock() | Move() | Rot() | RotSome():
                self._to_machine(action)
            case Split() | CutWay() | Divert() | Foreign() | Lie():
                self._between(action)
            case Write() | Fill() | Swap() | Decide() | DecideAny():
                _check_done(self._workload.do(self._running(action.node), action, spares_disk=is_planned))
            case Retire():
                self._retire(action)
            case TellAll():
                self._tell_all(action)
            case _:
                assert_never(action)

    def _start(self, action: StartNode) -> None:
        host = self._fleet.hosts[action.node]
        if host.process is not None:
            raise NotPossibleError(f"{host.name} runs already")
        host.node = NodeName(action.named or action.node)
        if host.disk.is_empty:
            self._strangers.empty_node_comes()
        told = {**self._core, **action.settings}
        is_up = host.name not in self._agents_down and not told.get("alone", False)
        self._fleet.start(host.name, init=action.init, up=is_up, **told)

    def _deed(self, host: Host, action: ToNode) -> None:
        self._check(host, action.deed)
        self._tell(action)
        fleet, name = self._fleet, host.name
        match action.deed:
            case Deed.STOP:
                fleet.end(host)
            case Deed.CRASH:
                fleet.lose_power(host)
            case Deed.WIPE | Deed.BURN:
                self._lose_disk(host, is_copied=action.deed is Deed.WIPE)
            case Deed.BACKUP:
                self._copies[name] = host.disk.copy()
            case Deed.ROLL_BACK:
                self._workload.disk_is_lost(name)
                self._strangers.empty_node_comes()  # what is set back may have to begin anew
                fleet.set_back(name, self._copies[name], is_copied=True)
            case Deed.PAUSE:
                host.pause()
            case Deed.RESUME:
                host.resume()
            case Deed.AGENT_DOWN | Deed.AGENT_UP:
                self._agent(name, is_up=action.deed is Deed.AGENT_UP)
            case Deed.DISK_SHORT:
                host.disk.fill()
            case Deed.DISK_FULL:
                self._fill_disk(host)
            case Deed.DISK_FREE:
                host.disk.make_space()
            case Deed.ISOLATE:
                fleet.network.isolate(name, fleet.hosts)
            case Deed.REJOIN:
                fleet.network.rejoin(name)
            case Deed.NAMESAKE:
                self._strangers.start_namesake(host)
            case Deed.NAMESAKE_GONE:
                self._strangers.end_namesake(host)
            case Deed.OWN_ADDRESS:
                self._strangers.move(host, host.own_addr)
            case Deed.HALF_OPEN:
                self._running(name).forget_connections()
            case Deed.STALL | Deed.FLOW:
                self._running(name).edges.is_stalled = action.deed is Deed.STALL
            case _:
                assert_never(action.deed)

    def _check(self, host: Host, deed: Deed) -> None:
        if deed is Deed.ROLL_BACK and host.name not in self._copies:
            raise NotPossibleError(f"{host.name} has no backup")
        if deed is Deed.NAMESAKE and not self._strangers.may_have_namesake(host):
            raise NotPossibleError(f"{host.name} has no data, or a namesake already")
        if deed is Deed.NAMESAKE_GONE and namesake_of(host.name) not in self._fleet.hosts:
            raise NotPossibleError(f"{host.name} has no namesake")
        if deed in (Deed.OWN_ADDRESS, Deed.HALF_OPEN, Deed.STALL, Deed.FLOW):
            self._running(host.name)

    def _lose_disk(self, host: Host, *, is_copied: bool) -> None:
        self._workload.disk_is_lost(host.name)
        if not is_copied:  # what was on it only, nobody remembers: an older copy would use its ticks again, unnoticed
            self._copies.pop(host.name, None)
        self._fleet.wipe(host.name, is_copied=is_copied)

    def _agent(self, name: str, *, is_up: bool) -> None:
        (self._agents_down.discard if is_up else self._agents_down.add)(name)
        if self._fleet.hosts[name].process is not None:
            self._fleet.transport(name, up=is_up)

    def _fill_disk(self, host: Host) -> None:
        """The room that the log has set aside is used up, too, by records that say nothing."""
        host.disk.fill()
        process = host.process
        while process is not None and host.disk.has_room(0):
            host.disk.append([KnownRecord({})] * 100)
            self._fleet.commit(process)

    def _to_machine(self, action: SetClock | Move | Rot | RotSome) -> None:
        fleet = self._fleet
        match action:
            case SetClock(node=node, rate=rate, jump_s=jump_s):
                self._tell(action)
                host = fleet.hosts[node]
                host.clock.wall_off_s += jump_s
                if rate is not None:
                    host.clock.drift(rate, fleet.now_ms)
                    if host.process is not None:
                        host.process.replan()
            case Move(node=node, other=other):
                self._running(node)
                self._tell(action)
                self._strangers.move(fleet.hosts[node], fleet.hosts[other].addr)
            case Rot(node=node, path=path):
                self._tell(action)
                if not fleet.rot(node, lambda paths: [path] if path in paths else []):
                    raise NotPossibleError(f"{node} has nothing at {path} that may rot, or rotted before")
            case RotSome():
                self._tell(action)
                self._rot_some(action)
            case _:
                assert_never(action)

    def _rot_some(self, action: RotSome) -> None:
        """Of two disks each keeps what rots on the other one, unless a third one holds all that is on both."""
        first, *others = (self._fleet.hosts[node] for node in action.nodes)
        held = [host.live.tree.ledger.held() for host in (first, *others)]
        thirds = [third.live.tree.ledger.held() for third in self._fleet.ours()
                  if third not in (first, *others) and self._fairness.is_good(third)]  # fmt: skip
        has_third = any(all(is_within(mine, theirs) for mine in held) for theirs in thirds)
        paths = [entry.head.path for entry in first.live.tree.entries()]
        self._rot(first, action.count, ())
        if first.disk.rotten is None:
            return
        kept = set(first.disk.rotten.paths)
        for other in others:
            self._rot(other, action.count, () if has_third else [path for path in paths if path not in kept])

    def _rot(self, host: Host, count: int, spared: Sequence[Path]) -> None:
        self._workload.disk_is_lost(host.name)
        self._strangers.empty_node_comes()  # it may have to begin anew

        def choose(paths: Sequence[Path]) -> Sequence[Path]:
            may = [path for path in paths if path not in spared]
            return self._fleet.rng.sample(may, min(count, len(may)))

        self._fleet.rot(host.name, choose)

    def _between(self, action: Split | CutWay | Divert | Foreign | Lie) -> None:
        network = self._fleet.network
        match action:
            case Split(sides=()):
                self._tell(action)
                self._fleet.heal()
            case Split(sides=sides):
                self._tell(action)
                self._fleet.partition(*sides)
            case CutWay(sender=sender, receiver=receiver):
                self._tell(action)
                network.cut.add((sender, receiver))
            case Divert(diversion=diversion):
                self._tell(action)
                if diversion is None:
                    network.diversions.clear()
                else:
                    network.diversions.append(diversion.fresh())
            case Foreign(is_there=is_there):
                if not (self._strangers.come() if is_there else self._strangers.go()):
                    raise NotPossibleError("no other network can come, or go, now")
                self._tell(action)
            case Lie(node=node, what=what):
                self._running(node)
                self._tell(action)
                self._strangers.lie(self._fleet.hosts[node], what)
            case _:
                assert_never(action)

    def _retire(self, action: Retire) -> None:
        other, request = NodeName(action.other), RetireNode(NodeName(action.other), action.is_forced)
        if action.node:
            process = self._running(action.node)
            process.host.give(process, partial(process.step, request))
            return
        for host in self._fleet.ours():
            asked = host.process
            if asked is not None and host.node != other and not host.is_paused and host.live.is_serving:
                if isinstance(asked.step(request).reply, Retired):
                    self._tell(action)
                return

    def _tell_all(self, action: TellAll) -> None:
        process = self._running(action.node)
        if process.replica.server_tree is None or not process.replica.is_serving:
            raise NotPossibleError(f"{action.node} is in no server tree: say 'settings trees=yes' first")
        self._tell(action)
        for _ in range(action.times):
            say(process, action.text.encode())

    # -- what there is

    def _make(self, action: Agents | Disturb | Disks) -> None:
        fleet = self._fleet
        match action:
            case Agents(nodes=nodes):
                for name in nodes:
                    agent = fleet.hosts[name].agent
                    agent.stream_events, agent.doubts_ms = action.stream_events, action.doubts_ms
                    if action.packets_per_s is not None:
                        agent.limit(action.packets_per_s, len(nodes))
            case Disturb(faults=faults):
                fleet.network.faults = faults
            case Disks(commit_ms=commit_ms, stalls=stalls):
                fleet.commit_ms, fleet.stalls = commit_ms, stalls
            case _:
                assert_never(action)

    @property
    def _clock_ms(self) -> int:
        return int(self._core.get("clock_ms", 5000))

    # -- time

    def _pass(self, action: PassTime | Settle | WaitState | Recover) -> None:
        fleet = self._fleet
        match action:
            case PassTime(for_ms=for_ms):
                fleet.run(for_ms)
            case WaitState(node=node, state=state, within_ms=within_ms):
                host = fleet.hosts[node]
                is_there = lambda: host.process is not None and host.live.state == state  # noqa: E731
                until(fleet, is_there, within_ms, f"{node} is not {state}")
            case Settle(within_ms=within_ms):
                check_somebody_runs(fleet)
                if not fleet.run_until(lambda: is_at_rest(fleet), within_ms):
                    raise not_at_rest(fleet, within_ms)
            case Recover(within_ms=within_ms):
                self._recover(within_ms)
            case _:
                assert_never(action)

    def _recover(self, within_ms: int) -> None:
        fleet = self._fleet
        self._check_fatal()
        self._end_faults()
        is_resting = fleet.run_until(lambda: is_at_rest(fleet), within_ms)
        have_waited = [crowd.all_is_well() for crowd in self._crowds.values()]
        if any(have_waited):
            is_resting = fleet.run_until(lambda: is_at_rest(fleet), within_ms)
        if is_resting and speak_last(fleet):
            is_resting = fleet.run_until(lambda: is_at_rest(fleet), within_ms)
        self._check_fatal()
        if not is_resting:
            raise not_at_rest(fleet, within_ms)
        for tell in fleet.observers.settled:
            tell(fleet)

    def _end_faults(self) -> None:
        """Every fault ends, and who does not run starts."""
        fleet = self._fleet
        self._recoveries += 1
        fleet.befell("", "all faults end")
        fleet.heal()
        fleet.network.diversions.clear()
        fleet.network.faults = NetworkFaults(silence_ms=fleet.network.faults.silence_ms)
        fleet.commit_ms = (0, 0)
        self._agents_down.clear()
        self._strangers.all_is_well()
        for host in fleet.hosts.values():
            host.disk.make_space()
            host.resume()
            if host.process is None:
                self._start(StartNode(host.name, named=host.node))
            if not host.agent.is_up:
                fleet.transport(host.name, up=True)

    def _check_fatal(self) -> None:
        for host in self._fleet.hosts.values():
            is_doubled = not host.is_ours or self._strangers.is_doubled(host)
            if isinstance(host.fatal, DuplicateNameError) and is_doubled:
                continue  # of two servers with one name the one that started later ends (NAME-1, NAME-2)
            if host.fatal is not None:
                raise BrokenRuleError("no server ends by itself", f"{host.name}: {host.fatal}")

    def _running(self, name: str) -> Process:
        process = self._fleet.hosts[name].process
        if process is None:
            raise NotPossibleError(f"{name} does not run")
        return process

    def _tell(self, action: Happening) -> None:
        """Observers hear what befalls a node, or in the words of a scenario file what befalls the ways between all."""
        self._fleet.befell(*words_for(action))


def _check_done(why_not: str) -> None:
    if why_not:
        raise NotPossibleError(why_not)
