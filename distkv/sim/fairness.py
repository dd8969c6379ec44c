"""Which planned actions are fair: those that find what they are meant for, and take nothing that cannot come back.

Knows: what a run promises to survive.  Does not know how an action is carried out (`stage`).

Invariant: no disk is lost, set back or rots with the only copy of something; but `burn`, which the rules know of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from distkv.model.tick_ranges import is_within
from distkv.sim.actions import (
    CutWay,
    Decide,
    DecideAny,
    Deed,
    Divert,
    Fill,
    Foreign,
    Happening,
    Lie,
    Move,
    Retire,
    Rot,
    RotSome,
    ServiceAction,
    SetClock,
    Split,
    StartNode,
    Swap,
    TellAll,
    ToNode,
    Write,
)
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.workload import WRITE_BYTES

ANY_TIME: Final = frozenset({Deed.AGENT_UP, Deed.DISK_FREE, Deed.REJOIN, Deed.NAMESAKE_GONE, Deed.RESUME})
"""Ends of faults; the other deeds are for a node that runs."""
_BY_CLIENTS: Final = (Write, Fill, Swap, Decide, DecideAny, TellAll, ServiceAction)


def is_by_client(action: Happening) -> bool:
    """Whether a client does it: it is no fault, nor the end of one."""
    return isinstance(action, _BY_CLIENTS)


class Fairness:
    """Looks at one fleet."""

    def __init__(self, fleet: Fleet, copies: Mapping[str, object]) -> None:
        """`copies`: the hosts of which there is a backup."""
        self._fleet: Final = fleet
        self._copies: Final = copies

    def allows(self, action: Happening) -> bool:
        """Whether it may happen now."""
        hosts = self._fleet.hosts
        match action:
            case ToNode(node=node, deed=deed):
                return deed in ANY_TIME or (hosts[node].process is not None and self._allows_deed(hosts[node], deed))
            case Write() | Fill() | Swap() | Decide() | DecideAny():
                host = hosts[action.node]
                return host.process is not None and not host.is_paused and _takes_writes(host)
            case Move(node=node):
                return hosts[node].process is not None and hosts[node].live.life is not None
            case Rot(node=node):
                return hosts[node].process is not None and self._has_copy(hosts[node])
            case RotSome(nodes=nodes):
                return all(self._may_rot(hosts[node]) for node in nodes)
            case StartNode() | SetClock() | Split() | CutWay() | Divert() | Foreign() | Lie() | Retire() | TellAll():
                return True
            case ServiceAction():
                return True
        assert_never(action)

    def is_good(self, host: Host) -> bool:
        """Whether it serves, and all that it holds is durable."""
        return host.live.is_serving and host.disk.is_idle

    # -- inside

    def _allows_deed(self, host: Host, deed: Deed) -> bool:
        match deed:
            case Deed.WIPE:
                return self._is_alone_there(host) and self._has_copy(host)
            case Deed.BURN:
                return self._is_alone_there(host) and any(other.live.is_serving for other in self._others(host))
            case Deed.BACKUP:
                return host.live.is_serving and host.disk.rotten is None
            case Deed.ROLL_BACK:
                return host.name in self._copies and self._has_copy(host)
            case _:
                return True

    def _may_rot(self, host: Host) -> bool:
        return host.process is not None and not host.is_paused and self._has_copy(host)

    def _is_alone_there(self, host: Host) -> bool:
        """Who comes back elsewhere, and empty, at once is taken for another one, and ends."""
        return host.addr not in {other.addr for other in self._others(host)}

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
        good = [other for other in self._others(host) if self.is_good(other)]
        return any(is_within(mine, other.live.tree.ledger.held()) for other in good)


def _takes_writes(host: Host) -> bool:
    return host.live.is_serving and host.disk.has_room(WRITE_BYTES)
