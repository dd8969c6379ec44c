"""What a node does when others speak of its own name: it speaks up, unless another node has the same name.

Knows: which words are wrong, and where a namesake may be.  Does not know how a probe is made.

Invariant: a word about a life of this node, or of a namesake that is silent, is refuted with a higher generation; one
about a namesake that may live is not. Of two of one name the one that started later ends (docs/protocol, SWIM-15).
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.swim.inputs import Noted, Refused
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn
from distkv.wire.swim_records import Address, MemberState, NodeId, NodeRecord, Rumour, numeric_address

ASKED_AGAIN_MS: Final = 2000
"""So long after a probe of a namesake no other one is made."""
COUNTER_BITS: Final = 16
"""Of a generation: the others are the time of the start."""


@attrs.frozen(slots=True)
class Namesake:
    """Maybe another node of our name."""

    address: Address
    start: bytes | None
    generation: int


class Namesakes:
    """Words about the own name of one node."""

    def __init__(self, node: SwimNode) -> None:
        self._node = node
        self.to_ask: Namesake | None = None
        """Who is to be probed in this step."""
        self.asked: Namesake | None = None
        """Who was probed last."""
        self._known: Namesake | None = None
        """The last one that was heard of."""
        self._asked_ms = -ASKED_AGAIN_MS

    def hear(self, rumour: Rumour, turn: SwimTurn) -> None:
        """Somebody says something about this name."""
        node, own = self._node, self._node.own
        if rumour.record is not None and self._is_elsewhere(rumour.record) and rumour.state <= MemberState.SUSPECT:
            self._doubt(self._namesake(rumour.record), turn)
            return
        is_above = rumour.id.generation > own.generation
        if rumour.record is None and is_above and rumour.state is MemberState.SUSPECT and self._known is not None:
            self._doubt(attrs.evolve(self._known, generation=rumour.id.generation), turn)
            return
        if not is_above and (rumour.id.generation < own.generation or rumour.state is MemberState.ALIVE):
            if rumour.id.generation < own.generation:
                node.answer(node.table.own, turn)
            return
        self._count(rumour.state, is_above)
        node.refute(rumour.id.generation, turn)

    def seen(self, source: NodeId, address: Address, start: bytes | None, turn: SwimTurn) -> None:
        """A ping came from a node that calls itself so."""
        if source != self._node.own.id and start != self._node.own.start:
            self._doubt(Namesake(address, start, source.generation), turn)

    def told_of(self, address: Address, turn: SwimTurn) -> None:
        """Somebody knows a node of this name there."""
        self._doubt(Namesake(address, None, self._node.own.generation), turn)

    def answered(self, who: NodeId, start: bytes | None, turn: SwimTurn) -> None:
        """The one that was probed is there: the one that started later ends."""
        if self.asked is None:
            return
        own, place = self._node.own, f"{self.asked.address[0]}:{self.asked.address[1]}"
        mine = (own.generation >> COUNTER_BITS, own.start)
        theirs = (who.generation >> COUNTER_BITS, start or self.asked.start or b"")
        if mine > theirs:
            self._node.is_leaving = True
            text = f"a node called {own.node} runs at {place} and started earlier: give this one another name"
            turn.reports.append(Refused("name_taken", text))
        else:
            turn.reports.append(Noted("namesake", {"node": own.node, "address": place}))

    def silent(self, turn: SwimTurn) -> None:
        """The one that was probed is not there any more: what is said of it is wrong of this node."""
        self._known, namesake = None, self.asked
        if namesake is not None and namesake.generation >= self._node.own.generation:
            self._node.refute(namesake.generation, turn)

    def check(self) -> None:
        must(self.to_ask is None, "a namesake is probed in the step in which it is heard of")

    def _doubt(self, namesake: Namesake, turn: SwimTurn) -> None:
        self._known = namesake
        if turn.now_ms - self._asked_ms >= ASKED_AGAIN_MS:
            self._asked_ms = turn.now_ms
            self.to_ask = namesake

    def _namesake(self, record: NodeRecord) -> Namesake:
        found = [numeric_address(text) for text in record.addresses]
        return Namesake(next(one for one in found if one is not None), record.start, record.generation)

    def _is_elsewhere(self, record: NodeRecord) -> bool:
        """Whether this may be another node: a life of this one that was somewhere else is silent when it is asked."""
        own = self._node.own
        return record.start != own.start and not {*record.addresses} & {*own.addresses}

    def _count(self, state: MemberState, is_above: bool) -> None:
        """A word about an earlier life of this node is not about this one."""
        if is_above or self._node.is_leaving:
            return
        self._node.health.worsen()
        if state is MemberState.SUSPECT:
            self._node.counts.told_suspect += 1
        elif state is not MemberState.ALIVE:
            self._node.counts.told_dead += 1
