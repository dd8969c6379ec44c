"""Copies of topics that no entry names: they are kept, and shown, until all others say that no entry of theirs does.

Knows: which copies these are, and since when.  Does not know how all nodes are asked (`rounds`).

An entry may come later than rows of its topic. A copy without one may also be of a topic that was dropped while this
node was away, or come from an old disk.

Invariant: a copy is thrown away only if no node that keeps topics has an entry that names one of its ids, in answers to
a question that was asked at least `LATE_MS` after it was found. With nobody to ask it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.ground.alarms import Alarms
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.entry_facts import EntryFacts, is_named
from distkv.core.topics.topics import Topics
from distkv.model.invariant import must

LATE_MS: Final = 10_000
"""More than an entry needs to reach all nodes that are up."""


class Orphans:
    """Those of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, entries: EntryFacts, topics: Topics) -> None:
        self._entries: Final = entries
        self._topics: Final = topics
        self._found: Final = dict[str, frozenset[str]]()
        """By names, the ids of such copies."""
        self._alarms: Final = Alarms[str]()
        """When they are asked about."""

    def names(self) -> list[str]:
        """Of all of them, in order."""
        return sorted(self._found)

    def look(self, turn: ServiceTurn, name: str) -> None:
        """An entry, or the copies of this name, are others."""
        ids = self._unnamed(name)
        if not ids:
            self._found.pop(name, None)
            self._alarms.drop(name)
        elif self._found.get(name) != ids:
            self._found[name] = ids
            self._alarms.put(name, turn.boot_ms + LATE_MS)

    def due_ms(self) -> int | None:
        """When there is something to ask about."""
        return self._alarms.first_ms

    def asks(self, now_ms: int) -> Mapping[str, frozenset[str]]:
        """What all others are asked about now; it is asked again later if their answers do not decide it."""
        due = self._alarms.take_due(now_ms)
        for name in due:
            self._alarms.put(name, now_ms + LATE_MS)
        return {name: self._found[name] for name in due}

    def answered(self, turn: ServiceTurn, asked: Mapping[str, frozenset[str]], known: set[str]) -> None:
        """All nodes, and not none, have said for which of these there is an entry."""
        for name, ids in asked.items():
            if name in known or self._found.get(name) != ids:
                continue
            for topic in self._topics.of(name):
                if topic.ids <= ids:
                    self._topics.throw(topic)
                    turn.note("topic_orphan_thrown", topic=name)
            self.look(turn, name)

    def _unnamed(self, name: str) -> frozenset[str]:
        unnamed = (topic.ids for topic in self._topics.of(name) if not is_named(self._entries, name, topic.ids))
        return frozenset[str]().union(*unnamed)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._alarms.check()
        must({*self._alarms} == self._found.keys(), "each of them is asked about some time")
