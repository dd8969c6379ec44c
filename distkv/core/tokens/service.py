"""The token service of one node: its clients' proxy, and, where the servers' list names it, a token server.

Knows: how the two are put together.  Does not know what either does, nor how servers agree.

Invariant: what a node asks itself takes the same way as what it asks others, but without bytes; nothing leaves but
through the effects. After an input `go_on` has to be called, once for all of a step.
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import QuestionGone
from distkv.core.ready import Rng
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.effects import TokenEffects
from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.proxy import NEVER_MS, Proxy
from distkv.core.tokens.questions import QuestionEvent, Questions, ServerAnswered, ServerAsked
from distkv.core.tokens.serving.handover import Giving
from distkv.core.tokens.serving.server import TokenServing
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.model.event import NodeName
from distkv.wire.calls import CallMessage
from distkv.wire.token_messages import AskHolding, TellLoss
from distkv.wire.token_requests import TokenRequest


class TokenService:
    """The machine. All times are milliseconds."""

    def __init__(
        self,
        settings: ServingSettings,
        authority: Authority,
        effects: TokenEffects,
        rng: Rng,
        now_ms: int,
        first_call: int = 0,
    ) -> None:
        """`first_call`: see `Calls`."""
        self._questions: Final = Questions(settings.me, settings.boot, effects, first_call)
        self.servers: Final = KnownServers(settings.servers)
        self._proxy: Final = Proxy(settings, self._questions, self.servers, effects, rng)
        self.shares: Final = SessionShares(settings.sessions_max)
        self.serving: Final = TokenServing(
            settings, authority, self._questions, effects, self.shares, now_ms
        )

    @property
    def claims(self) -> int:
        """How many claims of sessions are kept here: by a server, or until all servers have them."""
        return self._proxy.claims + self.serving.claims

    # -- clients

    def asked(self, id: int, request: TokenRequest, now_ms: int, asker: int = 0) -> None:
        """A client asks (`asker`: see `asker_of`); the effects will have the answer by this id."""
        self._proxy.asked(id, request, now_ms, asker)
        self._do_own(now_ms)

    def gone(self, id: int, now_ms: int) -> None:
        """A client does not wait for that any more."""
        self._proxy.gone(id)
        self._do_own(now_ms)

    def more(self, id: int, now_ms: int) -> None:
        """A client has taken what it was told of a watch."""
        self._proxy.more(id, now_ms)
        self._do_own(now_ms)

    # -- nodes and time

    def told(self, sender: NodeName, message: CallMessage, now_ms: int) -> None:
        """Another node says something."""
        for event in self._questions.told(sender, message, now_ms):
            self._happened(event, now_ms)
        self._do_own(now_ms)

    def go_on(self, now_ms: int, wall: float | None = None, *, is_as_agreed: bool = False) -> None:
        """Time passed, or something happened. `wall` is what the clock on the wall says, in seconds. `is_as_agreed`:
        only time has changed what the authority allows since the last call."""
        map = self.serving.go_on(now_ms, wall, is_as_agreed=is_as_agreed)
        if map.version and self.servers.heard(map, now_ms):
            self._proxy.map_changed(now_ms)
        if now_ms >= self._proxy.due_ms:
            self._proxy.woken(now_ms)
        if self._questions.own:
            self._do_own(now_ms)
        self.serving.note_due(now_ms)

    def woken(self, now_ms: int) -> None:
        """It is the time that `note_due` said."""
        for event in self._questions.woken(now_ms):
            self._happened(event, now_ms)
        self._do_own(now_ms)

    def note_due(self, next_ms: int | None = None) -> int | None:
        """After a step: when `woken` has something to do, or `next_ms` if that is earlier."""
        proxy_ms = None if self._proxy.due_ms == NEVER_MS else self._proxy.note_due()
        return earliest(next_ms, self._questions.wake_ms(), proxy_ms, self.serving.due_ms)

    # -- inside

    def _do_own(self, now_ms: int) -> None:
        """What this node asked and answered itself meanwhile, and what follows from that."""
        own = self._questions.own
        while own:
            self._happened(own.popleft(), now_ms)

    def _happened(self, event: QuestionEvent, now_ms: int) -> None:
        serving = self.serving
        match event:
            case ServerAsked(call=call, question=question):
                serving.asked(call, question, now_ms)
            case QuestionGone(call=call):
                serving.call_gone(call, now_ms)
            case ServerAnswered(purpose=TellLoss() | AskHolding() | Giving() as purpose):
                serving.answered(event, purpose, now_ms)
            case ServerAnswered():
                self._proxy.answered(event, now_ms)
            case _:
                assert_never(event)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._questions.check()
        self._proxy.check()
        self.serving.check()
