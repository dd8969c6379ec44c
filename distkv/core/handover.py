"""Handing over: a disk that is old, or holds a part only, may go when another node has all that is on it.

Knows: what the disk held, for how long it looks for a node that holds that, too, and that this is tried once.
Does not know why the disk is to go, whom it asks, nor how the download goes that replaces it.

Invariant: nothing that was here at the start is given up before one that stays has it, or the time is over; whoever
serves hands nothing over (docs/protocol, LIFE-8, LIFE-9, SNAP-3).  The machine is the table `TRANSITIONS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.model.tick_ranges import TickRanges, is_within


class HandoverPhase(StrEnum):
    """Whether what is here is for others to take over."""

    KEPT = "kept"
    """What is here stays, as far as is known."""
    OFFERED = "offered"
    """A download replaces it as soon as another node holds it all."""
    UNWANTED = "unwanted"
    """Nobody took it over in time; that is not tried again."""
    SERVED = "served"
    """Clients see it: it stays until a restart."""


class HandoverCause(StrEnum):
    """What moves the machine."""

    DISK_IS_OLD = "disk is old"
    DISK_IS_GOOD = "disk is good"
    DOWNLOAD_BEGAN = "download began"
    TIME_OVER = "time over"
    BECAME_READY = "became ready"


TRANSITIONS: Final[dict[tuple[HandoverPhase, HandoverCause], HandoverPhase]] = {
    (HandoverPhase.KEPT, HandoverCause.DISK_IS_OLD): HandoverPhase.OFFERED,
    (HandoverPhase.KEPT, HandoverCause.BECAME_READY): HandoverPhase.SERVED,
    (HandoverPhase.OFFERED, HandoverCause.DISK_IS_GOOD): HandoverPhase.KEPT,
    (HandoverPhase.OFFERED, HandoverCause.DOWNLOAD_BEGAN): HandoverPhase.KEPT,
    (HandoverPhase.OFFERED, HandoverCause.TIME_OVER): HandoverPhase.UNWANTED,
    (HandoverPhase.OFFERED, HandoverCause.BECAME_READY): HandoverPhase.SERVED,
    (HandoverPhase.UNWANTED, HandoverCause.BECAME_READY): HandoverPhase.SERVED,
}
"""(phase, cause) -> next phase. What is not listed does not happen, or changes nothing."""

HAND_OVER_CLOCKS: Final = 3
"""How long a node looks for one that takes what it alone has."""


@attrs.define(slots=True)
class HandOver:
    """The machine. All times are monotonic milliseconds."""

    clock_ms: int
    phase: HandoverPhase = HandoverPhase.KEPT
    _found: TickRanges = attrs.field(factory=dict)
    """What the disk held at the start, or what a download that broke off has left."""
    _until_ms: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether what is here must first be taken over by others, because a download will replace it."""
        return self.phase is HandoverPhase.OFFERED

    def is_taken_over(self, held: TickRanges) -> bool:
        """Whether one that holds this has all that is to be handed over."""
        return self.is_under_way and is_within(self._found, held)

    def remember(self, found: TickRanges) -> None:
        """What is here, for others to take over when it must go: what came since its start came from others."""
        self._found = found

    def begin(self, now_ms: int) -> bool:
        """What is here is old, or a part only. Whether it is offered from now on."""
        is_new = self._move(HandoverCause.DISK_IS_OLD)
        if is_new:
            self._until_ms = now_ms + HAND_OVER_CLOCKS * self.clock_ms
        return is_new

    def woken(self, now_ms: int) -> bool:
        """Time passed. Whether it was just over, and nobody has taken what is here."""
        return now_ms >= self._until_ms and self._move(HandoverCause.TIME_OVER)

    def agreed(self) -> None:
        """Others hold just what is here."""
        self._move(HandoverCause.DISK_IS_GOOD)

    def download_began(self) -> None:
        """What was here is void."""
        self._move(HandoverCause.DOWNLOAD_BEGAN)

    def became_ready(self) -> None:
        """The node serves what it has: nothing is handed over any more."""
        self._move(HandoverCause.BECAME_READY)

    def _move(self, cause: HandoverCause) -> bool:
        """Whether that is listed."""
        after = TRANSITIONS.get((self.phase, cause))
        if after is None:
            return False
        self.phase = after
        return True

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self.is_under_way or self._until_ms > 0, "what is offered is offered until some time")
