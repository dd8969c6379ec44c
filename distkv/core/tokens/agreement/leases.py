"""Until when a server may grant, and until when it must not vote for another leader.

Knows: the rounds of the leader that it heard.  Does not know the state, nor how votes are counted.

Invariant: when a leader is elected, no server may grant, or lead, by what an earlier leader said. Why: a server counts
`short_ms` from b, the time of a beat of its own which the leader had heard before round k began, and does so only after
a majority acknowledged round k or a later one. Whoever acknowledges does so after b, and then votes for nobody for
`long_ms` of its own clock. A leader is elected by a majority, of which one at least acknowledged: so true time `lease`
passed since b, and the server's clock is past b + `short_ms`. To count from the hearing of a round would not do: the
round may be old. Nor would a time on the leader's clock: nobody compares two clocks (docs/tokens, The servers).

Within one term: the leader says that a server is down `long_ms` after it heard the last beat that it names in rounds,
so after b, too; and while that is proposed it names no newer one. A server that was declared down without knowing it
gets nothing from later rounds, because those call a version in effect that it does not know.
"""

from __future__ import annotations

from typing import Final

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_states import LeaderRound, StateId

ROUNDS_MAX: Final = 32
"""So many rounds that name a beat are kept; the oldest goes first."""


class LeaderHeard:
    """The leader that this server follows, what it owes that one, and what it has from it."""

    def __init__(self, settings: ConsensusSettings, start: int) -> None:
        self.leader: NodeName | None = None
        self.term = 0
        """The highest in which a leader was heard since the start."""
        self.number = 0
        """Its last round."""
        self.promised_ms = 0
        """Before that this server votes for nobody."""
        self.grants_until_ms = 0
        self._settings: Final = settings
        self.start: Final = start
        """By which this start of the server is known from others."""
        self._acked = 0
        self._named: Final = dict[int, tuple[int, StateId]]()
        """Of each round, the own time that it named, and the state that it called in effect."""

    def promise(self, now_ms: int) -> None:
        """A round is acknowledged; or the server started, and does not know what it acknowledged before."""
        self.promised_ms = max(self.promised_ms, now_ms + self._settings.long_ms)

    def follow(self, leader: NodeName, term: int) -> None:
        """From now on this is the leader."""
        if term > self.term:
            self.term, self.number, self._acked = term, 0, 0
            self._named.clear()
        self.leader = leader

    def heard(self, told: LeaderRound) -> None:
        """A round of the leader that is followed. They may come in any order."""
        self.number = max(self.number, told.number)
        self._acked = max(self._acked, told.acked)
        if told.effective is not None and told.heard is not None and told.heard.start == self.start:
            self._named[told.number] = (told.heard.ms, told.effective)
            while len(self._named) > ROUNDS_MAX:
                del self._named[min(self._named)]

    def take_rounds(self, effective: StateId) -> None:
        """Take what the rounds are worth to a server that knows this state in effect."""
        worth = [number for number, (_, called) in self._named.items() if number <= self._acked and called <= effective]
        for number in worth:
            self.grant(self._named.pop(number)[0] + self._settings.short_ms)

    def grant(self, until_ms: int) -> None:
        """It may grant until then."""
        self.grants_until_ms = max(self.grants_until_ms, until_ms)

    def forget(self) -> None:
        """What it had from any leader is void; what it promised is not."""
        self.leader, self.number, self._acked, self.grants_until_ms = None, 0, 0, 0
        self._named.clear()

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._named) <= ROUNDS_MAX, "few rounds that name a beat are kept")
        must(all(number <= self.number for number in self._named), "no round is kept that is later than the last one")
        must(self.grants_until_ms <= self.promised_ms, "who may grant votes for no other leader meanwhile")
