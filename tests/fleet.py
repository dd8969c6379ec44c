"""The simulator's fleet, with what tests like to say in one line.

Knows: how tests name paths, values and nodes.  The fleet itself, its time, network and disks, is `distkv.sim.fleet`.

Invariant: after every step no tick has two contents, `ready` is not left, and no replica asks to be woken again and
again; a crash changes nothing of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.core.client_writes import LocalSet
from distkv.core.ready import Ask, HeardMessage, PeerAnswered, Ready
from distkv.core.replica import Replica
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.clock import WALL
from distkv.sim.fleet import Fleet as SimulatedFleet
from distkv.sim.host import Host, Process
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import Observer
from distkv.sim.rules import always
from distkv.sim.rules.alike import are_alike
from distkv.sim.rules.contents import OneContent
from distkv.wire.message import Header, Info, Message, Ping, Record, TickMaps
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

__all__ = ["WALL", "Fleet", "NetworkFaults", "downloading", "grown", "meet_namesake"]


class _Ear(Observer):
    """Writes down what leaves."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str, Message]] = []
        self.asked: list[tuple[int, str, Ask]] = []

    def left(self, process: Process, message: Message | Ask) -> None:
        if isinstance(message, Ask):
            self.asked.append((process.now_ms, process.host.name, message))
        else:
            self.sent.append((process.now_ms, process.host.name, message))


class Fleet(SimulatedFleet):
    """All nodes and what is between them."""

    def __init__(
        self,
        seed: int = 0,
        faults: NetworkFaults | None = None,
        *,
        members_seen: bool = True,
        observers: Sequence[Observer] = (),
    ) -> None:
        ear = _Ear()
        every = [*always(), OneContent(), ear, *observers]
        super().__init__(seed, faults, members_seen=members_seen, observers=every)
        self.sent, self.asked = ear.sent, ear.asked

    def __getitem__(self, name: str) -> Replica:
        return self.hosts[name].live

    @property
    def members(self) -> dict[str, Host]:
        return self.hosts

    @property
    def faults(self) -> NetworkFaults:
        return self.network.faults

    @faults.setter
    def faults(self, faults: NetworkFaults) -> None:
        self.network.faults = faults

    def crash(self, name: str) -> None:
        """End the process, and its agent."""
        self.end(self.hosts[name])
        self.hosts[name].agent.is_up = False

    def wipe(self, name: str, *, is_copied: bool = False) -> None:
        self.crash(name)
        super().wipe(name, is_copied=is_copied)

    def records(self, name: str) -> list[Record]:
        """What is on the disk of a node."""
        return self.hosts[name].disk.read()

    def set_back(self, name: str, records: list[Record]) -> None:
        """Put this on the disk of a node that does not run, in place of what is there."""
        self.wipe(name)
        disk = self.hosts[name].disk
        disk.open()
        disk.append(records)
        disk.take_off()
        disk.land()
        disk.kill(self.rng)

    def set(self, name: str, path: str, value: object) -> Ready:
        raw = None if value is None else pack_value(value)
        return self.step(name, LocalSet(SetValue(1, Path(path.split(".")), raw)))

    def all_ready(self) -> bool:
        return all(host.live.is_serving for host in self.running())

    def is_converged(self) -> bool:
        """Every running node is ready, misses nothing but what is lost, and holds the same."""
        return are_alike([host.live for host in self.running()])

    def pings(self, *, since_ms: int = 0) -> list[tuple[int, str, Ping]]:
        """The pings of nodes with data."""
        return [
            (at, name, m)
            for at, name, m in self.sent
            if at >= since_ms and isinstance(m, Ping) and m.chain[0].tick is not None
        ]


def meet_namesake(fleet: Fleet, name: str, header: Header) -> Ready:
    """Gossip says that `name` is at another address too; asked there, somebody answers with `header`."""
    told = fleet.step(name, HeardMessage(Info(header, "other:1", State.READY)))
    (ask,) = [message for message in told.messages if isinstance(message, Ask)]
    return fleet.step(name, PeerAnswered(ask.id, TickMaps(header, ask.addr, State.READY, {}, {}, {}, 0)))


def grown(*names: str, seed: int = 0, faults: NetworkFaults | None = None, members_seen: bool = True) -> Fleet:
    """A fleet whose nodes are all ready and hold the same; the first founded the network."""
    fleet = Fleet(seed, members_seen=members_seen)
    fleet.start(names[0], init="root")
    fleet.run(5100)
    for name in names[1:]:
        fleet.start(name)
    assert fleet.run_until(fleet.is_converged, 20_000), "the fleet does not come up"
    fleet.faults = faults or fleet.faults
    return fleet


def downloading(*names: str, count: int = 1000, part_ms: tuple[int, int] = (100, 100)) -> Fleet:
    """The same, while one more node, `new`, downloads so many values, each part of which takes so long."""
    fleet = grown(*names)
    for number in range(count):
        fleet.set(names[0], f"x.{number}", number)
    fleet.run(1000)
    fleet.faults = NetworkFaults(answer_ms=part_ms)
    fleet.start("new")
    assert fleet.run_until(lambda: fleet["new"].state is State.DOWNLOADING, 10_000), "the download does not begin"
    return fleet
