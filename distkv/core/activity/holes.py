"""Asks other nodes for activities that are missing, and says which do not come.

Knows: whom it has asked for what is missing of an origin, and who has it not.  Does not know how a hole is noticed.

Invariant: of one origin one node is asked at a time. What nobody has, or did not come in `PATIENCE_MS`, is passed over;
nothing but the later activities of that origin waits so long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from distkv.core.activity.knowledge import Knowledge
from distkv.core.activity.origins import Hole, Origins
from distkv.core.activity.other_listeners import OtherListeners
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.activity_bodies import HOLE_ANSWERS, HoleAsked, KeptActivity
from distkv.wire.declared import pack

WAIT_MS: Final = 100
"""What is missing may be on its way: it is asked for so much later."""
ROUND_MS: Final = 250
"""Between the last answer and the first question of the next round."""
NOBODY_MS: Final = 1000
"""All nodes have to say that they have it not so long after it was missed: it may just be on its way to them."""
PATIENCE_MS: Final = 5000
LOOK_MS: Final = 50
"""While something is missing, it is looked at so often."""
ASK_MS: Final = 1000
"""So long an answer is waited for."""
ASKED_MAX: Final = 32
"""Of so many origins something is asked for at once."""


@attrs.frozen(slots=True)
class HolePurpose:
    """Why a node was asked."""

    origin: str
    first: int
    node: NodeName


@attrs.define(slots=True, eq=False)
class _HoleRound:
    """A round of questions for what is missing of one origin."""

    first: int
    next_ms: int
    """When the next node is asked."""
    began_ms: int = 0
    """When the first one was."""
    asked: NodeName | None = None
    """Whose answer is waited for."""
    without: set[NodeName] = attrs.field(factory=set)
    """Who has it not, as it says in this round."""
    silent: set[NodeName] = attrs.field(factory=set)
    """Who did not answer in this round."""


class Holes:
    """Those of one node."""

    def __init__(self, origins: Origins, knowledge: Knowledge, others: OtherListeners) -> None:
        self._origins: Final = origins
        self._knowledge: Final = knowledge
        self._others: Final = others
        self._asking: Final = dict[str, _HoleRound]()
        self._look_ms = 0
        self.asked = 0
        """How many questions there were."""

    def look(self, turn: ServiceTurn) -> list[Hole]:
        """Ask for what is missing; what does not come any more."""
        now_ms, over = turn.boot_ms, list[Hole]()
        there = {hole.origin: hole for hole in self._origins.holes()}
        for origin in [origin for origin in self._asking if origin not in there]:
            self._end(turn, origin)
        for origin, hole in there.items():
            asking = self._asking.get(origin)
            if asking is None:
                asking = self._asking[origin] = _HoleRound(hole.first, hole.since_ms + WAIT_MS)
            elif asking.first != hole.first and asking.asked is None:  # what was asked for came, and more is missing
                asking = self._asking[origin] = _HoleRound(hole.first, now_ms)
            if hole.since_ms + PATIENCE_MS <= now_ms or self._nobody_has_it(hole, asking):
                self._end(turn, origin)
                over.append(hole)
            elif asking.asked is None and asking.next_ms <= now_ms:
                self._ask_next(turn, hole, asking)
        self._look_ms = now_ms + LOOK_MS
        return over

    def replied(self, turn: ServiceTurn, purpose: HolePurpose, reply: object) -> list[KeptActivity]:
        """A node answered, or did not; what it has."""
        asking = self._asking.get(purpose.origin)
        if asking is None or asking.asked != purpose.node:
            return []
        asking.asked, asking.next_ms, self._look_ms = None, turn.boot_ms, turn.boot_ms
        try:
            answer = HOLE_ANSWERS.read(reply) if isinstance(reply, bytes) else None
        except DecodeError:
            answer = None
        if answer is None:
            is_listener = purpose.node in self._others.places
            (asking.silent if is_listener else asking.without).add(purpose.node)  # others may have no such service
            return []
        if not any(item.number == purpose.first for item in answer.items):
            asking.without.add(purpose.node)
        return [item for item in answer.items if item.origin == purpose.origin]

    def wake_ms(self) -> int | None:
        """When it looks again."""
        return self._look_ms if self._origins.is_waiting or self._asking else None

    # -- inside

    def _candidates(self, hole: Hole, asking: _HoleRound) -> Iterator[NodeName]:
        """Who can be asked in this round: first who said that it has it."""
        others = [node for node in self._others.reachable if node not in asking.without | asking.silent]
        yield from (node for node in others if self._knowledge.knows(node, hole.origin, hole.first))
        yield from others

    def _ask_next(self, turn: ServiceTurn, hole: Hole, asking: _HoleRound) -> None:
        node = next(self._candidates(hole, asking), None)
        if node is None:
            asking.without.clear()
            asking.silent.clear()
            asking.next_ms, asking.began_ms = turn.boot_ms + ROUND_MS, 0
        elif sum(one.asked is not None for one in self._asking.values()) >= ASKED_MAX:
            asking.next_ms = turn.boot_ms + LOOK_MS
        else:
            asking.began_ms = asking.began_ms or turn.boot_ms
            asking.asked, asking.first = node, hole.first
            self.asked += 1
            body = pack(HoleAsked(hole.origin, hole.first, hole.last))
            turn.ask_node(node, body, HolePurpose(hole.origin, hole.first, node), patience_ms=ASK_MS, waits=False)

    def _nobody_has_it(self, hole: Hole, asking: _HoleRound) -> bool:
        """Whether all nodes said so, in a round that began long enough after it was missed."""
        if asking.asked is not None or asking.silent or asking.began_ms < hole.since_ms + NOBODY_MS:
            return False
        return asking.first == hole.first and asking.without.issuperset(self._others.reachable)

    def _end(self, turn: ServiceTurn, origin: str) -> None:
        asking = self._asking.pop(origin)
        if asking.asked is not None:
            turn.withdraw(HolePurpose(origin, asking.first, asking.asked))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(sum(one.asked is not None for one in self._asking.values()) <= ASKED_MAX, "not too much is asked at once")
        for one in self._asking.values():
            must(one.asked not in one.without | one.silent, "nobody is asked twice in a round")


