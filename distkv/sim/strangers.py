"""Whoever else is on the agents: a second server of one name, another network, lies, an address that is given twice.

Knows: how each of them comes and goes.  Does not know when, nor what must become of the fleet: that nothing does.

Invariant: what comes goes: after `all_is_well` only the fleet's own hosts are there, each with its own address.
"""

from __future__ import annotations

from typing import Any, Final

from distkv.core.ready import LocalSet
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.scenario import Action, Verb
from distkv.wire.message import Header, Info, Message, Ping, PingLink, State, Update
from distkv.wire.request import SetValue
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
LIES: Final = 6


class Strangers:
    """Comes and goes on one fleet."""

    def __init__(self, fleet: Fleet, settings: dict[str, Any]) -> None:
        self._fleet = fleet
        self._settings = settings
        self._is_foreign_over = False

    def do(self, host: Host, action: Action) -> bool:
        """Carry out an action of theirs; False when it is none, or does not apply."""
        match action.verb:
            case Verb.NAMESAKE:
                return self._start_namesake(host)
            case Verb.NAMESAKE_GONE:
                return self._end_namesake(host)
            case Verb.FOREIGN:
                return self._start_foreigner()
            case Verb.FOREIGN_GONE if FOREIGNER in self._fleet.hosts:
                self._fleet.end(self._fleet.hosts[FOREIGNER])
                return True
            case Verb.LIE if host.process is not None:
                self._fleet.tell_all(host, _lie(host, action.number))
                return True
            case Verb.SAME_ADDRESS if host.process is not None and host.live.life is not None:
                others = [other for other in self._fleet.ours() if other is not host]
                if others:
                    self._move(host, others[action.number % len(others)].addr)
                return bool(others)
            case Verb.OWN_ADDRESS if host.process is not None:
                self._move(host, host.own_addr)
                return True
        return False

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
                self._move(host, host.own_addr)
            else:
                host.addr = host.own_addr

    # -- inside

    def _start_namesake(self, host: Host) -> bool:
        """Somebody starts a server with an empty directory under a name that is taken, elsewhere."""
        name = namesake_of(host.name)
        if name in self._fleet.hosts or host.process is None or host.live.life is None:
            return False  # without data the one that was meant would be refused for this one
        self.empty_node_comes()
        self._fleet.host(name, node=host.node)
        self._fleet.start(name, **self._settings)
        return True

    def _end_namesake(self, host: Host) -> bool:
        """The mistake is found: whoever is left of the two, the one that was meant goes on."""
        is_gone = self._remove(namesake_of(host.name))
        if is_gone and host.process is None:
            self._fleet.start(host.name, **self._settings)
        return is_gone

    def _start_foreigner(self) -> bool:
        """A network that was founded elsewhere, and holds other values at our paths, comes onto our agents."""
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

    def _remove(self, name: str) -> bool:
        if name not in self._fleet.hosts:
            return False
        self._fleet.wipe(name, is_copied=True)
        del self._fleet.hosts[name]
        return True

    def _move(self, host: Host, addr: str) -> None:
        """Start again under this address."""
        self._fleet.end(host)
        self._fleet.start(host.name, addr=addr, **self._settings)


def namesake_of(name: str) -> str:
    """The host on which a second server of that name runs."""
    return f"{name}'"


def _lie(host: Host, number: int) -> Message:
    """Gossip that no honest node sends, made from what this one shows. None of it may be believed."""
    replica, start = host.live, host.live.settings.start
    name, life = replica.name, replica.life or 0
    tick, tock = Tick(replica.tick + LIE_TICKS), Tock(replica.tock + LIE_TOCKS)
    network = replica.network_id
    honest = Header(name, replica.tick, replica.tock, life, network, start)
    early, liar = PingLink(LIAR, Tick(3), replica.tock), Header(LIAR, Tick(3), replica.tock, 0, network, start)
    digest, hash = replica.tree.digest, replica.tree.ledger.hash()
    match number % LIES:
        case 0:
            return Update(liar, (_lying_event((LIAR, Tick(3)), replica.tock),))
        case 1:
            return Update(honest, (_lying_event((name, tick), replica.tock),))
        case 2:
            return Update(honest, (_lying_event((name, tick), tock),))
        case 3:
            return Info(Header(name, replica.tick, tock, life, network, start), replica.settings.addr, State.READY)
        case 4:
            return Info(honest, replica.settings.addr, State.READY, ticks={LIAR: [Tick(3)], name: [tick]})
        case _:
            return Ping(liar, (early,), "liar:1", State.READY, digest, hash)


def _lying_event(link: Link, tock: Tock) -> Event:
    return Event(Path(["p", "0"]), Kind.SET, LIE, (link,), tock, 0.0)
