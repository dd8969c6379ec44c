"""The other nodes of the activity network, as this one sees them.

Knows: who announces a listener and seems alive, and who is a neighbour in the server tree.  Does not know what is said
to them.

Invariant: it is as the ground showed it when it was looked at last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.core.ground.machine import ServiceGround
from distkv.model.event import NodeName
from distkv.model.invariant import must

LOAD_MAX: Final = 2**31


@attrs.frozen(slots=True)
class AnnouncedPlace:
    """Where a node has its listener, and how many clients are there."""

    host: str
    port: int
    load: int


def fields_of_place(place: AnnouncedPlace) -> dict[str, object]:
    """As a node announces it."""
    return {"addr": f"{place.host}:{place.port}", "load": place.load}


def read_place(fields: Mapping[str, object] | None) -> AnnouncedPlace | None:
    """What a node announces; None: no listener, or nothing that can be one."""
    match fields:
        case {"addr": str(addr), "load": int(load)} if type(load) is int and 0 <= load <= LOAD_MAX:
            host, _, port = addr.rpartition(":")
            if host and port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 2**16:
                return AnnouncedPlace(host, int(port), load)
    return None


class OtherListeners:
    """Those of one node."""

    def __init__(self, ground: ServiceGround) -> None:
        self._ground: Final = ground
        self.places: Mapping[NodeName, AnnouncedPlace] = {}
        """Where they are."""
        self.nodes: tuple[NodeName, ...] = ()
        """Who they are: the neighbours in the tree first."""
        self.reachable: tuple[NodeName, ...] = ()
        """These, and then all others that seem alive: what a node announces comes over the tree, and it may be in
        another one for a while."""
        self.neighbours: tuple[NodeName, ...] = ()
        """Those of them to which there is an edge of the tree."""
        self.look()

    def look(self) -> None:
        """Somebody announced something, or seems alive, or is a neighbour, who did not before."""
        me, alive, near = self._ground.me, self._ground.nodes.alive, self._ground.nodes.neighbours
        announced = self._ground.announced
        found = {node: read_place(announced.of(node)) for node in announced.nodes() if node != me and node in alive}
        self.places = {node: place for node, place in found.items() if place is not None}
        self.neighbours = tuple([node for node in near if node in self.places])
        self.nodes = (*self.neighbours, *[node for node in self.places if node not in near])
        self.reachable = (*self.nodes, *sorted(alive - self.places.keys() - {me}))

    @property
    def is_alone(self) -> bool:
        """Whether no other node belongs to the network."""
        return self._ground.nodes.registered <= {self._ground.me}

    @property
    def seem_alive(self) -> bool:
        """Whether any other node does, with a listener or without."""
        return bool(self._ground.nodes.alive)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(sorted(self.nodes) == sorted(self.places), "each of them stands in the list once")
        must(self.reachable[: len(self.nodes)] == self.nodes, "who has a listener is asked first")
        must(self.nodes[: len(self.neighbours)] == self.neighbours, "neighbours stand first")
