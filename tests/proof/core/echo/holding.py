"""The echo asks the token service of its node: it takes a token, writes an entry under its fence, and gives it back.

Knows: what it asks tokens, in which order.  Does not know who serves them.

Invariant: whoever asked is answered once, when the session is closed, or with what went wrong.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DistkvError
from distkv.model.fence import Fence
from distkv.wire.token_replies import SessionClosed, SessionOpened, TokenGranted
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenOpen
from distkv.wire.values import pack_value
from tests.proof.wire.echo import EchoHeard

TOKENS: Final = "tokens"


@attrs.frozen
class Holding:
    """One request that wants a token; the purpose of all that is asked for it."""

    id: int
    token: str
    fence: str = ""
    """What was granted, when it was."""


def begin(turn: ServiceTurn, id: int, token: str) -> None:
    """A client wants to have written the name of a token under its fence."""
    turn.ask(TOKENS, TokenOpen(0, 60.0), Holding(id, token))


def replied(turn: ServiceTurn, holding: Holding, what: Replied) -> None:
    """The token service answered, or the write was refused."""
    match what.reply:
        case SessionOpened(session=session):
            turn.ask(TOKENS, TokenAcquire(0, session, holding.token, wait_s=5.0), (holding, session))
        case SessionClosed():
            turn.answer(holding.id, EchoHeard(holding.fence))
        case DistkvError() as error:
            turn.answer(holding.id, error)


def granted(turn: ServiceTurn, holding: Holding, session: str, what: Replied) -> None:
    """The token is held, or not; then the session is over."""
    if isinstance(what.reply, TokenGranted):
        fence = Fence(0, what.reply.epoch, what.reply.counter, holding.token)
        holding = attrs.evolve(holding, fence=str(fence))
        turn.write(holding.token, pack_value(holding.fence), holding, fence)
    elif isinstance(what.reply, DistkvError):
        turn.answer(holding.id, what.reply)
    turn.ask(TOKENS, TokenClose(0, session), holding)
