"""Topics of which the owner may not know all subscribers: whether other nodes know some, so far as it was asked.

Knows: which topics somebody wants to know that of, since when, and what all nodes said.  Does not know how they are
asked (`rounds`), nor what a subscriber is told.

Invariant: what is said of a topic comes from a question that was asked after somebody wanted to know it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from distkv.model.event import NodeName
from distkv.model.invariant import must

OPEN_MAX: Final = 1000
"""Of so many topics it is wanted at the most; of others nothing is said."""
ASKED_MAX: Final = 100
"""About so many all nodes are asked at once."""
SAID_MS: Final = 10_000
"""So long what they said is remembered."""


class SubscriberDoubts:
    """Those of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self) -> None:
        self._open: Final = dict[str, int]()
        """Since when it is wanted last, where all nodes were not asked since."""
        self._asked: Final = dict[str, None]()
        """What they are asked about now."""
        self._asked_ms = 0
        self._said: Final = dict[str, tuple[int, tuple[NodeName, ...]]]()
        """When they were asked, and who holds something that this node may lack; those that were asked last come last.
        """
        self._news: Final = dict[str, None]()
        """Of these it was said since it was taken last."""

    def __len__(self) -> int:
        """Of how many topics all nodes are to be asked."""
        return len(self._open)

    def want(self, name: str, since_ms: int) -> None:
        """Somebody wants to know it, as it is after this time."""
        if name in self._open or len(self._open) < OPEN_MAX:
            self._open[name] = max(since_ms, self._open.get(name, since_ms))

    def said(self, name: str, since_ms: int) -> tuple[NodeName, ...] | None:
        """Who may know subscribers that this node does not, by a question that was asked after this time; None: there
        was none, or it is not answered yet."""
        asked_ms, found = self._said.get(name, (since_ms, ()))
        return found if asked_ms > since_ms else None

    def take_news(self) -> Iterable[str]:
        """The topics of which all nodes have said something."""
        found = [*self._news]
        self._news.clear()
        return found

    # -- rounds

    def asks(self, now_ms: int) -> Collection[str]:
        """The topics about which all nodes are asked now."""
        self._asked.clear()
        self._asked_ms = now_ms
        self._asked.update(dict.fromkeys(islice((name for name, ms in self._open.items() if ms < now_ms), ASKED_MAX)))
        return tuple(self._asked)

    def answered(self, unclean: Mapping[str, NodeName]) -> None:
        """All nodes have answered: of these topics a node holds something that this one may lack."""
        for name in [name for name, (ms, _) in self._said.items() if ms < self._asked_ms - SAID_MS]:
            del self._said[name]
        for name in self._asked:
            if self._open.get(name, self._asked_ms) < self._asked_ms:
                del self._open[name]
            self._said.pop(name, None)
            self._said[name] = self._asked_ms, (unclean[name],) if name in unclean else ()
            self._news[name] = None
        self._asked.clear()

    def doubt(self) -> None:
        """Their answers do not count: they are asked again."""
        self._asked.clear()

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._open) <= OPEN_MAX, "it is wanted of no more topics than that")
        must(len(self._asked) <= ASKED_MAX, "no more is asked at once than that")
