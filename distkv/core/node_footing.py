"""A node as its services see it.

Knows: where in a node each thing is that `ground.footing` names.  Does not know services.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.slots import Slots
from distkv.core.node import Node
from distkv.core.turn import Turn
from distkv.model.event import Event, Kind, NodeName
from distkv.model.path import Path


class NodeFooting:
    """See `Footing`."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    @property
    def me(self) -> NodeName:
        return self._node.store.me

    @property
    def life(self) -> int:
        return self._node.store.own.life or 0

    @property
    def created(self) -> float:
        network = self._node.store.registry.network
        return 0.0 if network is None else network.created

    @property
    def is_serving(self) -> bool:
        return self._node.is_serving

    @property
    def is_stale(self) -> bool:
        return self._node.store.own.is_stale

    @property
    def state(self) -> str:
        return self._node.state

    @property
    def slots(self) -> Slots:
        return self._node.store.kept

    @property
    def entry_changes(self) -> int:
        return self._node.store.registry.service_changes

    def versions(self, path: Path) -> tuple[Event, ...]:
        entry = self._node.store.tree.get(path)
        return () if entry is None else (entry.head, *entry.losers)

    def is_registered(self, name: NodeName) -> bool:
        return name in self._node.store.registry.nodes

    def write(self, path: Path, kind: Kind, value: bytes, turn: Turn) -> None:
        self._node.check_life(turn)
        self._node.publish(self._node.store.write(path, kind, value, turn.wall), turn)
