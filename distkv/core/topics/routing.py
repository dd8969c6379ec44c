"""What clients of this node ask about topics: done here, or asked of the node that owns the topic, and what comes back.

Knows: which node each request goes to, and the forms in which it goes.  Does not know what is done there (`serving`).

Invariant: a request is answered once. One that comes to a node which is not the owner, and may not become it now, does
nothing there: it is asked again, wherever the owner then is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol, assert_never

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.node_routes import (
    NodeRoutes,
    RouteAnswered,
    RouteChanged,
    RouteListed,
    RouteResult,
    answer_elsewhere,
    page_of,
    refuse,
)
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.asked import TopicAsked
from distkv.errors import DecodeError, DistkvError, NotFoundError, PeerError
from distkv.model.event import NodeName
from distkv.wire.declared import BodyReader, pack
from distkv.wire.routed import AnswerAsked, NodeItem, PageAsked
from distkv.wire.topic_errors import stale_op
from distkv.wire.topic_replies import TOPIC_REPLIES, TopicItem, TopicsListed, TopicStale
from distkv.wire.topic_requests import (
    REQUESTS,
    TopicDrop,
    TopicGet,
    TopicList,
    TopicRequest,
    TopicSet,
    TopicShow,
    pack_request,
)

_ITEMS: Final = BodyReader[TopicItem](TopicItem, "topic_item")
REQUESTS_MAX: Final = 20_000
"""So many requests of clients of this node are under way."""


class RoutingHost(Protocol):
    """The node around it."""

    def server_for(self, name: str) -> NodeName | DistkvError:
        """Which node answers about a topic now."""

    def has_entry(self, name: str) -> bool:
        """Whether there is such a topic, as far as this node knows."""

    def servers(self) -> Collection[NodeName]:
        """All nodes that serve topics."""

    def want(self, name: str) -> None:
        """A request waits until somebody answers about this topic."""

    def serves(self, name: str) -> bool:
        """Whether this node owns a topic, or may begin it now."""

    def serve(self, turn: ServiceTurn, asked: TopicAsked) -> None:
        """Do what is asked."""

    def own_items(self) -> Mapping[str, TopicItem]:
        """The topics that this node owns."""


class Routing:
    """That of one node, since its machine began."""

    def __init__(self, host: RoutingHost, me: NodeName, patience_ms: int) -> None:
        self._host: Final = host
        self._me: Final = me
        self._routes: Final = NodeRoutes(self, waiting_max=REQUESTS_MAX, patience_ms=patience_ms)

    # -- RouteOwner

    def node_for(self, request: object) -> NodeName | DistkvError:
        return self._host.server_for(_topic_of(request))

    def nodes_of(self, request: object) -> Collection[NodeName]:  # noqa: ARG002  # there is one list
        return self._host.servers()

    # -- what is asked

    def ask(self, turn: ServiceTurn, id: int, request: TopicRequest) -> None:
        """A client of this node asks."""
        if isinstance(request, TopicList):
            self._routes.ask_list(turn, id, request, request.prefix, request.after, request.limit)
            return
        name = request.topic
        if isinstance(request, TopicShow | TopicSet | TopicDrop) and not self._host.has_entry(name):
            turn.answer(id, NotFoundError(f"there is no topic {name!r}: put or subscribe to begin it"))
        elif self._host.serves(name):
            self._host.serve(turn, TopicAsked(id, request, turn.boot_ms))
        else:
            self._host.want(name)
            self._ask(turn, id, request)

    def ask_elsewhere(self, turn: ServiceTurn, asked: Iterable[TopicAsked]) -> None:
        """What clients of this node asked it as the owner, which it is no more."""
        for one in asked:
            if isinstance(one.target, int):
                self._ask(turn, one.target, one.request, may_be_done=one.is_begun)

    def asked(self, turn: ServiceTurn, call: CallKey, what: AnswerAsked | PageAsked) -> None:
        """Another node asks, for a client of its own."""
        if isinstance(what, PageAsked):
            items = {name: pack(item) for name, item in self._host.own_items().items()}
            turn.answer_node(call, pack(page_of(items, what)))
            return
        try:
            request = REQUESTS.read(what.body)
        except DecodeError as error:
            refuse(turn, call, PeerError(str(error)))
            return
        if isinstance(request, TopicList):
            refuse(turn, call, PeerError("a list is asked for by pages"))
        elif self._host.serves(request.topic):
            self._host.serve(turn, TopicAsked(call, request, turn.boot_ms))
        else:
            self._host.want(request.topic)
            node = self._host.server_for(request.topic)
            answer_elsewhere(turn, call, None if isinstance(node, DistkvError) or node == self._me else node)

    # -- what happens

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Whatever the machine is told."""
        for found in self._routes.step(turn, what):
            self._answer(turn, found)

    def wake_ms(self) -> int | None:
        return self._routes.wake_ms()

    # -- inside

    def _ask(self, turn: ServiceTurn, id: int, request: TopicRequest, *, may_be_done: bool = False) -> None:
        has_effects = not isinstance(request, TopicGet | TopicShow)
        wait_ms = int(request.wait_s * 1000) if isinstance(request, TopicGet) else 0
        body = pack_request(request)
        self._routes.ask(turn, id, request, body, wait_ms=wait_ms, has_effects=has_effects, may_be_done=may_be_done)

    def _answer(self, turn: ServiceTurn, found: RouteResult) -> None:
        match found:
            case RouteAnswered(id=id, body=body):
                try:
                    reply = TOPIC_REPLIES.read(body)
                except DecodeError as error:
                    turn.answer(id, PeerError(str(error)))
                    return
                turn.answer(id, stale_op(reply.op) if isinstance(reply, TopicStale) else reply)
            case RouteListed(id=id, items=items, more=more, away=away):
                turn.answer(id, TopicsListed(_items(turn, items), more, away))
            case RouteChanged():
                raise TypeError(f"{found} was not asked for")
            case _:
                assert_never(found)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._routes.check()


def _topic_of(request: object) -> str:
    return getattr(request, "topic", "")


def _items(turn: ServiceTurn, items: Iterable[NodeItem]) -> tuple[TopicItem, ...]:
    """What other nodes said of their topics; what cannot be read is left out."""
    found = list[TopicItem]()
    for item in items:
        try:
            found.append(_ITEMS.read(item.body or b""))
        except DecodeError as error:
            turn.note("topic_item_bad", reason=error.reason)
    return tuple(found)
