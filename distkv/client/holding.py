"""A client's half of tokens: one session and what it holds, by the client's own clock.

Knows: what is to be asked next, and what to tell the user.  Does not know what becomes of one token (`claim_table`),
nor sockets, threads, tasks or clocks: the time is an argument, in milliseconds of a clock that goes on while the
machine sleeps (CLOCK_BOOTTIME). The shells (`blocking_token`, `async_token`) and the simulator move requests and
answers.

Invariant: what it says is held may be counted on until `lost_at_ms`, whatever happens to nodes and network. On another
connection everything that was under way is asked again.

After each call take the questions, then the news; then wait for an answer, or until `wake_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from distkv.client import claims
from distkv.client.claim_table import ClaimTable
from distkv.client.claims import LATE_MS, Claim, ClaimState
from distkv.client.holding_news import (
    SessionEnded,
    SessionLives,
    SessionNews,
    SessionQuestion,
    SessionRequest,
)
from distkv.client.keep_alive import KeepAlive
from distkv.errors import DistkvError, RequestError
from distkv.model.fence import Fence
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_errors import NotHeldError, SessionExpiredError
from distkv.wire.token_replies import SessionKept, SessionOpened, TokenReply
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData, TokenKeep, TokenOpen, TokenRelease

DRIFT: Final = 0.01
"""How much a clock may be wrong: `tokens.drift` of the servers must not be less."""
LET_GO_MS: Final = 1000
"""So long whoever works under a token that was taken may go on, before the server is told that it knows."""
CLOSE_MS: Final = 2000
"""So long the end of a session is tried to be told; then it ends by itself."""


class Holding:
    """One session. All times are milliseconds of the client's clock."""

    def __init__(
        self, *, ttl_s: float | None = None, grace_s: float = 0, drift: float = DRIFT, let_go_ms: int = LET_GO_MS
    ) -> None:
        """`ttl_s`: None: what the servers give; `grace_s`: so long before its end its user stops."""
        self._ttl: Final = ttl_s, grace_s
        self._alive = KeepAlive(drift, int(grace_s * 1000))
        self._is_given = False  # the user named the session: no other one takes its place
        self._calls: Final = dict[int, SessionRequest]()
        """What is under way on this connection."""
        self._questions: list[SessionQuestion] = []
        self._news: list[SessionNews] = []
        self._tokens: Final = ClaimTable(lambda news: self._news.append(news), let_go_ms)
        self._id = 0
        self._is_connected = self._is_closing = self._is_over = self._wants_other_node = False
        self._lost: DistkvError | None = None
        """Why there is no connection."""
        self._open_by_ms = self._open_end_ms = self._close_by_ms = 2**62

    # -- reading

    @property
    def session(self) -> str:
        """Empty: it is not open yet."""
        return self._alive.session

    @property
    def ttl_ms(self) -> int:
        """0: it is not known yet."""
        return self._alive.ttl_ms

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_settled(self) -> bool:
        """Whether no release is under way. May be asked while another thread changes it."""
        return self._tokens.is_settled

    @property
    def wants_other_node(self) -> bool:
        """Whether the node does not answer: close the connection, tell so, and connect to the next one."""
        return self._wants_other_node

    def lives(self, now_ms: int) -> bool:
        """Whether what it holds may be counted on."""
        return not self._is_over and self._alive.lives(now_ms)

    def fence(self, token: str, now_ms: int) -> Fence | None:
        """Of a token that is held; None: it is not."""
        return None if (claim := self._held(token, now_ms)) is None else claim.shown_fence()

    def data(self, token: str, now_ms: int) -> bytes | None:
        """The data of a token that is held, packed."""
        return None if (claim := self._held(token, now_ms)) is None else claim.data

    def listed(self) -> tuple[HeldToken, ...]:
        """What a keep-alive names: all that is held, or was and is not let go yet."""
        return self._tokens.listed(with_data=True)

    def has_ticket(self, token: str) -> bool:
        """Whether the place in the queue of a token that is wanted outlives its server."""
        return (claim := self._tokens.get(token)) is not None and claim.ticket is not None

    def lost_at_ms(self, token: str) -> int | None:
        """When whoever works under the token must have stopped, as it is known now; None: it is not ours."""
        claim = self._tokens.get(token)
        if claim is None or self._is_over or not claim.is_listed:
            return None
        return self._alive.until_ms if claim.state is ClaimState.HELD else min(claim.let_go_ms, self._alive.until_ms)

    def left_ms(self, token: str, now_ms: int) -> int:
        """How long a token may be counted on as things stand; 0: it is not held."""
        return 0 if self._held(token, now_ms) is None else self._alive.until_ms - now_ms

    def wake_ms(self) -> int | None:
        """When `woken` is to be called, if nothing happens before; None: it is over."""
        if self._is_over:
            return None
        can_ask = self._is_connected and self._alive.ttl_ms > 0
        moments = [self._tokens.wake_ms(can_ask=can_ask)]
        if self._is_connected or self._alive.ttl_ms:
            moments.append(self._alive.wake_ms() if self._is_connected else self._alive.until_ms)
        moments.append(self._close_by_ms if self._is_closing else None)
        moments.append(None if self._alive.ttl_ms else self._open_end_ms)
        return min(ms for ms in [2**62, *moments] if ms is not None)

    # -- what is to be moved

    def take_questions(self) -> list[SessionQuestion]:
        """What is to be sent on the connection, in this order."""
        found, self._questions = self._questions, []
        return found

    def take_news(self) -> list[SessionNews]:
        """What is to be told."""
        found, self._news = self._news, []
        return found

    def connected(self, now_ms: int) -> None:
        """There is a connection to some node."""
        self._is_connected, self._lost, self._wants_other_node = True, None, False
        self._go_on(now_ms)

    def disconnected(self, why: DistkvError, now_ms: int) -> None:
        """The connection broke, or could not be made."""
        self._is_connected, self._lost, self._wants_other_node = False, why, False
        self._calls.clear()
        self._questions.clear()
        self._alive.connection_lost()
        self._tokens.connection_lost()
        if self._is_closing and not self._alive.session and not self._is_over:
            self._end(None)
        self._go_on(now_ms)

    def answered(self, id: int, result: TokenReply | DistkvError, now_ms: int) -> None:
        """A question was answered."""
        self._look(now_ms)
        request = self._calls.pop(id, None)
        if request is not None and not self._is_over:
            if isinstance(result, SessionExpiredError) and not self._is_closing:
                self._expired(result, now_ms)
            else:
                self._take(request, id, result, now_ms)
                self._alive.heard(result, now_ms)
        self._go_on(now_ms)

    def woken(self, now_ms: int) -> None:
        """Time passed."""
        self._go_on(now_ms)

    # -- what the user wants

    def open(self, wait_ms: int, patience_ms: int, now_ms: int) -> None:
        """Open the session. A refusal that may be over soon is borne for `wait_ms`; without an answer the client waits
        `patience_ms` longer."""
        self._open_by_ms, self._open_end_ms = now_ms + wait_ms, now_ms + wait_ms + patience_ms
        self._go_on(now_ms)

    def adopt(self, session: str, held: Iterable[HeldToken], patience_ms: int, now_ms: int) -> None:
        """Go on with a session that is open already, and holds these tokens."""
        self._alive.session, self._is_given = session, True
        self._tokens.adopt(held, now_ms)
        self.open(0, patience_ms, now_ms)

    def acquire(
        self,
        token: str,
        *,
        is_shared: bool = False,
        data: bytes | None = None,
        wait_ms: int | None = None,
        patience_ms: int = LATE_MS,
        now_ms: int,
        keeps_data: bool = False,
    ) -> None:
        """Ask for a token, until it is obtained or refused. A release of the same one that is under way comes first.

        Args:
            token: its name.
            is_shared: whether others may hold it, too, who ask for the same.
            data: what its data is to be from the grant on, packed; None: as it is.
            wait_ms: how long to wait for it; None: try once.
            patience_ms: how much longer to wait where nobody answers.
            now_ms: the time.
            keeps_data: whether the data stays when nobody holds the token.

        Raises:
            RequestError: the session has asked for this token already, or may not ask for it again.
            BusyError: it has too many.
        """
        until_ms = None if wait_ms is None else now_ms + wait_ms
        claim = Claim(token, is_shared, data, until_ms, now_ms + (wait_ms or 0) + patience_ms, keeps_data=keeps_data)
        self._tokens.want(claim)
        self._go_on(now_ms)

    def release(self, token: str, now_ms: int) -> None:
        """Give up a token, or the wish to have it. It is not held from now on; `TokenReleased` follows."""
        self._tokens.release(token, now_ms)
        self._go_on(now_ms)

    def let_go(self, token: str, now_ms: int) -> None:
        """Nobody works under a token any more that was taken."""
        self._tokens.let_go(token, now_ms)
        self._go_on(now_ms)

    def set_data(self, token: str, data: bytes | None, patience_ms: int, now_ms: int, *, keeps: bool = False) -> int:
        """Change the data of a token that is held (packed; None: it has none any more); the number of the answer.

        Raises:
            NotHeldError: it is not held.
            BusyError: too many changes are under way.
        """
        if self._held(token, now_ms) is None:
            raise NotHeldError(f"the session does not hold {token!r}: only a holder sets its data")
        number = self._tokens.set_data(token, data, now_ms + patience_ms, keeps_data=keeps)
        self._go_on(now_ms)
        return number

    def close(self, now_ms: int) -> None:
        """End the session: nothing is held from now on. `SessionEnded` follows, also when no node hears of it: then the
        session ends by itself after its ttl."""
        self._tokens.forget()
        self._is_closing, self._close_by_ms = True, now_ms + CLOSE_MS
        if self._alive.session:  # a keep-alive that is under way would be answered late
            self._alive.call, self._alive.again_ms = None, now_ms
        elif not self._is_over and self._alive.call is None:
            self._end(None)
        self._go_on(now_ms)

    # -- inside

    def _held(self, token: str, now_ms: int) -> Claim | None:
        return self._tokens.held(token) if self.lives(now_ms) else None

    def _go_on(self, now_ms: int) -> None:
        self._look(now_ms)
        if self._is_connected and not self._is_over:
            self._ask(now_ms)

    def _look(self, now_ms: int) -> None:
        """What is over because time passed."""
        if not self._is_over:
            self._look_at_session(now_ms)
        if not self._is_over:
            self._tokens.look(self._lost, now_ms)

    def _look_at_session(self, now_ms: int) -> None:
        alive = self._alive
        if self._is_closing and now_ms >= self._close_by_ms:
            self._end(None)
        elif alive.ttl_ms and now_ms >= alive.until_ms:
            text = f"the session {alive.session} could not be kept alive in time: what it held may be held by others"
            self._expired(SessionExpiredError(text), now_ms)
        elif not alive.ttl_ms and now_ms >= self._open_end_ms:
            self._end(self._lost or RequestError("no session could be opened: the node does not answer"))
        self._wants_other_node = self._is_connected and now_ms >= (alive.stuck_ms() or 2**62)

    def _expired(self, error: SessionExpiredError, now_ms: int) -> None:
        """The time of the session is over. Who only waits goes on with another one, which keeps the places by its
        tickets (docs/protocol, SESSION-13)."""
        ends = None if self._is_closing or self._is_given else self._tokens.begin_anew(now_ms)
        if ends is None:
            self._end(None if self._is_closing else error)
            return
        old, self._alive = self._alive.session, self._alive.anew()
        self._open_by_ms, self._open_end_ms = ends
        self._calls.clear()
        self._questions.clear()
        if self._is_connected:  # if it lives on at the servers, its place there is in our way; no answer counts
            self._id += 1
            self._questions.append(SessionQuestion(self._id, TokenClose(0, old)))

    def _end(self, error: DistkvError | None) -> None:
        self._is_over = True
        self._tokens.end(error or SessionExpiredError("the session was closed"))
        self._calls.clear()
        self._questions.clear()
        self._news.append(SessionEnded(error))

    def _send(self, request: SessionRequest) -> int:
        self._id += 1
        self._calls[self._id] = request
        self._questions.append(SessionQuestion(self._id, request))
        return self._id

    def _ask(self, now_ms: int) -> None:
        """Ask whatever is due."""
        alive = self._alive
        if alive.call is None and now_ms >= alive.again_ms:
            self._keep(now_ms)
        if not self.lives(now_ms) or self._is_closing:
            return
        self._tokens.ask(alive.session, self._send, now_ms)

    def _keep(self, now_ms: int) -> None:
        """Open the session, keep it, or end it."""
        alive = self._alive
        if not alive.session:
            if not self._is_closing:
                alive.sent(self._send(TokenOpen(0, *self._ttl)), now_ms)
        elif self._is_closing:
            alive.sent(self._send(TokenClose(0, alive.session)), now_ms)
        else:
            with_data = alive.sent(self._id + 1, now_ms)
            held = self._tokens.listed(with_data=with_data)
            wait_s = alive.wait_ms / 1000 if alive.ttl_ms else None
            self._send(TokenKeep(0, alive.session, alive.version, held, wait_s, alive.turn, alive.answered))

    # -- inside: answers

    def _take(self, request: SessionRequest, id: int, result: TokenReply | DistkvError, now_ms: int) -> None:
        match request:
            case TokenOpen():
                self._take_open(result, now_ms)
            case TokenKeep():
                self._take_keep(result, now_ms)
            case TokenClose():
                self._take_close(result, now_ms)
            case TokenAcquire() | TokenRelease() | TokenData():
                named = self._alive.named if self.lives(now_ms) else None
                self._tokens.answered(request, id, result, named, now_ms)
            case _:
                assert_never(request)

    def _take_open(self, result: TokenReply | DistkvError, now_ms: int) -> None:
        if isinstance(result, SessionOpened):
            self._alive.opened(result)
            if not self._is_closing:
                self._news.append(SessionLives(self._alive.session, self._alive.ttl_ms))
            return
        self._alive.failed(now_ms)
        error = claims.error_of(result)
        if self._is_closing or now_ms >= self._open_by_ms or not claims.is_bearable(error):
            self._end(None if self._is_closing else error)

    def _take_keep(self, result: TokenReply | DistkvError, now_ms: int) -> None:
        alive = self._alive
        if not isinstance(result, SessionKept) or self._is_closing:
            alive.failed(now_ms)
            if not alive.ttl_ms and now_ms >= self._open_by_ms:  # one that was adopted
                self._end(claims.error_of(result))
            return
        is_first = not alive.ttl_ms
        news = self._tokens.lost(result.lost)
        alive.kept(result, now_ms, is_news=bool(news))
        if is_first:
            self._news.append(SessionLives(alive.session, alive.ttl_ms))
        for claim in news:
            self._tokens.lose(claim, now_ms)

    def _take_close(self, result: TokenReply | DistkvError, now_ms: int) -> None:
        if isinstance(result, DistkvError) and claims.is_bearable(result):
            self._alive.failed(now_ms)
        else:
            self._end(None)
