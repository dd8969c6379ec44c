"""The sessions of all clients, as the leader looks after them: it opens, keeps and ends them.

Knows: when each was heard last, who waits for news of it, what was taken from it and it may not know yet, and who asked
for another list of servers.  Does not know tokens, nor how a session comes into effect: it proposes, and sees it in the
common state.

Invariant: a keep-alive is confirmed only while this node leads, and only to a session that is in effect and whose end
was not proposed. A session that was confirmed is not ended before its client has given it up by its own clock: that
counts ttl x (1 - drift) since it sent, the leader ttl x (1 + drift) since it heard, which is later; and a new leader
counts from its election, before which no confirmation of another leader could still come.
"""

from __future__ import annotations

from typing import Final, assert_never

import attrs

from distkv.core.ground.alarms import Alarms, earliest
from distkv.core.ground.calls import CallKey
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.serving.open_session import KeepWaiting, OpenedSession
from distkv.core.tokens.serving.session_openings import SessionOpenings
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import BusyError, RequestError
from distkv.model.invariant import must
from distkv.wire.token_errors import NoQuorumError, NotHeldError, SessionExpiredError, TimedOutError
from distkv.wire.token_messages import (
    AskHolding,
    ChangeServers,
    EndSession,
    KeepSession,
    LeaderQuestion,
    OpenSession,
    TellLoss,
    TokenResult,
)
from distkv.wire.token_replies import SessionClosed, SessionKept, TokenDone

TOGETHER: Final = 64
"""By so small a part of its wait a keep-alive is answered later, together with those of others: to wake up for each one
costs more than the answer."""


class Sessions:
    """On a node that does not lead all questions wait, or are to be asked elsewhere. All times are milliseconds."""

    def __init__(self, settings: ServingSettings, authority: Authority, shares: SessionShares) -> None:
        self._settings: Final = settings
        self._authority: Final = authority
        self._state: TokenState | None = None
        self._elected_ms: int | None = None
        """Of the election since which it leads; None: it does not."""
        self._could_confirm = False
        """Whether it led at the last look."""
        self._open: Final = dict[str, OpenedSession]()
        """Those in effect, by their ids."""
        self._ends: Final = Alarms[str]()
        self._waits: Final = Alarms[str]()
        self._openings: Final = SessionOpenings(authority, shares)
        self._change: Final = ServerChange(authority)
        self._calls: Final = dict[CallKey, str]()
        """Of each keep-alive, and each request to end one, the session."""
        self._is_asked = False
        """Whether anything was asked since the last time that all was given up."""

    # -- when

    @property
    def due_ms(self) -> int | None:
        """When `woken` has something to do."""
        ends_ms = self._ends.first_ms if self._could_confirm else None
        return earliest(self._waits.first_ms, ends_ms, self._change.due_ms)

    def leads(self, now_ms: int) -> bool:
        """Whether it may confirm and propose now."""
        return self._elected_ms is not None and now_ms < self._authority.leads_until_ms

    def is_behind(self, now_ms: int) -> bool:
        """Whether this node leads now and did not at the last look, or the other way round."""
        authority = self._authority
        leads = now_ms < authority.leads_until_ms
        return leads != self._could_confirm or (leads and self._elected_ms != authority.elected_ms)

    # -- what is asked

    def asked(self, call: CallKey, question: LeaderQuestion, turn: ServingTurn) -> None:
        """Somebody asks the leader."""
        self._is_asked = True
        if isinstance(question, OpenSession):
            self._openings.ask(call, question, turn)
            if self._elected_ms is not None and self.leads(turn.now_ms):
                self._openings.propose(self._elected_ms, turn)
            return
        if isinstance(question, ChangeServers):
            self._change.asked(call, question, turn)
            return
        session = self._open.get(question.session)
        if session is None:
            turn.answer(call, _answer_without(question))
            return
        match question:
            case EndSession():
                self._end(call, session, turn)
            case KeepSession():
                self._keep(call, question, session, turn)
            case TellLoss(fence=fence):
                self._asked_again(session.lose(call, fence), session, turn)
            case AskHolding(fence=fence):
                self._asked_again(session.doubt(call, fence.token), session, turn)
            case _:
                assert_never(question)

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self._change.call_gone(call)
        self._openings.call_gone(call)
        session = self._open.get(self._calls.pop(call, ""))
        if session is not None and session.keep is not None and session.keep.call == call:
            session.keep = None
            self._waits.drop(session.id)
        if session is not None and session.close == call:
            session.close = None

    # -- what changes

    def follow(self, state: TokenState, turn: ServingTurn) -> None:
        """Another version may be in effect; this node may have been elected, or lead no more."""
        old, self._state = self._state, state
        if old is None or old.sessions is not state.sessions:
            self._follow_sessions(state, turn)
        self._follow_leading(state, turn)
        could, self._could_confirm = self._could_confirm, self.leads(turn.now_ms)
        if self._could_confirm and not could and self._elected_ms is not None:  # what came while it could not
            self._openings.propose(self._elected_ms, turn)
            for session in [one for one in self._open.values() if one.close is not None]:
                self._propose_end(session)
        if old is None or old.changed != state.changed or (self._could_confirm and not could):
            for session in list(self._open.values()):
                self._confirm_due(session, turn)

    def woken(self, turn: ServingTurn) -> None:
        """Time passed."""
        leads = self.leads(turn.now_ms)
        self._change.answer_due(turn, leads=leads)
        for id in self._waits.take_due(turn.now_ms):
            self._confirm_due(self._open[id], turn)
        if leads:
            for id in self._ends.take_due(turn.now_ms):
                self._end_if_silent(self._open[id], turn)

    def take_calls(self) -> list[CallKey]:
        """All that wait; they are forgotten here, and are to be answered otherwise."""
        if not self._is_asked:
            return []
        self._is_asked = False
        found = [*self._calls, *self._openings.take_calls(), *self._change.take_calls()]
        for session in self._open.values():
            found += session.take_asked()
            session.keep = session.close = session.behind = None
        self._calls.clear()
        self._waits.clear()
        return found

    def refuse_all(self, turn: ServingTurn) -> None:
        """Nothing could be confirmed for a lease."""
        text = "no majority of the token servers answers: the session lives only until its time is over"
        for call in self.take_calls():
            turn.answer(call, NoQuorumError(text))

    # -- inside: what is asked

    def _end(self, call: CallKey, session: OpenedSession, turn: ServingTurn) -> None:
        """Answered when that is in effect."""
        old, session.close = session.close, call
        if old is not None and old != call:
            self._finish(old, NoQuorumError("the session was asked to end again: the later request waits"), turn)
        self._calls[call] = session.id
        if self.leads(turn.now_ms):
            self._propose_end(session)

    def _keep(self, call: CallKey, asked: KeepSession, session: OpenedSession, turn: ServingTurn) -> None:
        """A client says that it is there; answered at once when there is news, else after the wait."""
        now_ms = turn.now_ms
        if session.refuses(asked, now_ms) and self.leads(now_ms):
            self._propose_end(session)
        for question, is_so in session.hear(asked):
            turn.answer(question, TokenDone() if is_so else NotHeldError("the client of the session holds it not"))
        old = session.keep
        if old is not None:  # its client has another connection now; what it is told now, it did not know yet
            old.until_ms = now_ms
            self._confirm_due(session, turn)
            if session.keep is not None:
                self._finish(old.call, NoQuorumError("the session asked again: the later request waits"), turn)
        session.heard_ms = now_ms
        until_ms = _answer_ms(now_ms, asked.wait_ms, session.ttl_ms // 3)
        session.keep = KeepWaiting(call, asked.version, until_ms, asked.turn)
        self._calls[call] = session.id
        self._confirm_due(session, turn)

    def _asked_again(self, old: CallKey | None, session: OpenedSession, turn: ServingTurn) -> None:
        """A server asks about a token; answered when the client has said what it holds, or the session is over."""
        if old is not None:
            turn.answer(old, NoQuorumError("another server asks about the token now"))
        self._confirm_due(session, turn)

    # -- inside: what changes

    def _follow_leading(self, state: TokenState, turn: ServingTurn) -> None:
        elected_ms = self._authority.elected_ms
        if turn.now_ms >= self._authority.leads_until_ms:
            if state.leader != self._settings.me:
                self._elected_ms = None
            return
        if self._elected_ms == elected_ms:
            return
        self._elected_ms = elected_ms
        self._openings.begin_reign(state.sessions)
        self._ends.clear()
        for session in self._open.values():
            session.is_ending = False
            self._ends.put(session.id, elected_ms + self._settings.long_ms(session.ttl_ms))
            if session.keep is not None:
                session.heard_ms = turn.now_ms
                self._confirm_due(session, turn)

    def _follow_sessions(self, state: TokenState, turn: ServingTurn) -> None:
        for session in [one for id, one in self._open.items() if id not in state.sessions]:
            self._forget(session, turn)
        for id in [id for id in state.sessions if id not in self._open]:
            session = self._open[id] = OpenedSession(id, state.sessions[id])
            if not self._openings.opened(session, turn) and self.leads(turn.now_ms):
                self._propose_end(session)
            if self._elected_ms is not None:
                session.heard_ms = turn.now_ms  # it begins to count when its client can learn of it
                self._ends.put(id, turn.now_ms + self._settings.long_ms(session.ttl_ms))

    def _forget(self, session: OpenedSession, turn: ServingTurn) -> None:
        """It is over."""
        del self._open[session.id]
        self._openings.ended(session)
        self._ends.drop(session.id)
        self._waits.drop(session.id)
        if session.keep is not None:
            self._finish(session.keep.call, _expired(session.id), turn)
        if session.close is not None:
            self._finish(session.close, SessionClosed(session.id), turn)
        for call in session.take_asked():
            turn.answer(call, TokenDone())

    def _finish(self, call: CallKey, result: TokenResult, turn: ServingTurn) -> None:
        self._calls.pop(call, None)
        turn.answer(call, result)

    def _confirm_due(self, session: OpenedSession, turn: ServingTurn) -> None:
        """Confirm its keep-alive if it is due and may be; else it waits on."""
        keep, state, now_ms = session.keep, self._state, turn.now_ms
        if keep is None or state is None:
            return
        is_due = now_ms >= keep.until_ms or session.has_news(state.changed)
        if not (is_due and self.leads(now_ms)) or session.is_ending:
            if now_ms < keep.until_ms:
                self._waits.put(session.id, keep.until_ms)
            return
        session.keep = None
        self._waits.drop(session.id)
        session.told(keep, state.changed, now_ms)
        self._finish(keep.call, SessionKept(state.changed, session.ttl_ms, tuple(session.losses)), turn)

    def _end_if_silent(self, session: OpenedSession, turn: ServingTurn) -> None:
        if self._elected_ms is None:
            return
        end_ms = max(self._elected_ms, session.heard_ms) + self._settings.long_ms(session.ttl_ms)
        if turn.now_ms >= end_ms:
            turn.note("token_session_expired", session=session.id)
            self._propose_end(session)
        else:
            self._ends.put(session.id, end_ms)

    def _propose_end(self, session: OpenedSession) -> None:
        self._openings.forget(session.tag)
        if not session.is_ending:
            session.is_ending = True
            self._authority.propose_end([session.id])

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._ends.check()
        self._waits.check()
        self._openings.check()
        for session in self._open.values():
            session.check()
        sessions = {} if self._state is None else self._state.sessions
        must(self._open.keys() == sessions.keys(), "each session in effect is looked after")
        keeps = {one.keep.call: id for id, one in self._open.items() if one.keep is not None}
        closes = {one.close: id for id, one in self._open.items() if one.close is not None}
        must(self._calls == {**keeps, **closes}, "each call that waits is known")


def _answer_ms(now_ms: int, wait_ms: int, longest_ms: int) -> int:
    """When a keep-alive without news is answered."""
    wait_ms = min(wait_ms, longest_ms)
    grain_ms = max(1, wait_ms // TOGETHER)
    return min(-(-(now_ms + wait_ms) // grain_ms) * grain_ms, now_ms + longest_ms)


def _answer_without(question: EndSession | KeepSession | TellLoss | AskHolding) -> TokenResult:
    """What is said of a session that is over, or never was."""
    if isinstance(question, EndSession):
        return SessionExpiredError(f"the session {question.session} is over already")
    return _expired(question.session) if isinstance(question, KeepSession) else TokenDone()


def _expired(session: str) -> RequestError:
    return SessionExpiredError(f"the session {session} is over, or never was: open another one")


LOOK_MS: Final = 200
"""So often it is looked whether it is done: what it waits for is no version."""
CHANGES_MAX: Final = 100


@attrs.frozen(slots=True)
class ChangeWaiting:
    """One call. The time is milliseconds."""

    question: ChangeServers
    until_ms: int


class ServerChange:
    """Who asked for another list of token servers, as the leader answers them: it proposes the list, and looks whether
    it is in force. All times are milliseconds.

    Invariant: a call is answered when its list is in force, when its wait is over, or when another change is under way.
    The change goes on, whoever waits: it is forgotten only when this node leads no more before it began, and is asked
    again."""

    def __init__(self, authority: Authority) -> None:
        self._authority: Final = authority
        self._waiting: Final = dict[CallKey, ChangeWaiting]()
        self.due_ms: int | None = None
        """When it is looked next; None: nobody waits. Only read."""

    def asked(self, call: CallKey, question: ChangeServers, turn: ServingTurn) -> None:
        """Somebody wants another list."""
        if len(self._waiting) >= CHANGES_MAX:
            turn.answer(call, BusyError(f"{CHANGES_MAX} wait for a change of the token servers: ask again later"))
            return
        self._waiting[call] = ChangeWaiting(question, turn.now_ms + question.wait_ms)
        self.due_ms = turn.now_ms

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self._waiting.pop(call, None)

    def take_calls(self) -> list[CallKey]:
        """All that wait; they are forgotten here, and are to be answered otherwise."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def answer_due(self, turn: ServingTurn, *, leads: bool) -> None:
        """Time passed, or the authority has changed."""
        now_ms = turn.now_ms
        if self.due_ms is None or now_ms < self.due_ms:
            return
        for call, waiting in list(self._waiting.items()):
            result = self._result(waiting, now_ms) if leads else None
            if result is not None:
                del self._waiting[call]
                turn.answer(call, result)
        self.due_ms = now_ms + LOOK_MS if self._waiting else None

    def _result(self, waiting: ChangeWaiting, now_ms: int) -> TokenResult | None:
        servers = waiting.question.servers
        try:
            self._authority.propose_servers(servers)
        except BusyError as error:
            return error
        reason = self._authority.change_waits_for(servers, now_ms)
        if not reason:
            return TokenDone()
        if now_ms < waiting.until_ms:
            return None
        return TimedOutError(f"the change of the token servers goes on; it waits for {reason}")
