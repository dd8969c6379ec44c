"""An observer that is told what befalls tokens, by kind.

Knows: which moments are those of tokens.  Does not know what is right.
"""

from __future__ import annotations

from distkv.sim.rule import Observer
from distkv.sim.tokens.moments import DataMoment, TokenMoment


class TokenObserver(Observer):
    """By itself it does nothing. Its methods may raise BrokenRuleError."""

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, TokenMoment):
            self.token(at_ms, what)
        elif isinstance(what, DataMoment):
            self.token_data(at_ms, what)

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        """How a token stands to a client has changed."""

    def token_data(self, at_ms: int, moment: DataMoment) -> None:
        """The data of a token is being changed, or has been."""
