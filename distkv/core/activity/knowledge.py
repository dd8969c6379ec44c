"""What the neighbours in the server tree tell each other of all origins: up to which number each has them.

Knows: who was told what, when it is told again, and what the neighbours said.  Does not know how a hole is filled.

Without it the last words of a node that died, or began again at once, are missing without a later number that shows
it: the flood of the tree drops frames of an earlier start.

Invariant: of who is no neighbour nothing is remembered but the last answers, about `ORIGINS_MAX` origins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.core.activity.origins import Origins
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import ORIGINS_MAX, OriginsKnown
from distkv.wire.declared import pack

TICK_MS: Final = 1000
LATELY_MS: Final = 3500
"""What changed since then is told with each tick: a word may get lost."""
ALL_MS: Final = 10_000
"""After this time all is told again."""


class Knowledge:
    """That of one node."""

    def __init__(self, origins: Origins, others: OtherListeners) -> None:
        self._origins: Final = origins
        self._others: Final = others
        self._told_all_ms: Final = dict[NodeName, int]()
        """When each neighbour was told all."""
        self._heard: Final = dict[NodeName, dict[str, int]]()
        self._answered: Final = dict[str, tuple[NodeName, int]]()
        """Of origins about which nodes were asked: who has most, and how much."""
        self._seen: tuple[NodeName, ...] = ()
        """The neighbours, when it was looked last."""
        self._look_ms = 0

    def knows(self, node: NodeName, origin: str, number: int) -> bool:
        """Whether a node said that it has an activity of an origin, or a later one."""
        who, most = self._answered.get(origin, (None, 0))
        return self._heard.get(node, {}).get(origin, 0) >= number or (who == node and most >= number)

    def heard(self, node: NodeName, numbers: Mapping[str, int], now_ms: int) -> None:
        """A node says what it has."""
        if node in self._others.neighbours:
            known = self._heard.setdefault(node, {})
            known.update(numbers)
            while len(known) > ORIGINS_MAX:
                del known[next(iter(known))]
        for origin, number in numbers.items():
            self._origins.know(origin, number, now_ms)

    def answered(self, node: NodeName, numbers: Mapping[str, int], now_ms: int) -> None:
        """A node that was asked says what it has."""
        for origin, number in numbers.items():
            if number >= self._answered.get(origin, (node, 0))[1]:
                self._answered.pop(origin, None)
                self._answered[origin] = node, number
            self._origins.know(origin, number, now_ms)
        while len(self._answered) > ORIGINS_MAX:
            del self._answered[next(iter(self._answered))]

    def look(self, turn: ServiceTurn) -> None:
        """Tell who is to be told."""
        now_ms, neighbours = turn.boot_ms, self._others.neighbours
        if neighbours == self._seen and now_ms < self._look_ms:
            return
        self._seen = neighbours
        for gone in [node for node in self._told_all_ms if node not in neighbours]:
            del self._told_all_ms[gone]
            self._heard.pop(gone, None)
        due = [node for node in neighbours if self._told_all_ms.get(node, now_ms - ALL_MS) + ALL_MS <= now_ms]
        self._told_all_ms.update(dict.fromkeys(due, now_ms))
        self._tell(turn, due, None)
        if self._look_ms <= now_ms:
            self._look_ms = now_ms + TICK_MS
            self._tell(turn, [node for node in neighbours if node not in due], now_ms - LATELY_MS)

    def tell_now(self, turn: ServiceTurn) -> None:
        """Something came that the neighbours may not have: it did not come over the tree."""
        self._tell(turn, self._others.neighbours, turn.boot_ms)

    def wake_ms(self) -> int | None:
        """When `look` has something to do."""
        return self._look_ms if self._told_all_ms else None

    def _tell(self, turn: ServiceTurn, nodes: Sequence[NodeName], since_ms: int | None) -> None:
        numbers = self._origins.had(since_ms) if nodes else {}
        if numbers:
            body = pack(OriginsKnown(numbers))
            for node in nodes:
                turn.tell(node, body, waits=False)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._answered) <= ORIGINS_MAX, "answers about no more origins than there may be")
        must(all(len(known) <= ORIGINS_MAX for known in self._heard.values()), "no more origins than there may be")
