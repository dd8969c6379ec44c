"""What a node that starts hears of others: without that, after how long is it alone?

Knows: since when others could be heard, and whether one with data was.  Does not know what they say, nor what follows
from their silence (`startup`).

Invariant: only time in which somebody could be heard counts as silence (docs/protocol, START-5, START-8).
"""

from __future__ import annotations

import attrs

from distkv.model.invariant import must


@attrs.define(slots=True)
class Hearing:
    """All times are monotonic milliseconds."""

    clock_ms: int
    is_up: bool = False
    """Whether the transport carries messages."""
    has_heard: bool = False
    """Whether somebody with data spoke who can be asked, as far as is known."""
    _began_ms: int = 0
    _listens_ms: int = 0

    def begin(self, now_ms: int) -> None:
        """The process starts."""
        self._began_ms = self._listens_ms = now_ms

    def transport_changed(self, is_up: bool, now_ms: int) -> bool:
        """Messages flow, or do not. Whether they do from now on, and did not before."""
        begins = is_up and not self.is_up
        if begins:
            self._listens_ms = now_ms
        self.is_up = is_up
        return begins

    def heard(self) -> None:
        """Somebody with data spoke."""
        self.has_heard = True

    def heard_in_vain(self, now_ms: int) -> None:
        """Whoever was heard cannot be asked: it died, or its words were old. Silence counts anew from here."""
        self.has_heard = False
        self._listens_ms = now_ms

    def left_ms(self, now_ms: int) -> int:
        """How much of the clock is left in which somebody may yet speak; not above 0 when it is over."""
        return self._listens_ms + self.clock_ms - now_ms

    def is_cut_off(self, now_ms: int) -> bool:
        """Whether the transport is away, and two clocks are over (START-9)."""
        return not self.is_up and now_ms >= self._began_ms + 2 * self.clock_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._began_ms <= self._listens_ms, "nobody is heard before the start")
