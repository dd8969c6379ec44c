"""To whom this node lends a connection: whoever should follow it and does not, perhaps because it cannot dial this one.

Knows: who should follow this node itself, since when somebody does not, and when to offer a connection again.  Does not
know why somebody does not follow, nor what happens on a connection that is lent.

Invariant: at most `fanout` connections are lent or offered at a time, and one to each node; who follows gets none
(docs/protocol, LINK-9).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must

PATIENCE_MS: Final = 5000
"""So long a node that could be asked does not follow, before it is offered a connection: it may be about to."""
RETRY_MS: Final = 2000
"""After so long, more or less, a node that took none is offered one again; then after twice as long, and so on."""
RETRY_MAX_MS: Final = 300_000
UNKNOWN_MS: Final = 3_600_000
"""After so long, when the node is of a release that takes none."""


@attrs.define(slots=True)
class Borrower:
    """A node that should follow this one and does not, or to which a connection is lent."""

    since_ms: int | None = None
    """Since when it does not follow although it could be asked; None: it follows, or cannot be asked."""
    is_open: bool = False
    """Whether a connection is lent to it, or offered."""
    failures: int = 0
    """How often in a row it took none, or did not use it."""
    retry_ms: int | None = None
    """When it may be offered one again."""


class Lending:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, me: NodeName, fanout: int, rng: Rng) -> None:
        self._me: Final = me
        self._fanout: Final = fanout
        self._rng: Final = rng
        self._borrowers: Final = dict[NodeName, Borrower]()

    def plan(
        self, now_ms: int, alive: Sequence[NodeName], followers: Container[NodeName], away: Container[NodeName]
    ) -> list[NodeName]:
        """To whom a connection is offered now; `alive` are the other registered nodes that seem alive, by name. Those
        that are `away` this node tried to reach in vain."""
        wanted = self._nearest(alive)
        for name in [name for name, one in self._borrowers.items() if name not in wanted and not one.is_open]:
            del self._borrowers[name]
        found = list[NodeName]()
        for name in wanted:
            borrower = self._borrowers.setdefault(name, Borrower())
            if name in followers or name in away:
                borrower.since_ms = None
                continue
            if borrower.since_ms is None:
                borrower.since_ms = now_ms
            if self._is_due(borrower, now_ms):
                borrower.is_open = True
                found.append(name)
        return found

    def ended(self, name: NodeName, now_ms: int, *, was_used: bool, is_unknown: bool = False) -> None:
        """A connection is not lent to a node any more, or was not taken; `is_unknown`: it does not know what that is.
        Other releases may come to run there."""
        borrower = self._borrowers.get(name)
        if borrower is None:
            return
        if was_used:
            borrower.failures = 0
        wait_ms = UNKNOWN_MS if is_unknown else min(RETRY_MS << min(borrower.failures, 16), RETRY_MAX_MS)
        borrower.is_open, borrower.failures = False, borrower.failures + 1
        borrower.retry_ms = now_ms + wait_ms // 2 + int(self._rng.random() * wait_ms)

    # -- inside

    def _is_due(self, borrower: Borrower, now_ms: int) -> bool:
        if borrower.is_open or borrower.since_ms is None or now_ms - borrower.since_ms < PATIENCE_MS:
            return False
        if borrower.retry_ms is not None and now_ms < borrower.retry_ms:
            return False
        return sum(one.is_open for one in self._borrowers.values()) < self._fanout

    def _nearest(self, alive: Sequence[NodeName]) -> list[NodeName]:
        """The nodes just behind this one in its ring, which follow it themselves; all others do through these
        (LINK-2)."""
        return [*(name for name in alive if name > self._me), *(name for name in alive if name < self._me)][
            : self._fanout
        ]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        count = sum(one.is_open for one in self._borrowers.values())
        must(count <= self._fanout, f"at most {self._fanout} connections are lent, not {count}")
