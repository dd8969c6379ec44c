"""The requests to other nodes that are under way, and what each of them is for.

Knows: whom a request went to, why, and what became of it so far.  Does not know what an answer changes.

Invariant: each has a number of its own in a process; what is not here any more has been answered, or never will be.
"""

from __future__ import annotations

from enum import Enum, auto

import attrs

from distkv.core.ready import Ask, Question
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.tick_ranges import TickRanges


class Why(Enum):
    """What a request is for. Of exchanges and of pulls one each is under way; the others come on top (GAP-3)."""

    EXCHANGE = auto()
    PULL = auto()
    DOWNLOAD = auto()
    WITNESS = auto()
    """What the peer heard of our life (LIFE-5)."""
    BEHIND = auto()
    """The peer is told that its disk was set back (LIFE-6)."""
    PRESENCE = auto()
    """Whether it is there at all, because somebody asks for its name (NAME-2)."""
    NAMESAKE = auto()
    """Whether somebody else has our name (NAME-1)."""
    TOMBSTONES = auto()
    """Whether they may be forgotten (PURGE-4)."""
    COMPARISON = auto()
    """Whole trees are compared; the answers count whatever the ledger says (SYNC-4)."""


@attrs.define(slots=True)
class Asked:
    """A request to a peer that is under way."""

    name: NodeName
    ask: Ask
    why: Why
    missing: TickRanges
    """What was missing here when it was asked, if that was more than one pull asks for (GAP-5)."""
    left: frozenset[NodeName] = frozenset()
    """The writers that a pull leaves to links (LINK-8)."""
    heard_ms: int = 0
    """When something was last heard of the peer, or it was asked."""
    brought: bool = False
    differs: bool = False
    """Whether a short answer said that the peer holds something else."""
    ended: bool = False
    """Whether the end of a pull came."""
    is_void: bool = False
    """Whether the answer is about a state that is no more."""


class Asks:
    """All of them."""

    def __init__(self) -> None:
        self._open: dict[int, Asked] = {}
        self._count = 0

    @property
    def is_first(self) -> bool:
        """Whether nothing was asked yet."""
        return self._count == 0

    def begin(
        self,
        name: NodeName,
        addr: str,
        what: Question,
        why: Why,
        now_ms: int,
        *,
        missing: TickRanges,
        left: frozenset[NodeName],
    ) -> Ask:
        """A request to the node `name` at `addr` is about to leave."""
        self._count += 1
        ask = Ask(self._count, addr, what)
        self._open[ask.id] = Asked(name, ask, why, missing, left, now_ms)
        return ask

    def get(self, number: int) -> Asked | None:
        """None: it is over."""
        return self._open.get(number)

    def end(self, number: int) -> Asked | None:
        """It is over; None: it was so already."""
        return self._open.pop(number, None)

    def find(self, why: Why) -> Asked | None:
        """The last one for this reason that is under way, if there is one. Of a pull whose end came the connection may
        be open still, when the next one is under way."""
        return next((asked for asked in reversed(self._open.values()) if asked.why is why), None)

    def has(self, why: Why) -> bool:
        """Whether one for this reason is under way."""
        return self.find(why) is not None

    def void_all_but(self, kept: Asked) -> None:
        """The state is another one from now on."""
        for asked in self._open.values():
            asked.is_void = asked is not kept

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for number, asked in self._open.items():
            must(number == asked.ask.id <= self._count, "each request has a number of its own")
        whys = [asked.why for asked in self._open.values() if not asked.is_void and not asked.ended]
        must(whys.count(Why.PULL) <= 1, "one pull is under way")
