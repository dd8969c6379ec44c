"""The attempts of a node that starts to get what it lacks: whom it asks, one after the other, and when.

Knows: who may be asked, whether somebody is being asked, and when the next one is.  Does not know what for, nor what
the answer brings (`startup`).

Invariant: the next one is asked when the one before has answered, or cannot.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.sources import Sources
from distkv.model.event import NodeName

RETRY_MS: Final = 500
"""How long after a failed attempt the next peer is asked."""


@attrs.define(slots=True)
class Attempts:
    """All times are monotonic milliseconds."""

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
