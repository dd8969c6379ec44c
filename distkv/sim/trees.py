"""The server trees of a fleet's nodes: a node takes part as soon as it serves clients, until it ends.

Knows: which processes run, and who seems alive to each.  Does not know how a tree grows (`forest`).

Invariant: the store is as it would be without trees.
"""

from __future__ import annotations

from distkv.core.ready import Input, Ready
from distkv.core.server_tree.parents import TreePeer
from distkv.model.event import NodeName
from distkv.sim.fleet import Fleet
from distkv.sim.forest import Forest
from distkv.sim.host import Process
from distkv.sim.rule import Observer


class Trees(Observer):
    """Grows them for those who serve."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None

    def attach(self, fleet: Fleet, seed: int, *, fanout: int, announce_ms: int) -> None:
        """From now on, in this fleet."""
        self._fleet = fleet
        fleet.forest = Forest(
            fleet.agenda,
            fleet.network,
            seed,
            fanout=fanout,
            announce_ms=announce_ms,
            peers_of=self._peers_of,
            is_paused=lambda name: fleet.hosts[name].is_paused,
            told=fleet.befell,
        )

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        forest, host = self._forest, process.host
        if forest is not None and host.is_ours and process.replica.is_serving and not forest.is_running(host.node):
            forest.start(host.node, host.addr)

    def ended(self, process: Process) -> None:
        forest, host = self._forest, process.host
        if forest is not None and forest.is_running(host.node):
            forest.stop(host.node)

    # -- inside

    @property
    def _forest(self) -> Forest | None:
        return self._fleet.forest if self._fleet is not None else None

    def _peers_of(self, name: NodeName) -> dict[NodeName, TreePeer]:
        """The other registered nodes that seem alive to this one; a round trip has whoever it can connect with."""
        fleet = self._fleet
        process = fleet.hosts[name].process if fleet is not None else None
        if fleet is None or process is None:
            return {}
        replica, found = process.replica, dict[NodeName, TreePeer]()
        for other, (addr, is_alive) in replica.peers(process.now_ms).items():
            if is_alive and addr and other in replica.registry.nodes and other != name:
                found[other] = TreePeer(addr, 1.0 if fleet.network.connects(name, other) else None)
        return found

