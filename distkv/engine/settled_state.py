"""What a settler settles, and a start loads: the state of a node as its engine sees it.

Knows: what of a node is settled.  Does not know when, nor where to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from distkv.core.archived import ArchivedState
from distkv.core.ground.data import Data
from distkv.core.losses import Losses
from distkv.model.event import Link
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.wire.message import Record
from distkv.wire.states import Meta


class SettledState(Protocol):
    """What is settled, and loaded at the next start: `core.Replica`, or the store inside it."""

    @property
    def tree(self) -> Tree:
        """Entries and ledger."""

    def meta(self) -> Meta:
        """What goes with them."""

    @property
    def slots(self) -> Mapping[str, Mapping[str, bytes]]:
        """What services promise, by their names and keys."""

    @property
    def data(self) -> Data:
        """What they keep row by row."""

    def load(self, archived: ArchivedState) -> None:
        """Take over what was settled."""

    def doubt(self, seen: Iterable[tuple[Path, Link]]) -> None:
        """Some of what was settled could not be read; `seen` are ticks that were here, each on its path."""

    def lose(self, paths: Iterable[Path | None]) -> None:
        """What stood at these paths is lost; None: where it was is not known."""

    @property
    def losses(self) -> Losses:
        """What of that nothing has replaced."""

    def replay(self, record: Record) -> list[Path]:
        """Repeat a record that was not; returns the paths whose entries it may have changed."""
