"""Whoever else is on the agents: a second server of one name, another network, lies, an address that is given twice.

Knows: how each of them comes and goes.  Does not know when, nor what must become of the fleet: that nothing does.

Invariant: what comes goes: after `all_is_well` only the fleet's own hosts are there, each with its own address.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from distkv.core.client_writes import LocalSet
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.actions import Untruth
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.wire.message import Header, Info, Message, Ping, PingLink, Update
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

FOREIGNER: Final = NodeName("x0")
"""The only node of the other network."""
LIAR: Final = NodeName("liar")
"""No node at all: a name that gossip may carry."""
LIE: Final = pack_value("a lie")
"""What a change says that nobody made."""
LIE_TICKS: Final = 2_000_000
"""Further ahead than honest gossip comes (INFO-2)."""
LIE_TOCKS: Final = 1 << 33
"""The same (TOCK-3)."""


class Strangers:
    """Comes and goes on one fleet."""

    def __init__(self, fleet: Fleet, settings: dict[str, Any]) -> None:
        self._fleet = fleet
        self._settings = settings
        self._is_foreign_over = False
        self._gone = set[str]()
        """Namesakes that went."""

    def may_have_namesake(self, host: Host) -> bool:
        """Whether a second server of this one's name may come: without data it would be refused itself."""
        is_there = namesake_of(host.name) in self._fleet.hosts
        return not is_there and host.process is not None and host.live.life is not None

    def start_namesake(self, host: Host) -> None:
        """Somebody starts a server with an empty directory under a name that is taken, elsewhere."""
        name = namesake_of(host.name)
        self.empty_node_comes()
        self._fleet.host(name, node=host.node)
        self._fleet.start(name, **self._settings)

    def end_namesake(self, host: Host) -> None:
        """The mistake is found: whoever is left of the two, the one that was meant goes on."""
        self._remove(namesake_of(host.name))
        if host.process is None:
            self._fleet.start(host.name, **self._settings)

    def is_doubled(self, host: Host) -> bool:
        """Whether a second server of its name runs, or did so: for some clocks others do not know that it went."""
        return namesake_of(host.name) in self._fleet.hosts or namesake_of(host.name) in self._gone

    def come(self) -> bool:
        """A network that was founded elsewhere, and holds other values at our paths, comes onto our agents; False when
        it must not."""
        fleet = self._fleet
        ours = [host for host in fleet.hosts.values() if host.is_ours]
        if self._is_foreign_over or not all(host.process and host.live.network_id for host in ours):
            return False
        if FOREIGNER in fleet.hosts:
            if fleet.hosts[FOREIGNER].process is None:
                fleet.start(FOREIGNER, **self._settings)
            return True
        commit_ms, fleet.commit_ms = fleet.commit_ms, (0, 0)  # what is founded must be there at the next start
        fleet.host(FOREIGNER, node=FOREIGNER)
        host = fleet.start(FOREIGNER, init="elsewhere", alone=True, up=False, **self._settings)
        for number in range(10):
            fleet.step(host.name, LocalSet(SetValue(1, Path(["p", str(number)]), pack_value("foreign"))))
        fleet.end(host)
        fleet.commit_ms = commit_ms
        fleet.start(FOREIGNER, **self._settings)
        return True

    def go(self) -> bool:
        """It goes; False when it is not there."""
        if FOREIGNER not in self._fleet.hosts:
            return False
        self._fleet.end(self._fleet.hosts[FOREIGNER])
        return True

    def lie(self, host: Host, what: Untruth) -> None:
        """The agent of a running host is told gossip that no honest node sends."""
        self._fleet.tell_all(host, _lie(host, what))

    def move(self, host: Host, addr: str) -> None:
        """End a process, and start it under this address."""
        self._fleet.end(host)
        self._fleet.start(host.name, addr=addr, **self._settings)

    def empty_node_comes(self) -> None:
        """A node without data joins whichever network answers, so no other one may be there."""
        self._is_foreign_over = True
        if FOREIGNER in self._fleet.hosts:
            self._fleet.end(self._fleet.hosts[FOREIGNER])

    def all_is_well(self) -> None:
        for host in list(self._fleet.hosts.values()):
            if not host.is_ours:
                self._remove(host.name)
            elif host.addr != host.own_addr and host.process is not None:
                self.move(host, host.own_addr)
            else:
                host.addr = host.own_addr

    # -- inside

    def _remove(self, name: str) -> bool:
        if name not in self._fleet.hosts:
            return False
        self._fleet.wipe(name, is_copied=True)
        del self._fleet.hosts[name]
        self._gone.add(name)
        return True


def namesake_of(name: str) -> str:
    """The host on which a second server of that name runs."""
    return f"{name}'"


def _lie(host: Host, what: Untruth) -> Message:
    """Gossip that no honest node sends, made from what this one shows. None of it may be believed."""
    replica, start = host.live, host.live.settings.start
    name, life = replica.name, replica.life or 0
    tick, tock = Tick(replica.tick + LIE_TICKS), Tock(replica.tock + LIE_TOCKS)
    network = replica.network_id
    honest = Header(name, replica.tick, replica.tock, life, network, start)
    early, liar = PingLink(LIAR, Tick(3), replica.tock), Header(LIAR, Tick(3), replica.tock, 0, network, start)
    digest, hash = replica.tree.digest, replica.tree.ledger.hash()
    match what:
        case Untruth.UNKNOWN_WRITER:
            return Update(liar, (_lying_event((LIAR, Tick(3)), replica.tock),))
        case Untruth.TICK_AHEAD:
            return Update(honest, (_lying_event((name, tick), replica.tock),))
        case Untruth.BOTH_AHEAD:
            return Update(honest, (_lying_event((name, tick), tock),))
        case Untruth.TOCK_AHEAD:
            return Info(Header(name, replica.tick, tock, life, network, start), replica.settings.addr, State.READY)
        case Untruth.TOLD_TICKS:
            return Info(honest, replica.settings.addr, State.READY, ticks={LIAR: [Tick(3)], name: [tick]})
        case Untruth.UNKNOWN_PING:
            return Ping(liar, (early,), "liar:1", State.READY, digest, hash)
    assert_never(what)


def _lying_event(link: Link, tock: Tock) -> Event:
    return Event(Path(["p", "0"]), Kind.SET, LIE, (link,), tock, 0.0)
