"""Topics that another node has begun, as its rows say, while their entries are still on their way to this one.

Knows: who sent rows of a topic without an entry, under which ids, and when.  Does not know the entries, nor the rows.

For example, *b* begins a topic, and *a* follows. The first message is on both disks before the entry is at *a*. A
request that comes to *a* then is not to begin a second topic of this name.

Invariant: it is known only what came since this machine began: rows of an old disk begin nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must

BEGUN_MAX: Final = 10_000
"""Of so many topics it is known; those of which rows came first are forgotten first."""
ENTRY_MS: Final = 10_000
"""So long after its last rows the node is asked, although there is no entry."""


@attrs.frozen(slots=True)
class _RowSender:
    node: NodeName
    ids: frozenset[str]
    came_ms: int


class BegunTopics:
    """Those that one node knows, since its machine began."""

    def __init__(self) -> None:
        self._begun: Final = dict[str, _RowSender]()

    def came(self, name: str, node: NodeName, ids: Iterable[str], now_ms: int) -> None:
        """That node sent rows of a topic of which there is no entry here."""
        self._begun.pop(name, None)
        while len(self._begun) >= BEGUN_MAX:
            del self._begun[next(iter(self._begun))]
        self._begun[name] = _RowSender(node, frozenset(ids), now_ms)

    def forget(self, name: str) -> None:
        """Its entry is here."""
        self._begun.pop(name, None)

    def node_of(self, name: str, now_ms: int) -> NodeName | None:
        """Who is to be asked about a topic; None: nobody sent rows of it lately."""
        begun = self._begun.get(name)
        return None if begun is None or now_ms >= begun.came_ms + ENTRY_MS else begun.node

    def copied_from(self, name: str) -> tuple[NodeName, frozenset[str]] | None:
        """Who sent what is here of a topic, and the ids of that."""
        begun = self._begun.get(name)
        return None if begun is None else (begun.node, begun.ids)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._begun) <= BEGUN_MAX, "no more topics are known than that")
