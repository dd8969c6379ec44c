"""What the parts of the token service want done, by its kinds.

Knows: the turn to which it goes.  Does not know the parts.
"""

from __future__ import annotations

import attrs

from distkv.core.ground.turn import EntryWritten, ServiceTurn, SlotKept
from distkv.core.ready import Answer, Note, ServiceTell
from distkv.core.tokens.effects import TokenEffects, TokenMessage
from distkv.core.tokens.machine import TOKENS
from distkv.model.event import NodeName
from distkv.wire.token_bodies import decode_body
from distkv.wire.token_states import Founding, decode_founding


@attrs.frozen
class Told:
    """A message to a node."""

    to: NodeName
    message: TokenMessage


@attrs.define
class Taken:
    """Each kind in its order."""

    slots: list[SlotKept] = attrs.field(factory=list)
    tells: list[Told] = attrs.field(factory=list)
    answers: list[Answer] = attrs.field(factory=list)
    notes: list[Note] = attrs.field(factory=list)
    founding: Founding | None = None


class TakenEffects(TokenEffects):
    """Those that nobody took yet."""

    def __init__(self) -> None:
        super().__init__(1, ServiceTurn(TOKENS, 0, 0.0))

    @property
    def now(self) -> Taken:
        """All; they can still be taken."""
        found = Taken()
        for effect in self.turn.effects:
            match effect:
                case SlotKept():
                    found.slots.append(effect)
                case ServiceTell(name=name, body=body):
                    found.tells.append(Told(name, decode_body(body)[1]))
                case Answer():
                    found.answers.append(effect)
                case Note():
                    found.notes.append(effect)
                case EntryWritten(value=bytes() as value):
                    found.founding = decode_founding(value)
                case _:
                    raise AssertionError(effect)
        return found

    def take(self) -> Taken:
        """All; none is left."""
        found = self.now
        self.turn = ServiceTurn(TOKENS, 0, 0.0)
        return found
