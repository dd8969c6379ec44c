"""A token server: what it does for the clients of all nodes, within what the servers agreed on.

Knows: which machine answers which question: sessions (the leader's), the part it serves, tokens, watches.  Does not
know clients, nor how servers agree.

Invariant: nothing is granted or confirmed beyond what `Authority` allows at that moment. A question of which the answer
is not known yet waits, for a lease at the most (`no_quorum`); one for another server is sent there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from distkv.core.ground.alarms import earliest
from distkv.core.ground.calls import CallKey
from distkv.core.ground.part_changes import PartChanges
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.effects import TokenEffects, must_wait
from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.core.tokens.serving.grants import TOKEN_SLOT, Grants
from distkv.core.tokens.serving.handover import Giving
from distkv.core.tokens.serving.own_part import OwnPart
from distkv.core.tokens.serving.parked import ParkedQuestions, ServingPatience, is_early, is_later_session, session_of
from distkv.core.tokens.serving.part import PART_SLOT, TokenPart
from distkv.core.tokens.serving.served_token import ServedToken
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving.sessions import Sessions
from distkv.core.tokens.serving.turn import ServingTurn, ServingTurns
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import BusyError, NotFoundError
from distkv.model.event import NodeName
from distkv.wire.token_errors import NoQuorumError, NotHeldError, SessionExpiredError
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
    WatchedTokens,
    WatchTokens,
    WhereTokens,
)
from distkv.wire.token_replies import TokenDone, TokensListed
from distkv.wire.token_requests import TokenAcquire, TokenBreak, TokenData, TokenList, TokenRelease, TokenShow
from distkv.wire.token_slots import decode_part, decode_token

POSITION_BITS: Final = 20
"""By so many bits the positions of watches of one start are apart from those of the next."""
AGAIN_MS: Final = 500
NEVER_MS: Final = 1 << 62
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
        self._turns: Final = ServingTurns(settings.me, authority, questions, effects, now_ms)
        self._part: Final = TokenPart(settings.me, effects)
        self._grants: Final = Grants(settings, self._part)
        self._own_part: Final = OwnPart(settings, authority, questions, self._part, self._grants)
        self._sessions: Final = Sessions(settings, authority, shares)
        first = settings.boot << POSITION_BITS
        self._watches: Final = PartChanges(
            WatchedTokens, first, self._grants.tokens, self._part.is_mine, self._grants.item
        )
        self._parked: Final = ParkedQuestions(settings.tokens_max, settings.lease_ms)
        self._patience: Final = ServingPatience(settings.lease_ms, now_ms)
        self._leader: Final = LeaderAsked(questions)
        self.due_ms: int | None = None
        """Before that there is nothing to do, while the authority is the same; None: that is not known. Only read."""

    def restore(self, slots: Mapping[str, bytes], now_ms: int) -> None:
        """What was durable when this node ended.

        Raises:
            DecodeError: a slot is damaged.
        """
        if PART_SLOT not in slots:
            return
        settings, turns = self._settings, self._turns
        self._part.restore(decode_part(slots[PART_SLOT]))
        turns.quiet_ms = now_ms + max(settings.long_ms(settings.lease_ms), settings.lock_delay_ms)
        turn = turns.begin(now_ms)
        for key, value in slots.items():
            if key.startswith(TOKEN_SLOT):
                self._grants.install(decode_token(value), turn)
        self._end(turn)

    def serves(self, token: str, now_ms: int) -> bool:
        """Whether it may grant this now."""
        return self._turns.begin(now_ms).may_grant and bool(self._part.serves(token))

    def served(self, token: str) -> ServedToken:
        """A token as it is known here, which is not to be changed."""
        return self._grants.tokens.get(token) or ServedToken(token)

    @property
    def claims(self) -> int:
        return self._own_part.claims

    def go_on(self, now_ms: int, wall: float | None = None, *, is_as_agreed: bool = False) -> TokenMap:
        """Time passed, or something happened; what is known of the servers. `wall`: what the clock on the wall says.
        `is_as_agreed`: only time has changed what the authority allows since the last call."""
        turns, authority, due_ms = self._turns, self._authority, self.due_ms
        turns.wall = turns.wall if wall is None else wall
        is_due = due_ms is None or now_ms >= due_ms
        if is_as_agreed and not is_due and now_ms < turns.sure_ms:
            if self._patience.is_serving:
                self._patience.sure_ms = now_ms
            return turns.map
        turn, state = turns.begin(now_ms), authority.effective
        is_as_before = state is turns.state and turn.may_grant == self._patience.is_serving
        if is_due or not is_as_before or self._sessions.is_behind(now_ms):
            if state is not None and state is not turns.state:
                turn = self._follow(state, now_ms)
            elif turns.state is not None:
                self._sessions.follow(turns.state, turn)
            self._do_what_is_due(turn)
        elif turn.may_grant:
            self._patience.grants(now_ms)
        ends = [ms for ms in (authority.grants_until_ms, authority.leads_until_ms) if ms > now_ms]
        turns.sure_ms = min(ends, default=NEVER_MS)
        return turn.map

    def note_due(self, now_ms: int) -> None:
        """The step is over."""
        turns = self._turns
        if turns.are_any:
            turns.are_any = False
            self.due_ms = earliest(
                self._grants.alarms.first_ms, self._sessions.due_ms, self._own_part.survey.due_ms, self._parked.due_ms,
                self._leader.again_ms, turns.quiet_ms if now_ms < turns.quiet_ms else None,
                None if turns.state is None else self._patience.due_ms,
            )  # fmt: skip

    # -- what nodes ask

    def asked(self, call: CallKey, question: TokenQuestion, now_ms: int) -> None:
        """A node asks."""
        turn = self._turns.begin(now_ms)
        self._ask(call, question, now_ms, turn)
        self._end(turn)

    def call_gone(self, call: CallKey, now_ms: int) -> None:
        """Nobody waits for the answer any more."""
        turn = self._turns.begin(now_ms)
        for waiting in (self._parked, self._sessions, self._own_part, self._watches):
            waiting.call_gone(call)
        self._grants.call_gone(call, turn)
        self._end(turn)

    def answered(self, came: ServerAnswered, purpose: ServingPurpose, now_ms: int) -> None:
        """A server answers a question of this one."""
        turn = self._turns.begin(now_ms)
        if isinstance(purpose, Giving):
            is_settled = self._own_part.given(purpose, came.peer, came.result, turn)
        else:
            is_settled = not self._leader.take(purpose, came) or self._leader_answered(purpose, came.result, turn)
        if not is_settled:
            self._leader.again_ms = now_ms + AGAIN_MS
        self._end(turn)

    def _leader_answered(self, question: TellLoss | AskHolding, result: TokenResult, turn: ServingTurn) -> bool:
        """Whether it is settled."""
        is_done = isinstance(result, TokenDone)
        if isinstance(question, AskHolding):
            is_held = False if isinstance(result, NotHeldError) else True if is_done else None
            self._grants.heard_holding(question.session, question.fence, is_held, turn)
            return True
        if is_done:
            self._grants.loss_known(question.session, question.fence, turn)
        return is_done

    def _ask(self, call: CallKey, question: TokenQuestion, since_ms: int, turn: ServingTurn) -> None:
        """Answer a question that came at `since_ms`, or see to it that it is answered."""
        state, session = self._turns.state, session_of(question)
        if state is None or is_early(question, session, state):
            if state is not None and isinstance(question, WhereTokens):
                turn.answer(call, turn.map)
            else:
                self._park(call, question, since_ms, turn)
        elif isinstance(question, AboutToken):
            serves = self._part.serves(question.request.token)
            if serves is None:
                turn.answer(call, AskElsewhere(turn.map))
            elif session is not None and session not in state.sessions:
                turn.answer(call, SessionExpiredError(f"the session {session} is over: open another one"))
            else:
                self._about(call, question, since_ms, turn, serves=serves and turn.may_grant)
        elif not isinstance(question, LeaderQuestion):
            self._ask_server(call, question, turn)
        elif state.leader != self._settings.me and not self._sessions.leads(turn.now_ms):
            turn.answer(call, AskElsewhere(turn.map))
        else:
            self._sessions.asked(call, question, turn)

    def _ask_server(self, call: CallKey, question: ServerQuestion, turn: ServingTurn) -> None:
        match question:
            case WhereTokens():
                turn.answer(call, turn.map)
            case ReleaseAll(session=session):
                self._grants.session_ended(session, turn, delay_ms=0)
                turn.answer(call, TokenDone())
            case ClaimTokens():
                if self._own_part.claim(call, question, turn):
                    self._ask_parked(turn)
            case ListTokens(request=request):
                turn.answer(call, self._page(request))
            case WatchTokens(prefix=prefix, position=position):
                if self._watches.is_full:
                    turn.answer(call, BusyError("too many watch the tokens of this server: end some watches"))
                else:
                    self._watches.wait(call, prefix, position)
            case TakeTokens():
                if self._own_part.take(call, question, turn):
                    self._ask_parked(turn)
            case _:
                assert_never(question)

    def _about(self, call: CallKey, question: AboutToken, since_ms: int, turn: ServingTurn, *, serves: bool) -> None:
        """`serves`: whether the token may be granted now."""
        request, grants = question.request, self._grants
        if isinstance(request, TokenAcquire) and not grants.holds(request.session, request.token):
            grants.acquire(call, request, since_ms, turn, serves=serves)
        elif not serves:
            if isinstance(request, TokenAcquire):
                grants.wanted(request.session, request.token, turn.now_ms)
            self._park(call, question, since_ms, turn)  # what is held may turn out not to be: a survey may be under way
        elif isinstance(request, TokenAcquire):
            grants.acquire(call, request, since_ms, turn, serves=serves)
        elif isinstance(request, TokenRelease):
            released = grants.release(request.session, request.token, request.fence, turn)
            turn.answer(call, released, waits=must_wait(request))
        elif isinstance(request, TokenData):
            turn.answer(call, grants.set_data(request, turn))
        elif isinstance(request, TokenShow):
            turn.answer(call, grants.item(request.token))
        elif isinstance(request, TokenBreak):
            self._break(call, request, turn)
        else:
            assert_never(request)

    def _break(self, call: CallKey, request: TokenBreak, turn: ServingTurn) -> None:
        count = self._grants.take(request.token, request.fence, turn)
        if count:
            turn.note("token_broken", token=request.token, holders=count)
        is_done = count or request.fence is not None  # who is meant may have been told before
        turn.answer(call, TokenDone() if is_done else NotFoundError(f"nobody holds {request.token!r}"))

    def _page(self, request: TokenList) -> TokensListed:
        names = (one for one in self._grants.tokens if one.startswith(request.prefix) and one > request.after)
        mine = sorted(filter(self._part.is_mine, names))
        items = tuple([self._grants.item(name) for name in mine[: request.limit]])
        return TokensListed(items, len(mine) > request.limit, not self._own_part.knows_all)

    # -- inside: what waits

    def _park(self, call: CallKey, question: TokenQuestion, since_ms: int, turn: ServingTurn) -> None:
        if not self._parked.put(call, question, since_ms):
            turn.answer(call, BusyError("too many requests wait until this token server may answer: ask again later"))

    def _ask_parked(self, turn: ServingTurn) -> None:
        for call, question, since_ms in self._parked.take():
            self._ask(call, question, since_ms, turn)

    def _refuse_late(self, turn: ServingTurn) -> None:
        """What waited for a lease for nothing is refused. Who may grant knows all sessions there were a lease ago."""
        state, now_ms = self._turns.state, turn.now_ms
        text = "the token server does not know enough to answer: no majority answers, or it has just begun; ask again"
        for call, question in self._parked.take_late(now_ms):
            session = session_of(question)
            if state is not None and turn.may_grant and session is not None and is_later_session(session, state):
                turn.answer(call, SessionExpiredError("there never was such a session: open one"))
            else:
                turn.answer(call, NoQuorumError(text))
        if state is None:
            return
        if self._patience.run_out(now_ms):
            self._grants.refuse_all(turn)
        led_ms = self._authority.leads_until_ms if state.leader == self._settings.me else 0
        if self._patience.run_out_for_sessions(now_ms, led_ms):
            self._sessions.refuse_all(turn)

    # -- inside: what changes

    def _follow(self, state: TokenState, now_ms: int) -> ServingTurn:
        """Another version of the common state is in effect."""
        self._turns.state = state
        turn = self._turns.begin(now_ms)
        self._sessions.follow(state, turn)  # first: what waits may be about a session that is there now
        self._own_part.follow(state, turn)
        if state.leader != self._settings.me:
            for call in self._sessions.take_calls():
                turn.answer(call, AskElsewhere(turn.map))
        self._repeat_losses(now_ms)
        self._ask_parked(turn)
        return turn

    def _do_what_is_due(self, turn: ServingTurn) -> None:
        now_ms, again_ms = turn.now_ms, self._leader.again_ms
        if again_ms is not None and now_ms >= again_ms:
            self._leader.again_ms = None
            self._own_part.give(turn)
            self._repeat_losses(now_ms)
        self._sessions.woken(turn)
        if self._own_part.settle(turn):
            self._ask_parked(turn)
        if self._patience.go_on(now_ms, may_grant=turn.may_grant):
            self._grants.grant_waiting(turn)
            self._ask_parked(turn)
        for doubt in self._grants.woken(turn):
            self._leader.ask(doubt, self._turns.leader, now_ms)
        self._refuse_late(turn)
        self._end(turn)

    def _repeat_losses(self, now_ms: int) -> None:
        """The leader may be another one, or not know yet."""
        leader = self._turns.leader
        self._leader.follow(leader, now_ms)
        for loss in self._grants.losses():
            self._leader.ask(loss, leader, now_ms)

    def _end(self, turn: ServingTurn) -> None:
        """What the parts want done that has not left yet."""
        for loss in turn.losses:
            self._leader.ask(loss, self._turns.leader, turn.now_ms)
        for token in turn.touched:
            self._watches.touched(token)
        if self._watches.waiting:
            for call, news in self._watches.take(is_whole=self._own_part.knows_all):
                turn.answer(call, news)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for machine in (self._own_part, self._grants, self._sessions, self._parked, self._watches):
            machine.check()


class LeaderAsked:
    """What a server has to settle with the leader about sessions: what was taken from them, and what they may not know
    of.
    All times are milliseconds.

    Invariant: each question is under way once at the most, to the node that leads as far as this one knows."""

    def __init__(self, questions: Questions) -> None:
        self.again_ms: int | None = None
        """When what was not settled is asked again."""
        self._questions: Final = questions
        self._under_way: Final = dict[TellLoss | AskHolding, tuple[NodeName, int]]()

    def ask(self, question: TellLoss | AskHolding, leader: NodeName, now_ms: int) -> None:
        """Of a session. `leader`: who leads, as far as this node knows."""
        old = self._under_way.get(question)
        if old is not None and old[0] == leader:
            return
        if old is not None:
            self._questions.cancel(*old)
        number = self._questions.ask(leader, question, now_ms, question)
        self._under_way[question] = leader, number

    def follow(self, leader: NodeName, now_ms: int) -> None:
        """The leader may be another one: it is asked what the one before has not answered. Losses are repeated by
        whoever knows which are left."""
        for question in [one for one in self._under_way if isinstance(one, AskHolding)]:
            self.ask(question, leader, now_ms)

    def take(self, question: TellLoss | AskHolding, came: ServerAnswered) -> bool:
        """It is answered; False: by somebody who is not asked any more."""
        is_it = self._under_way.get(question) == (came.peer, came.number)
        if is_it:
            del self._under_way[question]
        return is_it
