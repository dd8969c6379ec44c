"""How a stream goes on: what its next batch has, and what it, or an archive, waits for.

Knows: which ticks are new, which of them become a batch, and how long a tick whose content is away is waited for.  Does
not know Spark, sockets nor clocks: plans are made by whoever calls, and time is an argument.

Invariant: a batch follows from its two offsets alone, so one that is repeated has the same ticks and the same gaps. No
tick is in two batches, and none is in any while no host holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from distkv.model.tick_ranges import TickRanges, common, joined, without
from distkv.spark.nodes.planning import Plan, first_of
from distkv.spark.source.offsets import Offset

RETRY_S: Final = 5.0
"""So often content is looked for again that was away."""

CarryOut: TypeAlias = Callable[[TickRanges], Plan]
"""Finds where the content of some ticks is."""


@attrs.frozen
class MicroBatch:
    """What is between two offsets."""

    ticks: TickRanges
    """Those that had content when the batch was planned."""
    gaps: TickRanges
    """Those that had none."""


def batch_of(start: Offset, end: Offset) -> MicroBatch:
    """The batch that begins and ends there."""
    between = without(end.ticks, start.ticks)
    gaps = common(end.gaps, between)
    return MicroBatch(without(between, gaps), gaps)


@attrs.frozen
class _Waiting:
    """Ticks whose content was first found to be away at the same moment."""

    since_s: float
    ticks: TickRanges


@attrs.define
class AwaitedTicks:
    """Ticks that are held and whose content is away, each since it was first found to be; after `gap_wait_s` seconds it
    is a gap. A restart begins every wait anew."""

    gap_wait_s: float
    _waits: list[_Waiting] = attrs.field(factory=list, init=False)

    def note(self, asked: TickRanges, away: TickRanges, now_s: float) -> TickRanges:
        """Of the ticks that were asked for these are away; the part that has waited long enough, and waits no more."""
        self.forget(without(asked, away))
        if fresh := without(away, self.ticks()):
            self._waits.append(_Waiting(now_s, fresh))
        given_up = without(away, self.ticks(since_s=now_s - self.gap_wait_s))
        self.forget(given_up)
        return given_up

    def forget(self, ticks: TickRanges) -> None:
        """These wait no more."""
        self._waits = [_Waiting(w.since_s, left) for w in self._waits if (left := without(w.ticks, ticks))]

    def ticks(self, *, since_s: float = float("-inf")) -> TickRanges:
        """What waits, or has waited for less than since then."""
        found: TickRanges = {}
        for wait in self._waits:
            if wait.since_s > since_s:
                found = joined(found, wait.ticks)
        return found

    def begins(self, among: TickRanges) -> list[float]:
        """When each wait began that some of these ticks are in."""
        return [wait.since_s for wait in self._waits if common(wait.ticks, among)]


@attrs.define
class StreamState:
    """What a running stream remembers besides its offset."""

    gap_wait_s: float
    _waits: AwaitedTicks = attrs.field(init=False)
    _tried_s: float = attrs.field(default=float("-inf"), init=False)
    """When content that is away was looked for the last time."""
    _new: TickRanges = attrs.field(factory=dict, init=False)
    """What was new at the last call."""

    def __attrs_post_init__(self) -> None:
        self._waits = AwaitedTicks(self.gap_wait_s)

    def due_s(self, now_s: float) -> float | None:
        """In how many seconds something that waits is to be looked at again; None when nothing that is held waits."""
        some = self._waits.begins(self._new)
        if not some:
            return None
        ends = [end_s for since_s in some if (end_s := since_s + self.gap_wait_s) > now_s]
        return max(0.0, min([self._tried_s + RETRY_S, *ends]) - now_s)

    def next_offset(
        self, start: Offset, new: TickRanges, count_max: int | None, carry_out: CarryOut, now_s: float
    ) -> tuple[Offset, Plan | None]:
        """The end of the next batch, and how it was planned; `start` itself and None when there is nothing to deliver.

        `new` is what is held somewhere and not in `start`; `count_max` bounds the ticks of the batch. A tick that waits
        holds up no other one: as long as a plan finds nothing, the next ticks are planned.
        """
        self._waits.forget(start.ticks)
        self._new = new
        left = without(new, self._resting(now_s))
        while left:
            some = left if count_max is None else first_of(left, count_max)
            found = carry_out(some)
            end = self._conclude(start, some, found, now_s)
            if end is not start:
                return end, found
            left = without(left, some)
        return start, None

    # -- inside

    def _resting(self, now_s: float) -> TickRanges:
        """What was looked for a moment ago, and need not be now."""
        if now_s - self._tried_s >= RETRY_S:
            self._tried_s = now_s
            return {}
        return self._waits.ticks(since_s=now_s - self.gap_wait_s)

    def _conclude(self, start: Offset, asked: TickRanges, found: Plan, now_s: float) -> Offset:
        gaps = joined(found.gaps, self._waits.note(asked, found.waiting, now_s))
        done = joined(joined(found.ticks, found.elsewhere), gaps)
        return Offset(found.network, joined(start.ticks, done), gaps) if done else start
