"""Hosts: pauses, crashes, agents, full disks, and the order in which things leave.

Knows: `distkv.sim.fleet` and what it is made of.
"""

from __future__ import annotations

from distkv.core.client_writes import LocalSet, WriteDone
from distkv.core.ready import Ask, Input, Ready
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.rules.alike import is_at_rest
from distkv.wire.message import Message, Update
from distkv.wire.value_requests import SetValue


class _Ear(Observer):
    """Keeps the updates that left, and counts steps."""

    def __init__(self) -> None:
        self.updates: list[tuple[int, str]] = []
        self.steps: list[str] = []

    def left(self, process: Process, message: Message | Ask) -> None:
        if isinstance(message, Update):
            self.updates.append((process.now_ms, process.host.name))

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        self.steps.append(process.host.name)


def _fleet(*names: str, observer: Observer | None = None, faults: NetworkFaults | None = None) -> Fleet:
    fleet = Fleet(observers=[] if observer is None else [observer])
    fleet.start(names[0], init="root")
    for name in names[1:]:
        fleet.start(name)
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)
    fleet.network.faults = faults or fleet.network.faults
    return fleet


def _set(fleet: Fleet, name: str, path: str = "x") -> None:
    assert isinstance(fleet.step(name, LocalSet(SetValue(1, Path([path]), b"\x01"))).reply, WriteDone)


def _has(fleet: Fleet, name: str, path: str = "x") -> bool:
    return fleet.hosts[name].live.tree.get(Path([path])) is not None


def test_update_leaves_when_its_commit_has_landed() -> None:
    ear = _Ear()
    fleet = _fleet("n0", observer=ear)
    fleet.commit_ms = (50, 50)
    ear.updates.clear()
    began_ms = fleet.now_ms
    _set(fleet, "n0")
    fleet.run(200)
    assert ear.updates == [(began_ms + 50, "n0")]


def test_client_is_answered_when_its_commit_has_landed() -> None:
    fleet = _fleet("n0")
    fleet.commit_ms = (50, 50)
    process, told = fleet.hosts["n0"].process, []
    assert process is not None
    _set(fleet, "n0")
    process.when_durable(lambda: told.append(fleet.now_ms))
    before = list(told)
    fleet.run(200)
    assert (before, len(told)) == ([], 1)


def test_write_whose_commit_had_not_landed_is_gone_with_the_power_or_there_whole() -> None:
    found = set()
    for seed in range(12):
        fleet = Fleet(seed)
        fleet.start("n0", init="root")
        fleet.run(6000)
        fleet.commit_ms = (50, 50)
        _set(fleet, "n0")
        fleet.lose_power(fleet.hosts["n0"])
        fleet.start("n0", alone=True, up=False)
        found.add(_has(fleet, "n0"))
    assert found == {True, False}


def test_paused_process_takes_no_step_and_then_all() -> None:
    ear = _Ear()
    fleet = _fleet("n0", "n1", observer=ear)
    fleet.hosts["n1"].pause()
    ear.steps.clear()
    _set(fleet, "n0")
    fleet.run(10_000)
    before = "n1" in ear.steps, _has(fleet, "n1")
    fleet.hosts["n1"].resume()
    assert (before, _has(fleet, "n1")) == ((False, False), True)


def test_stream_of_a_paused_process_runs_over_and_what_is_lost_is_fetched() -> None:
    fleet = _fleet("n0", "n1")
    fleet.hosts["n1"].agent.stream_events = 3
    fleet.hosts["n1"].pause()
    for number in range(10):
        _set(fleet, "n0", f"x{number}")
    fleet.run(1000)
    fleet.hosts["n1"].resume()
    assert fleet.notes["gossip_lost"] >= 7
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)


def test_process_that_is_killed_does_nothing_more() -> None:
    ear = _Ear()
    fleet = _fleet("n0", "n1", observer=ear)
    fleet.end(fleet.hosts["n1"])
    ear.steps.clear()
    fleet.run(60_000)
    assert "n1" not in ear.steps


def test_full_disk_drops_updates_and_fetches_them_when_there_is_space() -> None:
    fleet = _fleet("n0", "n1")
    disk = fleet.hosts["n1"].disk
    disk.fill()
    for number in range(3000):
        _set(fleet, "n0", f"x{number}")
        fleet.run(1)
    fleet.run(1000)
    assert fleet.notes["dropped_no_space"] > 0
    disk.make_space()
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)


def test_agent_with_a_budget_announces_what_it_does_not_send() -> None:
    ear = _Ear()
    fleet = _fleet("n0", "n1", observer=ear)
    fleet.hosts["n0"].agent.limit(1.0, 2)
    for number in range(400):
        _set(fleet, "n0", f"x{number}")
        fleet.run(10)
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)


def test_peer_that_falls_silent_is_given_up_after_a_while() -> None:
    fleet = _fleet("n0", "n1", faults=NetworkFaults(silence_ms=10_000))
    fleet.notes.clear()
    fleet.hosts["n0"].pause()
    fleet.end(fleet.hosts["n1"])
    fleet.start("n1")
    fleet.run(9_000)
    before = fleet.notes["peer_failed"]
    fleet.run(6_000)
    assert (before, fleet.notes["peer_failed"] > 0) == (0, True)


def test_peer_that_dies_in_the_midst_of_an_answer_is_noticed_at_once() -> None:
    fleet = _fleet("n0", "n1")
    fleet.end(fleet.hosts["n1"])
    fleet.hosts["n1"].disk.wipe()
    for number in range(1000):
        _set(fleet, "n0", f"x{number}")
    fleet.network.faults = NetworkFaults(answer_ms=(500, 500), silence_ms=60_000)
    fleet.start("n1")
    assert fleet.run_until(lambda: len(fleet.hosts["n1"].live.tree) > 200, 20_000)
    fleet.end(fleet.hosts["n0"])
    fleet.run(2_000)
    assert fleet.notes["peer_failed"] > 0
