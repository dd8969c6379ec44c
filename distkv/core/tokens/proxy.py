"""A node's clients: their requests about tokens go to the servers that answer them, wherever these are.

Knows: which requests are under way, at which servers.  Does not know what a server does with them.

Invariant: a request is answered once (a watch, at each change and at its end), or withdrawn. Each waits at one server
only, the one that the newest map names; when none that could grant was heard for a lease it is refused.
"""

from __future__ import annotations

from typing import Final, assert_never

import attrs

from distkv.core.ready import Rng
from distkv.core.tokens.alarms import Alarms, earliest
from distkv.core.tokens.client_requests import Claimed, ClientRequest
from distkv.core.tokens.effects import TokenAnswer, TokenEffects, must_wait
from distkv.core.tokens.gathered import GatheredAnswers
from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.session_tags import tag_of
from distkv.errors import (
    BusyError,
    DistkvError,
    NoQuorumError,
    NotFoundError,
    RequestError,
    TimedOutError,
    UngrantedError,
)
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import evolve
from distkv.wire.token_fields import ticket_text
from distkv.wire.token_messages import (
    AboutToken,
    AskElsewhere,
    ChangeServers,
    ClaimTokens,
    EndSession,
    KeepSession,
    ListTokens,
    OpenSession,
    ReleaseAll,
    TokenMap,
    TokenQuestion,
    TokenResult,
    WatchedTokens,
    WatchTokens,
    WhereTokens,
)
from distkv.wire.token_replies import TokenItem, TokenReply, TokensChanged, TokensListed
from distkv.wire.token_requests import (
    TTL_S_MAX,
    TokenAcquire,
    TokenBreak,
    TokenClose,
    TokenData,
    TokenKeep,
    TokenList,
    TokenOpen,
    TokenRelease,
    TokenRequest,
    TokenReset,
    TokenServers,
    TokenSetServers,
    TokenShow,
    TokenWatch,
)

AGAIN_MS: Final = 100
"""After so long a request is sent again to a server that could not answer it yet."""
CLAIMS_MAX: Final = 20_000
"""Of so many sessions it is remembered what they claimed last."""


class Proxy:
    """All times are milliseconds."""

    def __init__(
        self, settings: ServingSettings, questions: Questions, servers: KnownServers, effects: TokenEffects, rng: Rng
    ) -> None:
        self._settings: Final = settings
        self._questions: Final = questions
        self._servers: Final = servers
        self._effects: Final = effects
        self._rng: Final = rng
        self._requests: Final = dict[int, ClientRequest]()
        self._shows: Final = dict[int, ClientRequest]()
        """Those of them that want to see the servers."""
        self._acquires: Final = dict[tuple[str, str], int]()
        """The request that a session has under way for a token."""
        self._by_call: Final = dict[int, int]()
        """Of each call the request that it is for."""
        self._again: Final = Alarms[int]()
        """Requests that are to be sent again."""
        self._wheres: Final = dict[NodeName, tuple[int, int]]()
        """Who was asked who serves: the call, and when."""
        self._asked_where_ms = -(2**62)
        self._due_ms = 0
        """What `wake_ms` said last: before that there is nothing to do but for those who want to see the servers."""
        self._turn = 0
        self._claims: Final = dict[str, Claimed]()
        """By session."""
        self._claim_again: Final = Alarms[tuple[str, NodeName]]()
        """Claims that a server could not take yet."""
        self._claim_calls: Final = dict[int, str]()
        """Of each such call the session."""
        self._others: Final = dict[int, NodeName]()
        """Calls for nobody in particular that are not answered yet."""

    @property
    def claims(self) -> int:
        """How many of them some server does not have yet."""
        return sum(claim.question is not None for claim in self._claims.values())

    # -- what clients do

    def asked(self, id: int, request: TokenRequest, now_ms: int, asker: int = 0) -> None:
        """A client asks, on the connection of this number."""
        if len(self._requests) >= self._settings.requests_max:
            text = f"{self._settings.requests_max} requests about tokens are under way: ask again later"
            self._effects.answers.append(TokenAnswer(id, BusyError(text)))
            return
        if isinstance(request, (TokenAcquire, TokenRelease)):
            self._supersede(request)
        found = self._requests[id] = ClientRequest(id, request, now_ms)
        if isinstance(request, TokenOpen):
            found.tag = tag_of(self._settings.me, asker, int(self._rng.random() * 2**52))
        elif isinstance(request, TokenAcquire):
            found.ticket = request.ticket
            self._acquires[request.session, request.token] = id
        elif isinstance(request, TokenServers):
            self._shows[id] = found
        elif isinstance(request, (TokenList, TokenWatch)):
            found.gathered = GatheredAnswers()
        elif isinstance(request, TokenKeep):
            self._claim(request, now_ms)
        elif isinstance(request, TokenClose):
            for name in self._servers.up:
                self._tell(name, ReleaseAll(request.session), now_ms)
        self._send(found, now_ms)
        self._look_where(now_ms)

    def gone(self, id: int) -> None:
        """A client does not wait any more."""
        found = self._requests.get(id)
        if found is not None:
            self._end(found)

    def more(self, id: int, now_ms: int) -> None:
        """A client has taken what it was told of a watch: it may be told more."""
        found = self._requests.get(id)
        if found is not None:
            self._send(found, now_ms)

    # -- what happens

    def wake_ms(self) -> int | None:
        """When `woken` has something to do; asked after each step, and kept for it."""
        where_ms = self._asked_where_ms + self._poll_ms if self._requests or self._others else None
        found = earliest(self._again.first_ms, self._claim_again.first_ms, where_ms, self._refused_ms)
        self._due_ms = found or 0
        return found

    def woken(self, now_ms: int) -> None:
        """Time passed."""
        if now_ms < self._due_ms and not self._shows:
            return
        for id in self._again.take_due(now_ms):
            found = self._requests.get(id)
            if found is not None:
                self._send(found, now_ms)
        for found in list(self._shows.values()):
            self._send(found, now_ms)
        for session, name in self._claim_again.take_due(now_ms):
            if session in self._claims and name in self._servers.up:
                self._ask_claim(session, self._claims[session], name, now_ms)
        self._look_where(now_ms)
        while (refused_ms := self._refused_ms) is not None and now_ms >= refused_ms:
            self._refuse(next(iter(self._requests.values())))

    def map_changed(self, now_ms: int) -> None:
        """Others may have to be asked than before."""
        up = self._servers.up
        for session, claim in [one for one in self._claims.items() if one[1].question is not None]:
            for name in [name for name in claim.calls if name not in up and claim.version <= self._servers.changed]:
                self._withdraw_claim(name, claim.calls.pop(name))
            for name in [name for name in up if name not in claim.asked]:
                self._ask_claim(session, claim, name, now_ms)
        for number, name in list(self._others.items()):
            if name not in up:
                del self._others[number]
                self._questions.cancel(name, number)
        for found in list(self._requests.values()):
            self._send(found, now_ms)

    def answered(self, came: ServerAnswered, now_ms: int) -> None:
        """A server answers."""
        result = came.result
        if isinstance(result, TokenMap):
            self._heard_map(result, now_ms)
        elif isinstance(result, AskElsewhere):
            self._heard_map(result.map, now_ms)
        elif not isinstance(result, RequestError):
            self._servers.sure_ms = now_ms
        if came.changed > self._servers.changed:
            self._ask_where(came.peer, now_ms)
        elif came.changed < self._servers.changed and isinstance(result, TokensListed):
            result = evolve(result, partial=True)  # its part is another one now
        found = self._requests.get(self._by_call.pop(came.number, -1))
        if found is not None and found.at.get(came.peer) == came.number:
            del found.at[came.peer]
            self._take(found, came.peer, result, now_ms)
        elif self._others.pop(came.number, None) is None:
            self._take_other(came, result, now_ms)

    # -- inside: asking

    def _supersede(self, request: TokenAcquire | TokenRelease) -> None:
        """Of what a session wants of a token the last word counts: an earlier request that is still on its way must
        not come after it."""
        old = self._requests.get(self._acquires.get((request.session, request.token), -1))
        if old is not None:
            text = "the session has asked for the token again, or released it: the later request counts"
            self._finish(old, TimedOutError(text))

    @property
    def _sure_ms(self) -> int:
        return -(2**62) if self._servers.sure_ms is None else self._servers.sure_ms

    @property
    def _poll_ms(self) -> int:
        return min(1000, self._settings.lease_ms // 8)

    @property
    def _refused_ms(self) -> int | None:
        """When the oldest request is refused, if nothing more is heard."""
        for oldest in self._requests.values():
            return max(oldest.asked_ms, self._sure_ms) + self._settings.lease_ms
        return None

    def _targets(self, request: TokenRequest) -> list[NodeName]:
        """Who is to be asked."""
        servers = self._servers
        match request:
            case TokenOpen() | TokenClose() | TokenKeep() | TokenSetServers():
                found = servers.leader
            case TokenAcquire() | TokenRelease() | TokenData() | TokenShow() | TokenBreak():
                found = servers.server_of(request.token)
            case TokenList() | TokenWatch():
                return servers.up
            case TokenServers() | TokenReset():
                return []
            case _:
                assert_never(request)
        return [] if found is None else [found]

    def _question(self, found: ClientRequest, name: NodeName) -> TokenQuestion | None:
        request, settings = found.request, self._settings
        match request:
            case TokenOpen(ttl_s=ttl_s, grace_s=grace_s):
                asked_ms = settings.ttl_ms if ttl_s is None else int(ttl_s * 1000)
                ttl_ms = max(asked_ms, 3 * settings.lease_ms)
                ttl_ms += settings.long_ms(settings.long_ms(int(grace_s * 1000))) if grace_s else 0  # on any clock
                return OpenSession(found.tag, min(ttl_ms, int(TTL_S_MAX * 1000)))
            case TokenClose(session=session):
                return EndSession(session)
            case TokenKeep():
                names = tuple([held.token for held in request.held])
                wait_ms = 0 if request.wait_s is None else int(request.wait_s * 1000)
                return KeepSession(request.session, request.version, names, wait_ms, request.turn, request.heard)
            case TokenAcquire():
                if found.ticket != request.ticket:
                    request = attrs.evolve(request, ticket=found.ticket)
                return AboutToken(request, self._servers.changed)
            case TokenBreak():
                fence = request.fence or found.fence
                asked = attrs.evolve(request, fence=fence) if fence else TokenShow(0, request.token)
                return AboutToken(asked, self._servers.changed)
            case TokenRelease() | TokenData() | TokenShow():
                return AboutToken(request, self._servers.changed)
            case TokenList():
                return ListTokens(request.prefix, request.limit, request.after)
            case TokenWatch(prefix=prefix):
                gathered = found.gathered or GatheredAnswers()
                return WatchTokens(prefix, gathered.positions.get(name, 0), gathered.known)
            case TokenSetServers(servers=names, wait_s=wait_s):
                return ChangeServers(names, int((wait_s or 0) * 1000))
            case TokenServers() | TokenReset():
                return None
            case _:
                assert_never(request)

    def _send(self, found: ClientRequest, now_ms: int) -> None:
        """See to it that a request waits where it should, and nowhere else."""
        if isinstance(found.request, TokenServers):
            shown = self._servers.shown(is_sure=True)
            if shown is not None and self._sure_ms > found.asked_ms - self._poll_ms:
                self._finish(found, shown)
            return
        targets, gathered = self._targets(found.request), found.gathered
        is_anew = gathered is not None and gathered.known != self._servers.changed
        for name in [name for name in found.at if is_anew or name not in targets]:
            self._stop(found, name)
        if gathered is not None:
            if is_anew:
                gathered.restart(self._servers.changed)
            gathered.keep_only(targets)
        for name in targets:
            if name not in found.at and (gathered is None or name not in gathered.pages):
                question = self._question(found, name)
                if question is not None:
                    found.at[name] = number = self._questions.ask(name, question, now_ms)
                    self._by_call[number] = found.id
        self._merge(found)

    def _tell(self, name: NodeName, question: TokenQuestion, now_ms: int) -> int:
        """Ask something of which no client waits for the answer."""
        number = self._questions.ask(name, question, now_ms)
        self._others[number] = name
        return number

    def _claim(self, request: TokenKeep, now_ms: int) -> None:
        """Tell all servers what a session holds, once for each change of servers that its client knows of."""
        old = self._claims.get(request.session)
        if old is not None and old.version >= request.version:
            return
        session = request.session
        self._forget_claims(session)
        is_known = request.version <= self._servers.changed
        question = ClaimTokens(session, request.version, request.held)
        claim = self._claims[session] = Claimed(request.version, question)
        for name in self._servers.up if is_known else self._servers.names:
            self._ask_claim(session, claim, name, now_ms)
        if len(self._claims) > CLAIMS_MAX:
            self._forget_claims(next(iter(self._claims)))

    def _ask_claim(self, session: str, claim: Claimed, name: NodeName, now_ms: int) -> None:
        if claim.question is not None:
            claim.asked.add(name)
            claim.calls[name] = number = self._questions.ask(name, claim.question, now_ms)
            self._claim_calls[number] = session

    def _forget_claims(self, session: str) -> None:
        claim = self._claims.pop(session, None)
        for name in self._servers.names if claim is not None else ():
            self._claim_again.drop((session, name))
        for name, number in claim.calls.items() if claim is not None else ():
            self._withdraw_claim(name, number)

    def _withdraw_claim(self, name: NodeName, number: int) -> None:
        self._claim_calls.pop(number, None)
        self._questions.cancel(name, number)

    def _look_where(self, now_ms: int) -> None:
        """Ask the next server who serves, if something is under way and that may have changed."""
        if not (self._requests or self._others) or now_ms - self._asked_where_ms < self._poll_ms:
            return
        is_sure = now_ms - self._sure_ms < self._poll_ms
        if is_sure and self._servers.changed and not self._questions.is_anybody_silent(now_ms):
            self._asked_where_ms = now_ms
            return
        self._turn += 1
        names = self._servers.names
        self._asked_where_ms = now_ms
        self._ask_where(names[self._turn % len(names)], now_ms)

    def _ask_where(self, name: NodeName, now_ms: int) -> None:
        old = self._wheres.get(name)
        if old is not None:
            if now_ms - old[1] < self._poll_ms:
                return
            self._questions.cancel(name, old[0])
        self._wheres[name] = self._questions.ask(name, WhereTokens(), now_ms), now_ms

    # -- inside: answers

    def _heard_map(self, map: TokenMap, now_ms: int) -> None:
        if self._servers.heard(map, now_ms):
            self.map_changed(now_ms)

    def _take(self, found: ClientRequest, peer: NodeName, result: TokenResult, now_ms: int) -> None:
        if isinstance(result, AskElsewhere):
            found.ticket = result.ticket or found.ticket
            if not found.at:
                self._again.put(found.id, now_ms + AGAIN_MS)
        elif isinstance(result, WatchedTokens):
            self._take_news(found, peer, result, now_ms)
        elif isinstance(result, TokensListed) and found.gathered is not None:
            found.gathered.pages[peer] = result
            self._merge(found)
        elif isinstance(result, TokenItem) and isinstance(found.request, TokenBreak):
            found.fence = max([(one.epoch, one.counter) for one in result.holders], default=None)
            if found.fence is None:
                self._finish(found, NotFoundError(f"nobody holds {result.token!r}"))
            else:
                self._send(found, now_ms)
        elif isinstance(result, TokenMap):
            self._again.put(found.id, now_ms + AGAIN_MS)
        else:
            self._finish(found, result)

    def _take_news(self, found: ClientRequest, peer: NodeName, told: WatchedTokens, now_ms: int) -> None:
        gathered = found.gathered
        if gathered is None:
            return
        gathered.positions[peer] = told.position
        items = gathered.view.take_news(peer, told, self._servers.server_of)
        is_complete = gathered.view.complete(self._servers.up)
        if items or is_complete:
            self._effects.answers.append(TokenAnswer(found.id, TokensChanged(items, is_complete)))
        else:
            self._again.put(found.id, now_ms + AGAIN_MS)

    def _take_other(self, came: ServerAnswered, result: TokenResult, now_ms: int) -> None:
        """An answer for which no client waits. A claim that is not taken is made again: soon, or with the next
        keep-alive of the session."""
        where = self._wheres.get(came.peer)
        if where is not None and where[0] == came.number:
            del self._wheres[came.peer]
        session = self._claim_calls.pop(came.number, None)
        if session is None:
            return
        claim = self._claims[session]
        claim.calls.pop(came.peer, None)
        again = [name for name in self._servers.names if (session, name) in self._claim_again]
        if isinstance(result, UngrantedError | BusyError):
            self._claim_again.put((session, came.peer), now_ms + AGAIN_MS)
        elif isinstance(result, RequestError):
            self._forget_claims(session)
        elif claim.version <= self._servers.changed and not (claim.calls or again):
            claim.question = None

    def _merge(self, found: ClientRequest) -> None:
        """Answer a list when all servers have."""
        request, gathered = found.request, found.gathered
        if isinstance(request, TokenList) and gathered is not None and gathered.pages and not found.at:
            self._finish(found, gathered.merged(request.limit))

    def _refuse(self, found: ClientRequest) -> None:
        shown = self._servers.shown(is_sure=False) if isinstance(found.request, TokenServers) else None
        if shown is not None:
            self._finish(found, shown)
            return
        error = NoQuorumError("no majority of the token servers answers: ask again, here or at another node")
        self._finish(found, error if found.ticket is None else error.with_ticket(ticket_text(found.ticket)))

    def _finish(self, found: ClientRequest, result: TokenReply | DistkvError) -> None:
        self._end(found)
        if isinstance(found.request, TokenKeep) and isinstance(result, DistkvError):
            self._forget_claims(found.request.session)  # the next keep-alive claims again, if there is one
        self._effects.answers.append(TokenAnswer(found.id, result, must_wait(found.request)))

    def _end(self, found: ClientRequest) -> None:
        request = found.request
        del self._requests[found.id]
        self._shows.pop(found.id, None)
        if isinstance(request, TokenAcquire) and self._acquires.get((request.session, request.token)) == found.id:
            del self._acquires[request.session, request.token]
        for name in list(found.at):
            self._stop(found, name)
        self._again.drop(found.id)

    def _stop(self, found: ClientRequest, name: NodeName) -> None:
        number = found.at.pop(name)
        self._by_call.pop(number, None)
        self._questions.cancel(name, number)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        requests = self._requests
        at = {number: one.id for one in requests.values() for number in one.at.values()}
        must(self._by_call == at, "each call is known for the request that waits for it")
        must(all(one.gathered or len(one.at) <= 1 for one in requests.values()), "a request waits at one server")
        must(set(self._acquires.values()) <= requests.keys(), "what a session asks for is under way")
        must(self._shows.keys() <= requests.keys(), "who wants to see the servers waits")
