"""Which topics this node took from others that may not know it, and which others took from this one.

Knows: what is kept of the first, and what was told of the second.  Does not know who may take a topic.

Invariant: what this node took from another is on its disk until that one said that it knows, or has taken it back; what
another took from this one counts until the store shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, Protocol

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.turn import ServiceTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.topic_messages import NAMES_MAX

SEP: Final = "\x1f"
TAKEN: Final = "x"
"""How the key of a row begins that says so."""


class EntryView(Protocol):
    """What the store says."""

    def knows_taken(self, name: str, node: NodeName) -> bool:
        """Whether it shows that this node is not the owner of a topic any more, or that `node` has become one beside
        it; or that `node` is gone for good."""

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        """Whether it shows that `node` is the owner of a topic, by an entry that replaced what this node wrote; or that
        `node` is gone for good."""


class TakenTopics:
    """Those of one node."""

    def __init__(self, view: EntryView, data: ServiceRows) -> None:
        self._view: Final = view
        self._taken: Final = dict[NodeName, dict[str, None]]()
        """By the node from which they were taken."""
        self._told: Final = dict[NodeName, dict[str, bool]]()
        """By the node that said last that it took them: whether the store has shown that since then."""
        for key in data.keys(f"{TAKEN}{SEP}"):
            _, node, name = key.split(SEP, 2)
            self._taken.setdefault(NodeName(node), {})[name] = None

    def took(self, turn: ServiceTurn, name: str, node: NodeName) -> None:
        """This node leaves another one out of the entry of a topic.

        Raises:
            RequestError: there is no room to keep that, so it must not be done.
        """
        turn.keep_data(_key(name, node), b"")
        self._taken.setdefault(node, {})[name] = None

    def has_taken(self, node: NodeName) -> tuple[tuple[str, ...], bool]:
        """What that node is to be told, and whether there is more."""
        names = self._taken.get(node, {})
        return tuple(islice(names, NAMES_MAX)), len(names) > NAMES_MAX

    def heard(self, turn: ServiceTurn, node: NodeName, taken: tuple[str, ...], known: Iterable[str]) -> None:
        """That node says what it took, and what it knows to have lost."""
        before = self._told.pop(node, {})
        if taken:
            self._told[node] = {name: before.get(name, False) for name in taken}
        for name in known:
            if name in self._taken.get(node, {}):
                self._forget(turn, name, node)
        self.look(turn)

    def look(self, turn: ServiceTurn) -> None:
        """The store may show more than before."""
        for node, names in self._told.items():
            for name, is_known in names.items():
                names[name] = is_known or self._view.knows_taken(name, node)
        for node, own in [*self._taken.items()]:
            for name in [name for name in own if self._view.is_taken_back(name, node)]:
                self._forget(turn, name, node)

    def known(self, node: NodeName) -> tuple[str, ...]:
        """What that node took, and this one has seen in the store."""
        return tuple([name for name, is_known in self._told.get(node, {}).items() if is_known])

    def doubted(self) -> frozenset[NodeName]:
        """The nodes that said they took what the store does not show: they may say otherwise by now."""
        return frozenset(node for node, names in self._told.items() if not all(names.values()))

    def is_suspended(self, name: str) -> bool:
        """Whether another node said that it took a topic, and the store does not show it yet."""
        return any(not names.get(name, True) for names in self._told.values())

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(self._taken.values()), "a node from which nothing was taken is not remembered")
        must(all(self._told.values()), "a node that took nothing is not remembered")

    def _forget(self, turn: ServiceTurn, name: str, node: NodeName) -> None:
        turn.keep_data(_key(name, node), None)
        del self._taken[node][name]
        if not self._taken[node]:
            del self._taken[node]


def _key(name: str, node: NodeName) -> str:
    return f"{TAKEN}{SEP}{node}{SEP}{name}"
