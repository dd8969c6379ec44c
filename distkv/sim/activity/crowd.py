"""All clients of the activity network of one run, by their names, and the listeners of all processes.

Knows: which client is meant, and what becomes of all in the end.  Does not know what a client does (`chatting`).

Invariant: each process that runs has one listener, from the first action on.
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.activity.actions import EndInOrder, HangUp, JumpToNode, OfActivity, SayActivities, StartChat
from distkv.sim.activity.chatting import ChatClient
from distkv.sim.activity.listening import ChatListener
from distkv.sim.activity.nodes import ActivityNodes, activity_nodes
from distkv.sim.fleet import Fleet

LOOK_MS: Final = 200
"""A process that began has its listener so soon."""
CALM_MS: Final = 20_000
"""After faults ended, clients find nodes, and nodes what they lack, for so long."""
LAST_MS: Final = 15_000
"""So long after the last activity everybody has heard it, if all is well."""
MOVE_MS: Final = 90_000
"""So long it takes until loads are alike."""


class ActivityCrowd:
    """They come when they are begun."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet
        self._clients: Final = dict[str, ChatClient]()
        self._listeners: Final = dict[str, ChatListener]()
        self._is_looking = False

    def do(self, action: ServiceAction) -> str:
        """Carry out one action. Returns why it cannot be, if that is so."""
        if not isinstance(action, OfActivity):
            raise TypeError(f"{action} is none of the activity network")
        nodes = activity_nodes(self._fleet.services)
        if nodes is None:
            return "there is no activity network: say 'settings activity=yes' first"
        self._look()
        if isinstance(action, StartChat):
            client = self._clients.get(action.client)
            if client is None:
                name = action.client
                self._clients[name] = ChatClient(self._fleet, nodes.seed, name, action.node, self._listener_of)
            elif not client.is_wanting:
                client.jump(action.node)
        elif isinstance(action, EndInOrder):
            listener = self._listener_of(action.node)
            if listener is None:
                return f"{action.node} does not run"
            listener.end()
        elif isinstance(action, SayActivities | JumpToNode | HangUp):
            client = self._clients.get(action.client)
            if client is None:
                return f"{action.client} did not begin yet"
            self._client_does(client, action)
        return ""

    def lines(self) -> list[str]:
        """What clients have, in words; nothing, as nodes show it."""
        return []

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002  # there is only one
        """How many clients each node has, how many activities it keeps, and what came to each client."""
        nodes = activity_nodes(self._fleet.services)
        if nodes is None:
            return []
        running = [name for name in sorted(nodes.machines) if self._fleet.hosts[name].process is not None]
        lines = [f"{name}: {_words(nodes, name)}" for name in running]
        return lines + [f"{name}: {client.words}" for name, client in sorted(self._clients.items())]

    def all_is_well(self) -> bool:
        """Faults are over, and nodes at rest: let every client come back, and say a last word. Returns whether time has
        passed."""
        nodes = activity_nodes(self._fleet.services)
        if nodes is None or not self._clients:
            return False
        self._look()
        clients = list(self._clients.values())
        for client in clients:
            if not client.is_wanting:
                client.jump(next(iter(self._fleet.hosts)))
        self._fleet.run(CALM_MS)
        for client in clients:
            client.say(1)
        self._fleet.run_until(lambda: all(client.is_done for client in clients), LAST_MS)
        self._fleet.run(LAST_MS)
        self._fleet.run_until(lambda: loads_are_alike(self._fleet, nodes), MOVE_MS)
        return True

    # -- inside

    def _client_does(self, client: ChatClient, action: SayActivities | JumpToNode | HangUp) -> None:
        match action:
            case SayActivities(count=count):
                client.say(count)
            case JumpToNode(node=node):
                client.jump(node)
            case HangUp():
                client.hang_up()
            case _:
                assert_never(action)

    def _look(self) -> None:
        """See that each process has a listener, from now on."""
        if not self._is_looking:
            self._is_looking = True
            self._look_again()

    def _look_again(self) -> None:
        for name, host in self._fleet.hosts.items():
            if host.is_ours:
                self._listener_of(name)
        self._fleet.later(LOOK_MS, self._look_again)

    def _listener_of(self, name: str) -> ChatListener | None:
        process = self._fleet.hosts[name].process
        if process is None:
            return None
        listener = self._listeners.get(name)
        if listener is None or listener.process is not process:
            listener = self._listeners[name] = ChatListener(self._fleet, process)
        return listener


def loads_are_alike(fleet: Fleet, nodes: ActivityNodes) -> bool:
    """Whether the nodes that run have as many clients as each other, nearly."""
    loads = loads_of(fleet, nodes)
    return not loads or max(loads.values()) - min(loads.values()) < max(2, sum(loads.values()) / len(loads) / 10)


def loads_of(fleet: Fleet, nodes: ActivityNodes) -> dict[str, int]:
    """How many clients each node has that runs and has a listener."""
    running = {name: machine.node for name, machine in nodes.machines.items() if fleet.hosts[name].process is not None}
    return {name: node.clients.load for name, node in running.items() if node is not None and node.balance.place}


def _words(nodes: ActivityNodes, name: str) -> str:
    node = nodes.machines[name].node
    if node is None:
        return "it has not begun"
    return f"{node.clients.load} clients, {len(node.delivery.kept)} activities"
