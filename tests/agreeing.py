"""A token server that agrees with others, told things one by one.

Knows: a turn of its own for each, and what all of them want done.  Does not know the servers that it hears.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ready import Rng
from distkv.core.tokens.agreement.consensus import Consensus
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn, AgreementWoken, EntryRead, StateTold
from distkv.model.event import NodeName
from distkv.wire.token_states import Founding, StateMessage
from tests.taken_effects import TakenEffects


class AgreeingServer(Consensus):
    """One, and what it wants done that nobody took yet."""

    def __init__(self, settings: ConsensusSettings, life: int, rng: Rng) -> None:
        super().__init__(settings, life, rng)
        self.effects: Final = TakenEffects()

    def turn(self, now_ms: int) -> AgreementTurn:
        """For one input."""
        return AgreementTurn(now_ms, self.effects)

    def told(self, sender: NodeName, life: int, message: StateMessage, now_ms: int) -> None:
        """Another server says something."""
        self.step(self.turn(now_ms), StateTold(sender, life, message))

    def read_entry(self, founding: Founding, now_ms: int) -> None:
        """The store has this."""
        self.step(self.turn(now_ms), EntryRead(founding))

    def woken(self, now_ms: int) -> None:
        """It is the time that it named."""
        self.step(self.turn(now_ms), AgreementWoken())
