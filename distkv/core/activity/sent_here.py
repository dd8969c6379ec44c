"""Which clients that do not resume were sent here by another node, and which are offered to one.

Knows: when each came, how many others say that they send, and who is asked whether he takes one.  Does not know where
one goes that was not sent here.

A client that does not resume cannot say from where it comes: the node that sends it says so. Its word may come after
the client, so that it is decided a moment later (docs/protocol, ACTIVITY-15). Then it goes when the other node answers:
one that was killed may seem alive for a while, and the client would be sent there again and again (ACTIVITY-16).

Invariant: of each client it is decided once, and each client that was sent counts for one of them.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from distkv.core.activity.loads import Target
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.invariant import must
from distkv.wire.activity_bodies import WELCOMES, ClientOffered
from distkv.wire.declared import pack

DECIDE_MS: Final = 250
EXPECT_MS: Final = 5000
OFFER_MS: Final = 1000
"""So long an answer is waited for; without one the client stays."""
WAITING_MAX: Final = 4096


@attrs.frozen(slots=True)
class OfferPurpose:
    """Why a node was asked: whether this client may come."""

    client: int


class SentHere:
    """Those of one node."""

    def __init__(self) -> None:
        self._undecided: Final = deque[tuple[int, int]]()
        """When it is decided, and of which client."""
        self._expected: Final = deque[int]()
        """Until when each one that was sent here counts."""
        self._offered: Final = dict[int, Target]()
        """To which node each client goes, if that one expects it."""

    @property
    def offered(self) -> int:
        """How many clients may be about to go."""
        return len(self._offered)

    def came(self, id: int, now_ms: int) -> None:
        """A client is here. Where too many wait, it stays."""
        if len(self._undecided) < WAITING_MAX:
            self._undecided.append((now_ms + DECIDE_MS, id))

    def expect(self, count: int, now_ms: int) -> None:
        """Another node has sent so many."""
        self._expected.extend([now_ms + EXPECT_MS] * min(count, WAITING_MAX - len(self._expected)))

    def take_due(self, now_ms: int) -> int | None:
        """The next client of which it is to be decided now; None: there is none."""
        return self._undecided.popleft()[1] if self._undecided and self._undecided[0][0] <= now_ms else None

    def take_expected(self, now_ms: int) -> bool:
        """Whether one was sent here that did not come yet; now it has."""
        while self._expected and self._expected[0] <= now_ms:
            self._expected.popleft()
        return bool(self._expected) and self._expected.popleft() > now_ms

    def offer(self, turn: ServiceTurn, id: int, target: Target) -> None:
        """Ask a node whether it takes a client. Where too many are offered, it stays."""
        if len(self._offered) < WAITING_MAX:
            self._offered[id] = target
            purpose = OfferPurpose(id)
            turn.ask_node(target.node, pack(ClientOffered()), purpose, patience_ms=OFFER_MS, waits=False)

    def take_welcome(self, purpose: OfferPurpose, reply: object) -> Target | None:
        """A node answered, or did not: where the client goes; None: it stays."""
        target = self._offered.pop(purpose.client, None)
        try:
            return target if isinstance(reply, bytes) and WELCOMES.read(reply).is_expected else None
        except DecodeError:
            return None

    def gone(self, id: int) -> None:
        """A client is here no more."""
        self._offered.pop(id, None)

    def wake_ms(self) -> int | None:
        """When `take_due` has one."""
        return self._undecided[0][0] if self._undecided else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(max(len(self._expected), len(self._undecided), self.offered) <= WAITING_MAX, "few clients wait")
