"""Requests of this node's clients that other nodes answer, or all of them a part: for a service that asks by its turn.

Knows: what each request asks of which node, and what came.  Does not know what the bodies mean, nor what a client is
told of them: that is the service's, which also says whom to ask (`RouteOwner`).

A list is answered when all nodes have said their part, or a second after it was asked for, and names those that have
not. A watch is told the same, then what changes, and who is away whenever that is somebody else.

Invariant: a request is answered once (a watch, at each change), or withdrawn. Who waits longer than patience is told
why; one that may be done somewhere, and must not be repeated or changes something, is refused with
`UnknownOutcomeError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.gathering import GatheredNews, GatheredPages, merged
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceInput
from distkv.core.ground.node_calls import LOOK, NodesSilent, Replied
from distkv.core.ground.routes import Attempt, RoutedRequest, Routes
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import ServiceContinued, ServiceWithdrawn
from distkv.errors import BusyError, DecodeError, DistkvError, NotReadyError, PeerError, UnknownOutcomeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.replies import reply_error
from distkv.wire.routed import (
    REPLIES,
    TEXT_MAX,
    AnswerAsked,
    AnsweredElsewhere,
    NewsAsked,
    NodeItem,
    NodeNews,
    NodePage,
    PageAsked,
    RoutedAnswer,
    RoutedRefusal,
    RoutedReply,
)

AWAY_MS: Final = 1000
"""A node that has not said its part after so long is named as away."""
ALWAYS_MS: Final = 1 << 50
"""The patience of a watch."""


@attrs.frozen(slots=True)
class RouteAnswered:
    """A node has answered a request."""

    id: int
    request: object
    body: bytes


@attrs.frozen(slots=True)
class RouteListed:
    """What nodes have of a list."""

    id: int
    request: object
    items: tuple[NodeItem, ...]
    more: bool
    away: tuple[NodeName, ...]
    """Whose part is missing, in the order of names."""


@attrs.frozen(slots=True)
class RouteChanged:
    """What a watch is to be told; more comes when its client has taken that."""

    id: int
    request: object
    items: tuple[NodeItem, ...]
    is_complete: bool
    """Whether now all is told that there is at the nodes which are not away, for the first time."""
    away: tuple[NodeName, ...]
    """Whose changes are not known."""


RouteResult: TypeAlias = RouteAnswered | RouteListed | RouteChanged


class RouteOwner(Protocol):
    """A service; asked again after each change of an entry or of the nodes, and whenever it calls `look_again`."""

    def node_for(self, request: object) -> NodeName | DistkvError:
        """Which node answers this now; or why nobody can be asked."""

    def nodes_of(self, request: object) -> Collection[NodeName]:
        """Which nodes have a part of this list now."""


class _NodeItems:
    """See `ItemForm`."""

    @staticmethod
    def name_of(item: NodeItem) -> str:
        return item.name

    @staticmethod
    def is_there(item: NodeItem) -> bool:
        return item.body is not None

    @staticmethod
    def gone(name: str, node: NodeName) -> NodeItem:  # noqa: ARG004
        return NodeItem(name, None)


_ITEMS: Final = _NodeItems()


@attrs.define(slots=True, eq=False)
class _NodeRequest(RoutedRequest):
    request: object
    asked: AnswerAsked | PageAsked | NewsAsked
    parts: GatheredPages[NodePage] | GatheredNews[NodeItem] | None = None
    hint: tuple[NodeName, NodeName] | None = None
    """Who was asked by the owner's word, and whom that one named instead."""
    passed_over: frozenset[NodeName] = frozenset()
    """Who was asked by the word of another node, and was silent: it is asked again only by the owner's word."""
    away: tuple[NodeName, ...] = ()
    """Of a watch: who the client was told is away."""
    can_take: bool = True
    """Whether its client has taken what it was told."""
    is_complete: bool = False
    """Whether it was told that it knows all."""
    has_effects: bool = False
    """Whether whoever is asked changes something."""
    open_asks: int = 0
    """How often it was asked of a node that has not said that it did nothing."""


class NodeRoutes:
    """Those of one service on one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, owner: RouteOwner, *, waiting_max: int, patience_ms: int) -> None:
        self._owner: Final = owner
        self._patience_ms: Final = patience_ms
        self._routes: Final = Routes[_NodeRequest](self, waiting_max, patience_ms)
        self._away_ms: Final = dict[int, int]()
        """When the nodes that lack in a list or watch are named as away; rising."""
        self._silent = frozenset[NodeName]()
        """Which nodes have been asked, and said nothing for a while."""
        self._turn = ServiceTurn("", 0, 0.0)
        self._found = list[RouteResult]()

    # -- what clients ask

    def ask(
        self,
        turn: ServiceTurn,
        id: int,
        request: object,
        body: bytes,
        *,
        is_once: bool = False,
        wait_ms: int = 0,
        has_effects: bool = False,
        may_be_done: bool = False,
    ) -> None:
        """Have this answered by the node that the owner names; `body` is what that is asked. `is_once`: it must not be
        repeated. `wait_ms`: so long that node may wait before it answers. `has_effects`: it changes something
        there, so where no answer came in time it may be done. `may_be_done`: this node itself has begun it."""
        asked = AnswerAsked(body)
        waits = _NodeRequest(id, turn.boot_ms, request, asked, is_once=is_once, wait_ms=wait_ms)
        waits.has_effects, waits.open_asks = has_effects, int(may_be_done)
        self._add(turn, waits)

    def ask_list(self, turn: ServiceTurn, id: int, request: object, prefix: str, after: str, limit: int) -> None:
        """Have so many items listed that all nodes have, behind a name."""
        asked = PageAsked(prefix, after, limit)
        self._add(turn, _NodeRequest(id, turn.boot_ms, request, asked, GatheredPages()))

    def ask_watch(self, turn: ServiceTurn, id: int, request: object, prefix: str) -> None:
        """Have all items told that nodes have, and what changes."""
        asked = NewsAsked(prefix, 0)
        self._add(turn, _NodeRequest(id, turn.boot_ms, request, asked, GatheredNews(_ITEMS), is_endless=True))

    # -- what happens

    def has(self, id: int) -> bool:
        """Whether a request is under way here."""
        return id in self._routes.waiting

    def step(self, turn: ServiceTurn, what: ServiceInput) -> Iterable[RouteResult]:
        """Whatever the machine is told; what it has to answer because of that."""
        self._turn = turn
        if isinstance(what, ServiceWithdrawn | ServiceContinued):
            waits = self._routes.waiting.get(what.id)
            if waits is not None and isinstance(what, ServiceWithdrawn):
                self._end(waits)
            elif waits is not None:
                self._go_on(waits)
        elif isinstance(what, Replied) and isinstance(what.purpose, Attempt):
            waits = self._routes.answered(what.purpose)
            if waits is not None:
                self._take(waits, what.purpose.node, what.reply)
        elif isinstance(what, EntryChanged | NodesChanged | NodesSilent):
            if isinstance(what, NodesSilent):
                self._silent = what.nodes
                self._pass_over(what.nodes)
            self.look_again(turn)
        self._pass_time()
        found, self._found = self._found, []
        return found

    def look_again(self, turn: ServiceTurn) -> None:
        """The owner may name others than before."""
        self._turn = turn
        for waits in list(self._routes.waiting.values()):
            nodes = () if waits.parts is None else self._owner.nodes_of(waits.request)
            if waits.parts is not None:
                waits.parts.keep_only(nodes)
            if isinstance(waits.parts, GatheredNews):
                self._tell(waits, waits.parts, waits.parts.left(nodes))
                self._doubt(waits, waits.parts)
            self._routes.send(waits, turn.boot_ms)
            self._finish_list(waits)

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        if self._found:
            return 0
        away_ms, routes_ms = next(iter(self._away_ms.values()), None), self._routes.wake_ms(0)
        return away_ms if routes_ms is None or (away_ms is not None and away_ms < routes_ms) else routes_ms

    # -- Asker

    def nodes_for(self, waits: _NodeRequest) -> Collection[NodeName]:
        """For `Routes`."""
        if isinstance(waits.parts, GatheredPages):
            return [node for node in self._owner.nodes_of(waits.request) if node not in waits.parts.of]
        if isinstance(waits.parts, GatheredNews):
            return [node for node in self._owner.nodes_of(waits.request) if waits.can_take or node in waits.at]
        node = self._owner.node_for(waits.request)
        if isinstance(node, DistkvError):
            return ()
        named, other = waits.hint or (None, node)
        return (other if named == node and other not in waits.passed_over else node,)

    def ask_node(self, waits: _NodeRequest, attempt: Attempt, now_ms: int) -> None:
        """For `Routes`."""
        asked, patience_ms = waits.asked, max(1, waits.asked_ms + waits.wait_ms + self._patience_ms - now_ms)
        if isinstance(asked, PageAsked):
            patience_ms = AWAY_MS
        elif isinstance(asked, NewsAsked) and isinstance(waits.parts, GatheredNews):
            asked, patience_ms = NewsAsked(asked.prefix, waits.parts.positions.get(attempt.node, 0)), ALWAYS_MS
        waits.open_asks += 1
        self._turn.ask_node(attempt.node, pack(asked), attempt, patience_ms=patience_ms, is_once=waits.is_once)

    def withdraw(self, attempt: Attempt) -> None:
        """For `Routes`."""
        self._turn.withdraw(attempt)

    # -- inside

    def _add(self, turn: ServiceTurn, waits: _NodeRequest) -> None:
        self._turn = turn
        try:
            self._routes.ask(waits, turn.boot_ms)
        except BusyError as error:
            turn.answer(waits.id, error)
            return
        if waits.parts is not None:
            self._away_ms[waits.id] = turn.boot_ms + AWAY_MS

    def _go_on(self, waits: _NodeRequest) -> None:
        """The client of a watch has taken what it was told."""
        waits.can_take = True
        if not isinstance(waits.parts, GatheredNews) or not self._tell(waits, waits.parts, ()):
            self._routes.send(waits, self._turn.boot_ms)

    def _end(self, waits: _NodeRequest) -> None:
        self._routes.end(waits)
        self._away_ms.pop(waits.id, None)

    def _refuse(self, waits: _NodeRequest, error: DistkvError) -> None:
        self._end(waits)
        self._turn.answer(waits.id, error)

    def _pass_time(self) -> None:
        now_ms = self._turn.boot_ms
        for waits in self._routes.take_again(now_ms):
            self._routes.send(waits, now_ms)
        for id in [id for id, ms in self._away_ms.items() if ms <= now_ms]:
            del self._away_ms[id]
            waits = self._routes.waiting[id]
            if isinstance(waits.parts, GatheredNews):
                self._tell(waits, waits.parts, ())
            else:
                self._finish_list(waits)
        for waits in self._routes.late(now_ms, 0):
            node = self._owner.node_for(waits.request)
            if waits.has_effects and waits.open_asks:
                node = UnknownOutcomeError(f"no answer came within {self._patience_ms / 1000:g} s: {LOOK}")
            elif waits.is_once and waits.at:
                node = UnknownOutcomeError(f"{next(iter(waits.at))} was asked, and is silent: {LOOK}")
            elif not isinstance(node, DistkvError):
                node = NotReadyError(f"{node} did not answer within {self._patience_ms / 1000:g} s: ask again")
            self._refuse(waits, node)

    def _take(self, waits: _NodeRequest, node: NodeName, reply: object) -> None:
        """What a node says of a request, or that it says nothing."""
        said, now_ms = _read(reply), self._turn.boot_ms
        if isinstance(said, NodeNews) and isinstance(waits.parts, GatheredNews):
            news = waits.parts
            items = news.take(node, said, lambda name: news.teller_of(name) or node)
            self._doubt(waits, news)
            if not self._tell(waits, news, items):
                self._routes.send(waits, now_ms)
        elif isinstance(waits.parts, GatheredNews):
            self._routes.send_again(waits, now_ms)
        elif waits.parts is not None:
            if isinstance(said, NodePage):
                waits.parts.of[node] = said
            self._finish_list(waits)
        elif isinstance(said, RoutedAnswer):
            self._end(waits)
            self._found.append(RouteAnswered(waits.id, waits.request, said.body))
        elif isinstance(said, AnsweredElsewhere):
            waits.open_asks -= not said.may_be_done
            self._follow(waits, node, said.node)
        elif isinstance(said, DistkvError) and not isinstance(said, PeerError):
            waits.open_asks -= 1
            if waits.has_effects and waits.open_asks:
                said = UnknownOutcomeError(f"{node} refuses it ({said}), and who was asked before is silent: {LOOK}")
            self._refuse(waits, said)
        else:
            self._routes.send_again(waits, now_ms)

    def _doubt(self, waits: _NodeRequest, news: GatheredNews[NodeItem]) -> None:
        """Who is to be asked anew does not answer what it was asked before."""
        self._routes.stop(waits, [node for node in news.take_doubted() if node in waits.at])

    def _follow(self, waits: _NodeRequest, asked: NodeName, node: NodeName | None) -> None:
        """A node that was asked says who answers a request: that one is asked at once the first time, so that two who
        name each other are not asked for ever. Who names nobody, and is named here still, is asked again later."""
        named = self._owner.node_for(waits.request)
        is_first = waits.hint is None and (node is not None or named != asked)
        if node is not None and not isinstance(named, DistkvError):
            waits.hint = named, node
        if is_first:
            self._routes.send(waits, self._turn.boot_ms)
        else:
            self._routes.send_again(waits, self._turn.boot_ms)

    def _pass_over(self, silent: frozenset[NodeName]) -> None:
        """Whoever names a node that is silent may have to answer in its place."""
        for waits in self._routes.waiting.values():
            if waits.hint is not None and waits.hint[1] in silent:
                waits.passed_over |= {waits.hint[1]}

    def _finish_list(self, waits: _NodeRequest) -> None:
        """Answer a list when all have said their part, or had time for it."""
        pages, asked = waits.parts, waits.asked
        if not isinstance(pages, GatheredPages) or not isinstance(asked, PageAsked):
            return
        if waits.at and waits.id in self._away_ms:
            return
        away = tuple(sorted(node for node in self._owner.nodes_of(waits.request) if node not in pages.of))
        self._end(waits)
        items, more = merged(pages.of.values(), _ITEMS, asked.limit)
        self._found.append(RouteListed(waits.id, waits.request, items, more, away))

    def _tell(self, waits: _NodeRequest, news: GatheredNews[NodeItem], items: tuple[NodeItem, ...]) -> bool:
        """Tell a watch what there is to tell; False: nothing."""
        nodes = self._owner.nodes_of(waits.request)
        lacking = news.lacking(nodes)
        away = tuple(sorted(self._silent.intersection(nodes).union(lacking)))
        if not lacking:
            self._away_ms.pop(waits.id, None)
        is_complete = not waits.is_complete and waits.id not in self._away_ms
        if not waits.is_complete and not is_complete:
            away = ()
        if not (items or is_complete or (waits.can_take and away != waits.away)):
            return False
        waits.away, waits.can_take, waits.is_complete = away, False, waits.is_complete or is_complete
        self._found.append(RouteChanged(waits.id, waits.request, items, is_complete, away))
        return True

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._routes.check()
        must(self._away_ms.keys() <= self._routes.waiting.keys(), "whose time runs is under way")


def _read(reply: object) -> RoutedReply | DistkvError:
    """What a node said."""
    if isinstance(reply, DistkvError):
        return reply
    try:
        said = REPLIES.read(reply if isinstance(reply, bytes) else b"")
    except DecodeError as error:
        return PeerError(str(error))
    if isinstance(said, RoutedRefusal):
        return reply_error({"error": said.text, "code": said.code}) or PeerError(said.text)
    return said


# -- what the node says that is asked


def answer(turn: ServiceTurn, call: CallKey, body: bytes) -> None:
    """Answer a request that came as `AnswerAsked`."""
    turn.answer_node(call, pack(RoutedAnswer(body)))


def answer_elsewhere(turn: ServiceTurn, call: CallKey, node: NodeName | None, *, may_be_done: bool = False) -> None:
    """This node does not answer it; that one does. `may_be_done`: it has begun it here; else it has done nothing."""
    turn.answer_node(call, pack(AnsweredElsewhere(node, may_be_done)))


def refuse(turn: ServiceTurn, call: CallKey, error: DistkvError) -> None:
    """Say why there is no answer; nothing was done here, unless the error says otherwise."""
    turn.answer_node(call, pack(RoutedRefusal(error.code, str(error)[:TEXT_MAX])))


def page_of(items: Mapping[str, bytes], asked: PageAsked) -> NodePage:
    """The next items of those that a node has, by name."""
    names = sorted(name for name in items if name > asked.after and name.startswith(asked.prefix))
    page = tuple([NodeItem(name, items[name]) for name in names[: asked.limit]])
    return NodePage(page, more=len(names) > asked.limit)
