"""A service's machine without a node around it: one step, and what it wants done.

Knows: the form of a service's machine.  Does not know any service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import ServiceGround, ServiceInput, ServiceMachine
from distkv.core.ground.turn import Effect, ServiceTurn
from distkv.model.event import NodeName
from distkv.model.service_paths import key_names

WALL = 1.7e9
LIFE = 7


@attrs.define
class KnownEntries:
    """What the store has of a service: all versions of each entry, the winner first."""

    found: dict[str, tuple[bytes | None, ...]] = attrs.field(factory=dict)

    def versions(self, key: str) -> tuple[bytes | None, ...]:
        return self.found.get(key, ())

    def all_keys(self, first: str = "") -> Iterator[str]:
        above = (first,) if first else ()
        here = (key for key in sorted(self.found) if key and self.found[key][0] is not None)
        return (key for key in here if key_names(key)[:-1] == above)


@attrs.define
class KnownNodes:
    """Who belongs to the network, and who of them seems alive."""

    registered: frozenset[NodeName] = frozenset()
    alive: frozenset[NodeName] = frozenset()
    lives: Mapping[NodeName, int] = attrs.field(factory=dict)
    """Those of whoever has not `LIFE`."""
    neighbours: tuple[NodeName, ...] = ()

    def life_of(self, node: NodeName) -> int | None:
        return self.lives.get(node, LIFE) if node in self.registered else None


@attrs.define
class KnownFields:
    """What the nodes announce."""

    found: dict[NodeName, Mapping[str, object]] = attrs.field(factory=dict)

    def of(self, node: NodeName) -> Mapping[str, object] | None:
        return self.found.get(node)

    def nodes(self) -> list[NodeName]:
        return sorted(self.found)


def ground_of(
    me: NodeName, life: int, created: float, slots: Mapping[str, bytes], entries: KnownEntries | None = None
) -> ServiceGround:
    return ServiceGround(
        me, life, created, dict(slots), ServiceRows(), entries or KnownEntries(), KnownNodes(), KnownFields()
    )


def began(machine: ServiceMachine, service: str, ground: ServiceGround, boot_ms: int = 0) -> list[Effect]:
    turn = ServiceTurn(service, boot_ms, WALL)
    machine.begin(turn, ground)
    return turn.effects


def stepped(machine: ServiceMachine, service: str, boot_ms: int, what: ServiceInput) -> list[Effect]:
    turn = ServiceTurn(service, boot_ms, WALL)
    machine.step(turn, what)
    return turn.effects
