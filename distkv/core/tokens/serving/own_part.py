"""What each change of servers means for the tokens of this one: what it gives away, collects, or has to find out.

Knows: the order in which a part is collected, served, handed over and forgotten.  Does not know clients, nor how the
servers agree.

Invariant: a token is forgotten only when it is not this server's, and not on its way to the one whose it is. This
server says that it is ready only when it knows who holds what of its part.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.questions import Questions
from distkv.core.tokens.serving.grants import Grants
from distkv.core.tokens.serving.handover import Giving, TokenHandOver
from distkv.core.tokens.serving.part import TokenPart
from distkv.core.tokens.serving.survey import ClaimedToken, SessionClaim, Survey
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_errors import SessionExpiredError
from distkv.wire.token_messages import AskElsewhere, ClaimTokens, TakeTokens, TellLoss, TokenResult
from distkv.wire.token_replies import TokenDone


class OwnPart:
    """All times are milliseconds."""

    def __init__(
        self, settings: ServingSettings, authority: Authority, questions: Questions, part: TokenPart, grants: Grants
    ) -> None:
        self._settings: Final = settings
        self._authority: Final = authority
        self._part: Final = part
        self._grants: Final = grants
        self.survey: Final = Survey(settings.lock_delay_ms)
        """Only read."""
        self._hand_over: Final = TokenHandOver(questions, grants.handed)
        self._state: TokenState | None = None

    @property
    def knows_all(self) -> bool:
        """Whether it is known who holds what of it."""
        part = self._part
        return not (part.is_new or part.is_booting or part.gains)

    @property
    def claims(self) -> int:
        """How many of what sessions claimed are kept."""
        return self.survey.count

    # -- the common state

    def follow(self, state: TokenState, turn: ServingTurn) -> None:
        """Another version is in effect."""
        old, self._state = self._state, state
        mine = state.servers.get(self._settings.me)
        if mine is None:  # it is in no list, or not any more
            self._forget_all(turn)
            return
        if old is None or old.sessions is not state.sessions:
            before = old.sessions if old is not None else dict.fromkeys(self._grants.sessions())
            for session in [one for one in before if one not in state.sessions]:
                self._grants.session_ended(session, turn, delay_ms=self._settings.lock_delay_ms)
                self.survey.ended(session, turn.now_ms)
        if old is None or old.changed != state.changed or old.servers != state.servers:
            self._follow_servers(state, mine.standing, turn)

    def settle(self, turn: ServingTurn) -> bool:
        """See whether all sessions have said what they hold; whether that was found out now."""
        state, is_over = self._state, self.survey.is_over(turn.now_ms)
        if is_over:
            self._found_out(turn)
        mine = None if state is None else state.servers.get(self._settings.me)
        if mine is not None and mine.standing is ServerStanding.BOOTING and self.knows_all:
            self._authority.stand(ServerStanding.READY)
        if not self._part.is_booting:  # then a survey may follow
            for call in self.survey.take_calls(turn.changed):
                turn.answer(call, TokenDone())
        return is_over

    # -- what sessions hold

    def claim(self, call: CallKey, claim: ClaimTokens, turn: ServingTurn) -> bool:
        """A session says what it holds; as `settle`."""
        session = claim.session
        if self._state is not None and session not in self._state.sessions:
            turn.answer(call, SessionExpiredError(f"the session {session} is over, or never was"))
            return False
        old = self.survey.claimed(session, SessionClaim(call, claim.version, claim.held))
        if old is not None:  # should the client come back there, that node is to say it again
            turn.answer(old, RequestError("the session has said at another node what it holds"))
        return self.settle(turn)

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        self.survey.call_gone(call)

    # -- hand-over

    def give(self, turn: ServingTurn) -> None:
        """Hand over to those that boot; who does not boot any more needs nothing."""
        giving = self._part.giving
        for peer in self._hand_over.peers:
            one = self._hand_over.giving(peer)
            if one is not None and (peer not in giving or giving[peer][0] != one.boot):
                self._hand_over.end(peer)
        for peer, (boot, is_whole, is_done) in giving.items():
            if not is_done and self._hand_over.giving(peer) is None and self._state is not None:
                names = [name for name in self._grants.tokens if self._state.server_of(name) == peer]
                for name in names:
                    self._grants.send_away(name, turn.map, turn)
                self._hand_over.begin(peer, boot, names, turn.now_ms, is_whole=is_whole)

    def given(self, giving: Giving, peer: NodeName, result: TokenResult, turn: ServingTurn) -> bool:
        """What was handed over is answered; whether it was taken, or is not wanted any more."""
        if self._hand_over.giving(peer) is not giving:
            return True
        if self._hand_over.answered(peer, result, turn.now_ms):
            self._part.gave(peer)
            self._forget_others(turn)
            return True
        return self._hand_over.giving(peer) is not None

    def take(self, call: CallKey, piece: TakeTokens, turn: ServingTurn) -> bool:
        """Another server hands over; what comes for another boot than the present one is of no use any more. Whether
        all is known now that was waited for."""
        is_awaited, is_known = self._part.awaits(call.peer, piece.boot), False
        if (self._part.boot == piece.boot or is_awaited) and self._state is not None:
            for record in piece.records:
                self._grants.install(record, turn)
                self._grants.write(record.token, turn)
            for session in [one for one in self._grants.sessions() if one not in self._state.sessions]:
                self._grants.session_ended(session, turn, delay_ms=self._settings.lock_delay_ms)
            if piece.is_last and is_awaited:
                self._part.came(call.peer, is_whole=piece.is_whole)
                if not piece.is_whole:
                    self._begin_survey(self._state, turn)
                self.settle(turn)
                self._grants.grant_waiting(turn)
                is_known = True
            elif piece.is_last:
                self._part.handed_over(call.peer, is_whole=piece.is_whole)
                if self._part.collect(self._state):
                    self._begin_survey(self._state, turn)
                self.give(turn)
                is_known = self.settle(turn)
        turn.answer(call, TokenDone())
        return is_known

    # -- inside

    def _follow_servers(self, state: TokenState, standing: ServerStanding, turn: ServingTurn) -> None:
        part = self._part
        if standing is ServerStanding.DOWN:
            self._forget_all(turn)
            self._authority.stand(ServerStanding.BOOTING)
        elif standing is ServerStanding.BOOTING and not part.knows_boot(state):
            self._forget_all(turn)
            part.begin_boot(state)
            self._authority.stand(ServerStanding.BOOTING)
        elif part.is_new:
            part.begin_lost(state)
        gained = part.state_changed(state) if standing is not ServerStanding.DOWN else False
        if standing is not ServerStanding.DOWN and part.is_booting:
            part.collect(state)
        if gained or not self.survey.is_open:
            self._begin_survey(state, turn)
        self.give(turn)
        self._forget_others(turn)
        self._grants.grant_waiting(turn)

    def _forget_all(self, turn: ServingTurn) -> None:
        self._grants.forget(list(self._grants.tokens), AskElsewhere(turn.map), turn)
        self._hand_over.clear()
        self.survey.stop()
        if not self._part.is_new:
            self._part.forget()

    def _forget_others(self, turn: ServingTurn) -> None:
        """What is not this server's, nor on its way to the one whose it is."""
        moving = frozenset(self._hand_over.names())
        names = [one for one in self._grants.tokens if one not in moving and not self._part.is_mine(one)]
        self._grants.forget(names, None, turn)
        if self._part.has_left:  # it has nothing any more, and may be said to be down
            self._authority.stand(ServerStanding.BOOTING)

    def _begin_survey(self, state: TokenState, turn: ServingTurn) -> None:
        if self._part.survey_version:
            self.survey.begin(self._part.survey_version, state.sessions, turn.now_ms)

    def _found_out(self, turn: ServingTurn) -> None:
        """All sessions have said what they hold: it counts, and nothing else does."""
        claims = self.survey.claims(() if self._state is None else self._state.sessions)
        for name in dict.fromkeys([*self._grants.tokens, *claims]):
            if self._part.is_mine(name) and self._part.is_asked_for(name):
                found = claims.get(name, ClaimedToken())
                self._grants.replace_holders(name, found, turn)
                for loser in found.losers:
                    turn.note("token_claimed_twice", token=name, session=loser.session)
                    turn.losses.append(TellLoss(loser.session, (*loser.number, name)))
        self._part.found_out()
        self.survey.stop()
        self._grants.grant_waiting(turn)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._part.check()
        self.survey.check()
