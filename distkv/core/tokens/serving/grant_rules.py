"""What the tokens of a server ask of the server around them.

Knows: the interface only.  Does not know tokens, nor servers.

Invariant: what `serves` allows holds for this moment only.
"""

from __future__ import annotations

from typing import Protocol

from distkv.core.ground.calls import CallKey
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_fields import Ticket
from distkv.wire.token_messages import TokenResult


class GrantRules(Protocol):
    """What the server may do, and who it speaks with."""

    def serves(self, token: str, now_ms: int) -> bool:
        """Whether it may grant this now."""

    def next_number(self) -> tuple[int, int]:
        """The epoch, and a number that was never given in it."""

    def next_place(self) -> Ticket:
        """Behind every place that a server gave which went by the same change of servers, or by an earlier one."""

    @property
    def changed(self) -> int:
        """The newest change of servers that it goes by."""

    def answer(self, call: CallKey, result: TokenResult) -> None:
        """Answer a call."""

    def withdraw(self, call: CallKey) -> None:
        """What a call was answered is not true any more."""

    def taken(self, holder: TokenHolder, token: str, now_ms: int) -> None:
        """A token is taken from a session, which is to be told."""
