"""The search for a parent in the server tree: one node is asked after the other, in rounds.

Knows: who was asked in this round and who is asked now, for how long it has been going on, and when that is enough.
Does not know who is worth asking (`parents`), nor what an offer is worth.

Invariant: one node is asked at a time, each once in a round, and no search is endless: a node that was given no parent
becomes a root (docs/protocol, TREE-5, TREE-6, TREE-14 to TREE-16).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.edges import ParentOffer

TRIES: Final = 16
"""So many nodes are asked before a round is over."""
INQUIRY_MS: Final = 2000
"""How long a node that is asked may take."""
AGAIN_MS: Final = (100, 300)
"""When the next round begins."""
_ROOMLESS: Final = ("full", "deep")
PROBE_MS: Final = 500
"""How often a root asks a node of which it hears nothing by the tree."""


@attrs.define(slots=True)
class Inquiry:
    """A node that is asked."""

    edge: int
    name: NodeName
    began_ms: int
    offer: ParentOffer | None = None
    """Which is taken, as soon as all below know."""
    said_height: int | None = None
    """How many levels it was told that there are below us, when we joined; None: we did not."""


class Search:
    """All times are monotonic milliseconds."""

    def __init__(self, me: NodeName, announce_ms: int, rng: Rng) -> None:
        self.inquiry: Inquiry | None = None
        self.lost_root: NodeName | None = None
        """The root, if it was our parent until now."""
        self.next_ms = 0
        """When the next round begins; or, in the tree, when the next node is probed."""
        self._me: Final = me
        self._announce_ms: Final = announce_ms
        self._rng: Final = rng
        self._since_ms = 0
        self._round: deque[NodeName] = deque()
        self._is_new_round = True
        self._asked: Final = set[NodeName]()
        self._waits_for = False
        """Whether there is a tree that has no room for us yet, or a node looks that would be the root before us."""

    @property
    def asked(self) -> Collection[NodeName]:
        """Who was, in this round."""
        return self._asked

    # -- without a parent

    def begin(self, now_ms: int, lost_root: NodeName | None) -> None:
        """There is no parent from now on."""
        self._since_ms = self.next_ms = now_ms
        self.lost_root, self._is_new_round = lost_root, True

    def pass_time(self, now_ms: int) -> bool:
        """After a while nobody waits any more for whoever was to be the next root. Whether another round begins."""
        if now_ms - self._since_ms >= self._announce_ms // 2:
            self.lost_root = None
        return self._is_new_round

    def begin_round(self, names: Sequence[NodeName]) -> None:
        """Ask these, in this order."""
        self._round, self._waits_for, self._is_new_round = deque(names[:TRIES]), False, False
        self._asked.clear()

    def end_round(self, now_ms: int) -> bool:
        """Nobody took us: there is another round, or (True) it is time to be a root. That is so when there is no tree,
        and nobody looks who would be the root before us, or else after the time of an announcement."""
        is_first = not self._waits_for and (bool(self._asked) or self.lost_root is not None)
        if is_first or now_ms - self._since_ms >= self._announce_ms:
            return True
        low, high = AGAIN_MS
        self._is_new_round, self.next_ms = True, now_ms + low + int(self._rng.random() * (high - low))
        return False

    def settle(self, now_ms: int) -> None:
        """The node has a place."""
        self._round.clear()
        self._asked.clear()
        self.next_ms = now_ms + PROBE_MS

    # -- asking

    def pop(self, peers: Collection[NodeName], children: Collection[NodeName]) -> NodeName | None:
        """The next one of the round that can be asked."""
        while self._round:
            name = self._round.popleft()
            if name in peers and name not in children and name not in self._asked:
                return name
        return None

    def ask(self, edge: int, name: NodeName, now_ms: int) -> None:
        """A node is asked on this edge."""
        self._asked.add(name)
        self.inquiry = Inquiry(edge, name, now_ms)

    def ask_before(self, names: Sequence[NodeName]) -> None:
        """Somebody named these: they come next."""
        if len(self._round) <= TRIES:
            self._round.extendleft(reversed(names[:TRIES]))

    def refused(self, reason: str, others: Sequence[NodeName]) -> None:
        """Whoever is asked will not be the parent; these may be."""
        inquiry = self.inquiry
        if inquiry is not None:
            self._waits_for |= reason in _ROOMLESS or (reason == "detached" and inquiry.name < self._me)
            self.ask_before(others)

    def is_at(self, edge: int) -> bool:
        """Whether somebody is asked on this edge."""
        return self.inquiry is not None and self.inquiry.edge == edge

    # -- within a tree

    def probe(self, strangers: Sequence[NodeName], now_ms: int, *, is_root: bool) -> NodeName | None:
        """Which of the nodes that may be in another tree is to be asked now. A root asks all in turn, soon."""
        unasked = [name for name in strangers if name not in self._asked]
        self.next_ms = now_ms + (PROBE_MS if is_root and unasked else self._announce_ms)
        if not unasked:
            self._asked.clear()  # they are asked again, later
            return None
        return unasked[0]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._round) <= 2 * TRIES, "a round has an end")
        inquiry = self.inquiry
        must(inquiry is None or inquiry.said_height is None or inquiry.offer is not None, "who joins was offered that")
