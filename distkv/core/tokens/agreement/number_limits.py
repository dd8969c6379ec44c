"""By how much one message may raise what token servers count: terms, versions, generations, rounds.

Knows: what is known of each, and the longest step.  Does not know what a message leads to.

Invariant: what is taken is at most one step above what is known (docs/protocol, JUMP-1), and of what it contains
nothing is later than itself.
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.core.jump_limit import JumpLimit
from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.leases import LeaderHeard
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.wire.token_states import (
    Founding,
    FoundingTold,
    LeaderRound,
    ServerBeat,
    StateChange,
    StateMessage,
    TokenHello,
    VoteAsked,
    VoteGiven,
)


class NumberLimits:
    """Those of one server."""

    def __init__(self, memory: Remembered, heard: LeaderHeard, elections: Elections) -> None:
        self._memory: Final = memory
        self._heard: Final = heard
        self._elections: Final = elections
        self._terms: Final = JumpLimit()
        self._versions: Final = JumpLimit()
        self._generations: Final = JumpLimit()
        self._rounds: Final = JumpLimit()

    def allow(self, message: StateMessage) -> bool:
        """Whether nothing in a message is too far ahead. A beat may name any term: see `Elections.refused`."""
        generation = message.known if isinstance(message, TokenHello) else message.generation
        if not self._allow_generation(generation):
            return False
        match message:
            case FoundingTold(founding=founding):
                return self.allow_founding(founding)
            case VoteAsked(term=term, accepted=accepted):
                return self._allow_term(term) and self._allow_version(accepted.version)
            case ServerBeat(accepted=accepted):
                return self._allow_version(accepted.version)
            case LeaderRound():
                return self._allow_round(message)
            case TokenHello() | VoteGiven():
                return True
            case _:
                assert_never(message)

    def allow_founding(self, founding: Founding) -> bool:
        """Whether a founding may be the next one."""
        return self._allow_generation(founding.generation) and self._allow_version(founding.version)

    # -- inside

    def _allow_generation(self, generation: int) -> bool:
        known = self._memory.founding
        return self._generations.take(generation, 0 if known is None else known.generation)

    def _allow_term(self, term: int) -> bool:
        return self._terms.take(term, self._elections.term)

    def _allow_version(self, version: int) -> bool:
        founding = self._memory.founding
        known = max(self._memory.accepted_id.version, 0 if founding is None else founding.version)
        return self._versions.take(version, known)

    def _allow_round(self, told: LeaderRound) -> bool:
        before = self._heard.number if told.term == self._heard.term else 0
        if told.acked > told.number or not self._allow_term(told.term) or not self._rounds.take(told.number, before):
            return False
        return told.change is None or self._allow_change(told.change)

    def _allow_change(self, change: StateChange) -> bool:
        head = change.head
        latest = max(head.changed, *(line.since for line in head.servers.values()), 0)
        return latest <= head.id.version and self._allow_version(head.id.version)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for limit in (self._terms, self._versions, self._generations, self._rounds):
            limit.check()
