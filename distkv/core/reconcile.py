"""After a split: who says what, when, and who takes over from a node that does not.

Knows: this node's place in the chain that its side followed, and what the others of that chain have said since.
Does not know the tree: the caller makes the message, and compares ledgers with the other side.

Invariant: of each chain that the two sides bring along somebody speaks, as long as one node of it lives and is heard;
for one meeting a node speaks once (docs/protocol, REC-1, REC-2, REC-6 to REC-8).
Source: the 'Event recovery' of the server protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.message import PingChain, PingLink

TAKE_OVER: Final = (0.5, 0.25)
"""In clocks: how long the second of a chain waits for the first, and each one after it for the one before."""
AWAY: Final = 0.5
"""In clocks: nodes of no chain compare within so long, each at a moment of its own, so that none is stormed."""
MEMORY_LINKS: Final = 64
"""How many links of chains that were met are remembered, so that each is met once."""

MEMORY_SPEAKERS: Final = 8


@attrs.frozen
class Speech:
    """What is to be said: all ticks, and why when the other side could not know."""

    reason: PingChain | None
    has_taken_over: bool
    """Whether it was another node's turn before."""


@attrs.frozen
class Visit:
    """With whom to compare ledgers, and when."""

    name: NodeName
    at_ms: int


@attrs.define(slots=True)
class Reconciliation:
    """The machine. All times are monotonic milliseconds."""

    me: NodeName
    clock_ms: int
    rng: Rng
    _side: tuple[NodeName, ...] = ()
    """The chain of our side, the latest sender first; empty while nothing is to be said."""
    _reason: PingChain | None = None
    _due_ms: int | None = None
    _met: deque[PingLink] = attrs.field(factory=lambda: deque(maxlen=MEMORY_LINKS))
    _spoke: deque[tuple[NodeName, int]] = attrs.field(factory=lambda: deque(maxlen=MEMORY_SPEAKERS))
    """Who said something like it last, and when: his word may overtake the ping that set it off."""

    # -- inputs

    def met(
        self, ours: PingChain, theirs: PingChain, reachable: Sequence[NodeName], now_ms: int, *, has_lost: bool
    ) -> Visit | None:
        """Two chains without a common link met; `reachable` are nodes of theirs whose address is known, one at least.

        `has_lost`: theirs is the real one from now on, and its nodes may not have heard of us.  None: it was met
        before.
        """
        if any(link in self._met for link in theirs):
            return None
        self._met.extend(theirs)
        side = tuple(dict.fromkeys(link.node for link in ours))
        place = side.index(self.me) if self.me in side else None
        if place is not None:
            since_ms = now_ms - int(TAKE_OVER[0] * self.clock_ms)
            if not any(at_ms >= since_ms and name in side for name, at_ms in self._spoke):
                self._side, self._reason = side, ours if has_lost else None
                self._due_ms = now_ms + self._delay_ms(place)
            return Visit(reachable[place % len(reachable)], now_ms)
        name = reachable[int(self.rng.random() * len(reachable))]
        return Visit(name, now_ms + int(self.rng.random() * AWAY * self.clock_ms))

    def heard(self, name: NodeName, now_ms: int) -> None:
        """A node said what we would say. One of our own chain is as good as we are; of the other one it is no help."""
        self._spoke.append((name, now_ms))
        if name in self._side:
            self.forget()

    def forget(self) -> None:
        """Nothing is to be said: somebody did, or nobody would hear it."""
        self._side, self._reason, self._due_ms = (), None, None

    # -- outputs

    def take_due(self, now_ms: int) -> Speech | None:
        """What is to be said now."""
        if self._due_ms is None or now_ms < self._due_ms:
            return None
        speech = Speech(self._reason, has_taken_over=self._side[0] != self.me)
        self.forget()
        return speech

    def wake_ms(self) -> int | None:
        """When `take_due` wants to be asked again."""
        return self._due_ms

    # -- inside

    def _delay_ms(self, place: int) -> int:
        """The first at once, the second half a clock later, each next one a quarter after the one before."""
        first, each = TAKE_OVER
        return 0 if place == 0 else int((first + each * (place - 1)) * self.clock_ms)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must((self._due_ms is None) == (not self._side), "it is due as long as there is something to say")
        must(not self._side or self.me in self._side, "who speaks is of the chain")
        must(self._reason is None or bool(self._side), "a reason goes with what is to be said")
