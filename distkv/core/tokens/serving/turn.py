"""One step of a token server: the time, what it may do at this moment, and where what it decides goes.

Knows: how a decision leaves.  Does not know who decides.

Invariant: what the parts of a server want done goes through the turn; none of them calls the server around it.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.effects import SlotWrite, TokenEffects
from distkv.wire.token_messages import TokenResult


class AnswersNodes(Protocol):
    """Where answers to nodes go (`Questions`)."""

    def answer(self, call: CallKey, result: TokenResult, changed: int, *, waits: bool = True) -> None:
        """Answer a question; nothing happens if nobody waits for that any more."""

    def withdraw(self, call: CallKey) -> None:
        """An answer that was given is not true any more."""


@attrs.define(slots=True)
class ServingTurn:
    """What each part of a server is handed with what happens."""

    now_ms: int
    """Milliseconds of a clock that goes on while the machine sleeps."""
    changed: int
    """The newest change of servers that this server goes by."""
    nodes: AnswersNodes
    effects: TokenEffects

    def answer(self, call: CallKey, result: TokenResult, *, waits: bool = True) -> None:
        """Answer a node. `waits`: see `Tell`."""
        self.nodes.answer(call, result, self.changed, waits=waits)

    def keep(self, key: str, value: bytes | None) -> None:
        """Keep a value on the disk; None: not any more."""
        self.effects.slots.append(SlotWrite(key, value))

    def note(self, id: str, **fields: object) -> None:
        """Something worth counting."""
        self.effects.note(id, **fields)
