"""A token server: what it does for the clients of all nodes, within what the servers agreed on.

Knows: which machine answers which question, and what each version of the common state means for them: sessions
(the leader's), the part it serves, tokens, survey and hand-over.  Does not know clients, nor how servers agree.

Invariant: nothing is granted or confirmed beyond what `Authority` allows at that moment. A question of which the answer
is not known yet waits, for a lease at the most (`no_quorum`); one for another server is sent there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.alarms import earliest
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.effects import TokenEffects, must_wait
from distkv.core.tokens.known_servers import OwnMap
from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.core.tokens.serving.grants import TOKEN_SLOT, Grants
from distkv.core.tokens.serving.handover import Giving, TokenHandOver
from distkv.core.tokens.serving.known_before import is_early, is_of_later_session, session_of
from distkv.core.tokens.serving.leader_asked import LeaderAsked
from distkv.core.tokens.serving.parked import ParkedQuestions
from distkv.core.tokens.serving.part import PART_SLOT, TokenPart
from distkv.core.tokens.serving.patience import ServingPatience
from distkv.core.tokens.serving.served_token import ServedToken
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving.sessions import Sessions
from distkv.core.tokens.serving.survey import ClaimedToken, SessionClaim, Survey
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving.watches import TokenWatches
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import BusyError, NoQuorumError, NotFoundError, NotHeldError, RequestError, SessionExpiredError
from distkv.model.standing import ServerStanding
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_fields import Ticket
from distkv.wire.token_messages import (
    AboutToken,
    AskElsewhere,
    AskHolding,
    ClaimTokens,
    LeaderQuestion,
    ListTokens,
    ReleaseAll,
    ServerQuestion,
    TakeTokens,
    TellLoss,
    TokenMap,
    TokenQuestion,
    TokenResult,
    WatchTokens,
    WhereTokens,
)
from distkv.wire.token_replies import TokenDone, TokensListed
from distkv.wire.token_requests import TokenAcquire, TokenBreak, TokenData, TokenList, TokenRelease, TokenShow
from distkv.wire.token_slots import decode_part, decode_token

POSITION_BITS: Final = 20
"""By so many bits the positions of watches of one start are apart from those of the next."""
AGAIN_MS: Final = 500
ServingPurpose: TypeAlias = TellLoss | AskHolding | Giving
"""What a server asks others for."""


class TokenServing:
    """The machine. All times are milliseconds."""

    def __init__(
        self, settings: ServingSettings, authority: Authority, questions: Questions, effects: TokenEffects,
        shares: SessionShares, now_ms: int,
    ) -> None:  # fmt: skip
        self._settings: Final = settings
        self._authority: Final = authority
        self._questions: Final = questions
        self._effects: Final = effects
        self._part: Final = TokenPart(settings.me, effects)
        self._grants: Final = Grants(settings, self, effects, lambda token: self._watches.touched(token))
        self._sessions: Final = Sessions(settings, authority, shares)
        self._survey: Final = Survey(settings.lock_delay_ms)
        self._hand_over: Final = TokenHandOver(questions, self._grants.handed)
        self._watches: Final = TokenWatches(
            settings.boot << POSITION_BITS, self._part.is_mine, self._grants.is_known, self._grants.item
        )
        self._parked: Final = ParkedQuestions(settings.tokens_max, settings.lease_ms)
        self._state: TokenState | None = None
        self._quiet_ms = now_ms
        """Before that nothing is granted: who waited asks again, and what is on its way arrives."""
        self._patience: Final = ServingPatience(settings.lease_ms, now_ms)
        self._is_quiet = True
        self._was_serving = False
        self._again_ms: int | None = None
        """When losses and hand-overs that were not taken are told again."""
        self._leader: Final = LeaderAsked(questions, lambda: settings.me if self._state is None else self._state.leader)
        self._own_map: Final = OwnMap(settings.me)
        self._due_ms = 0
        """What `wake_ms` said last: before that there is nothing to look at, while the authority is the same."""

    def restore(self, slots: Mapping[str, bytes], now_ms: int) -> None:
        """What was durable when this node ended.

        Raises:
            DecodeError: a slot is damaged.
        """
        if PART_SLOT not in slots:
            return
        self._part.restore(decode_part(slots[PART_SLOT]))
        self._quiet_ms = now_ms + max(self._settings.long_ms(self._settings.lease_ms), self._settings.lock_delay_ms)
        for key, value in slots.items():
            if key.startswith(TOKEN_SLOT):
                record = decode_token(value)
                self._grants.install(record, now_ms)
                self._watches.touched(record.token)

    # -- what the machines below ask (grants.GrantRules)

    @property
    def changed(self) -> int:
        return 0 if self._state is None else self._state.changed

    def serves(self, token: str, now_ms: int) -> bool:
        """Whether it may grant this now."""
        return self._quiet_ms <= now_ms < self._authority.grants_until_ms and self._part.serves(token)

    def next_number(self) -> tuple[int, int]:
        return self._part.next_number()

    def next_place(self) -> Ticket:
        return self.changed, self._part.next_number()[1]

    def _turn(self, now_ms: int, changed: int) -> ServingTurn:
        return ServingTurn(now_ms, changed, self._questions, self._effects)

    def answer(self, call: CallKey, result: TokenResult) -> None:
        self._questions.answer(call, result, self.changed)

    def withdraw(self, call: CallKey) -> None:
        self._questions.withdraw(call)

    def taken(self, holder: TokenHolder, token: str, now_ms: int) -> None:
        """The leader is to tell the session."""
        self._leader.ask(TellLoss(holder.session, (holder.epoch, holder.counter, token)), now_ms)

    def served(self, token: str) -> ServedToken:
        """See `Grants`."""
        return self._grants.served(token)

    @property
    def claims(self) -> int:
        return self._survey.count

    def wake_ms(self) -> int | None:
        """When it wants to be woken; asked after each step, and kept for `look`."""
        quiet_ms = self._quiet_ms if self._is_quiet else None
        patience_ms = None if self._state is None else self._patience.due_ms
        found = earliest(
            self._grants.due_ms, self._sessions.due_ms, self._survey.due_ms, self._parked.due_ms, self._again_ms,
            quiet_ms, patience_ms,
        )  # fmt: skip
        self._due_ms = found or 0
        return found

    def look(self, now_ms: int, wall: float | None = None) -> None:
        """Time passed, or the authority has changed, or somebody asked something. `wall`: see `Grants`."""
        self._grants.wall = self._grants.wall if wall is None else wall
        state = self._authority.effective
        is_serving = self._quiet_ms <= now_ms < self._authority.grants_until_ms
        is_as_before = state is self._state and is_serving == self._was_serving and not self._sessions.is_behind(now_ms)
        if is_as_before and now_ms < self._due_ms:
            if is_serving:
                self._patience.grants(now_ms)
            self._tell_watches()
            return
        known = state or self._state
        if known is not None:  # first: what waits may be about a session that is there now
            self._sessions.follow(known, self._turn(now_ms, known.changed))
        if state is not None and state is not self._state:
            self._look_at_state(state, now_ms)
        if self._again_ms is not None and now_ms >= self._again_ms:
            self._again_ms = None
            self._give(now_ms)
            self._repeat_losses(now_ms)
        self._sessions.woken(self._turn(now_ms, self.changed))
        self._look_at_survey(now_ms)
        self._is_quiet = now_ms < self._quiet_ms
        if is_serving:
            self._patience.grants(now_ms)
        if is_serving and not self._was_serving:
            self._grants.look(now_ms)
            self._ask_parked(now_ms)
        self._was_serving = is_serving
        for session, fence in self._grants.take_unsure(now_ms):
            self._leader.ask(AskHolding(session, fence[1:]), now_ms)
        self._grants.woken(now_ms)
        self._refuse_late(now_ms, is_serving=is_serving)
        self._tell_watches()

    # -- what nodes ask

    def asked(self, call: CallKey, question: TokenQuestion, now_ms: int) -> None:
        """A node asks."""
        self._ask(call, question, now_ms, now_ms)
        self._tell_watches()

    def call_gone(self, call: CallKey, now_ms: int) -> None:
        """Nobody waits for the answer any more."""
        for waiting in (self._parked, self._sessions, self._survey, self._watches):
            waiting.call_gone(call)
        self._grants.call_gone(call, now_ms)
        self._tell_watches()

    def answered(self, came: ServerAnswered, purpose: ServingPurpose, now_ms: int) -> None:
        """A server answers a question of this one."""
        if not isinstance(purpose, Giving):
            if self._leader.take(purpose, came):
                self._leader_answered(purpose, came.result, now_ms)
        elif self._hand_over.giving(came.peer) is purpose:
            if self._hand_over.answered(came.peer, came.result, now_ms):
                self._part.gave(came.peer)
                self._forget_others()
            elif self._hand_over.giving(came.peer) is None:
                self._again_ms = now_ms + AGAIN_MS

    def _leader_answered(self, question: TellLoss | AskHolding, result: TokenResult, now_ms: int) -> None:
        is_done = isinstance(result, TokenDone)
        if isinstance(question, AskHolding):
            is_held = False if isinstance(result, NotHeldError) else True if is_done else None
            self._grants.heard_holding(question.session, question.fence, is_held, now_ms)
        elif is_done:
            self._grants.loss_known(question.session, question.fence, now_ms)
        else:
            self._again_ms = now_ms + AGAIN_MS

    def _ask(self, call: CallKey, question: TokenQuestion, since_ms: int, now_ms: int) -> None:
        """Answer a question that came at `since_ms`, or see to it that it is answered."""
        if isinstance(question, WhereTokens) and self._state is not None:
            self.answer(call, self._map(now_ms))
        elif self._state is None or is_early(question, self._state):
            self._park(call, question, since_ms)
        elif isinstance(question, LeaderQuestion):
            self._ask_leader(call, question, now_ms)
        elif isinstance(question, AboutToken):
            self._about(call, question, since_ms, now_ms)
        else:
            self._ask_server(call, question, now_ms)

    def _ask_leader(self, call: CallKey, question: LeaderQuestion, now_ms: int) -> None:
        if self._state is not None and self._state.leader != self._settings.me and not self._sessions.leads(now_ms):
            self.answer(call, AskElsewhere(self._map(now_ms)))
            return
        self._sessions.asked(call, question, self._turn(now_ms, self.changed))

    def _ask_server(self, call: CallKey, question: ServerQuestion, now_ms: int) -> None:
        match question:
            case WhereTokens():
                self.answer(call, self._map(now_ms))
            case ReleaseAll(session=session):
                self._grants.session_ended(session, now_ms, delay_ms=0)
                self.answer(call, TokenDone())
            case ClaimTokens(session=session) if self._state is not None and session not in self._state.sessions:
                self.answer(call, SessionExpiredError(f"the session {session} is over, or never was"))
            case ClaimTokens(session=session, version=version, held=held):
                old = self._survey.claimed(session, SessionClaim(call, version, held))
                if old is not None:  # should the client come back there, that node is to say it again
                    self.answer(old, RequestError("the session has said at another node what it holds"))
                self._look_at_survey(now_ms)
            case ListTokens(request=request):
                self.answer(call, self._page(request))
            case WatchTokens(prefix=prefix, position=position):
                if self._watches.is_full:
                    self.answer(call, BusyError("too many watch the tokens of this server: end some watches"))
                else:
                    self._watches.wait(call, prefix, position)
            case TakeTokens():
                self._take(call, question, now_ms)
            case _:
                assert_never(question)

    def _about(self, call: CallKey, question: AboutToken, since_ms: int, now_ms: int) -> None:
        request, state, session = question.request, self._state, session_of(question)
        if state is None or not self._part.is_mine(request.token):
            self.answer(call, AskElsewhere(self._map(now_ms)))
            return
        if session is not None and session not in state.sessions:
            self.answer(call, SessionExpiredError(f"the session {session} is over: open another one"))
        elif isinstance(request, TokenAcquire) and not self._grants.holds(request.session, request.token):
            self._grants.acquire(call, request, since_ms, now_ms)
        elif not self.serves(request.token, now_ms):
            if isinstance(request, TokenAcquire):
                self._grants.is_asked_for(request.session, request.token, now_ms)
            self._park(call, question, since_ms)  # what is held may turn out not to be: a survey may be under way
        elif isinstance(request, TokenAcquire):
            self._grants.acquire(call, request, since_ms, now_ms)
        elif isinstance(request, TokenRelease):
            released = self._grants.release(request.session, request.token, request.fence, now_ms)
            self._questions.answer(call, released, self.changed, waits=must_wait(request))
        elif isinstance(request, TokenData):
            self.answer(call, self._grants.set_data(request))
        elif isinstance(request, TokenShow):
            self.answer(call, self._grants.item(request.token))
        elif isinstance(request, TokenBreak):
            self._break(call, request, now_ms)
        else:
            assert_never(request)

    def _break(self, call: CallKey, request: TokenBreak, now_ms: int) -> None:
        count = self._grants.take(request.token, request.fence, now_ms)
        if count:
            self._effects.note("token_broken", token=request.token, holders=count)
        is_done = count or request.fence is not None  # who is meant may have been told before
        self.answer(call, TokenDone() if is_done else NotFoundError(f"nobody holds {request.token!r}"))

    # -- inside: what waits

    def _park(self, call: CallKey, question: TokenQuestion, since_ms: int) -> None:
        if not self._parked.put(call, question, since_ms):
            self.answer(call, BusyError("too many requests wait until this token server may answer: ask again later"))

    def _ask_parked(self, now_ms: int) -> None:
        for call, question, since_ms in self._parked.take():
            self._ask(call, question, since_ms, now_ms)

    def _refuse_late(self, now_ms: int, *, is_serving: bool) -> None:
        """What waited for a lease for nothing is refused. Who may grant knows all sessions there were a lease ago."""
        text = "the token server does not know enough to answer: no majority answers, or it has just begun; ask again"
        for call, question in self._parked.take_late(now_ms):
            if self._state is not None and is_serving and is_of_later_session(question, self._state):
                self.answer(call, SessionExpiredError("there never was such a session: open one"))
            else:
                self.answer(call, NoQuorumError(text))
        if self._state is None:
            return
        if self._patience.run_out(now_ms):
            self._grants.refuse_all(now_ms)
        led_ms = self._authority.leads_until_ms if self._state.leader == self._settings.me else 0
        if self._patience.run_out_for_sessions(now_ms, led_ms):
            self._sessions.refuse_all(self._turn(now_ms, self.changed))

    # -- inside: the common state

    def _look_at_state(self, state: TokenState, now_ms: int) -> None:
        old, self._state = self._state, state
        mine = state.servers.get(self._settings.me)
        if mine is None:  # it is in no list, or not any more
            self._forget_all(now_ms)
            self._ask_parked(now_ms)
            return
        if old is None or old.sessions is not state.sessions:
            before = old.sessions if old is not None else dict.fromkeys(self._grants.sessions())
            for session in [one for one in before if one not in state.sessions]:
                self._grants.session_ended(session, now_ms, delay_ms=self._settings.lock_delay_ms)
                self._survey.ended(session, now_ms)
        if old is None or old.changed != state.changed or old.servers != state.servers:
            self._servers_changed(state, mine.standing, now_ms)
        if state.leader != self._settings.me:
            for call in self._sessions.take_calls():
                self.answer(call, AskElsewhere(self._map(now_ms)))
        self._repeat_losses(now_ms)
        self._ask_parked(now_ms)

    def _servers_changed(self, state: TokenState, standing: ServerStanding, now_ms: int) -> None:
        part = self._part
        if standing is ServerStanding.DOWN:
            self._forget_all(now_ms)
            self._authority.stand(ServerStanding.BOOTING)
        elif standing is ServerStanding.BOOTING and not part.knows_boot(state):
            self._forget_all(now_ms)
            part.begin_boot(state)
            self._authority.stand(ServerStanding.BOOTING)
        elif part.is_new:
            part.begin_lost(state)
        gained = part.state_changed(state) if standing is not ServerStanding.DOWN else False
        if standing is not ServerStanding.DOWN and part.is_booting:
            part.collect(state)
        if gained or not self._survey.is_open:
            self._begin_survey(state, now_ms)
        self._give(now_ms)
        self._forget_others()
        self._grants.look(now_ms)

    def _forget_all(self, now_ms: int) -> None:
        self._grants.forget(self._grants.names(), AskElsewhere(self._map(now_ms)))
        self._hand_over.clear()
        self._survey.stop()
        if not self._part.is_new:
            self._part.forget()

    def _forget_others(self) -> None:
        """What is not this server's, nor on its way to the one whose it is."""
        moving = frozenset(self._hand_over.names())
        names = [one for one in self._grants.names() if one not in moving and not self._part.is_mine(one)]
        self._grants.forget(names, None)
        if self._part.has_left:  # it has nothing any more, and may be said to be down
            self._authority.stand(ServerStanding.BOOTING)

    def _begin_survey(self, state: TokenState, now_ms: int) -> None:
        if self._part.survey_version:
            self._survey.begin(self._part.survey_version, state.sessions, now_ms)

    def _look_at_survey(self, now_ms: int) -> None:
        if self._survey.is_over(now_ms):
            self._found_out(now_ms)
        mine = None if self._state is None else self._state.servers.get(self._settings.me)
        if self._knows_all and mine is not None and mine.standing is ServerStanding.BOOTING:
            self._authority.stand(ServerStanding.READY)
        if not self._part.is_booting:  # then a survey may follow
            for call in self._survey.take_calls(self.changed):
                self.answer(call, TokenDone())

    def _found_out(self, now_ms: int) -> None:
        """All sessions have said what they hold: it counts, and nothing else does."""
        claims = self._survey.claims(() if self._state is None else self._state.sessions)
        for name in dict.fromkeys([*self._grants.names(), *claims]):
            if self._part.is_mine(name) and self._part.is_asked_for(name):
                found = claims.get(name, ClaimedToken())
                self._grants.replace_holders(name, found, now_ms)
                for loser in found.losers:
                    self._effects.note("token_claimed_twice", token=name, session=loser.session)
                    self.taken(loser, name, now_ms)
        self._part.found_out()
        self._survey.stop()
        self._grants.look(now_ms)
        self._ask_parked(now_ms)

    # -- inside: hand-over

    def _give(self, now_ms: int) -> None:
        """Hand over to those that boot; who does not boot any more needs nothing."""
        giving = self._part.giving
        for peer in self._hand_over.peers:
            one = self._hand_over.giving(peer)
            if one is not None and (peer not in giving or giving[peer][0] != one.boot):
                self._hand_over.end(peer)
        for peer, (boot, is_whole, is_done) in giving.items():
            if not is_done and self._hand_over.giving(peer) is None and self._state is not None:
                names = [name for name in self._grants.names() if self._state.server_of(name) == peer]
                for name in names:
                    self._grants.send_away(name, self._map(now_ms))
                self._hand_over.begin(peer, boot, names, now_ms, is_whole=is_whole)

    def _take(self, call: CallKey, piece: TakeTokens, now_ms: int) -> None:
        """Another server hands over; what comes for another boot than the present one is of no use any more."""
        is_awaited = self._part.awaits(call.peer, piece.boot)
        if (self._part.boot == piece.boot or is_awaited) and self._state is not None:
            for record in piece.records:
                self._grants.install(record, now_ms)
                self._grants.write(record.token)
            for session in [one for one in self._grants.sessions() if one not in self._state.sessions]:
                self._grants.session_ended(session, now_ms, delay_ms=self._settings.lock_delay_ms)
            if piece.is_last and is_awaited:
                self._part.came(call.peer, is_whole=piece.is_whole)
                if not piece.is_whole:
                    self._begin_survey(self._state, now_ms)
                self._look_at_survey(now_ms)
                self._grants.look(now_ms)
                self._ask_parked(now_ms)
            elif piece.is_last:
                self._part.handed_over(call.peer, is_whole=piece.is_whole)
                if self._part.collect(self._state):
                    self._begin_survey(self._state, now_ms)
                self._give(now_ms)
                self._look_at_survey(now_ms)
        self.answer(call, TokenDone())

    # -- inside: losses, lists, maps

    def _repeat_losses(self, now_ms: int) -> None:
        """The leader may be another one, or not know yet."""
        self._leader.follow(now_ms)
        for name, holder in self._grants.losses():
            self.taken(holder, name, now_ms)

    def _page(self, request: TokenList) -> TokensListed:
        names = (one for one in self._grants.names() if one.startswith(request.prefix) and one > request.after)
        mine = sorted(filter(self._part.is_mine, names))
        items = tuple([self._grants.item(name) for name in mine[: request.limit]])
        return TokensListed(items, len(mine) > request.limit, not self._knows_all)

    def _tell_watches(self) -> None:
        for call, news in self._watches.take(is_whole=self._knows_all):
            self.answer(call, news)

    @property
    def _knows_all(self) -> bool:
        """Whether it knows who holds what of its part."""
        return not (self._part.is_new or self._part.is_booting or self._part.gains)

    def _map(self, now_ms: int) -> TokenMap:
        return self._own_map.of(self._state, is_sure=now_ms < self._authority.grants_until_ms)

    def map(self, now_ms: int) -> TokenMap | None:
        """What it knows; None: nothing."""
        return None if self._state is None else self._map(now_ms)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for machine in (self._part, self._grants, self._sessions, self._survey, self._parked):
            machine.check()
