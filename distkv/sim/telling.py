"""What services of nodes tell each other, on its way from one host to another.

Knows: who listens at an address, and what becomes of a message.  Does not know what is told, nor why.

A server sends such messages on one kept connection for each peer, and keeps their order. Here they overtake each other,
come twice, or get lost one by one: a service must bear all of that, because a connection may break between any two.

Invariant: what is told arrives as it was said, while the way is open at that time, or not at all; nobody hears of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from distkv.core.ready import Input, NodeTold, ServiceTell
from distkv.services.parts import is_foreign
from distkv.sim.agenda import Agenda
from distkv.sim.host import Host, Process
from distkv.sim.network import Network


class Ways(Protocol):
    """What lies between two nodes."""

    @property
    def agenda(self) -> Agenda: ...
    @property
    def network(self) -> Network: ...
    @property
    def notes(self) -> Counter[str]: ...

    def at_address(self, addr: str) -> Host | None:
        """The host that listens there."""

    def delivered(self, host: Host, what: Input) -> None:
        """Something is about to be handed to a process."""


def tell_services(ways: Ways, process: Process, tells: Sequence[ServiceTell]) -> None:
    """Tell other nodes what a service wants told, each by itself."""
    replica = process.replica
    for tell in tells:
        registered = replica.registry.nodes.get(tell.name)
        host = ways.at_address(registered.addr) if registered is not None and registered.addr else None
        if host is None or tell.name == replica.name:
            ways.notes["tell_unknown"] += 1
            continue
        told = NodeTold(replica.name, replica.life or 0, tell.service, tell.body)
        for delay_ms in ways.network.told(process.host.name, host.name):
            ways.agenda.later(delay_ms, partial(_arrive, ways, process.host, replica.network_id, host, told))


def _arrive(ways: Ways, sender: Host, network: bytes | None, host: Host, told: NodeTold) -> None:
    process = host.process
    if process is not None and ways.network.connects(sender.name, host.name):
        host.give(process, partial(_take, ways, network, process, told))


def _take(ways: Ways, network: bytes | None, process: Process, told: NodeTold) -> None:
    if is_foreign(network, process.replica):
        ways.notes["tell_foreign"] += 1
    elif process.host.disk.has_room(len(told.body)):
        ways.delivered(process.host, told)
        process.step(told)
