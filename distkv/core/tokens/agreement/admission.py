"""Which messages of other token servers count, and why others do not.

Knows: who has another list in its settings, and by how much a number may grow.  Does not know what a message leads to.

Invariant: what is dropped has no effect but that it is counted, and noted once for each.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from distkv.core.tokens.agreement.number_limits import NumberLimits
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_states import Founding, FoundingTold, StateMessage


class Admission:
    """At one server."""

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
