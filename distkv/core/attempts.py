"""The attempts of a node that starts to get what it lacks: whom it asks, one after the other, and when.

Knows: who may be asked, whether somebody is being asked, and when the next one is.  Does not know what for, nor what
the answer brings (`startup`).

Invariant: the next one is asked when the one before has answered, or cannot.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must

SOURCES_MAX: Final = 64


@attrs.define(slots=True)
class Sources:
    """A ring of peers: `SOURCES_MAX` at the most, and each has its turn.

    Invariant: there are `SOURCES_MAX` at the most, and each has its turn."""

    _addrs: dict[NodeName, str] = attrs.field(factory=dict)
    """HOST:PORT of each, in the order in which they are asked."""
    _postponed: int = 0
    """Behind how many others the last one that wanted to be asked again was put."""

    def __bool__(self) -> bool:
        return bool(self._addrs)

    def add(self, name: NodeName, addr: str) -> bool:
        """A node is at this address; False when there is no place for one more."""
        if len(self._addrs) >= SOURCES_MAX and name not in self._addrs:
            return False
        self._addrs[name] = addr
        return True

    def next(self) -> tuple[NodeName, str] | None:
        """Whom to ask now; its next turn comes after all others. None: nobody is known."""
        name = next(iter(self._addrs), None)
        if name is None:
            return None
        addr = self._addrs[name] = self._addrs.pop(name)
        return name, addr

    def drop(self, name: NodeName) -> None:
        """It could not be asked."""
        self._addrs.pop(name, None)

    def postpone(self, name: NodeName) -> None:
        """A busy peer is asked again after the next peer, the second time after two others, then three, up to all
        others, and so on from one again, until one takes us. A peer that must find out something first forgets the
        result if it is not asked again soon. A peer that waits itself may do so for long."""
        addr = self._addrs.pop(name, None)
        others = list(self._addrs.items())
        self._postponed = self._postponed % max(len(others), 1) + 1
        if addr is not None:
            others.insert(self._postponed, (name, addr))
            self._addrs = dict(others)

    def taken(self) -> None:
        """One of them has taken us."""
        self._postponed = 0

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._addrs) <= SOURCES_MAX, "there are not too many sources")
        must(all(self._addrs.values()), "each source has an address")


RETRY_MS: Final = 500
"""How long after a failed attempt the next peer is asked."""


@attrs.define(slots=True)
class Attempts:
    """When the next one is asked. All times are monotonic milliseconds."""

    sources: Sources = attrs.field(factory=Sources)
    due_ms: int | None = None
    """When the next attempt, or an initial ping, is due."""
    _is_under_way: bool = False

    @property
    def may_begin(self) -> bool:
        """Whether there is somebody to ask, and nobody is being asked."""
        return bool(self.sources) and not self._is_under_way

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time for the next one."""
        return self.due_ms is not None and now_ms >= self.due_ms

    def plan(self, due_ms: int) -> None:
        """The next one is due then."""
        self.due_ms = due_ms

    def began(self) -> None:
        """Somebody is being asked."""
        self._is_under_way = True

    def over(self) -> None:
        """He has answered, or cannot."""
        self._is_under_way = False

    def postpone(self, name: NodeName, now_ms: int) -> None:
        """A peer wants to be asked again, or somebody else."""
        self.over()
        self.plan(now_ms + RETRY_MS)
        self.sources.postpone(name)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.sources.check()
