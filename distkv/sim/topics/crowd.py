"""All clients of topics of one run, by their names.

Knows: which client is meant, and what becomes of all in the end.  Does not know what a client does (`producers`,
`consumers`).

Invariant: a client that does not run does nothing but begin again.
"""

from __future__ import annotations

from itertools import count
from typing import Final, assert_never

import attrs

from distkv.sim.actions import ServiceAction, ShowService
from distkv.sim.fleet import Fleet
from distkv.sim.topics.actions import (
    CrashClient,
    EndConsumer,
    MoveClient,
    OfClient,
    OnceAsked,
    SaveState,
    SendMessages,
    StartConsumer,
    StartProducer,
    TopicAction,
    TwinClient,
)
from distkv.sim.topics.asked import OnceCrowd
from distkv.sim.topics.consumers import ConsumerClient
from distkv.sim.topics.nodes import topic_nodes
from distkv.sim.topics.producers import ProducerClient
from distkv.sim.topics.standing import topic_lines

CALM_MS: Final = 5000
"""After faults ended, messages of before are on their way for so long."""
LAST_MS: Final = 30_000
"""So long after the last put each consumer has all that it is owed, if all is well."""
TWINS_MAX: Final = 3
"""So many clients have a copy of another one's state at the most."""


class TopicCrowd:
    """They come when they are begun."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet: Final = fleet
        self._numbers: Final = count(1)
        self._clients: Final = dict[str, ProducerClient | ConsumerClient]()
        self._once: Final = OnceCrowd(fleet, self._next_number)
        self._twins = 0

    def do(self, action: ServiceAction) -> str:
        """Carry out one action. Returns why it cannot be, if that is so."""
        if not isinstance(action, TopicAction):
            raise TypeError(f"{action} is none of topics")
        nodes = topic_nodes(self._fleet.services)
        if nodes is None:
            return "there are no topics: say 'settings topics=3' first"
        if isinstance(action, OnceAsked):
            return self._once.ask(action)
        client = self._clients.get(action.client)
        if client is not None:
            return self._client_does(client, action, nodes.seed)
        if isinstance(action, StartProducer):
            self._begin(ProducerClient(self._fleet, nodes.seed, action.node, action.client, action.topic))
        elif isinstance(action, StartConsumer):
            self._begin(ConsumerClient(self._fleet, nodes.seed, action, self._next_number))
        else:
            return f"{action.client} did not begin yet"
        return ""

    def lines(self) -> list[str]:
        """What consumers have, in words."""
        clients = sorted(self._clients.items())
        return [f"{name}: has {client.life.state.recorded} messages" for name, client in clients
                if isinstance(client, ConsumerClient)]  # fmt: skip

    def shown(self, action: ShowService) -> list[str]:  # noqa: ARG002  # there is only one
        """What nodes have of topics, in words."""
        nodes = topic_nodes(self._fleet.services)
        return [] if nodes is None else topic_lines(nodes)

    def all_is_well(self) -> bool:
        """Faults are over, and nodes at rest: let every client put what it has, and get what it is owed. Returns
        whether time has passed."""
        nodes = topic_nodes(self._fleet.services)
        if nodes is None or not self._clients:
            return False
        for client in self._clients.values():
            client.life.spare()
            client.life.begin()
        self._fleet.run(CALM_MS)
        producers = [client for client in self._clients.values() if isinstance(client, ProducerClient)]
        for producer in producers:
            producer.send(1)
        self._fleet.run_until(lambda: all(producer.is_done for producer in producers), nodes.bound_ms * 4)
        self._fleet.run(LAST_MS)
        for client in self._clients.values():
            if isinstance(client, ConsumerClient):
                client.is_wanting = False
        self._fleet.run(CALM_MS)
        return True

    # -- inside

    def _next_number(self) -> int:
        return next(self._numbers)

    def _begin(self, client: ProducerClient | ConsumerClient) -> None:
        self._clients[client.name] = client
        client.life.begin()

    def _client_does(self, client: ProducerClient | ConsumerClient, action: OfClient, seed: int) -> str:
        match action:
            case StartProducer() | StartConsumer():
                client.life.begin()
            case SendMessages():
                if not isinstance(client, ProducerClient):
                    return f"{client.name} is no producer"
                client.send(action.count)
            case EndConsumer():
                if not isinstance(client, ConsumerClient):
                    return f"{client.name} is no consumer"
                client.unsubscribe()
            case CrashClient(for_ms=for_ms, left=left, waits=waits):
                client.life.crash(for_ms, left, waits)
            case SaveState():
                client.life.save()
            case TwinClient(node=node, twin=twin):
                if twin in self._clients or self._twins >= TWINS_MAX:
                    return f"{twin} is there already, or there are {TWINS_MAX} twins"
                self._twins += 1
                self._begin(self._twin(client, node, twin, seed))
            case MoveClient(node=node):
                client.move(node)
            case _:
                assert_never(action)
        return ""

    def _twin(
        self, client: ProducerClient | ConsumerClient, node: str, name: str, seed: int
    ) -> ProducerClient | ConsumerClient:
        if isinstance(client, ProducerClient):
            return ProducerClient(self._fleet, seed, node, name, client.topic, client)
        action = attrs.evolve(client.action, node=node, client=name, subscriber=client.subscriber)
        return ConsumerClient(self._fleet, seed, action, self._next_number, client)
