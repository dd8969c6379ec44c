"""A node's clients: their requests about tokens go to the servers that answer them, wherever these are.

Knows: what each request asks of which server.  Does not know what a server does with it.

Invariant: a request is answered once (a watch, at each change and at its end), or withdrawn. Each waits at one server
only, the one that the newest map names; when none that could grant was heard for a lease it is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.core.ground.gathering import GatheredNews, GatheredPages, merged
from distkv.core.ground.routes import Attempt, RoutedRequest, Routes
from distkv.core.ready import Rng
from distkv.core.tokens.effects import TokenEffects, must_wait
from distkv.core.tokens.known_servers import KnownServers
from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.core.tokens.server_search import Searching, ServerSearch
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.session_claims import SessionClaims
from distkv.core.tokens.session_tags import tag_of
from distkv.errors import BusyError, DistkvError, NotFoundError, RequestError
from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.model.invariant import must
from distkv.wire.declared import evolve
from distkv.wire.token_errors import NoQuorumError, TimedOutError
from distkv.wire.token_fields import Ticket, ticket_text
from distkv.wire.token_messages import (
    AboutToken,
    AskElsewhere,
    ChangeServers,
    EndSession,
    KeepSession,
    ListTokens,
    OpenSession,
    TokenMap,
    TokenQuestion,
    TokenResult,
    WatchedTokens,
    WatchTokens,
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


class ShownTokens:
    """What lists and watches have to know of their items."""

    @staticmethod
    def name_of(item: TokenItem) -> str:
        return item.token

    @staticmethod
    def is_there(item: TokenItem) -> bool:
        """Whether it is held, wanted, or has data."""
        return bool(item.holders or item.waiting or item.data is not None)

    @staticmethod
    def gone(name: str, node: NodeName) -> TokenItem:
        """It is free."""
        return TokenItem(name, node, (), 0, None)


SHOWN: Final = ShownTokens()
TokenPages: TypeAlias = GatheredPages[TokensListed]
TokenNews: TypeAlias = GatheredNews[TokenItem]


@attrs.define(slots=True, eq=False)
class ClientRequest(RoutedRequest):
    """One that is under way. `Proxy` looks after it."""

    request: TokenRequest
    tag: str = ""
    """Names the session that is to be opened."""
    ticket: Ticket | None = None
    """The place in the queue that it has kept."""
    gathered: TokenPages | TokenNews | None = None
    """Of a list, or a watch, which all servers are asked for."""
    known: int = 0
    """The change of servers since which that counts: after another one all is told anew. A page from before does not
    say that its server lacks what it has to find out since."""
    highest: GrantNumber | None = None
    """Of a break: the highest grant of the holders that it means. They are asked for first. So it takes the token from
    nobody who got it since, if it has to be asked again because its answer was lost with a server."""


def as_one(pages: TokenPages, limit: int) -> TokensListed:
    """A list of what all servers said."""
    items, is_more = merged(pages.of.values(), SHOWN, limit)
    return TokensListed(items, is_more, any(page.partial for page in pages.of.values()))


NEVER_MS: Final = 2**62
FIRST: Final = (TokenServers, TokenKeep, TokenClose, TokenList, TokenWatch)
"""Before these are sent there is something to do."""


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
        self._routes: Final = Routes[ClientRequest](self, settings.requests_max, settings.lease_ms)
        self._shows: Final = dict[int, ClientRequest]()
        """Those of them that want to see the servers."""
        self._acquires: Final = dict[tuple[str, str], int]()
        """The request that a session has under way for a token."""
        self._search: Final = ServerSearch(questions, servers, min(1000, settings.lease_ms // 8))
        self._claims: Final = SessionClaims(questions, servers)
        self.due_ms = NEVER_MS
        """Before that `woken` has nothing to do; `NEVER_MS`: it has not, and `note_due` need not be called."""

    @property
    def claims(self) -> int:
        """How many of them some server does not have yet."""
        return self._claims.count

    # -- what clients do

    def asked(self, id: int, request: TokenRequest, now_ms: int, asker: int = 0) -> None:
        """A client asks, on the connection of this number."""
        if isinstance(request, TokenAcquire | TokenRelease) and (request.session, request.token) in self._acquires:
            self._supersede(request)
        found = ClientRequest(id, now_ms, request)
        if isinstance(request, TokenAcquire):
            found.ticket = request.ticket
        elif isinstance(request, TokenOpen):
            found.tag = tag_of(self._settings.me, asker, int(self._rng.random() * 2**52))
        elif isinstance(request, TokenList):
            found.gathered = GatheredPages()
        elif isinstance(request, TokenWatch):
            found.gathered = GatheredNews(SHOWN)
        try:
            if isinstance(request, FIRST):
                self._routes.add(found)
            else:
                self._routes.ask(found, now_ms)
        except BusyError as error:
            self._effects.answer(id, error)
            return
        self.due_ms = min(self.due_ms, now_ms + 1)
        if isinstance(request, TokenAcquire):
            self._acquires[request.session, request.token] = id
        elif isinstance(request, FIRST):
            self._begin(found, request, now_ms)
        if now_ms >= self._search.next_ms:
            self._search.look(now_ms)

    def _begin(self, found: ClientRequest, request: TokenRequest, now_ms: int) -> None:
        """Before it is sent."""
        if isinstance(request, TokenServers):
            self._shows[found.id], self.due_ms = found, 0
        elif isinstance(request, TokenKeep):
            self._claims.claim(request, now_ms)
        elif isinstance(request, TokenClose):
            self._claims.end(request.session, now_ms)
        self._send(found, now_ms)

    def gone(self, id: int) -> None:
        """A client does not wait any more."""
        found = self._routes.waiting.get(id)
        if found is not None:
            self._end(found)

    def more(self, id: int, now_ms: int) -> None:
        """A client has taken what it was told of a watch: it may be told more."""
        found = self._routes.waiting.get(id)
        if found is not None:
            self._send(found, now_ms)

    # -- what happens

    def note_due(self) -> int | None:
        """After a step: when `woken` has something to do, which is kept for the next one."""
        routes, claims = self._routes, self._claims
        if not (routes.waiting or claims.endings or claims.again):
            self.due_ms = NEVER_MS
            return None
        look_ms = self._search.next_ms if routes.waiting or claims.endings else NEVER_MS
        routes_ms = routes.wake_ms(self._servers.sure_ms) or NEVER_MS
        found = min(look_ms, routes_ms, next(iter(claims.again.values()), NEVER_MS))
        self.due_ms = 0 if self._shows else found
        return found

    def woken(self, now_ms: int) -> None:
        """Time passed."""
        routes = self._routes
        for found in [*routes.take_again(now_ms), *self._shows.values()]:
            self._send(found, now_ms)
        self._claims.claim_again(now_ms)
        if routes.waiting or self._claims.endings:
            self._search.look(now_ms)
        for found in routes.late(now_ms, self._servers.sure_ms):
            self._refuse(found)

    def map_changed(self, now_ms: int) -> None:
        """Others may have to be asked than before."""
        self._claims.map_changed(now_ms)
        for found in list(self._routes.waiting.values()):
            self._send(found, now_ms)

    def answered(self, came: ServerAnswered, now_ms: int) -> None:
        """A server answers."""
        result, servers = came.result, self._servers
        if isinstance(result, TokenMap):
            self._heard_map(result, now_ms)
        elif isinstance(result, AskElsewhere):
            self._heard_map(result.map, now_ms)
        elif not isinstance(result, RequestError):
            servers.sure_ms = now_ms
        if came.changed > servers.changed:
            self._search.ask(came.peer, now_ms)
        elif came.changed < servers.changed and isinstance(result, TokensListed):
            result = evolve(result, partial=True)  # its part is another one now
        purpose = came.purpose
        if isinstance(purpose, Attempt):
            found = self._routes.answered(purpose)
            if found is not None:
                self._take(found, came.peer, result, now_ms)
        elif isinstance(purpose, Searching):
            self._search.answered(came.peer, purpose)
        else:
            self._claims.answered(came, now_ms)
            self.due_ms = min(self.due_ms, now_ms + 1)

    # -- Asker

    def nodes_for(self, waits: ClientRequest) -> Collection[NodeName]:
        """For `Routes`."""
        request, servers = waits.request, self._servers
        match request:
            case TokenAcquire() | TokenRelease() | TokenData() | TokenShow() | TokenBreak():
                found = None if servers.state is None else servers.state.server_of(request.token)
            case TokenOpen() | TokenClose() | TokenKeep() | TokenSetServers():
                found = servers.leader
            case TokenList() | TokenWatch():
                pages = waits.gathered.of if isinstance(waits.gathered, GatheredPages) else {}
                return [name for name in servers.up if name not in pages]
            case TokenServers() | TokenReset():
                found = None
            case _:
                assert_never(request)
        return () if found is None else (found,)

    def ask_node(self, waits: ClientRequest, attempt: Attempt, now_ms: int) -> None:
        """For `Routes`."""
        attempt.number = self._questions.ask(attempt.node, self._question(waits, attempt.node), now_ms, attempt)

    def withdraw(self, attempt: Attempt) -> None:
        """For `Routes`."""
        self._questions.cancel(attempt.node, attempt.number)

    # -- inside: asking

    def _supersede(self, request: TokenAcquire | TokenRelease) -> None:
        """Of what a session wants of a token the last word counts: an earlier request that is still on its way must
        not come after it."""
        found = self._routes.waiting[self._acquires[request.session, request.token]]
        text = "the session has asked for the token again, or released it: the later request counts"
        self._finish(found, TimedOutError(text))

    def _question(self, found: ClientRequest, name: NodeName) -> TokenQuestion:
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
                fence = request.fence or found.highest
                asked = attrs.evolve(request, fence=fence) if fence else TokenShow(0, request.token)
                return AboutToken(asked, self._servers.changed)
            case TokenRelease() | TokenData() | TokenShow():
                return AboutToken(request, self._servers.changed)
            case TokenList():
                return ListTokens(request.prefix, request.limit, request.after)
            case TokenWatch(prefix=prefix):
                news = found.gathered
                position = news.positions.get(name, 0) if isinstance(news, GatheredNews) else 0
                return WatchTokens(prefix, position, found.known)
            case TokenSetServers(servers=names, wait_s=wait_s):
                return ChangeServers(names, int((wait_s or 0) * 1000))
            case TokenServers() | TokenReset():
                raise AssertionError("no server is asked for that")
            case _:
                assert_never(request)

    def _send(self, found: ClientRequest, now_ms: int) -> None:
        """See to it that a request waits where it should, and nowhere else."""
        if isinstance(found.request, TokenServers):
            shown = self._servers.shown(is_sure=True)
            if shown is not None and self._servers.sure_ms > found.asked_ms - self._search.poll_ms:
                self._finish(found, shown)
            return
        if found.gathered is not None:
            if found.known != self._servers.changed:  # what became free meanwhile nobody may know
                self._routes.stop(found, tuple(found.at))
                found.gathered.restart()
                found.known = self._servers.changed
            found.gathered.keep_only(self._servers.up)
        self._routes.send(found, now_ms)
        if isinstance(found.gathered, GatheredPages):
            self._merge(found, found.gathered)

    # -- inside: answers

    def _heard_map(self, map: TokenMap, now_ms: int) -> None:
        if self._servers.heard(map, now_ms):
            self.map_changed(now_ms)

    def _take(self, found: ClientRequest, peer: NodeName, result: TokenResult, now_ms: int) -> None:
        gathered = found.gathered
        if isinstance(result, AskElsewhere):
            found.ticket = result.ticket or found.ticket
            if not found.at:
                self._routes.send_again(found, now_ms)
        elif isinstance(result, WatchedTokens) and isinstance(gathered, GatheredNews):
            state = self._servers.state
            items = gathered.take(peer, result, lambda token: None if state is None else state.server_of(token))
            is_complete = gathered.complete(self._servers.up)
            if items or is_complete:
                self._effects.answer(found.id, TokensChanged(items, is_complete))
            else:
                self._routes.send_again(found, now_ms)
        elif isinstance(result, TokensListed) and isinstance(gathered, GatheredPages):
            gathered.of[peer] = result
            self._merge(found, gathered)
        elif isinstance(result, TokenItem) and isinstance(found.request, TokenBreak):
            found.highest = max([one.number for one in result.holders], default=None)
            if found.highest is None:
                self._finish(found, NotFoundError(f"nobody holds {result.token!r}"))
            else:
                self._send(found, now_ms)
        elif isinstance(result, TokenMap | WatchedTokens):
            self._routes.send_again(found, now_ms)
        else:
            self._finish(found, result)

    def _merge(self, found: ClientRequest, pages: TokenPages) -> None:
        """Answer a list when all servers have."""
        if isinstance(found.request, TokenList) and pages.of and not found.at:
            self._finish(found, as_one(pages, found.request.limit))

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
            self._claims.forget(found.request.session)  # the next keep-alive claims again, if there is one
        waits = not isinstance(found.request, TokenRelease) or must_wait(found.request)
        self._effects.answer(found.id, result, waits=waits)

    def _end(self, found: ClientRequest) -> None:
        request = found.request
        self._routes.end(found)
        self._shows.pop(found.id, None)
        if isinstance(request, TokenAcquire) and self._acquires.get((request.session, request.token)) == found.id:
            del self._acquires[request.session, request.token]
        if not (self._routes.waiting or self._claims.endings or self._claims.again):
            self.due_ms = NEVER_MS

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._routes.check()
        self._claims.check()
        self._servers.check()
        self._search.check()
        requests = self._routes.waiting
        must(all(one.gathered or len(one.at) <= 1 for one in requests.values()), "a request waits at one server")
        must(set(self._acquires.values()) <= requests.keys(), "what a session asks for is under way")
        must(self._shows.keys() <= requests.keys(), "who wants to see the servers waits")
