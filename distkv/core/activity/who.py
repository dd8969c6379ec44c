"""Who is connected where: the listeners of all nodes with their clients, and the users by name.

Knows: what nodes announce, and that each names its own users.  Does not know how a list is asked of many nodes
(`node_routes`).

Invariant: who is named is logged in at the node that says so. A node that announces a listener, and does not say who is
there, is named as away.
"""

from __future__ import annotations

from typing import Final

from distkv.core.activity.active_clients import ActiveClients
from distkv.core.activity.balance import Balance
from distkv.core.activity.other_listeners import AnnouncedPlace, read_place
from distkv.core.ground.frames import AnnouncedFields, Heard
from distkv.core.ground.machine import ServiceGround, ServiceInput
from distkv.core.ground.node_calls import NodeAsked
from distkv.core.ground.node_routes import NodeRoutes, RouteListed, page_of
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import ServiceAsked
from distkv.errors import DecodeError, NotFoundError
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityNodeItem, ActivityPeople, ActivityWho
from distkv.wire.declared import pack
from distkv.wire.routed import QUESTIONS, NodeItem, PageAsked

REQUESTS_MAX: Final = 100
PATIENCE_MS: Final = 5000


class Who:
    """As one node answers it."""

    def __init__(self, ground: ServiceGround, clients: ActiveClients, balance: Balance) -> None:
        self._ground: Final = ground
        self._clients: Final = clients
        self._balance: Final = balance
        self._routes: Final = NodeRoutes(self, waiting_max=REQUESTS_MAX, patience_ms=PATIENCE_MS)

    def ask(self, turn: ServiceTurn, id: int, request: ActivityWho) -> None:
        """A client of the store asks."""
        if request.names:
            self._routes.ask_list(turn, id, request, "", request.after, request.limit)
        else:
            turn.answer(id, ActivityPeople(self._items()))

    def asked(self, turn: ServiceTurn, asked: NodeAsked) -> bool:
        """Another node, or this one, asks who is here; False: it asks something else."""
        try:
            question = QUESTIONS.read(asked.body)
        except DecodeError:
            return False
        if isinstance(question, PageAsked):
            users = {f"{self._ground.me} {user}": b"" for user in self._clients.names()}
            turn.answer_node(asked.call, pack(page_of(users, question)), waits=False)
        return isinstance(question, PageAsked)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Whatever the machine is told; most of it is about activities."""
        if isinstance(what, Heard | ServiceAsked):
            return
        for found in self._routes.step(turn, what):
            if isinstance(found, RouteListed):
                turn.answer(found.id, ActivityPeople(self._items(), _by_node(found.items), found.more, found.away))

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return self._routes.wake_ms()

    # -- RouteOwner

    def node_for(self, request: object) -> NotFoundError:  # noqa: ARG002
        """Nothing is asked of one node."""
        return NotFoundError("there is only a list of all nodes")

    def nodes_of(self, request: object) -> list[NodeName]:  # noqa: ARG002  # there is one list
        """All that announce a listener."""
        return [NodeName(item.node) for item in self._items()]

    # -- inside

    def _items(self) -> tuple[ActivityNodeItem, ...]:
        me, place = self._ground.me, self._balance.place
        own = None if place is None else ActivityNodeItem(me, self._clients.load, f"{place.host}:{place.port}")
        return all_items(self._ground.announced, own)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._routes.check()


def all_items(announced: AnnouncedFields, own: ActivityNodeItem | None) -> tuple[ActivityNodeItem, ...]:
    """Of all nodes that have a listener, this one included, by name."""
    places = {node: read_place(announced.of(node)) for node in announced.nodes()}
    found = {node: _item(node, place) for node, place in places.items() if place is not None}
    if own is not None:
        found[NodeName(own.node)] = own
    return tuple([found[node] for node in sorted(found)])


def _item(node: NodeName, place: AnnouncedPlace) -> ActivityNodeItem:
    return ActivityNodeItem(node, place.load, f"{place.host}:{place.port}")


def _by_node(items: tuple[NodeItem, ...]) -> dict[str, tuple[str, ...]]:
    """The users of each node: an item has the name of both."""
    found = dict[str, list[str]]()
    for item in items:
        node, _, user = item.name.partition(" ")
        found.setdefault(node, []).append(user)
    return {node: tuple(users) for node, users in found.items()}
