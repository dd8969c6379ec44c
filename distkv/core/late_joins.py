"""Nodes that joined by a node whose place somebody else had taken already, where this one sees it.

Knows: who joined by whom, as the registry says it, and which lives are over.  Does not know how anybody is told.

Whom this node doubts is kept in slots: nobody else may have seen why, and it may start again before it has told them.

Invariant: a node that nobody here could ask before something was forgotten counts as stale, in the life in which it
joined (docs/protocol, NAME-11). The slots have just the doubts that are open.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.registry import is_node_path, node_path, registration_of
from distkv.core.turn import Turn
from distkv.core.update import Store
from distkv.model.event import Event, NodeName, life_of
from distkv.wire.message import TickMaps

KEEPER: Final = "\0late_joins"
"""Whose slots these are: a name that no service has."""


class LateJoins:
    """Those that are doubted; each is a slot by the name of the node.

    Its value is the life in which the node joined, or a later one in the same directory."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    def saw(self, event: Event, turn: Turn) -> list[NodeName]:
        """A registration came while clients were served; whose disks are doubted from now on."""
        given = registration_of(event) if is_node_path(event.path) else None
        name = event.path.names[-1]
        if given is None or not isinstance(name, str) or name == self._store.me:
            return []
        here = self._store.registry.nodes.get(NodeName(name))
        if here is None or here.life != given.life:
            return []
        if event.node == name:  # its data is the same in another life of its own
            if self._doubted_life(NodeName(name)) is not None:
                self._keep(NodeName(name), given.life, turn)
            return []
        self._keep(NodeName(name), None, turn)
        return self._doubt(NodeName(name), given.life, turn) if self._is_over(event) else []

    def is_doubted(self, name: NodeName, life: int | None) -> bool:
        """Whether a node in this life may hold what was forgotten here."""
        return life is not None and self._doubted_life(name) == life

    def as_they_are(self, maps: TickMaps, turn: Turn) -> TickMaps:
        """What a node says of itself, and what it does not know yet. Who holds just the same as we is as good as we."""
        header, tree = maps.header, self._store.tree
        if self._doubted_life(header.node) is None:
            return maps
        is_same = maps.digest == tree.digest and maps.held == tree.ledger.held()
        if is_same or (maps.ticks_hash is not None and (maps.digest, maps.ticks_hash) == tree.sums):
            self._keep(header.node, None, turn)
        return attrs.evolve(maps, is_stale=True) if self.is_doubted(header.node, header.life) else maps

    # -- inside

    def _doubted_life(self, name: NodeName) -> int | None:
        kept = self._store.kept.of(KEEPER).get(name)
        return None if kept is None else int(kept)

    def _keep(self, name: NodeName, life: int | None, turn: Turn) -> None:
        turn.ready.records += self._store.kept.keep(KEEPER, name, None if life is None else b"%d" % life)

    def _is_over(self, event: Event) -> bool:
        """Whether the life that wrote it had ended for this node: then nobody here asked who had joined by it."""
        registry, life = self._store.registry, life_of(event.tick)
        here = registry.nodes.get(event.node)
        is_replaced = here is not None and here.life > life
        return is_replaced or registry.is_retired(event.node, life) or self.is_doubted(event.node, life)

    def _doubt(self, name: NodeName, life: int, turn: Turn) -> list[NodeName]:
        """Also those that joined by it."""
        if self.is_doubted(name, life):
            return []
        self._keep(name, life, turn)
        found = [name]
        for other, here in self._store.registry.nodes.items():
            entry = self._store.tree.get(node_path(other))
            head = None if entry is None else entry.head
            if head is not None and other != name and head.node == name and life_of(head.tick) == life:
                found += self._doubt(other, here.life, turn)
        return found
