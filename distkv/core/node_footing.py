"""A node as its services see it.

Knows: where in a node each thing is that `ground.footing` names.  Does not know services.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from distkv.core.conditions import next_fence
from distkv.core.ground.data import Data
from distkv.core.ground.slots import Slots
from distkv.core.ground.turn import EntryWritten
from distkv.core.node import Node
from distkv.core.ready import AGEING_BYTES
from distkv.core.registry import service_path
from distkv.core.tree_part import TreePart
from distkv.core.turn import Turn
from distkv.core.update import Store
from distkv.errors import BadValueError, NotReadyError, RequestError
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, NodeName
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.model.service_paths import key_of, service_key
from distkv.wire.announcing import FENCES, GROUND
from distkv.wire.edges import FrameNumbers
from distkv.wire.value_requests import SetValue
from distkv.wire.values import check_value

NAMED_MAX: Final = 5
"""So many nodes are named in a message."""
CLOSED_MAX: Final = 32
"""So many open losers one write of a service closes."""


class NodeFooting:
    """See `Footing`."""

    def __init__(self, node: Node, tree: TreePart) -> None:
        self._node: Final = node
        self._tree: Final = tree
        self.heard: Final = tree.heard
        self._know_fences: Final = set[tuple[NodeName, int]]()
        """The nodes that announced that they know fences of services, since this start, each with its life."""

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
    def state(self) -> str:
        return self._node.state

    @property
    def slots(self) -> Slots:
        return self._node.store.kept

    @property
    def data(self) -> Data:
        return self._node.store.data

    def is_registered(self, name: NodeName) -> bool:
        return name in self._node.store.registry.nodes

    def lives(self) -> dict[NodeName, int]:
        return {name: one.life for name, one in self._node.store.registry.nodes.items()}

    def alive(self, names: Iterable[NodeName], now_ms: int) -> frozenset[NodeName]:
        recovery, tree = self._node.recovery, self._tree
        found = set(recovery.alive(names, now_ms))
        others = (name for name in names if name not in found)
        found.update(name for name in others if recovery.has_returned(name, tree.announced_ms(name)))
        return frozenset(found)

    def neighbours(self) -> tuple[NodeName, ...]:
        return self._tree.neighbours

    def tell_all(self, service: str, body: bytes) -> None:
        self._tree.say(service, body)

    def announce(self, service: str, fields: Mapping[str, object] | None) -> None:
        self._tree.announce(service, fields)

    def announced(self, service: str) -> ServiceFields:
        return ServiceFields(self._tree, service)

    def note_announced(self) -> None:
        nodes = self._node.store.registry.nodes
        for name, announced in self._tree.announced.items():
            if name in nodes and announced.services.get(GROUND) == FENCES:
                self._know_fences.add((name, nodes[name].life))

    def frames(self, service: str) -> FrameNumbers:
        return self._tree.frames(service)

    def entries(self, service: str) -> ServiceEntries:
        return ServiceEntries(self._node.store, service)

    def take_entry_changes(self) -> Iterable[tuple[str, str]]:
        registry = self._node.store.registry
        found = registry.service_changes
        if found is None or found:
            registry.service_changes = {}
        return found or ()

    def write(self, service: str, written: EntryWritten, turn: Turn) -> None:
        store, path, value = self._node.store, service_path(service, written.key), written.value
        if value is not None:
            check_value(value)
        if written.fence is not None:
            self._check_fences(path)
        entry = store.tree.get(path)
        head, here = (None, NO_FENCE) if entry is None else (entry.head, entry.head.fence)
        fence = next_fence(SetValue(0, path, value, fence=written.fence), head)
        closed = _closed(entry, written.closes)
        if value is None and (head is None or head.kind is not Kind.SET) and fence == here and not closed:
            return
        if written.purpose is not None:
            store.data.check_room(len(value or b"") + AGEING_BYTES)
        self._node.begin_life_if_due(turn)
        kind = Kind.DELETE if value is None else Kind.SET
        self._node.publish(store.write(path, kind, value or b"", turn.wall, entry, decided=closed, fence=fence), turn)

    # -- inside

    def _check_fences(self, path: Path) -> None:
        """An event with a fence below a service's path stops a node of a release that does not know such.

        Raises:
            RequestError: there can be no fence at this path, now or ever.
        """
        if service_key(path) is None:
            raise RequestError(f"{path} has no key: only entries of a service that have one may have a fence")
        if self._node.store.registry.has_service_fences:
            return
        self.note_announced()
        nodes = self._node.store.registry.nodes
        lacking = [name for name in self._node.store.others() if (name, nodes[name].life) not in self._know_fences]
        if lacking:
            raise NotReadyError(
                f"{', '.join(lacking[:NAMED_MAX])} did not announce yet that fences of services are known there:"
                " try again when each registered node is up, and of a release that knows them"
            )


def _closed(entry: Entry | None, values: Collection[bytes | None]) -> list[Event]:
    """The open losers that have these values, as many as the chain of one event has room for."""
    if entry is None or not values:
        return []
    return [loser for loser in entry.losers if _value_of(loser) in values][:CLOSED_MAX]


def _value_of(event: Event) -> bytes | None:
    """As a service is shown it; None: it deleted the entry."""
    return event.value if event.kind is Kind.SET else None


class ServiceFields:
    """See `AnnouncedFields`."""

    def __init__(self, tree: TreePart, service: str) -> None:
        self._tree: Final = tree
        self._service: Final = service

    def of(self, node: NodeName) -> Mapping[str, object] | None:
        what = self._tree.announced.get(node)
        return None if what is None else what.services.get(self._service)

    def nodes(self) -> list[NodeName]:
        return sorted(name for name, what in self._tree.announced.items() if self._service in what.services)


class ServiceEntries:
    """See `Entries`."""

    def __init__(self, store: Store, service: str) -> None:
        self._store: Final = store
        self._service: Final = service

    def versions(self, key: str) -> tuple[bytes | None, ...]:
        try:
            path = service_path(self._service, key)
        except BadValueError:
            return ()
        entry = self._store.tree.get(path)
        return () if entry is None else tuple([_value_of(event) for event in (entry.head, *entry.losers)])

    def all_keys(self, first: str = "") -> Iterator[str]:
        above = (first,) if first else ()
        for name, is_there, _ in self._store.tree.names(service_path(self._service, first)):
            key = key_of((*above, name)) if is_there else None
            if key is not None:
                yield key
