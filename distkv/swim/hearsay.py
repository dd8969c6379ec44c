"""What a node makes of what others say about nodes (docs: swim, 'Words').

Knows: which word replaces which belief, which one is answered, and what of it is said on.  Does not know how words
travel.

Invariant: nothing is said on that this node did not believe. Whoever says something old is told the newer. That others
believe somebody dead makes nobody dead before he had time to speak up (docs/protocol, SWIM-31, SWIM-37).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from distkv.swim.members import Belief, MemberEntry, joined
from distkv.swim.namesakes import Namesakes
from distkv.swim.node import SwimNode
from distkv.swim.turn import SwimTurn
from distkv.wire.swim_records import MemberState, NodeId, Rumour


class Hearsay:
    """What is heard."""

    def __init__(self, node: SwimNode, namesakes: Namesakes) -> None:
        self._node = node
        self._namesakes = namesakes

    def speaks(self, speaker: NodeId, turn: SwimTurn) -> None:
        """Something came from this node, which thereby says that it lives at this generation."""
        entry = self._node.table.entries.get(speaker.node)
        if entry is None or entry.generation < speaker.generation:
            return
        if entry.generation > speaker.generation or entry.state is not MemberState.ALIVE:
            self._node.answer(entry, turn)

    def hear(self, rumours: Iterable[Rumour], turn: SwimTurn) -> None:
        """News, which others do not have yet."""
        for rumour in rumours:
            if self._hear(rumour, turn):
                self._node.queue.add(self._node.table.entries[rumour.id.node].as_rumour())

    def _hear(self, rumour: Rumour, turn: SwimTurn) -> bool:
        """Whether it is news to this node, and not a suspicion, which is told on as it is."""
        if rumour.id.node != self._node.own.node:
            return self._of_another(rumour, turn)
        self._namesakes.hear(rumour, turn)
        return False

    def hear_sample(self, sample: Iterable[Rumour], by: str, turn: SwimTurn) -> None:
        """A page of a member's table, which is no news: others have it. Whom that member holds for dead, and this node
        does not, is suspected."""
        for rumour in sample:
            entry = self._node.table.entries.get(rumour.id.node)
            is_doubt = rumour.state is MemberState.DEAD and entry is not None and entry.is_live
            doubted = attrs.evolve(rumour, state=MemberState.SUSPECT, by=by) if is_doubt else rumour
            self._hear(doubted, turn)

    def _of_another(self, rumour: Rumour, turn: SwimTurn) -> bool:
        node = self._node
        entry = node.table.entries.get(rumour.id.node)
        if entry is None:
            return self._of_unknown(rumour, turn)
        if rumour.id.generation < entry.generation:
            node.answer(entry, turn)
            return False
        if _is_known(entry, rumour):
            return False
        mine = entry.belief
        theirs = Belief(rumour.id.generation, rumour.state, rumour.record or entry.record)
        after = joined(mine, theirs)
        is_news = after != mine and self._believe(entry, after, rumour, turn)
        if entry.state is MemberState.SUSPECT and rumour.state is MemberState.SUSPECT and rumour.by:
            self._suspect(entry, rumour.by, turn)
        return is_news

    def _believe(self, entry: MemberEntry, after: Belief, rumour: Rumour, turn: SwimTurn) -> bool:
        node = self._node
        is_new = (after.generation, after.state) != (entry.generation, entry.state)
        if is_new and after.state is MemberState.SUSPECT:
            node.believe(attrs.evolve(after, state=MemberState.ALIVE), turn)
            self._suspect(entry, rumour.by or rumour.id.node, turn)
            return False
        node.believe(after, turn)
        return is_new

    def _of_unknown(self, rumour: Rumour, turn: SwimTurn) -> bool:
        node = self._node
        if rumour.record is None or node.table.is_full or node.is_former(rumour.record.start):
            return False
        state = MemberState.ALIVE if rumour.state is MemberState.SUSPECT else rumour.state
        entry = node.believe(Belief(rumour.id.generation, state, rumour.record), turn)
        if rumour.state is MemberState.SUSPECT:
            self._suspect(entry, rumour.by or rumour.id.node, turn)
        return rumour.state is MemberState.ALIVE

    def _suspect(self, entry: MemberEntry, by: str, turn: SwimTurn) -> None:
        name = entry.record.node
        is_first = not self._node.suspicions.has(name, entry.generation)
        self._node.suspect(entry, by, turn)
        if is_first:
            turn.suspected.append(name)

    def ripen(self, turn: SwimTurn) -> None:
        """Whoever had time enough to speak up is dead, unless something comes from it on a link."""
        node = self._node
        for name, generation in node.suspicions.ripe(turn.now_ms):
            entry = node.table.entries[name]
            if entry.has_fresh_link(turn.now_ms):
                node.suspicions.put_off(name, generation, node.own.node, turn.now_ms + node.settings.interval_ms)
            else:
                node.believe(attrs.evolve(entry.belief, state=MemberState.DEAD), turn)
                node.queue.add(entry.as_rumour())


def _is_known(entry: MemberEntry, rumour: Rumour) -> bool:
    """Whether this is what is believed, word for word: most of what is heard is."""
    return (
        rumour.state is entry.state is not MemberState.SUSPECT
        and rumour.id.generation == entry.generation
        and (rumour.record is None or rumour.record == entry.record)
    )
