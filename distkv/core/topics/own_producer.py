"""The producer that this node is for clients that put a message without one.

Knows: its name, and the next number in each topic.  Does not know what is put.

A client that names no producer cannot say that it asks a second time; but this node can ask the owner twice, and so
numbers what it passes on (docs/protocol, ANSWER-2). In each topic the numbers follow one another, so what was seen
stays one range. They begin above all that this node may have used in any topic: one ceiling, durable before a number is
used, is enough for that. Name and ceiling are promises: when they are void, because the disk is new or an old one,
another name is drawn.

Invariant: no number of a topic is given twice under one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.topic_fields import OF_NODES

AHEAD: Final = 1000
"""So many numbers are made durable at once."""
SLOT: Final = "producer"
NAMES: Final = 1 << 32
DRAWN: Final = re.compile("[0-9a-f]{8}")


class OwnProducer:
    """That of one node, since its machine began."""

    def __init__(self, me: NodeName, slots: Mapping[str, bytes], topics_max: int, rng: Rng) -> None:
        drawn, _, ceiling = slots.get(SLOT, b"").decode("ascii", "replace").partition(" ")
        is_kept = DRAWN.fullmatch(drawn) is not None and ceiling.isascii() and ceiling.isdigit()
        self._drawn: Final = drawn if is_kept else f"{int(rng.random() * NAMES):08x}"
        self._ceiling = self._highest = int(ceiling) if is_kept else 0
        """Numbers up to the first are durable; those up to the second may have been used."""
        self.name: Final = f"{OF_NODES}{me}.{self._drawn}"
        self._topics_max: Final = topics_max
        self._last: Final = dict[str, int]()
        """By topic, the one that was used longest ago first."""

    def next_counter(self, turn: ServiceTurn, topic: str) -> int:
        """The number of one more message; it may leave when the disk has this step."""
        number = self._last.pop(topic, self._highest) + 1
        self._last[topic] = number
        if len(self._last) > self._topics_max:
            del self._last[next(iter(self._last))]
        self._highest = max(self._highest, number)
        if number > self._ceiling:
            self._ceiling = number + AHEAD
            turn.keep(SLOT, f"{self._drawn} {self._ceiling}".encode())
        return number

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._highest <= self._ceiling, "no number that is used is above the ceiling")
        must(all(last <= self._highest for last in self._last.values()), "the highest number is that of all topics")
