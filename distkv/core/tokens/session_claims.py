"""What all token servers are told of the sessions of this node's clients: what they hold, and that one is over.

Knows: which servers were told, and have answered.  Does not know what a server does with it.

Invariant: what a session claims is told once to each server for each change of servers that its client knows of, until
the server takes it. A claim that is not taken is made again: soon, or with the next keep-alive of the session.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.ground.routes import AGAIN_MS
from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.errors import BusyError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_errors import UngrantedError
from distkv.wire.token_messages import ClaimTokens, ReleaseAll
from distkv.wire.token_requests import TokenKeep

CLAIMS_MAX: Final = 20_000
"""Of so many sessions it is remembered what they claimed last."""


@attrs.define(slots=True, eq=False)
class Claimed:
    """What a session claimed last, as it says with a keep-alive. It is the purpose of the calls that tell it."""

    session: str
    version: int
    question: ClaimTokens | None
    """None: all servers have it."""
    calls: dict[NodeName, int] = attrs.field(factory=dict)
    """Those that are not answered. Its client may know of servers before this node does: these are asked later."""
    asked: set[NodeName] = attrs.field(factory=set)


@attrs.frozen(slots=True)
class SessionOver:
    """The purpose of the calls that tell the end of a session."""


class SessionClaims:
    """All times are milliseconds."""

    def __init__(self, questions: Questions, servers: KnownServers) -> None:
        self._questions: Final = questions
        self._servers: Final = servers
        self._claims: Final = dict[str, Claimed]()
        """By session."""
        self.again: Final = dict[tuple[str, NodeName], int]()
        """Claims that a server could not take yet, and when they are made again; rising."""
        self.endings: Final = dict[int, NodeName]()
        """Who was told of the end of a session, and has not answered; by the number of the call."""

    @property
    def count(self) -> int:
        """How many of them some server does not have yet."""
        return sum(claim.question is not None for claim in self._claims.values())

    def claim(self, request: TokenKeep, now_ms: int) -> None:
        """Tell all servers what a session holds, once for each change of servers that its client knows of."""
        session, old = request.session, self._claims.get(request.session)
        if old is not None and old.version >= request.version:
            return
        self.forget(session)
        is_known = request.version <= self._servers.changed
        claim = Claimed(session, request.version, ClaimTokens(session, request.version, request.held))
        self._claims[session] = claim
        for name in self._servers.up if is_known else self._servers.names:
            self._ask(claim, name, now_ms)
        if len(self._claims) > CLAIMS_MAX:
            self.forget(next(iter(self._claims)))

    def end(self, session: str, now_ms: int) -> None:
        """Its client ends it."""
        for name in self._servers.up:
            self.endings[self._questions.ask(name, ReleaseAll(session), now_ms, SessionOver())] = name

    def forget(self, session: str) -> None:
        """The next keep-alive claims again, if there is one."""
        claim = self._claims.pop(session, None)
        if claim is not None:
            for name in self._servers.names:
                self.again.pop((session, name), None)
            self._withdraw(claim, list(claim.calls))

    def map_changed(self, now_ms: int) -> None:
        """There may be other servers than before."""
        up, changed = self._servers.up, self._servers.changed
        for claim in [claim for claim in self._claims.values() if claim.question is not None]:
            if claim.version <= changed:
                self._withdraw(claim, [name for name in claim.calls if name not in up])
            for name in [name for name in up if name not in claim.asked]:
                self._ask(claim, name, now_ms)
        for number, name in [one for one in self.endings.items() if one[1] not in up]:
            del self.endings[number]
            self._questions.cancel(name, number)

    def answered(self, came: ServerAnswered, now_ms: int) -> None:
        """A server answers."""
        self.endings.pop(came.number, None)
        claim, peer, servers = came.purpose, came.peer, self._servers
        if not isinstance(claim, Claimed) or claim.calls.get(peer) != came.number:
            return
        del claim.calls[peer]
        if isinstance(came.result, UngrantedError | BusyError):
            self.again[claim.session, peer] = now_ms + AGAIN_MS
        elif isinstance(came.result, RequestError):
            self.forget(claim.session)
        elif claim.version <= servers.changed and not claim.calls:
            if not any((claim.session, name) in self.again for name in servers.names):
                claim.question = None

    def claim_again(self, now_ms: int) -> None:
        """Time passed."""
        for session, name in [key for key, ms in self.again.items() if ms <= now_ms]:
            del self.again[session, name]
            if name in self._servers.up:
                self._ask(self._claims[session], name, now_ms)

    # -- inside

    def _ask(self, claim: Claimed, name: NodeName, now_ms: int) -> None:
        if claim.question is not None:
            claim.asked.add(name)
            claim.calls[name] = self._questions.ask(name, claim.question, now_ms, claim)

    def _withdraw(self, claim: Claimed, names: list[NodeName]) -> None:
        for name in names:
            self._questions.cancel(name, claim.calls.pop(name))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for session, claim in self._claims.items():
            must(session == claim.session, "each claim is known by its session")
            must(claim.calls.keys() <= claim.asked, "who has not answered was asked")
            must(claim.question is not None or not claim.calls, "who has all is asked nothing")
        must({session for session, _ in self.again} <= self._claims.keys(), "what is claimed again is known")
