"""The tokens that one server serves: who gets which, with which fence.

Knows: all of them, and the calls that wait for them.  Does not know why a session is over, nor which part of all tokens
this server serves (`part`), nor whether it may grant at this moment: the turn says so.

Invariant: what is granted, released or taken is in a slot of the same step as the answer. Fences of a token grow with
each grant. The number of tokens and of waiters is bounded. A grant is unsure from the moment it is told, or is known
from a disk only, until its session has named it, or it is over: the leader is asked whether the session counts on it.
Else a client whose connection broke may never learn that it holds a token, and so never release it, while its session
lives on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distkv.core.ground.alarms import Alarms
from distkv.core.ground.calls import CallKey
from distkv.core.tokens.serving.part import TokenPart
from distkv.core.tokens.serving.served_token import Grant, ServedToken, WaitingSession
from distkv.core.tokens.serving.survey import ClaimedToken
from distkv.core.tokens.serving.token_index import TokenIndex
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.errors import RequestError
from distkv.model.fence import Fence, GrantNumber
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_errors import HeldError, NoQuorumError, NotHeldError, TimedOutError, UngrantedError
from distkv.wire.token_fields import ticket_text
from distkv.wire.token_messages import AskElsewhere, AskHolding, TellLoss, TokenMap, TokenResult
from distkv.wire.token_replies import TokenDone, TokenItem
from distkv.wire.token_requests import TokenAcquire, TokenData
from distkv.wire.token_slots import TokenRecord

TOKEN_SLOT: Final = "token/"


class Grants:
    """All times are milliseconds."""

    def __init__(self, settings: ServingSettings, part: TokenPart) -> None:
        self._settings: Final = settings
        self._part: Final = part
        self.tokens: Final = dict[str, ServedToken]()
        """All that are known, by name; only read. One that is not known is free."""
        self._index: Final = TokenIndex()
        self._idle: Final = dict[str, None]()
        """Free ones that have data; those that became free first come first."""
        self.alarms: Final = Alarms[str | tuple[str, str]]()
        """By token: when a wait or a delay is over. By token and session: when the leader is asked whether the session
        counts on what it was granted. Only read."""
        self._calls: Final = dict[CallKey, tuple[str, str]]()
        """Of each call that waits, or whose grant nobody asked about since: token and session."""
        self._waiters = 0

    # -- reading

    def sessions(self) -> list[str]:
        """All that hold something, or wait for it."""
        return self._index.sessions()

    def holds(self, session: str, name: str) -> bool:
        token = self.tokens.get(name)
        return token is not None and session in token.grants

    def item(self, name: str) -> TokenItem:
        """What there is to see of a token."""
        return (self.tokens.get(name) or ServedToken(name)).item(self._settings.me)

    def handed(self, name: str, now_ms: int) -> TokenRecord | None:
        """As it is handed over."""
        token = self.tokens.get(name)
        return None if token is None or not token.is_needed(now_ms) else token.handed(now_ms)

    def losses(self) -> list[TellLoss]:
        """All of which somebody is to be told still."""
        return [_loss(token, one) for token in self._index.losing.values() for one in token.lost.values()]

    # -- what clients ask

    def acquire(
        self, call: CallKey, request: TokenAcquire, since_ms: int, turn: ServingTurn, *, serves: bool
    ) -> None:
        """A session wants a token; the call is answered now or later. It asked at `since_ms`; `serves`: whether the
        token may be granted now."""
        token, session = self._token(request.token, turn), request.session
        grant = token.grants.get(session)
        if grant is not None and (request.before is None or grant.number > request.before):
            self._answer_holder(token, call, grant, turn, is_shared=request.is_shared)
            return
        if grant is not None:  # it gave that back: a crash undid the release
            self._let_go(token, session, turn)
        place = token.queue.get(session)
        if place is None:
            refusal = token.refusal(self._settings, len(self.tokens), self._waiters)
            if refusal is not None:
                turn.answer(call, refusal)
                self._settle(token, turn)
                return
            ticket = turn.changed, self._part.next_number().counter
            place = token.queue[session] = WaitingSession(session, ticket, request.is_shared, None)
            self._index.put(session, token.name)
            self._waiters += 1
        elif place.call is not None:
            why = TimedOutError("the session asked again for the token: the later request waits")
            self._refuse(place, why, 0, turn)
        if request.ticket is not None:
            place.ticket = min(place.ticket, request.ticket)
        place.asks(call, request)
        wait_ms = self._settings.lease_ms if request.wait_s is None else int(request.wait_s * 1000)
        place.until_ms = since_ms + wait_ms
        self._calls[call] = token.name, session
        turn.touched[token.name] = None
        self._settle(token, turn, serves=serves)

    def release(self, session: str, name: str, number: GrantNumber | None, turn: ServingTurn) -> TokenResult:
        """A session gives up a token, or its place in the queue; with a number, only if it holds it by that grant."""
        token = self.tokens.get(name)
        if token is not None and number is not None:
            held = token.grants[session].holder if session in token.grants else token.lost.get(session)
            token = token if held is not None and held.number == number else None
        if token is None or not (session in token.grants or session in token.lost or session in token.queue):
            return NotHeldError(f"the session does not hold {name!r}, nor wait for it: it was released, or taken")
        self._let_go(token, session, turn)
        self._settle(token, turn)
        return TokenDone()

    def set_data(self, request: TokenData, turn: ServingTurn) -> TokenResult:
        """A holder changes the data of a token."""
        token = self.tokens.get(request.token) or ServedToken(request.token)
        refusal = token.refusal_of(request)
        if refusal is None and token.set_data(request):
            self._write(token, turn)
        return refusal or TokenDone()

    def take(self, name: str, number: GrantNumber | None, turn: ServingTurn) -> int:
        """Take a token from all holders, or up to a grant; how many. It is free when they know, and after a delay."""
        token = self.tokens.get(name)
        holders = [] if token is None else token.holders_up_to(number)
        if token is not None and holders:
            self._take_from(token, holders, turn)
        return len(holders)

    # -- grants that nobody may know of

    def wanted(self, session: str, name: str, now_ms: int) -> None:
        """The session asks for what it holds, and cannot be answered yet: its grant is not one that nobody wants."""
        if self.holds(session, name):
            self._note_told(self.tokens[name], self.tokens[name].grants[session], now_ms)

    def heard_holding(self, session: str, fence: Fence, is_held: bool | None, turn: ServingTurn) -> None:
        """Whether the session counts on what it was granted; None: that could not be found out. What it does not know
        of is taken from it, as if it were broken: so nothing is lost if it learns of it yet. What was told again after
        the question is unsure anew: an answer from before says nothing about it."""
        token = self.tokens.get(name := fence.token)
        grant = None if token is None else token.grants.get(session)
        if token is None or grant is None or not grant.is_doubted:
            return
        if is_held is None:
            self._note_told(token, grant, turn.now_ms)
        elif is_held:
            grant.is_doubted, grant.replaced = False, None
        else:
            turn.note("token_grant_unheard", token=name, session=session)
            token.undo_data(grant)
            self._take_from(token, [grant.holder], turn)

    # -- what happens

    def loss_known(self, session: str, fence: Fence, turn: ServingTurn) -> None:
        """A session from which a token was taken knows it."""
        token = self.tokens.get(fence.token)
        held = None if token is None else token.lost.get(session)
        if token is not None and held is not None and held.number == fence.number:
            del token.lost[session]
            self._unindex(session, token)
            self._write(token, turn)
            self._settle(token, turn)

    def session_ended(self, session: str, turn: ServingTurn, *, delay_ms: int) -> None:
        """It is over: what it held is free after the delay."""
        for name in self._index.of(session):
            token = self.tokens[name]
            if session in token.grants or session in token.lost:
                token.free_ms = max(token.free_ms, turn.now_ms + delay_ms)
            self._let_go(token, session, turn)
            self._settle(token, turn)

    def call_gone(self, call: CallKey, turn: ServingTurn) -> None:
        """Nobody waits for the answer. The place in the queue is kept for a while; a grant that nobody heard of is
        taken back."""
        name, session = self._calls.pop(call, ("", ""))
        token = self.tokens.get(name)
        if token is None:
            return
        if (place := token.queue.get(session)) is not None and place.call == call:
            place.leave(turn.now_ms + self._settings.grace_ms)
        elif (grant := token.grants.get(session)) is not None and grant.call == call:
            grant.call = None
            if self._serves(token, turn):
                token.undo_data(grant)
                self._let_go(token, session, turn)
        self._settle(token, turn)

    def grant_waiting(self, turn: ServingTurn) -> None:
        """What may be granted has changed."""
        for token in [one for one in self.tokens.values() if one.queue]:
            for place in token.queue.values() if self._serves(token, turn) else ():
                if place.call is None:
                    place.until_ms = max(place.until_ms, turn.now_ms + self._settings.grace_ms)
            self._settle(token, turn)

    def refuse_all(self, turn: ServingTurn) -> None:
        """Nothing could be granted for a lease: nobody waits any longer."""
        for token in list(self.tokens.values()):
            for place in token.queue.values():
                self._refuse_unserved(place, turn)
            self._settle(token, turn)

    def woken(self, turn: ServingTurn) -> list[AskHolding]:
        """Time passed; what to ask now, of grants of which nobody has shown that he knows."""
        doubts, due = list[AskHolding](), self.alarms.take_due(turn.now_ms)
        for key in due:
            if isinstance(key, tuple):
                name, session = key
                grant = self.tokens[name].grants[session]
                grant.is_doubted = True
                doubts.append(AskHolding(session, (*grant.number, name)))
        for key in due:
            if isinstance(key, str):
                self._settle(self.tokens[key], turn)
        return doubts

    def install(self, record: TokenRecord, turn: ServingTurn) -> None:
        """What a disk or another server knew of a token."""
        token = self._token(record.token, turn)
        self._waiters -= len(token.queue)
        token.install(record, turn.now_ms, turn.now_ms + self._settings.lease_ms)
        self._waiters += len(token.queue)
        self._index.put_all(token)
        for holder in record.holders:
            self._note_told(token, token.grants[holder.session], turn.now_ms)
        turn.touched[token.name] = None
        self._settle(token, turn)

    def replace_holders(self, name: str, found: ClaimedToken, turn: ServingTurn) -> None:
        """A survey showed who holds a token."""
        token = self._token(name, turn)
        for session in [*token.grants, *token.lost]:
            self._drop_holder(token, session)
            token.lost.pop(session, None)
            self._unindex(session, token)
        for holder in found.holders:
            self._note_told(token, token.give(holder), turn.now_ms)
        token.set_found(found.data, keeps=found.keeps_data)
        self._index.put_all(token)
        self._write(token, turn)
        self._settle(token, turn)

    def write(self, name: str, turn: ServingTurn) -> None:
        """See to it that it is on the disk as it is."""
        if name in self.tokens:
            self._write(self.tokens[name], turn)

    def forget(self, names: Iterable[str], elsewhere: TokenResult | None, turn: ServingTurn) -> None:
        """They are not served here any more; who waits is told so."""
        for name in names:
            token = self.tokens.get(name)
            if token is None:
                continue
            for place in token.queue.values():
                if place.call is not None and elsewhere is not None:
                    turn.answer(place.call, elsewhere)
            self._waiters -= len(token.queue)
            for call, _ in token.calls():
                self._calls.pop(call, None)
            sessions = list(token.sessions())
            token.grants.clear()
            token.lost.clear()
            token.queue.clear()
            for session in sessions:
                self._unindex(session, token)
            self._drop(token, turn)

    def send_away(self, name: str, map: TokenMap, turn: ServingTurn) -> None:
        """Who waits for a token is to ask elsewhere, and keeps its place."""
        token = self.tokens.get(name)
        for place in token.queue.values() if token is not None else ():
            if place.call is not None:
                turn.answer(place.call, AskElsewhere(map, ticket_text(place.ticket)))
                self._calls.pop(place.call, None)
                place.call = None

    # -- inside

    def _serves(self, token: ServedToken, turn: ServingTurn) -> bool:
        """Whether this server may grant it now."""
        return turn.may_grant and bool(self._part.serves(token.name))

    def _token(self, name: str, turn: ServingTurn) -> ServedToken:
        token = self.tokens.get(name)
        if token is None:
            token = self.tokens[name] = ServedToken(name)
            if len(self.tokens) > self._settings.tokens_max and self._idle:
                self.forget([next(iter(self._idle))], None, turn)
        return token

    def _answer_holder(
        self, token: ServedToken, call: CallKey, grant: Grant, turn: ServingTurn, *, is_shared: bool
    ) -> None:
        """The session holds the token: it gets the same fence. Neither the mode nor the data is changed: a request that
        comes late, by a node that stood still, would undo what the session did since, without its knowing."""
        if grant.holder.is_shared != is_shared:
            text = f"the session holds {token.name!r} in the other mode: release it first"
            turn.answer(call, HeldError(text))
            return
        if grant.call is not None:
            self._calls.pop(grant.call, None)
            grant.call = None
        self._tell_grant(token, call, grant, turn)

    def _tell_grant(self, token: ServedToken, call: CallKey, grant: Grant, turn: ServingTurn) -> None:
        self._note_told(token, grant, turn.now_ms)
        turn.answer(call, token.granted(grant.holder, turn.changed))

    def _note_told(self, token: ServedToken, grant: Grant, now_ms: int) -> None:
        """The session was told that it holds the token; or it is known from elsewhere only."""
        grant.is_doubted = False
        self.alarms.put((token.name, grant.holder.session), now_ms + self._settings.lease_ms)

    def _settle(self, token: ServedToken, turn: ServingTurn, *, serves: bool | None = None) -> None:
        """Grant what can be granted; see to what is over; forget what need not be known."""
        self._advance(token, turn, serves=serves)
        if self.tokens.get(token.name) is not token:
            return
        if not token.is_needed(turn.now_ms):
            self._drop(token, turn)
        elif token.data is not None and not token.queue and not token.is_held:
            self._idle.setdefault(token.name)
        else:
            self._idle.pop(token.name, None)

    def _advance(self, token: ServedToken, turn: ServingTurn, *, serves: bool | None = None) -> None:
        now_ms = turn.now_ms
        if token.queue:
            serves = self._serves(token, turn) if serves is None else serves
            for place in list(token.queue.values()):
                if serves and place.session in token.grants:
                    self._answer_holder_again(token, place, turn)
                elif place.call is None and now_ms >= place.until_ms:
                    self._remove(token, place, turn)
            while serves and token.queue and (first := token.first()) is not None and token.may_have(first, now_ms):
                if first.call is None:  # its place is kept: whoever is behind waits so long
                    break
                self._grant(token, first, first.call, turn)
            for place in [place for place in token.queue.values() if place.call is not None]:
                if serves and place.is_try:
                    self._refuse(place, HeldError(f"{token.name!r} is held: wait for it, or try again"), 0, turn)
                    self._remove(token, place, turn)
                elif now_ms >= place.until_ms:
                    self._wait_is_over(token, place, turn)
        due_ms = token.due_ms(now_ms)
        if due_ms is not None:
            self.alarms.put(token.name, due_ms)
        elif token.has_alarm:
            self.alarms.drop(token.name)
        token.has_alarm = due_ms is not None

    def _answer_holder_again(self, token: ServedToken, place: WaitingSession, turn: ServingTurn) -> None:
        """It asked, or an old request of it came late, before it was known here that it holds the token."""
        if token.has_given_back(place):
            self._drop_holder(token, place.session)
            self.alarms.drop((token.name, place.session))
            self._write(token, turn)
            return
        self._remove(token, place, turn)
        if place.call is not None:
            self._calls.pop(place.call, None)
            self._answer_holder(token, place.call, token.grants[place.session], turn, is_shared=place.is_shared)

    def _wait_is_over(self, token: ServedToken, place: WaitingSession, turn: ServingTurn) -> None:
        if place.is_try:
            self._refuse_unserved(place, turn)
        else:
            until_ms = turn.now_ms + self._settings.grace_ms
            self._refuse(place, TimedOutError(f"{token.name!r} was not free in time"), until_ms, turn)

    def _grant(self, token: ServedToken, place: WaitingSession, call: CallKey, turn: ServingTurn) -> None:
        del token.queue[place.session]
        self._waiters -= 1
        grant = token.give(TokenHolder(place.session, place.is_shared, *self._part.next_number(), turn.wall))
        if place.data is not None:
            token.grant_data(grant, place.data, keeps=place.keeps_data)
        self._write(token, turn)
        grant.call = call
        self._tell_grant(token, call, grant, turn)

    def _refuse(self, place: WaitingSession, why: RequestError, until_ms: int, turn: ServingTurn) -> None:
        """Who waits is told why he waited in vain; the place is kept until then."""
        if place.call is not None:
            ticket = ticket_text(place.ticket)
            turn.answer(place.call, why.with_ticket(ticket) if isinstance(why, UngrantedError) else why)
            self._calls.pop(place.call, None)
        place.leave(until_ms)

    def _refuse_unserved(self, place: WaitingSession, turn: ServingTurn) -> None:
        if place.call is not None:
            text = "no majority of the token servers answers, or one has to find out who holds the token: ask again"
            self._refuse(place, NoQuorumError(text), turn.now_ms + self._settings.grace_ms, turn)

    def _remove(self, token: ServedToken, place: WaitingSession, turn: ServingTurn) -> None:
        if token.queue.pop(place.session, None) is not None:
            self._waiters -= 1
            self._unindex(place.session, token)
            turn.touched[token.name] = None

    def _let_go(self, token: ServedToken, session: str, turn: ServingTurn) -> None:
        """A session has nothing to do with a token any more."""
        place = token.queue.get(session)
        if place is not None:
            why = NotHeldError("the request was withdrawn by a release, or its session ended")
            self._refuse(place, why, turn.now_ms, turn)
            self._remove(token, place, turn)
        if session in token.grants or session in token.lost:
            self._drop_holder(token, session)
            token.lost.pop(session, None)
            self._write(token, turn)
        self._unindex(session, token)

    def _take_from(self, token: ServedToken, holders: Iterable[TokenHolder], turn: ServingTurn) -> None:
        token.free_ms = max(token.free_ms, turn.now_ms + self._settings.lock_delay_ms)
        for holder in holders:
            call = self._drop_holder(token, holder.session)
            token.lost[holder.session] = holder
            self.alarms.drop((token.name, holder.session))
            if call is not None:
                turn.withdraw(call)
            turn.losses.append(_loss(token, holder))
        self._write(token, turn)
        self._advance(token, turn)

    def _drop_holder(self, token: ServedToken, session: str) -> CallKey | None:
        """It holds it no more. The call that told it so, if nobody asked since."""
        grant = token.grants.pop(session, None)
        call = None if grant is None else grant.call
        if call is not None:
            self._calls.pop(call, None)
        return call

    def _drop(self, token: ServedToken, turn: ServingTurn) -> None:
        """Nobody has to do with it any more."""
        del self.tokens[token.name]
        self._idle.pop(token.name, None)
        self.alarms.drop(token.name)
        self._write(token, turn)

    def _write(self, token: ServedToken, turn: ServingTurn) -> None:
        turn.touched[token.name] = None
        record = token.settled()
        is_kept = record is not None and self.tokens.get(token.name) is token
        if is_kept or token.is_kept:
            turn.effects.turn.keep(TOKEN_SLOT + token.name, pack(record) if is_kept else None)
        token.is_kept = is_kept
        if token.lost or self._index.losing:
            self._index.note_losses(token)

    def _unindex(self, session: str, token: ServedToken) -> None:
        if session not in token.grants:
            self.alarms.drop((token.name, session))
        if not (session in token.grants or session in token.lost or session in token.queue):
            self._index.drop(session, token.name)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        tokens = self.tokens
        for token in tokens.values():
            token.check()
        self._index.check(tokens)
        self.alarms.check()
        must(self._waiters == sum(len(token.queue) for token in tokens.values()), "all that wait are counted")
        calls = {call: (name, session) for name, token in tokens.items() for call, session in token.calls()}
        must(self._calls == calls, "each call that waits, or was told, is known")
        must(all(not tokens[name].is_held for name in self._idle), "what is idle is free")
        must(all(one.has_alarm for name, one in tokens.items() if name in self.alarms), "each alarm is known")
        held = {(name, session) for name, token in tokens.items() for session in token.grants}
        must(all(key in held for key in self.alarms if isinstance(key, tuple)), "what is unsure is held")


def _loss(token: ServedToken, holder: TokenHolder) -> TellLoss:
    return TellLoss(holder.session, (*holder.number, token.name))
