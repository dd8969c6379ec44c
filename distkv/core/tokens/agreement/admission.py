"""Which messages of other token servers count, and why others do not.

Knows: who has another list in its settings, and by how much a number may grow.  Does not know what a message leads to.

Invariant: what is dropped has no effect but that it is counted, and noted once for each.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, assert_never

from distkv.core.jump_limit import JumpLimit
from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.leases import LeaderHeard
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
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


class Admission:
    """Of the messages that come to one server."""

    def __init__(self, settings: ConsensusSettings, memory: Remembered, limits: NumberLimits) -> None:
        self.counts: Final = Counter[str]()
        """Messages that were dropped, by the reason."""
        self.differing: Final = dict[NodeName, bytes]()
        """Who has another list of servers in its settings, and its hash."""
        self._settings: Final = settings
        self._memory: Final = memory
        self._limits: Final = limits

    def admit(self, turn: AgreementTurn, sender: NodeName, message: StateMessage) -> bool:
        """Whether it counts; who has another list is remembered."""
        if sender == self._settings.me:
            return False
        if message.servers_hash == self._settings.servers_hash:
            self.differing.pop(sender, None)
        elif sender in self._memory.others:
            self.differing[sender] = message.servers_hash
        reason = self._why_not(sender, message)
        if reason:
            self.drop(turn, sender, reason)
        return not reason

    def _why_not(self, sender: NodeName, message: StateMessage) -> str:
        """Who leads, or stands, may be in a list of which this server does not know yet; so once it is founded it
        listens to all. Before, only to those with whom it can found, now or by a reset."""
        is_vague = self._memory.is_fresh and not isinstance(message, FoundingTold) and not message.generation
        if is_vague and sender not in self._memory.listed:
            if sender not in self._settings.others:
                return "no_server"
            if sender in self.differing:
                return "other_list"
        return "" if self._limits.allow(message) else "too_far_ahead"

    def drop(self, turn: AgreementTurn, sender: NodeName, reason: str) -> None:
        """This is of no effect."""
        self.counts[reason] += 1
        turn.note("token_message_dropped", node=sender, reason=reason)

    def allow_founding(self, turn: AgreementTurn, founding: Founding) -> bool:
        """Whether a founding may be the next one; if not, that is noted."""
        is_allowed = self._limits.allow_founding(founding)
        if not is_allowed:
            turn.note("token_founding_bad", reason="too_far_ahead")
        return is_allowed

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._limits.check()
        must(self._settings.me not in self.differing, "the list of this server does not differ from itself")


class NumberLimits:
    """By how much one message may raise what token servers count: terms, versions, generations, rounds.

    Invariant: what is taken is at most one step above what is known (docs/protocol, JUMP-1), and of what it contains
    nothing is later than itself."""

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
