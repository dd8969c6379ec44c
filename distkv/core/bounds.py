"""What a node sees of the two bounds that the protocol sets to its settings: delivery times, and how many sides met.

Knows: its own pings, which pings followed them, and which chains of other sides came.  Does not know the settings of
other nodes, nor judges: `distkv doctor` does.

A clock must be at least twice as long as gossip takes to reach all nodes. No two clocks need agree to see that: who
follows our ping directly sends at a moment that his place in our chain, or off it, tells, counted from when he heard
us. What the answer took beyond that is the time of two deliveries, to him and back, give or take what his place leaves
open.

A ping chain should be longer than the network has partitions. As many sides as meet within three clocks were partitions
at one time; there may have been more, that met elsewhere or later.

Invariant: what is told was seen; nothing is told of what was not.
Source: the 'Ping sequence' of the server protocol.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from distkv.core.turns import delay_band, order_of
from distkv.model.event import Tock
from distkv.model.invariant import must
from distkv.wire.message import PingChain

OWN_PINGS: Final = 8
"""How many of our pings may be followed still."""
SAMPLES: Final = 15
"""Of so many deliveries, the latest, the one in the middle counts: one stalled process is no slow network."""
OVERDUE_CLOCKS: Final = 2.5
"""Who is not in the chain sends after one clock, or at some moment from here on: which of the two, is not told."""
MEETING_CLOCKS: Final = 3
"""Chains that come within so long of the first one are of one heal."""


@attrs.frozen
class ObservedBounds:
    """What was seen since the start."""

    delivery_ms: tuple[int, int] | None
    """How long a message takes from one node to another: at least, at most; None: no ping was followed yet."""
    partitions: int
    """The most sides that met at one time, ours included; 1 while there was no split."""


@attrs.define(slots=True)
class Bounds:
    """The observer. All times are monotonic milliseconds."""

    clock_ms: int
    _sent: dict[Tock, tuple[PingChain, int]] = attrs.field(factory=dict)
    """Our last pings by their tocks: the chain, and when it left."""
    _deliveries: deque[tuple[int, int]] = attrs.field(factory=lambda: deque(maxlen=SAMPLES))
    _heal_began_ms: int | None = None
    _sides: int = 1
    _partitions: int = 1

    # -- inputs

    def sent(self, chain: PingChain, now_ms: int) -> None:
        """Our ping leaves."""
        if len(self._sent) >= OWN_PINGS:
            del self._sent[next(iter(self._sent))]
        self._sent[chain[0].tock] = (chain, now_ms)

    def heard(self, chain: PingChain, now_ms: int) -> None:
        """Another node's ping came, for the first time. Does it follow one of ours?"""
        ours, sent_ms = self._sent.get(chain[1].tock, ((), 0)) if len(chain) > 1 else ((), 0)
        if not ours or chain[1] != ours[0]:
            return
        order, sender, took_ms = order_of(ours), chain[0].node, now_ms - sent_ms
        if sender == order[0] or (sender not in order and took_ms >= OVERDUE_CLOCKS * self.clock_ms):
            return
        low, high = delay_band(order.index(sender), len(order)) if sender in order else (0.0, 0.0)
        least, most = (max(0, took_ms - int((1 + part) * self.clock_ms)) // 2 for part in (high, low))
        self._deliveries.append((least, most))

    def met(self, now_ms: int) -> None:
        """A chain of another side came, for the first time."""
        if self._heal_began_ms is None or now_ms - self._heal_began_ms > MEETING_CLOCKS * self.clock_ms:
            self._heal_began_ms, self._sides = now_ms, 1
        self._sides += 1
        self._partitions = max(self._partitions, self._sides)

    # -- outputs

    def seen(self) -> ObservedBounds:
        """What there is to tell."""
        found = sorted(self._deliveries)
        return ObservedBounds(found[len(found) // 2] if found else None, self._partitions)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._sent) <= OWN_PINGS, "few pings of our own are kept")
        must(all(tock == chain[0].tock for tock, (chain, _) in self._sent.items()), "each is kept by its tock")
        must(all(0 <= least <= most for least, most in self._deliveries), "what took at least so long took no less")
        must(1 <= self._sides <= self._partitions, "no heal has more sides than the largest one")
