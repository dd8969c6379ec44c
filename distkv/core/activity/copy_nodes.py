"""Which other nodes an activity of this node is to be with: those that announce a listener, and those that may have one
although nothing of theirs is heard here.

Knows: who seems alive and is out of this node's tree, and who answered when it was told something itself.  Does not
know activities.

What a node announces comes over the server tree. A node that began a moment ago has heard nothing yet, and one without
an edge hears no more: it would take itself for the only one.

Invariant: a node of which nothing is heard counts while it seems alive and announced a listener before, or for
`NEW_MS`; but not for `SILENT_MS` after it was told something and did not answer in `ANSWER_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.activity.other_listeners import AnnouncedPlace, OtherListeners
from distkv.model.event import NodeName
from distkv.model.invariant import must

NEW_MS: Final = 6000
"""A node that seems alive has announced its listener so soon, if it has one."""
ANSWER_MS: Final = 1000
SILENT_MS: Final = 10_000


class CopyNodes:
    """Those of one node."""

    def __init__(self, others: OtherListeners) -> None:
        self._others: Final = others
        self._seen: Mapping[NodeName, AnnouncedPlace] | None = None
        """As it was looked at last."""
        self._hidden_ms: Final = dict[NodeName, int]()
        """Since when nodes that seem alive announce no listener here."""
        self._had: Final = set[NodeName]()
        """Which of them announced one before."""
        self._told_ms: Final = dict[NodeName, int]()
        """Since when each of them has not answered."""
        self._silent_ms: Final = dict[NodeName, int]()
        """Until when each of them does not count."""
        self.nodes: tuple[NodeName, ...] = ()
        """Who counts: the neighbours in the tree first, and last of whom nothing is heard."""

    def look(self, now_ms: int) -> None:
        """See who counts now."""
        if self._others.places is not self._seen:
            self._see_hidden(now_ms)
        for node, told_ms in [*self._told_ms.items()]:
            if told_ms + ANSWER_MS <= now_ms:
                del self._told_ms[node]
                self._silent_ms[node] = now_ms + SILENT_MS
        hidden = [node for node in self._hidden_ms if self._counts(node, now_ms)] if self._hidden_ms else []
        self.nodes = (*self._others.nodes, *hidden) if hidden else self._others.nodes

    def told(self, node: NodeName, now_ms: int) -> None:
        """A node was told something itself, and is to answer."""
        if node in self._hidden_ms:
            self._told_ms.setdefault(node, now_ms)

    def answered(self, node: NodeName) -> None:
        """It said that it has something."""
        self._told_ms.pop(node, None)
        self._silent_ms.pop(node, None)
        if node in self._hidden_ms:
            self._had.add(node)

    # -- inside

    def _see_hidden(self, now_ms: int) -> None:
        before, places = self._seen or {}, self._others.places
        hidden = [node for node in self._others.reachable if node not in places]
        self._seen = places
        since_ms = {node: self._hidden_ms.get(node, now_ms) for node in hidden}
        self._hidden_ms.clear()
        self._hidden_ms.update(since_ms)
        self._had.update(before)
        self._had.intersection_update(since_ms)
        for known in (self._told_ms, self._silent_ms):
            for node in [node for node in known if node not in since_ms]:
                del known[node]

    def _counts(self, node: NodeName, now_ms: int) -> bool:
        if self._silent_ms.get(node, now_ms) > now_ms:
            return False
        return node in self._had or self._hidden_ms[node] + NEW_MS > now_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._had <= self._hidden_ms.keys(), "of whom something is heard counts by that")
        must(self._told_ms.keys() <= self._hidden_ms.keys(), "only of whom nothing is heard an answer is waited for")
        must(self._silent_ms.keys() <= self._hidden_ms.keys(), "only such a one does not count")
