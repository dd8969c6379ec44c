"""The sessions of all clients, as the leader looks after them: it opens, keeps and ends them.

Knows: when each was heard last, who waits for news of it, what was taken from it and it may not know yet. It hands on
what else the leader is asked (`server_change`).  Does not
know tokens, nor how a session comes into effect: it proposes, and sees it in the common state.

Invariant: a keep-alive is confirmed only while this node leads, and only to a session that is in effect and whose end
was not proposed. A session that was confirmed is not ended before its client has given it up by its own clock: that
counts ttl x (1 - drift) since it sent, the leader ttl x (1 + drift) since it heard, which is later; and a new leader
counts from its election, before which no confirmation of another leader could still come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, assert_never

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.alarms import Alarms, earliest
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.effects import TokenEffects
from distkv.core.tokens.serving.holding_doubts import TURNS, HoldingDoubts, is_after
from distkv.core.tokens.serving.server_change import ServerChange
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import BusyError, NoQuorumError, NotHeldError, RequestError, SessionExpiredError
from distkv.model.fence import Fence
from distkv.model.invariant import must
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
from distkv.wire.token_replies import SessionClosed, SessionKept, SessionOpened, TokenDone

TOGETHER: Final = 64
"""By so small a part of its wait a keep-alive is answered later, together with those of others: to wake up for each one
costs more than the answer."""


@attrs.define(slots=True)
class KeepWaiting:
    """A keep-alive that is not answered yet."""

    call: CallKey
    version: int
    until_ms: int
    turn: int


@attrs.define(slots=True)
class OpenWaiting:
    """A session that is to be opened."""

    call: CallKey
    ttl_ms: int
    proposed_ms: int | None = None
    """Of the election in which it was proposed; another leader may have dropped it."""


@attrs.define(slots=True)
class LossUntold:
    """A token that was taken from a session."""

    call: CallKey
    fence: Fence
    told_ms: int | None = None
    """When a confirmed answer named it the first time."""
    told_turns: deque[int] = attrs.field(factory=lambda: deque(maxlen=TURNS))
    """The keep-alives to which such an answer was given, of the last ones."""


class Sessions:
    """On a node that does not lead all questions wait, or are to be asked elsewhere. All times are milliseconds."""

    def __init__(
        self,
        settings: ServingSettings,
        authority: Authority,
        effects: TokenEffects,
        shares: SessionShares,
        answer: Callable[[CallKey, TokenResult], None],
    ) -> None:
        self._settings: Final = settings
        self._authority: Final = authority
        self._effects: Final = effects
        self._answer: Final = answer
        self._state: TokenState | None = None
        self._elected_ms: int | None = None
        """Of the election since which it leads; None: it does not."""
        self._could_confirm = False
        """Whether it led at the last look."""
        self._heard_ms: Final = dict[str, int]()
        self._numbered: Final = dict[str, None]()
        """The sessions whose keep-alives have numbers."""
        self._tags: Final = dict[str, str]()
        """Of each tag its session."""
        self._ends: Final = Alarms[str]()
        self._keeps: Final = dict[str, KeepWaiting]()
        self._waits: Final = Alarms[str]()
        self._opens: Final = dict[str, OpenWaiting]()
        self._unwanted: Final = dict[str, None]()
        """Tags of sessions that were proposed, and for which nobody waits any more: they end as soon as they are there.
        """
        self._closes: Final = dict[str, CallKey]()
        self._ending: Final = dict[str, None]()
        self._shares: Final = shares
        self._behind: Final = dict[str, tuple[int, int]]()
        """Of sessions that were told of a version, and have not named it yet: that version, and when it was told."""
        self._losses: Final = dict[str, dict[str, LossUntold]]()
        self._doubts: Final = HoldingDoubts()
        self._change: Final = ServerChange(authority, answer)
        self._calls: Final = dict[CallKey, str]()
        """What each call is about: a session, or the tag of one that is to be opened."""

    # -- when

    @property
    def due_ms(self) -> int | None:
        """When `woken` has something to do."""
        ends_ms = self._ends.first_ms if self._could_confirm else None
        return earliest(self._waits.first_ms, ends_ms, self._change.due_ms)

    def leads(self, now_ms: int) -> bool:
        """Whether it may confirm and propose now."""
        return self._elected_ms is not None and now_ms < self._authority.leads_until_ms

    def may_look(self, now_ms: int) -> bool:
        """Whether this node leads now and did not at the last look, or the other way round."""
        authority = self._authority
        leads = now_ms < authority.leads_until_ms
        return leads != self._could_confirm or (leads and self._elected_ms != authority.elected_ms)

    # -- what is asked

    def asked(self, call: CallKey, question: LeaderQuestion, now_ms: int) -> None:
        """Somebody asks the leader."""
        match question:
            case OpenSession():
                self.open(call, question, now_ms)
            case EndSession():
                self.end(call, question, now_ms)
            case KeepSession():
                self.keep(call, question, now_ms)
            case TellLoss():
                self.lose(call, question, now_ms)
            case AskHolding():
                self.doubt(call, question, now_ms)
            case ChangeServers():
                self._change.asked(call, question, now_ms)
            case _:
                assert_never(question)

    def open(self, call: CallKey, asked: OpenSession, now_ms: int) -> None:
        """Open a session; answered when it is in effect."""
        state = self._state
        refusal = None if state is None or asked.tag in self._opens else self._shares.refusal(asked.tag)
        if refusal is not None:
            self._answer(call, BusyError(refusal))
            return
        self._shares.put(asked.tag)
        self._unwanted.pop(asked.tag, None)
        old = self._opens.get(asked.tag)
        if old is not None:
            self._calls.pop(old.call, None)
        self._opens[asked.tag] = OpenWaiting(call, asked.ttl_ms, None if old is None else old.proposed_ms)
        self._calls[call] = asked.tag
        self._answer_opens()
        if self.leads(now_ms):
            self._propose_opens()

    def end(self, call: CallKey, asked: EndSession, now_ms: int) -> None:
        """End a session; answered when that is in effect."""
        session = asked.session
        if self._state is not None and session not in self._state.sessions:
            self._answer(call, SessionExpiredError(f"the session {session} is over already"))
            return
        old, self._closes[session] = self._closes.get(session), call
        if old is not None and old != call:
            self._finish(old, NoQuorumError("the session was asked to end again: the later request waits"))
        self._calls[call] = session
        if self.leads(now_ms):
            self._propose_end(session)

    def keep(self, call: CallKey, asked: KeepSession, now_ms: int) -> None:
        """A client says that it is there; answered at once when there is news, else after the wait."""
        session, state = asked.session, self._state
        ttl_ms = None if state is None else state.sessions.get(session)
        if ttl_ms is None:
            if state is not None:
                self._answer(call, _expired(session))
            return
        if asked.turn:
            self._numbered[session] = None
        if session in self._behind:
            self._hear_version(asked, ttl_ms, now_ms)
        if session in self._losses:
            self._hear_losses(asked, ttl_ms, now_ms)
        for doubt, is_held in self._doubts.heard(asked):
            self._answer(doubt, TokenDone() if is_held else NotHeldError("the client of the session holds it not"))
        old = self._keeps.get(session)
        if old is not None:  # its client has another connection now; what it is told now, it did not know yet
            old.until_ms = now_ms
            self._look_at(session, old, now_ms)
            if self._keeps.pop(session, None) is not None:
                self._finish(old.call, NoQuorumError("the session asked again: the later request waits"))
        self._heard_ms[session] = now_ms
        keep = KeepWaiting(call, asked.version, _answer_ms(now_ms, asked.wait_ms, ttl_ms // 3), asked.turn)
        self._calls[call] = session
        self._look_at(session, keep, now_ms)

    def lose(self, call: CallKey, asked: TellLoss, now_ms: int) -> None:
        """A token was taken from a session; answered when it knows, or is over."""
        session = asked.session
        if self._state is not None and session not in self._state.sessions:
            self._answer(call, TokenDone())
            return
        losses = self._losses.setdefault(session, {})
        old = losses.get(asked.fence.token)
        loss = losses[asked.fence.token] = LossUntold(call, asked.fence)
        if old is not None and old.fence == asked.fence:
            loss.told_ms, loss.told_turns = old.told_ms, old.told_turns
        if old is not None and old.call != call:
            self._answer(old.call, NoQuorumError("another server asks about the token now"))
        keep = self._keeps.get(session)
        if keep is not None:
            self._look_at(session, keep, now_ms)

    def doubt(self, call: CallKey, asked: AskHolding, now_ms: int) -> None:
        """Whether the client of a session counts on a token; answered when it has said what it holds."""
        session = asked.session
        if self._state is not None and session not in self._state.sessions:
            self._answer(call, TokenDone())
            return
        old = self._doubts.ask(call, session, asked.fence.token)
        if old is not None:
            self._answer(old, NoQuorumError("another server asks about the token now"))
        keep = self._keeps.get(session)
        if keep is not None:
            self._look_at(session, keep, now_ms)

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self._change.call_gone(call)
        key = self._calls.pop(call, None)
        if key is None:
            return
        keep = self._keeps.get(key)
        if keep is not None and keep.call == call:
            del self._keeps[key]
            self._waits.drop(key)
        if key in self._opens and self._opens[key].call == call:
            if self._opens.pop(key).proposed_ms is not None:
                self._unwanted[key] = None
            else:
                self._shares.drop(key)
        if self._closes.get(key) == call:
            del self._closes[key]

    # -- what changes

    def look(self, state: TokenState, now_ms: int) -> None:
        """Another version may be in effect; this node may have been elected, or lead no more."""
        old, self._state = self._state, state
        if old is None or old.sessions is not state.sessions:
            self._sessions_changed(old, state, now_ms)
        self._look_at_leading(state, now_ms)
        could, self._could_confirm = self._could_confirm, self.leads(now_ms)
        if self._could_confirm and not could:  # what came while it could not
            self._propose_opens()
            for session in list(self._closes):
                self._propose_end(session)
        if old is None or old.changed != state.changed or (self._could_confirm and not could):
            for session, keep in list(self._keeps.items()):
                self._look_at(session, keep, now_ms)

    def woken(self, now_ms: int) -> None:
        """Time passed."""
        self._change.look(now_ms, leads=self.leads(now_ms))
        for session in self._waits.take_due(now_ms):
            keep = self._keeps.get(session)
            if keep is not None:
                self._look_at(session, keep, now_ms)
        if self.leads(now_ms):
            for session in self._ends.take_due(now_ms):
                self._end_if_silent(session, now_ms)

    def take_calls(self) -> list[CallKey]:
        """All that wait; they are forgotten here, and are to be answered otherwise."""
        losses = [one.call for some in self._losses.values() for one in some.values()]
        found = [*(keep.call for keep in self._keeps.values()), *(one.call for one in self._opens.values())]
        found += [*self._closes.values(), *losses, *self._doubts.take_calls(), *self._change.take_calls()]
        for tag in [tag for tag, one in self._opens.items() if one.proposed_ms is None]:
            self._shares.drop(tag)
        self._unwanted.update({tag: None for tag, one in self._opens.items() if one.proposed_ms is not None})
        for some in (self._keeps, self._opens, self._closes, self._losses, self._behind, self._calls):
            some.clear()
        self._waits.clear()
        return found

    def refuse_all(self) -> None:
        """Nothing could be confirmed for a lease."""
        text = "no majority of the token servers answers: the session lives only until its time is over"
        for call in self.take_calls():
            self._answer(call, NoQuorumError(text))

    # -- inside

    def _look_at_leading(self, state: TokenState, now_ms: int) -> None:
        elected_ms = self._authority.elected_ms
        if now_ms >= self._authority.leads_until_ms:
            if state.leader != self._settings.me:
                self._elected_ms = None
            return
        if self._elected_ms == elected_ms:
            return
        self._elected_ms = elected_ms
        self._shares.reset(state.sessions)
        for tag in self._opens:
            self._shares.put(tag)
        self._unwanted.clear()
        self._ending.clear()
        self._ends.clear()
        for session, ttl_ms in state.sessions.items():
            self._ends.put(session, elected_ms + self._settings.long_ms(ttl_ms))
        for session, keep in list(self._keeps.items()):
            self._heard_ms[session] = now_ms
            self._look_at(session, keep, now_ms)

    def _sessions_changed(self, old: TokenState | None, state: TokenState, now_ms: int) -> None:
        before = {} if old is None else old.sessions
        for session in [one for one in before if one not in state.sessions]:
            self._end(session)
        for session in [one for one in state.sessions if one not in before]:
            tag = session.partition("-")[2]
            self._tags[tag] = session
            self._shares.put(tag)
            if tag in self._unwanted and self.leads(now_ms):
                self._propose_end(session)
            if self._elected_ms is not None:
                self._heard_ms[session] = now_ms  # it begins to count when its client can learn of it
                self._ends.put(session, now_ms + self._settings.long_ms(state.sessions[session]))
        self._answer_opens()

    def _answer_opens(self) -> None:
        state = self._state
        for tag in [tag for tag in self._opens if tag in self._tags]:
            call = self._opens.pop(tag).call
            self._calls.pop(call, None)
            session = self._tags[tag]
            if state is not None and session in state.sessions:
                self._answer(call, SessionOpened(session, state.sessions[session], state.changed))

    def _end(self, session: str) -> None:
        self._tags.pop(tag := session.partition("-")[2], None)
        self._shares.drop(tag)
        self._heard_ms.pop(session, None)
        self._numbered.pop(session, None)
        self._behind.pop(session, None)
        self._ending.pop(session, None)
        self._ends.drop(session)
        self._waits.drop(session)
        keep, close = self._keeps.pop(session, None), self._closes.pop(session, None)
        if keep is not None:
            self._finish(keep.call, _expired(session))
        if close is not None:
            self._finish(close, SessionClosed(session))
        for loss in self._losses.pop(session, {}).values():
            self._answer(loss.call, TokenDone())
        for doubt in self._doubts.end(session):
            self._answer(doubt, TokenDone())

    def _finish(self, call: CallKey, result: TokenResult) -> None:
        self._calls.pop(call, None)
        self._answer(call, result)

    def _look_at(self, session: str, keep: KeepWaiting, now_ms: int) -> None:
        """Confirm a keep-alive if it is due and may be; else it waits on."""
        state = self._state
        losses = self._losses.get(session, {})
        has_news = bool(losses) or self._doubts.is_new(session) or (state is not None and keep.version != state.changed)
        is_due = has_news or now_ms >= keep.until_ms
        if state is None or not (is_due and self.leads(now_ms)) or session in self._ending:
            self._keeps[session] = keep
            if now_ms < keep.until_ms:
                self._waits.put(session, keep.until_ms)
            return
        self._keeps.pop(session, None)
        self._waits.drop(session)
        for loss in losses.values():
            loss.told_ms = now_ms if loss.told_ms is None else loss.told_ms
            loss.told_turns.append(keep.turn)
        self._doubts.told(session, keep.turn)
        if keep.version < state.changed:
            self._behind.setdefault(session, (state.changed, now_ms))
        self._finish(keep.call, SessionKept(state.changed, state.sessions[session], tuple(losses)))

    def _hear_version(self, asked: KeepSession, ttl_ms: int, now_ms: int) -> None:
        """Whether the client has named what it was told. One that never does is ended: while it does not, no survey
        knows what it holds, and nobody gets the tokens of a lost server."""
        version, told_ms = self._behind[asked.session]
        if asked.version >= version:
            del self._behind[asked.session]
        elif now_ms > told_ms + ttl_ms and self.leads(now_ms):
            self._propose_end(asked.session)

    def _hear_losses(self, asked: KeepSession, ttl_ms: int, now_ms: int) -> None:
        """Whether the client still counts on what it has lost. One that goes on to, although it was told so, is ended:
        nobody else could get the token."""
        session, names = asked.session, frozenset(asked.held)
        losses = self._losses[session]
        for name, loss in list(losses.items()):
            if loss.told_ms is None:
                continue
            if name in names:
                if now_ms > loss.told_ms + ttl_ms and self.leads(now_ms):
                    self._propose_end(session)
            elif is_after(asked, loss.told_turns, is_numbered=session in self._numbered):
                del losses[name]
                self._answer(loss.call, TokenDone())
        if not losses:
            del self._losses[session]

    def _end_if_silent(self, session: str, now_ms: int) -> None:
        state = self._state
        if state is None or session not in state.sessions or self._elected_ms is None:
            return
        heard_ms = max(self._elected_ms, self._heard_ms.get(session, 0))
        end_ms = heard_ms + self._settings.long_ms(state.sessions[session])
        if now_ms >= end_ms:
            self._effects.note("token_session_expired", session=session)
            self._propose_end(session)
        else:
            self._ends.put(session, end_ms)

    def _propose_opens(self) -> None:
        for tag, one in list(self._opens.items()):
            if one.proposed_ms != self._elected_ms:
                one.proposed_ms = self._elected_ms
                try:
                    self._authority.propose_open(one.ttl_ms, tag)
                except BusyError as error:
                    del self._opens[tag]
                    self._shares.drop(tag)
                    self._finish(one.call, error)

    def _propose_end(self, session: str) -> None:
        self._unwanted.pop(session.partition("-")[2], None)
        if session not in self._ending:
            self._ending[session] = None
            self._authority.propose_end([session])

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._ends.check()
        self._waits.check()
        waiting = [one.call for some in (self._keeps, self._opens) for one in some.values()]
        must({*waiting, *self._closes.values()} <= self._calls.keys(), "each call that waits is known")


def _answer_ms(now_ms: int, wait_ms: int, longest_ms: int) -> int:
    """When a keep-alive without news is answered."""
    wait_ms = min(wait_ms, longest_ms)
    grain_ms = max(1, wait_ms // TOGETHER)
    return min(-(-(now_ms + wait_ms) // grain_ms) * grain_ms, now_ms + longest_ms)


def _expired(session: str) -> RequestError:
    return SessionExpiredError(f"the session {session} is over, or never was: open another one")
