"""Carries the actions of a scenario out on a fleet.

Knows: what each verb does, and when it does not apply.  Does not know when, nor what is right.

Invariant: an action that does not apply changes nothing; `all_is_well` ends every fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from distkv.core.ready import Retired, RetireNode
from distkv.model.path import Path
from distkv.model.tick_ranges import is_within
from distkv.sim.clock import HostClock
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.network import NetworkFaults
from distkv.sim.scenario import WRITES, Action, Scenario, Verb
from distkv.sim.strangers import Strangers
from distkv.sim.workload import OWNER, Workload
from distkv.storage.memory import MemoryDisk


class Stage:
    """One fleet, and what happens to it."""

    def __init__(self, fleet: Fleet, scenario: Scenario) -> None:
        self._fleet = fleet
        self._scenario = scenario
        self._workload = Workload(fleet, scenario)
        self._copies: dict[str, MemoryDisk] = {}
        self._settings: dict[str, Any] = {
            "chain_length_max": scenario.chain_length,
            "pull_events_max": scenario.pull_events,
            "delete_retention_ms": scenario.delete_retention_ms,
        }
        self._strangers = Strangers(fleet, self._settings)
        for name, rate, off_s in zip(scenario.names, scenario.rates, scenario.wall_off_s, strict=True):
            agent = fleet.host(name, clock=HostClock(rate, off_s)).agent
            agent.stream_events, agent.doubts_ms = scenario.stream_events, scenario.doubts_ms
            if scenario.packets_per_s is not None:
                agent.limit(scenario.packets_per_s, scenario.host_count)

    def grow(self) -> None:
        """Start the hosts that are there from the beginning; the first founds the network."""
        names = self._scenario.names
        self._fleet.start(names[0], init="root", **self._settings)
        for number, name in enumerate(names[1 : len(names) - self._scenario.late_count], 1):
            self._fleet.later(700 * number, partial(self._start, self._fleet.hosts[name]))

    def do(self, action: Action) -> bool:
        """Carry out one action; False when it does not apply."""
        host = self._fleet.hosts[self._scenario.names[action.host]]
        is_done = self._do(host, action)
        if is_done and action.verb not in WRITES and action.verb is not Verb.START:  # a start shows itself
            self._tell(*self._words(host.name, action))
        return is_done

    def _do(self, host: Host, action: Action) -> bool:
        process = host.process
        if action.verb in WRITES:
            if process is None or host.is_paused:
                return False
            self._workload.do(process, action)
            return True
        if self._strangers.do(host, action):
            return True
        if process is None:
            return self._to_stopped(host, action)
        return self._to_network(host, action) or self._to_machine(host, action)

    def all_is_well(self) -> None:
        """Every fault ends, and who does not run starts."""
        fleet = self._fleet
        self._tell("", "all faults end")
        fleet.heal()
        fleet.network.faults = NetworkFaults(silence_ms=fleet.network.faults.silence_ms)
        fleet.commit_ms = (0, 0)
        self._strangers.all_is_well()
        for host in fleet.hosts.values():
            host.disk.make_space()
            host.resume()
            self._start(host)
            if not host.agent.is_up:
                fleet.transport(host.name, up=True)

    def _tell(self, name: str, what: str) -> None:
        for tell in self._fleet.told.befell:
            tell(self._fleet.now_ms, name, what)

    def _words(self, name: str, action: Action) -> tuple[str, str]:
        """Whom it befell, nobody where it is about the ways between all, and what; these as scenario files say it."""
        match action.verb:
            case Verb.PARTITION:
                return "", "split " + " | ".join(map(" ".join, self._sides(name, action)))
            case Verb.CUT:
                return "", f"cut {name} > {self._other(name, action)}"
            case Verb.HEAL:
                return "", "heal"
        return name, action.verb

    # -- verbs

    def _start(self, host: Host) -> None:
        if host.process is None:
            if host.disk.is_empty:
                self._strangers.empty_node_comes()
            self._fleet.start(host.name, **self._settings)

    def _to_stopped(self, host: Host, action: Action) -> bool:
        match action.verb:
            case Verb.START:
                self._start(host)
                return True
            case Verb.MAKE_SPACE:
                host.disk.make_space()
                return True
            case Verb.HEAL | Verb.SWIZZLE_IN:
                return self._to_network(host, action)
        return False

    def _to_network(self, host: Host, action: Action) -> bool:
        fleet, network, name = self._fleet, self._fleet.network, host.name
        others = self._others_than(name)
        match action.verb:
            case Verb.PARTITION:
                fleet.partition(*self._sides(name, action))
            case Verb.CUT:
                network.cut.add((name, self._other(name, action)))
            case Verb.SWIZZLE_OUT:
                network.cut |= {way for other in others for way in ((name, other), (other, name))}
            case Verb.SWIZZLE_IN:
                network.cut -= {way for other in others for way in ((name, other), (other, name))}
            case Verb.HEAL:
                fleet.heal()
            case Verb.AGENT_DOWN:
                fleet.transport(name, up=False)
            case Verb.AGENT_UP:
                fleet.transport(name, up=True)
            case _:
                return False
        return True

    def _others_than(self, name: str) -> list[str]:
        return [other for other in self._scenario.names if other != name]

    def _other(self, name: str, action: Action) -> str:
        others = self._others_than(name)
        return others[action.number % len(others)]

    def _sides(self, name: str, action: Action) -> tuple[list[str], list[str]]:
        others = self._others_than(name)
        side = [name] + [other for n, other in enumerate(others) if action.number >> n & 1]
        return side, [other for other in others if other not in side]

    def _to_machine(self, host: Host, action: Action) -> bool:
        fleet = self._fleet
        match action.verb:
            case Verb.PAUSE:
                host.pause()
            case Verb.RESUME:
                host.resume()
            case Verb.KILL:
                fleet.end(host)
            case Verb.POWER:
                fleet.lose_power(host)
            case Verb.WIPE | Verb.BURN if host.addr in {other.addr for other in self._others(host)}:
                return False  # who comes back elsewhere, and empty, at once is taken for another one, and ends
            case Verb.WIPE if self._has_copy(host):
                self._lose_disk(host, is_copied=True)
            case Verb.BURN if any(other.live.is_serving for other in self._others(host)):
                self._lose_disk(host, is_copied=False)
            case Verb.COPY if host.live.is_serving and host.disk.rotten is None:
                self._copies[host.name] = host.disk.copy()
            case Verb.ROLL_BACK:
                return self._roll_back(host)
            case Verb.ROT if self._has_copy(host):
                return self._rot(host, action.number % 3 + 1)
            case Verb.ROT_TWO:
                return self._rot_two(host, action.number % 3 + 1)
            case Verb.RETIRE:
                return self._retire(host, is_running=action.number % 2 == 1)
            case Verb.FILL:
                host.disk.fill()
            case Verb.MAKE_SPACE:
                host.disk.make_space()
            case Verb.DRIFT:
                host.clock.drift(0.95 + action.number % 101 / 1000, fleet.now_ms)
                if host.process is not None:
                    host.process.replan()
            case Verb.WALL_JUMP:
                host.clock.wall_off_s += action.number % 7201 - 3600
            case _:
                return False
        return True

    def _lose_disk(self, host: Host, *, is_copied: bool) -> None:
        self._workload.ring_is_over |= host.name == OWNER
        if not is_copied:  # what was on it only, nobody remembers: an older copy would use its ticks again, unnoticed
            self._copies.pop(host.name, None)
        self._fleet.wipe(host.name, is_copied=is_copied)

    def _roll_back(self, host: Host) -> bool:
        copy = self._copies.pop(host.name, None)
        if copy is None or not self._has_copy(host):
            return False
        self._workload.ring_is_over |= host.name == OWNER
        self._strangers.empty_node_comes()  # what is set back may have to begin anew
        self._fleet.set_back(host.name, copy, is_copied=True)
        return True

    def _rot(self, host: Host, count: int, spared: Sequence[Path] = ()) -> bool:
        self._workload.ring_is_over |= host.name == OWNER
        self._strangers.empty_node_comes()  # it may have to begin anew

        def choose(paths: Sequence[Path]) -> Sequence[Path]:
            may = [path for path in paths if path not in spared]
            return self._fleet.rng.sample(may, min(count, len(may)))

        return self._fleet.rot(host.name, choose)

    def _rot_two(self, host: Host, count: int) -> bool:
        """Two disks rot at once; a third one holds what was on both, or each of them holds what rots on the other."""
        names = self._scenario.names
        other = self._fleet.hosts[names[(names.index(host.name) + 1) % len(names)]]
        if other.process is None or other.is_paused or not (self._has_copy(host) and self._has_copy(other)):
            return False
        mine, theirs = (one.live.tree.ledger.held() for one in (host, other))
        thirds = [third.live.tree.ledger.held() for third in self._others(host)
                  if third is not other and self._is_good(third)]  # fmt: skip
        is_held = any(is_within(mine, held) and is_within(theirs, held) for held in thirds)
        paths = [entry.head.path for entry in host.live.tree.entries()]
        if not self._rot(host, count) or host.disk.rotten is None:
            return False
        kept = set(host.disk.rotten.paths)
        return self._rot(other, count, () if is_held else [path for path in paths if path not in kept])

    def _retire(self, host: Host, *, is_running: bool) -> bool:
        """`is_running`: whoever says so is wrong."""
        for other in self._others(host):
            if other.process is not None and not other.is_paused and other.live.is_serving:
                if not is_running:
                    self._fleet.end(host)
                return isinstance(other.process.step(RetireNode(host.node, force=True)).reply, Retired)
        return False

    # -- whether a disk may go

    def _others(self, host: Host) -> list[Host]:
        return [other for other in self._fleet.ours() if other is not host]

    def _has_copy(self, host: Host) -> bool:
        """Whether another disk holds all that this one does, durably.

        Who is known at another address is left alone: empty, it would be refused for somebody else (NAME-2).
        """
        for other in self._fleet.ours():
            mine_there = other.live.registry.nodes.get(host.node)
            if mine_there is not None and mine_there.addr != host.own_addr:
                return False
        mine = host.live.tree.ledger.held()
        good = [other for other in self._others(host) if self._is_good(other)]
        return any(is_within(mine, other.live.tree.ledger.held()) for other in good)

    @staticmethod
    def _is_good(host: Host) -> bool:
        """Whether it serves, and all that it holds is durable."""
        return host.live.is_serving and host.disk.is_idle
