"""A client of the token fleet whose half is the real one (`client.holding`), on a connection that breaks and moves.

Knows: how questions, answers and time get to the machine, and what its user does then.  Does not know what the machine
asks, nor when.
"""

from __future__ import annotations

from typing import Final

from distkv.client.holding import Holding
from distkv.client.holding_news import SessionEnded, TokenObtained, TokenRefused, TokenTaken
from distkv.errors import DistkvError, RequestError, UnreachableError
from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_replies import TokenReply
from distkv.wire.token_requests import TokenBreak
from tests.property.token_clients import DRIFT, TTL_MS, Client, ClientNode, ClientWorld, Clock

LET_GO_MS: Final = 300


class HoldingClient(Client):
    """It does what `Client` does, but by the real machine, session after session."""

    def __init__(self, fleet: ClientWorld, number: int, clock: Clock) -> None:
        super().__init__(fleet, number, clock)
        self.holding = Holding(ttl_s=TTL_MS / 1000, drift=DRIFT, let_go_ms=LET_GO_MS)
        self.holding.open(0, 0, self.now_ms)
        self.sessions = 0
        self.connection = 0
        self._at: ClientNode | None = None
        self._wake_true = -1.0
        self._since: Final = dict[str, float]()

    @property
    def lives(self) -> bool:
        return self.holding.lives(self.now_ms)

    @property
    def at(self) -> NodeName:
        """The node that it talks to."""
        return next(name for name, site in self.fleet.sites.items() if site is self._site)

    # -- what its user does

    def open(self) -> None:
        self.sessions += 1
        self.holding = Holding(ttl_s=TTL_MS / 1000, drift=DRIFT, let_go_ms=LET_GO_MS)
        self.holding.open(20 * TTL_MS, 0, self.now_ms)
        self._connect()

    def acquire(self, token: str, *, shared: bool = False, wait_s: float | None = 2.0, ticket: str = "") -> None:
        if self.is_dead or not self.lives or ticket:
            return
        wait_ms = None if wait_s is None else int(1000 * wait_s)
        try:
            self.holding.acquire(token, is_shared=shared, wait_ms=wait_ms, now_ms=self.now_ms)
        except RequestError:
            return  # it asks for it already, or must not
        self._since[token] = self.fleet.now
        self._step()

    def release(self, token: str, fence: GrantNumber | None = None, *, is_again: bool = False) -> None:
        if self.is_dead or fence is not None or is_again:
            return
        self.drop(token)
        self.holding.release(token, self.now_ms)
        self._step()

    def close(self) -> None:
        for token in list(self.held):
            self.drop(token)
        self.holding.close(self.now_ms)
        self._step()

    def break_(self, token: str) -> None:
        self.ask(TokenBreak(0, token), lambda _: None)

    # -- what moves

    def _connect(self) -> None:
        """To some node that runs, if there is one."""
        running = [site for site in self.fleet.sites.values() if site.is_up]
        running = [site for site in running if site is not self._site] or running  # the next address, as the shells do
        if self.is_dead or self.holding.is_over:
            return
        if not running:
            self.holding.disconnected(UnreachableError("nobody answers"), self.now_ms)
            self.fleet.later(100, self._connect)
            self._step()
            return
        self.connection += 1
        self._at = self._site = self.rng.choice(running)
        self.holding.connected(self.now_ms)
        self._step()

    def _break(self, why: str) -> None:
        old, self._at = self._at, None
        if old is None:
            return
        old.leave(self.number)
        self._line += 1
        self.connection += 1
        self.holding.disconnected(UnreachableError(why), self.now_ms)
        self.fleet.later(self.rng.randrange(1, 100), self._connect)

    def _step(self) -> None:
        """Send what is to be sent, tell what is to be told, and see to the next wake."""
        if self.is_dead:
            return
        for question in self.holding.take_questions():
            self._send(question.id, question.request)
        for news in self.holding.take_news():
            match news:
                case TokenObtained(token=token, fence=fence):
                    self._obtained(token, HeldToken(token, fence.epoch, fence.counter, False))
                case TokenTaken(token=token):
                    self.drop(token)
                    if not self.holding.is_over:
                        self.fleet.later(self.rng.randrange(1, 2 * LET_GO_MS), lambda token=token: self._let_go(token))  # type: ignore[misc]
                case TokenRefused():
                    pass
                case SessionEnded():
                    for token in list(self.held):
                        self.drop(token)
                    self._break("the session is over")
                    self.fleet.later(200, self.open)
                case _:
                    pass
        self._set_alarm()

    def _obtained(self, token: str, found: HeldToken) -> None:
        held = next(claim for claim in self.holding.listed() if claim.token == token)
        assert (held.epoch, held.counter) == (found.epoch, found.counter)
        self.fleet.believed.begin(self, held)
        self.held[token] = held
        self.obtained.append((token, self.fleet.now - self._since[token]))
        long_ms = self.hold_ms[1] * self.rng.choice((1, 1, 5))
        self.fleet.later(self.rng.randrange(self.hold_ms[0], long_ms), lambda: self._done(token, held))

    def _done(self, token: str, held: HeldToken) -> None:
        if self.held.get(token) is held:
            self.release(token)

    def _let_go(self, token: str) -> None:
        self.holding.let_go(token, self.now_ms)
        self._step()

    def _send(self, id: int, request: object) -> None:
        holding, connection = self.holding, self.connection

        def tell(result: TokenReply | DistkvError) -> None:
            if self.is_dead or holding is not self.holding or connection != self.connection:
                return
            if type(result) is DistkvError:
                self._break(str(result))
            else:
                holding.answered(id, result, self.now_ms)
            self._step()

        self.ask(request, tell)  # type: ignore[arg-type]

    def _set_alarm(self) -> None:
        wake_ms = self.holding.wake_ms()
        if wake_ms is None or wake_ms >= 2**62:
            return
        due = max(self.clock.true(wake_ms) + 0.01, self.fleet.now + 1)
        if due < self._wake_true or self._wake_true <= self.fleet.now:
            self._wake_true = due
            self.fleet.at(due, self._woken)

    def _woken(self) -> None:
        if self.is_dead:
            return
        self.holding.woken(self.now_ms)
        if self.holding.wants_other_node:
            self._break("it does not answer")
        self._step()
