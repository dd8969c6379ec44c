"""Who this node writes as: its life, how far its ticks go, and whether it may go on in that life.

Knows: the life, its last tick, and what ends a life early.  Does not know what is written, nor what others say of us.

Invariant: a tick is used once; every change of a life, or of a mark on it, has a record.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import WrongDirectoryError
from distkv.model.event import COUNT_BITS, NodeName, Tick, life_of
from distkv.model.invariant import must
from distkv.wire.message import LifeRecord, Record, StaleRecord
from distkv.wire.states import Meta

_COUNT_MAX: Final = (1 << COUNT_BITS) - 1


class Identity:
    """This node's name and life, as its directory knows them."""

    def __init__(self, name: NodeName) -> None:
        self.name = name
        self.life: int | None = None
        self.first_life = 0
        """The life in which the data here was downloaded, or the network founded. A statement about an earlier life is
        about another disk."""
        self.tick = Tick(0)
        """The last own one."""
        self.is_life_over = False
        """Whether nothing more may be written in this life, because its ticks may have been used elsewhere: what was
        loaded is a backup, or the disk was set back, or the life was retired."""
        self.is_stale = False
        """Whether others may have forgotten what is here: the disk was set back or its life retired, and nothing was
        downloaded since."""

    @property
    def has_written(self) -> bool:
        """Whether this life has a change of its own; before the first one its tick names nothing."""
        return self.tick & _COUNT_MAX != 0

    @property
    def ticks_left(self) -> int:
        """How many more changes this life has room for."""
        return _COUNT_MAX - (self.tick & _COUNT_MAX)

    def begin_life(self, life: int) -> list[Record]:
        """Write under `life` from now on."""
        if self.life is None or life < self.first_life:
            self.first_life = life
        self.life, self.is_life_over = life, False
        self.tick = Tick(life << COUNT_BITS)
        return [LifeRecord(self.name, life)]

    def mark_stale(self, is_stale: bool) -> list[Record]:
        """Keep in mind that others may have forgotten what is here, so that our life is over; or that they have not."""
        if is_stale == self.is_stale and (self.is_life_over or not is_stale):
            return []
        self.is_stale = is_stale
        self.is_life_over |= is_stale
        return [StaleRecord(is_stale)]

    def doubt(self) -> list[Record]:
        """Keep in mind that others may have forgotten what is here. Our life goes on until the next start."""
        if self.is_stale:
            return []
        self.is_stale = True
        return [StaleRecord(True)]

    def reset(self) -> None:
        """There is no life any more; a download brings the next."""
        self.life, self.tick = None, Tick(0)
        self.is_stale = self.is_life_over = False

    def load(self, meta: Meta) -> None:
        """Go on as an archive says.

        Raises:
            WrongDirectoryError: it is another node's.
        """
        self.check_name(meta.node)
        self.life, self.tick = meta.life, Tick(meta.tick)
        self.first_life = (meta.life or 0) if meta.first_life is None else meta.first_life
        self.is_life_over, self.is_stale = meta.restored, meta.stale

    def check_name(self, node: NodeName) -> None:
        """What the disk says is about this node.

        Raises:
            WrongDirectoryError: it is another node's.
        """
        if node != self.name:
            raise WrongDirectoryError(
                f"the data directory belongs to the node {node}, not to {self.name}:"
                " start the server under that name, or give this one a directory of its own"
            )

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must((self.life is None) == (self.tick == 0), "ticks are those of a life")
        must(self.life is None or life_of(self.tick) == self.life, "the last tick is of this life")
        must(self.life is None or self.first_life <= self.life, "no life is below the first one")
