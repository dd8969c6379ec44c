"""What services stand on: the part of a node that the ground sees.

Knows: what of a node the ground has to ask, and of its store.  Does not know who answers (`core.node_footing`).
"""

from __future__ import annotations

from typing import Protocol

from distkv.core.ground.slots import Slots
from distkv.core.turn import Turn
from distkv.model.event import Event, Kind, NodeName
from distkv.model.path import Path


class Footing(Protocol):
    """One node."""

    @property
    def me(self) -> NodeName:
        """Its name."""

    @property
    def life(self) -> int:
        """That of its directory."""

    @property
    def created(self) -> float:
        """When the network was founded, seconds since 1970; 0: it belongs to none."""

    @property
    def is_serving(self) -> bool:
        """Whether clients are served; services work meanwhile, and only then."""

    @property
    def is_stale(self) -> bool:
        """Whether the disk is known to be an old one."""

    @property
    def state(self) -> str:
        """The state that people are told."""

    @property
    def slots(self) -> Slots:
        """What services keep; the ground changes it."""

    @property
    def entry_changes(self) -> int:
        """How often what services have in the store may have changed."""

    def versions(self, path: Path) -> tuple[Event, ...]:
        """What the store has at a path: the winner, then what lost against it."""

    def is_registered(self, name: NodeName) -> bool:
        """Whether a node belongs to the network."""

    def write(self, path: Path, kind: Kind, value: bytes, turn: Turn) -> None:
        """Write an entry, as an ordinary event of the store."""
