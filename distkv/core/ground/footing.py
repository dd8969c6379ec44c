"""What services stand on: the part of a node that the ground sees.

Knows: what of a node the ground has to ask, and of its store.  Does not know who answers (`core.node_footing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from distkv.core.edges import HeardByTree
from distkv.core.ground.data import Data
from distkv.core.ground.frames import AnnouncedFields
from distkv.core.ground.machine import Entries
from distkv.core.ground.slots import Slots
from distkv.core.ground.turn import EntryWritten
from distkv.core.turn import Turn
from distkv.model.event import NodeName
from distkv.wire.edges import FrameNumbers


class Footing(Protocol):
    """One node."""


    @property
    def heard(self) -> list[HeardByTree]:
        """What came by the server tree since the ground took it, always in one list; the ground empties it."""

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
    def state(self) -> str:
        """The state that people are told."""

    @property
    def slots(self) -> Slots:
        """What services have promised, always in one object; the ground changes it."""

    @property
    def data(self) -> Data:
        """What they keep row by row; the same is true of it."""

    def is_registered(self, name: NodeName) -> bool:
        """Whether a node belongs to the network."""

    def lives(self) -> Mapping[NodeName, int]:
        """Who does, each with its life."""

    def alive(self, names: Iterable[NodeName], now_ms: int) -> frozenset[NodeName]:
        """Those of some nodes that seem alive (ALIVE-1)."""

    def neighbours(self) -> tuple[NodeName, ...]:
        """Those in the server tree, the parent first."""

    def tell_all(self, service: str, body: bytes) -> None:
        """Tell a service of all other nodes something, over the server tree."""

    def announce(self, service: str, fields: Mapping[str, object] | None) -> None:
        """Announce this of a service from now on."""

    def announced(self, service: str) -> AnnouncedFields:
        """What other nodes announce of a service."""

    def note_announced(self) -> None:
        """See what nodes announce of themselves; it is looked at once a second, and counts when they are gone, too."""

    def frames(self, service: str) -> FrameNumbers:
        """Of each origin the last frame of a service that came, or is gone."""

    def entries(self, service: str) -> Entries:
        """What the store has of a service."""

    def take_entry_changes(self) -> Iterable[tuple[str, str]]:
        """Of which services (the first of each pair) which entries (the second) may have changed since the last time;
        the first time it is none."""

    def write(self, service: str, written: EntryWritten, turn: Turn) -> None:
        """Write an entry of a service, or delete it, as an ordinary event of the store.

        Raises:
            RequestError: it is refused, and nothing is changed.
        """
