"""What a node keeps of its clients' requests about tokens, and of what their sessions claimed, until servers answered.

Knows: where each waits.  Does not know who answers it.

Invariant: what is kept here changes nothing by itself; `proxy` looks after it.
"""

from __future__ import annotations

import attrs

from distkv.core.tokens.gathered import GatheredAnswers
from distkv.model.event import NodeName
from distkv.wire.token_fields import Ticket
from distkv.wire.token_messages import ClaimTokens
from distkv.wire.token_requests import TokenRequest


@attrs.define(slots=True)
class ClientRequest:
    """One that is under way."""

    id: int
    request: TokenRequest
    asked_ms: int
    tag: str = ""
    """Names the session that is to be opened."""
    ticket: Ticket | None = None
    """The place in the queue that it has kept."""
    at: dict[NodeName, int] = attrs.field(factory=dict)
    """Where it waits, by the number of the call."""
    gathered: GatheredAnswers | None = None
    """Of a list, or a watch, which all servers are asked for."""
    fence: tuple[int, int] | None = None
    """Of a break: the highest fence of the holders that it means. They are asked for first. So it takes the token from
    nobody who got it since, if it has to be asked again because its answer was lost with a server."""


@attrs.define(slots=True)
class Claimed:
    """What a session claimed last, as it says with a keep-alive."""

    version: int
    question: ClaimTokens | None
    """None: all servers have it."""
    calls: dict[NodeName, int] = attrs.field(factory=dict)
    """Those that are not answered. Its client may know of servers before this node does: these are asked later."""
    asked: set[NodeName] = attrs.field(factory=set)
