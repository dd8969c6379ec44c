"""Topics that were dropped: each node throws its copies away, and the entry that says so goes when all have.

Knows: which entries name topics that were dropped.  Does not know how all nodes are asked (`rounds`).

Invariant: a copy is thrown away only if each of its ids is dropped. The entry stays until every node that may have a
copy has said, knowing the entry, that it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from distkv.core.ground.machine import NetworkNodes
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.entry_facts import EntryFacts, dropped_ids
from distkv.core.topics.topics import Topics
from distkv.errors import NotFoundError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.topic_errors import AwayError


class Dropping:
    """That of one node, since its machine began."""

    def __init__(self, me: NodeName, nodes: NetworkNodes, entries: EntryFacts, topics: Topics) -> None:
        self._me: Final = me
        self._nodes: Final = nodes
        self._entries: Final = entries
        self._topics: Final = topics
        self._names: Final = dict[str, None]()
        """Under which topics were dropped; the first ones are asked for first."""

    def __len__(self) -> int:
        return len(self._names)

    def drop(self, turn: ServiceTurn, name: str, *, force: bool) -> None:
        """A client wants a topic to be gone.

        Raises:
            NotFoundError: there is none.
            AwayError: somebody is not reached who has it; `force` drops it all the same.
        """
        view = self._entries.view(name)
        if view is None:
            raise NotFoundError(f"there is no topic {name!r}")
        holders = {*view.followers} if view.owner is None else {view.owner, *view.followers}
        away = sorted((holders - self._nodes.alive - {self._me}) | {*view.lacking})
        if away and not force:
            raise AwayError(
                f"the topic {name!r} is not dropped: {', '.join(away)} may have messages of it that this node does not"
                " know; wait until it has them, or drop it with force"
            )
        if away:
            turn.note("topic_dropped_unseen", topic=name, nodes=away)
        self._entries.drop(turn, name)

    def look(self, turn: ServiceTurn, name: str) -> None:
        """An entry, or the copies of this name, are others: what is dropped is thrown away."""
        dropped = dropped_ids(self._entries, name)
        if not dropped:
            self._names.pop(name, None)
            return
        self._names[name] = None
        for topic in self._topics.of(name):
            if topic.ids <= dropped:
                self._topics.throw(topic)
                turn.note("topic_thrown", topic=name)

    def asks(self, limit: int) -> Mapping[str, frozenset[str]]:
        """What this node asks all others about: under names that it owns, and, if it is the first of those that are
        up, under those that nobody owns."""
        if not self._names:
            return {}
        is_first = self._me == min(({self._me} | self._nodes.alive) & self._entries.keepers(), default=self._me)
        mine = (name for name in self._names if self._is_asked_by_me(name, is_first=is_first))
        return {name: dropped_ids(self._entries, name) for name in islice(mine, limit)}

    def _is_asked_by_me(self, name: str, *, is_first: bool) -> bool:
        view = self._entries.view(name)
        return is_first if view is None else view.owner == self._me

    def answered(self, turn: ServiceTurn, asked: Mapping[str, frozenset[str]], unthrown: set[str]) -> None:
        """All nodes have said which of these they threw away."""
        for name, ids in asked.items():
            if name in unthrown or not has_thrown(self._entries, self._topics, name, ids):
                if name in self._names:
                    self._names[name] = self._names.pop(name)  # the others are asked for before it
            elif dropped_ids(self._entries, name) == ids:
                self._names.pop(name, None)
                self._entries.forget_dropped(turn, name)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(self._entries.dropped(name) for name in self._names), "something was dropped under each name")


def has_thrown(entries: EntryFacts, topics: Topics, name: str, ids: frozenset[str]) -> bool:
    """Whether this node knows that these are dropped, and has no copy of them."""
    return ids <= entries.dropped(name) and not any(topic.ids <= ids for topic in topics.of(name))
