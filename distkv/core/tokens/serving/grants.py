"""The tokens that one server serves: who gets which, with which fence.

Knows: all of them, and the calls that wait for them.  Does not know why a session is over, nor which part of all tokens
this server serves: it asks (`ServedTokens.serves`).

Invariant: what is granted, released or taken is in a slot of the same step as the answer. Fences of a token grow with
each grant. The number of tokens and of waiters is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.alarms import Alarms, earliest
from distkv.core.tokens.effects import SlotWrite, TokenEffects
from distkv.core.tokens.serving.grant_rules import GrantRules
from distkv.core.tokens.serving.served_token import ServedToken, WaitingSession
from distkv.core.tokens.serving.survey import ClaimedToken
from distkv.core.tokens.serving.token_index import TokenIndex
from distkv.core.tokens.serving.unsure_grants import UnsureGrants
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.errors import HeldError, NoQuorumError, NotHeldError, RequestError, TimedOutError, UngrantedError
from distkv.model.fence import Fence
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_fields import ticket_text
from distkv.wire.token_messages import AskElsewhere, TokenMap, TokenResult
from distkv.wire.token_replies import TokenDone, TokenItem
from distkv.wire.token_requests import TokenAcquire, TokenData
from distkv.wire.token_slots import TokenRecord

TOKEN_SLOT: Final = "token/"


class Grants:
    """All times are milliseconds."""

    def __init__(
        self, settings: ServingSettings, rules: GrantRules, effects: TokenEffects, touched: Callable[[str], None]
    ) -> None:
        self._settings: Final = settings
        self._rules: Final = rules
        self._effects: Final = effects
        self._touched: Final = touched
        self._tokens: Final = dict[str, ServedToken]()
        self._index: Final = TokenIndex()
        self._idle: Final = dict[str, None]()
        """Free ones that have data; those that became free first come first."""
        self._alarms: Final = Alarms[str]()
        self._unsure: Final = UnsureGrants(settings.lease_ms)
        self._calls: Final = dict[CallKey, tuple[str, str]]()
        """Of each call that waits, or whose grant nobody asked about since: token and session."""
        self._waiters = 0
        self.wall = 0.0
        """Seconds since 1970, for people."""

    # -- reading

    def names(self) -> list[str]:
        """Of all that are known."""
        return list(self._tokens)

    def sessions(self) -> list[str]:
        """All that hold something, or wait for it."""
        return self._index.sessions()

    def is_known(self, name: str) -> bool:
        return name in self._tokens

    def holds(self, session: str, name: str) -> bool:
        token = self._tokens.get(name)
        return token is not None and session in token.holders

    def served(self, name: str) -> ServedToken:
        """A token, which is not to be changed; one that is not known is free."""
        return self._tokens.get(name) or ServedToken(name)

    def item(self, name: str) -> TokenItem:
        """What there is to see of a token."""
        return self.served(name).item(self._settings.me)

    def handed(self, name: str, now_ms: int) -> TokenRecord | None:
        """As it is handed over."""
        token = self._tokens.get(name)
        return None if token is None or not token.is_needed(now_ms) else token.handed(now_ms)

    @property
    def due_ms(self) -> int | None:
        """When a wait or a delay is over, or somebody is to be asked whether a grant counts."""
        return earliest(self._alarms.first_ms, self._unsure.due_ms)

    # -- what clients ask

    def acquire(self, call: CallKey, request: TokenAcquire, since_ms: int, now_ms: int) -> None:
        """A session wants a token; the call is answered now or later. It asked at `since_ms`."""
        token, session = self._token(request.token), request.session
        held = token.holders.get(session)
        if held is not None and (request.before is None or (held.epoch, held.counter) > request.before):
            self._answer_holder(token, call, held, now_ms, is_shared=request.is_shared)
            return
        if held is not None:  # it gave that back: a crash undid the release
            self._let_go(token, session, now_ms)
        place = token.queue.get(session)
        if place is None:
            refusal = token.refusal(self._settings, len(self._tokens), self._waiters)
            if refusal is not None:
                self._rules.answer(call, refusal)
                self._settle(token, now_ms)
                return
            place = WaitingSession(session, self._rules.next_place(), request.is_shared, None)
            token.queue[session] = place
            self._index.put(session, token.name)
            self._waiters += 1
        elif place.call is not None:
            self._leave(place, TimedOutError("the session asked again for the token: the later request waits"), 0)
        if request.ticket is not None:
            place.ticket = min(place.ticket, request.ticket)
        place.asks(call, request)
        wait_ms = self._settings.lease_ms if request.wait_s is None else int(request.wait_s * 1000)
        place.until_ms = since_ms + wait_ms
        self._calls[call] = token.name, session
        self._touched(token.name)
        self._settle(token, now_ms)

    def release(self, session: str, name: str, fence: tuple[int, int] | None, now_ms: int) -> TokenResult:
        """A session gives up a token, or its place in the queue; with a fence, only what it holds with that."""
        token = self._tokens.get(name)
        if token is not None and fence is not None:
            held = token.holders.get(session) or token.lost.get(session)
            token = token if held is not None and (held.epoch, held.counter) == fence else None
        if token is None or not (session in token.holders or session in token.lost or session in token.queue):
            return NotHeldError(f"the session does not hold {name!r}, nor wait for it: it was released, or taken")
        self._let_go(token, session, now_ms)
        self._settle(token, now_ms)
        return TokenDone()

    def set_data(self, request: TokenData) -> TokenResult:
        """A holder changes the data of a token."""
        token = self.served(request.token)
        refusal = token.refusal_of(request)
        if refusal is None and token.set_data(request):
            self._write(token)
        return refusal or TokenDone()

    def take(self, name: str, fence: tuple[int, int] | None, now_ms: int) -> int:
        """Take a token from all holders, or up to a fence; how many. It is free when they know, and after a delay."""
        token = self._tokens.get(name)
        holders = [] if token is None else token.holders_up_to(fence)
        if token is not None and holders:
            self._take_from(token, holders, now_ms)
        return len(holders)

    def take_unsure(self, now_ms: int) -> list[tuple[str, Fence]]:
        """The grants of which to ask now whether the session counts on them."""
        found = list[tuple[str, Fence]]()
        for name, session in self._unsure.take_due(now_ms):
            token = self._tokens.get(name)
            holder = None if token is None else token.holders.get(session)
            if holder is None:
                self._unsure.end(name, session)
            else:
                found.append((session, Fence(0, holder.epoch, holder.counter, name)))
        return found

    def is_asked_for(self, session: str, name: str, now_ms: int) -> None:
        """The session asks for what it holds, and cannot be answered yet: its grant is not one that nobody wants."""
        if self.holds(session, name):
            self._unsure.told(name, session, now_ms)

    def heard_holding(self, session: str, fence: Fence, is_held: bool | None, now_ms: int) -> None:
        """Whether the session counts on what it was granted; None: that could not be found out. What it does not know
        of is taken from it, as if it were broken: so nothing is lost if it learns of it yet."""
        token = self._tokens.get(name := fence.token)
        holder = None if token is None else token.holders.get(session)
        if token is None or holder is None or not self._unsure.is_asked(name, session):
            return
        if is_held is None:
            self._unsure.told(name, session, now_ms)
        elif is_held:
            self._unsure.end(name, session)
            token.replaced.pop(session, None)
        else:
            self._effects.note("token_grant_unheard", token=name, session=session)
            token.undo_data(session)
            self._take_from(token, [holder], now_ms)

    # -- what happens

    def loss_known(self, session: str, fence: Fence, now_ms: int) -> None:
        """A session from which a token was taken knows it."""
        token = self._tokens.get(fence.token)
        held = None if token is None else token.lost.get(session)
        if token is not None and held is not None and (held.epoch, held.counter) == (fence.epoch, fence.counter):
            del token.lost[session]
            self._unindex(session, token)
            self._write(token)
            self._settle(token, now_ms)

    def losses(self) -> Iterable[tuple[str, TokenHolder]]:
        """All of which somebody is to be told still."""
        return [(token.name, one) for token in self._index.losing for one in token.lost.values()]

    def session_ended(self, session: str, now_ms: int, *, delay_ms: int) -> None:
        """It is over: what it held is free after the delay."""
        for name in self._index.of(session):
            token = self._tokens[name]
            if session in token.holders or session in token.lost:
                token.free_ms = max(token.free_ms, now_ms + delay_ms)
            self._let_go(token, session, now_ms)
            self._settle(token, now_ms)

    def call_gone(self, call: CallKey, now_ms: int) -> None:
        """Nobody waits for the answer. The place in the queue is kept for a while; a grant that nobody heard of is
        taken back."""
        name, session = self._calls.get(call, ("", ""))
        token = self._tokens.get(name)
        if token is None:
            return
        if (place := token.queue.get(session)) is not None and place.call == call:
            self._leave(place, None, now_ms + self._settings.grace_ms)
        elif token.grants.get(session) == call:
            if self._rules.serves(name, now_ms):
                token.undo_data(session)
                self._let_go(token, session, now_ms)
            token.grants.pop(session, None)
        self._calls.pop(call, None)
        self._settle(token, now_ms)

    def look(self, now_ms: int) -> None:
        """What may be granted has changed."""
        for token in [one for one in self._tokens.values() if one.queue]:
            for place in token.queue.values() if self._rules.serves(token.name, now_ms) else ():
                if place.call is None:
                    place.until_ms = max(place.until_ms, now_ms + self._settings.grace_ms)
            self._settle(token, now_ms)

    def refuse_all(self, now_ms: int) -> None:
        """Nothing could be granted for a lease: nobody waits any longer."""
        for token in list(self._tokens.values()):
            for place in token.queue.values():
                self._refuse_unserved(place, now_ms)
            self._settle(token, now_ms)

    def woken(self, now_ms: int) -> None:
        """Time passed."""
        for token in [self._tokens.get(name) for name in self._alarms.take_due(now_ms)]:
            if token is not None:
                self._settle(token, now_ms)

    def install(self, record: TokenRecord, now_ms: int) -> None:
        """What a disk or another server knew of a token."""
        token = self._token(record.token)
        self._waiters -= len(token.queue)
        token.install(record, now_ms, now_ms + self._settings.lease_ms)
        self._waiters += len(token.queue)
        self._index.put_all(token)
        for holder in record.holders:
            self._unsure.told(token.name, holder.session, now_ms)
        self._settle(token, now_ms)

    def replace_holders(self, name: str, found: ClaimedToken, now_ms: int) -> None:
        """A survey showed who holds a token."""
        token = self._token(name)
        for session in [*token.holders, *token.lost]:
            self._drop_holder(token, session)
            token.lost.pop(session, None)
            self._unindex(session, token)
        for holder in found.holders:
            token.holders[holder.session] = holder
            self._unsure.told(name, holder.session, now_ms)
        token.set_found(found.data, keeps=found.keeps_data)
        self._index.put_all(token)
        self._write(token)
        self._settle(token, now_ms)

    def write(self, name: str) -> None:
        """See to it that it is on the disk as it is."""
        if name in self._tokens:
            self._write(self._tokens[name])

    def forget(self, names: Iterable[str], elsewhere: TokenResult | None) -> None:
        """They are not served here any more; who waits is told so."""
        for name in names:
            token = self._tokens.pop(name, None)
            if token is None:
                continue
            for place in token.queue.values():
                if place.call is not None and elsewhere is not None:
                    self._rules.answer(place.call, elsewhere)
            self._waiters -= len(token.queue)
            for call, _ in token.calls():
                self._calls.pop(call, None)
            sessions = list(token.sessions())
            token.holders.clear()
            token.lost.clear()
            token.queue.clear()
            for session in sessions:
                self._unindex(session, token)
            self._idle.pop(name, None)
            self._alarms.drop(name)
            self._write(token)

    def send_away(self, name: str, map: TokenMap) -> None:
        """Who waits for a token is to ask elsewhere, and keeps its place."""
        token = self._tokens.get(name)
        for place in token.queue.values() if token is not None else ():
            if place.call is not None:
                self._rules.answer(place.call, AskElsewhere(map, ticket_text(place.ticket)))
                self._calls.pop(place.call, None)
                place.call = None

    # -- inside

    def _token(self, name: str) -> ServedToken:
        token = self._tokens.get(name)
        if token is None:
            token = self._tokens[name] = ServedToken(name)
            if len(self._tokens) > self._settings.tokens_max and self._idle:
                self.forget([next(iter(self._idle))], None)
        return token

    def _answer_holder(
        self, token: ServedToken, call: CallKey, holder: TokenHolder, now_ms: int, *, is_shared: bool
    ) -> None:
        """The session holds the token: it gets the same fence. Neither the mode nor the data is changed: a request that
        comes late, by a node that stood still, would undo what the session did since, without its knowing."""
        if holder.is_shared != is_shared:
            text = f"the session holds {token.name!r} in the other mode: release it first"
            self._rules.answer(call, HeldError(text))
            return
        old = token.grants.pop(holder.session, None)
        if old is not None:
            self._calls.pop(old, None)
        self._tell_grant(token, call, holder, now_ms)

    def _tell_grant(self, token: ServedToken, call: CallKey, holder: TokenHolder, now_ms: int) -> None:
        self._unsure.told(token.name, holder.session, now_ms)
        self._rules.answer(call, token.granted(holder, self._rules.changed))

    def _settle(self, token: ServedToken, now_ms: int) -> None:
        """Grant what can be granted; see to what is over; forget what need not be known."""
        self._advance(token, now_ms)
        if self._tokens.get(token.name) is not token:
            return
        if not token.is_needed(now_ms):
            self.forget([token.name], None)
        elif not token.is_held and not token.queue and token.data is not None:
            self._idle.setdefault(token.name)
        else:
            self._idle.pop(token.name, None)

    def _advance(self, token: ServedToken, now_ms: int) -> None:
        serves = self._rules.serves(token.name, now_ms)
        for place in list(token.queue.values()):
            if serves and place.session in token.holders:
                self._answer_holder_again(token, place, now_ms)
            elif place.call is None and now_ms >= place.until_ms:
                self._remove(token, place)
        while serves and (first := token.first()) is not None and token.may_have(first, now_ms):
            if first.call is None:  # its place is kept: whoever is behind waits so long
                break
            self._grant(token, first, now_ms)
        for place in [place for place in token.queue.values() if place.call is not None]:
            if serves and place.is_try:
                self._refuse(place, HeldError(f"{token.name!r} is held: wait for it, or try again"), 0)
                self._remove(token, place)
            elif now_ms >= place.until_ms:
                self._wait_is_over(token, place, now_ms)
        self._set_alarm(token, now_ms)

    def _answer_holder_again(self, token: ServedToken, place: WaitingSession, now_ms: int) -> None:
        """It asked, or an old request of it came late, before it was known here that it holds the token."""
        held = token.holders[place.session]
        if token.has_given_back(place):
            self._drop_holder(token, place.session)
            self._write(token)
            return
        self._remove(token, place)
        if place.call is not None:
            self._calls.pop(place.call, None)
            self._answer_holder(token, place.call, held, now_ms, is_shared=place.is_shared)

    def _wait_is_over(self, token: ServedToken, place: WaitingSession, now_ms: int) -> None:
        if place.is_try:
            self._refuse_unserved(place, now_ms)
        else:
            self._refuse(place, TimedOutError(f"{token.name!r} was not free in time"), now_ms + self._settings.grace_ms)

    def _set_alarm(self, token: ServedToken, now_ms: int) -> None:
        due_ms = token.due_ms(now_ms)
        if due_ms is None:
            self._alarms.drop(token.name)
        else:
            self._alarms.put(token.name, due_ms)

    def _grant(self, token: ServedToken, place: WaitingSession, now_ms: int) -> None:
        call = place.call
        del token.queue[place.session]
        self._waiters -= 1
        holder = TokenHolder(place.session, place.is_shared, *self._rules.next_number(), self.wall)
        token.holders[place.session] = holder
        if place.data is not None:
            token.grant_data(place.session, place.data, keeps=place.keeps_data)
        self._write(token)
        if call is not None:
            token.grants[place.session] = call
            self._calls[call] = token.name, place.session
            self._tell_grant(token, call, holder, now_ms)

    def _leave(self, place: WaitingSession, why: RequestError | None, until_ms: int) -> None:
        """The call is over; the place is kept until then."""
        if why is not None:
            self._refuse(place, why, until_ms)
        else:
            place.call, place.until_ms, place.is_try = None, until_ms, False

    def _refuse(self, place: WaitingSession, why: RequestError, until_ms: int) -> None:
        if place.call is not None:
            ticket = ticket_text(place.ticket)
            self._rules.answer(place.call, why.with_ticket(ticket) if isinstance(why, UngrantedError) else why)
            self._calls.pop(place.call, None)
        place.call, place.until_ms, place.is_try = None, until_ms, False

    def _refuse_unserved(self, place: WaitingSession, now_ms: int) -> None:
        if place.call is not None:
            text = "no majority of the token servers answers, or one has to find out who holds the token: ask again"
            self._refuse(place, NoQuorumError(text), now_ms + self._settings.grace_ms)

    def _remove(self, token: ServedToken, place: WaitingSession) -> None:
        if token.queue.pop(place.session, None) is not None:
            self._waiters -= 1
            self._unindex(place.session, token)
            self._touched(token.name)

    def _let_go(self, token: ServedToken, session: str, now_ms: int) -> None:
        """A session has nothing to do with a token any more."""
        place = token.queue.get(session)
        if place is not None:
            self._refuse(place, NotHeldError("the request was withdrawn by a release, or its session ended"), now_ms)
            self._remove(token, place)
        if session in token.holders or session in token.lost:
            self._drop_holder(token, session)
            token.lost.pop(session, None)
            self._write(token)
        self._unindex(session, token)

    def _take_from(self, token: ServedToken, holders: Iterable[TokenHolder], now_ms: int) -> None:
        token.free_ms = max(token.free_ms, now_ms + self._settings.lock_delay_ms)
        for holder in holders:
            self._lose(token, holder, now_ms)
        self._write(token)
        self._advance(token, now_ms)

    def _lose(self, token: ServedToken, holder: TokenHolder, now_ms: int) -> None:
        call = self._drop_holder(token, holder.session)
        token.lost[holder.session] = holder
        self._unsure.end(token.name, holder.session)
        if call is not None:
            self._rules.withdraw(call)
        self._rules.taken(holder, token.name, now_ms)

    def _drop_holder(self, token: ServedToken, session: str) -> CallKey | None:
        """It holds it no more. The call that told it so, if nobody asked since."""
        call = token.grants.get(session)
        if call is not None:
            self._calls.pop(call, None)
        token.drop_holder(session)
        return call

    def _write(self, token: ServedToken) -> None:
        token.end_data()
        self._touched(token.name)
        is_kept = self._tokens.get(token.name) is token and (token.is_held or token.data is not None)
        if is_kept or token.is_kept:
            slot = pack(token.record()) if is_kept else None
            self._effects.slots.append(SlotWrite(TOKEN_SLOT + token.name, slot))
        token.is_kept = is_kept
        self._index.note_losses(token)

    def _unindex(self, session: str, token: ServedToken) -> None:
        if session not in token.holders:
            self._unsure.end(token.name, session)
        if not (session in token.holders or session in token.lost or session in token.queue):
            self._index.drop(session, token.name)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        tokens = self._tokens
        for token in tokens.values():
            token.check()
        self._index.check(tokens)
        self._alarms.check()
        must(self._waiters == sum(len(token.queue) for token in tokens.values()), "all that wait are counted")
        calls = {call: (name, session) for name, token in tokens.items() for call, session in token.calls()}
        must(self._calls == calls, "each call that waits, or was told, is known")
        must(all(not tokens[name].is_held for name in self._idle), "what is idle is free")
