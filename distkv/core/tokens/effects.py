"""What the machines of the token service want done: it goes to the turn of the step that is under way.

Knows: that turn, and what must be true before an effect may leave.  Does not know what becomes of it (`ground.turn`).

Invariant: nothing is kept here; what a part of the service wants done is in the turn at once, in its order.
"""

from __future__ import annotations

from typing import TypeAlias

from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.wire.calls import CallMessage
from distkv.wire.declared import pack
from distkv.wire.token_bodies import encode_body
from distkv.wire.token_replies import TokenReply, TokensChanged
from distkv.wire.token_requests import TokenRelease, TokenRequest
from distkv.wire.token_states import Founding, StateMessage

TokenMessage: TypeAlias = CallMessage | StateMessage
"""All that nodes tell each other for the token service."""


def must_wait(request: TokenRequest) -> bool:
    """Whether the answer to a request may leave only when its slots are durable: all but the release of a client that
    names the fence. Such a client goes on to say what it holds, so that a release which a crash undid is done again; of
    others nobody hears that (docs/protocol, TOKEN-17)."""
    return not isinstance(request, TokenRelease) or request.fence is None


class TokenEffects:
    """Where all parts of the service of one node say what they want done."""

    def __init__(self, life: int, turn: ServiceTurn) -> None:
        """`life`: that of the service, which it says with each message."""
        self._life = life
        self.turn = turn
        """That of this step; who takes a step sets it."""

    def say(self, peer: NodeName, message: TokenMessage, *, waits: bool = True) -> None:
        """Tell a node; it may get lost, come twice, late, or after a later one. `waits`: see `ServiceTurn.tell`."""
        self.turn.tell(peer, encode_body(self._life, message), waits=waits)

    def answer(self, id: int, result: TokenReply | DistkvError, *, waits: bool = True) -> None:
        """Answer a request of a client, by the id it was given in. Of a watch there may be many."""
        self.turn.answer(id, result, is_last=not isinstance(result, TokensChanged), waits=waits)

    def found(self, founding: Founding) -> None:
        """Write a founding into the store."""
        self.turn.write("", pack(founding))

    def call_note(self, id: str, **fields: object) -> None:
        """For `Calls`."""
        self.turn.note(f"token_{id}", **fields)
