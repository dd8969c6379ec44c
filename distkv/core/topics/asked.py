"""A request about a topic that this node is to answer, and how it answers.

Knows: who asked: a client of this node, or another node for a client of its own.  Does not know what is asked.

Invariant: what goes to another node is what a client of this one would be told, as bytes.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.node_routes import answer as answer_call
from distkv.core.ground.node_routes import refuse
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DistkvError
from distkv.wire.declared import pack
from distkv.wire.topic_errors import StaleOpError
from distkv.wire.topic_replies import TopicReply, TopicStale
from distkv.wire.topic_requests import TopicRequest

Target: TypeAlias = int | CallKey
"""The number of a client's request, or the call of another node."""


@attrs.frozen(eq=False, slots=True)
class TopicAsked:
    """One request. It equals no other one."""

    target: Target
    request: TopicRequest
    asked_ms: int
    is_said: bool = False
    """What a get says is done is kept here."""
    is_begun: bool = False
    """What it changes is changed here, and not on all copies."""


def answer(turn: ServiceTurn, asked: TopicAsked, reply: TopicReply | DistkvError) -> None:
    """Tell whoever asked what came of it."""
    target = asked.target
    if isinstance(target, int):
        turn.answer(target, reply)
    elif isinstance(reply, StaleOpError) and reply.known_op is not None:
        answer_call(turn, target, pack(TopicStale(reply.known_op)))
    elif isinstance(reply, DistkvError):
        refuse(turn, target, reply)
    else:
        answer_call(turn, target, pack(reply))
