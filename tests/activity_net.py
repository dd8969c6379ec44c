"""Bare machines of the activity network on a small network of their own, with clients that resume.

Knows: the machines, a tree of edges that break, words that get lost, and what a listener and a client do with answers.
Does not know the ground, sockets or lines: time passes only here, and all chance is that of one seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count

import attrs

from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.requests import (
    ActivityGap,
    ActivityGiven,
    ActivityItem,
    Attend,
    EndActivity,
    LoggedIn,
    Login,
    MoveOn,
    SendActivity,
    Taken,
)
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ground.calls import CallKey
from distkv.core.ground.frames import Announced, Heard, Origin
from distkv.core.ground.machine import NodesChanged, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.turn import (
    AnsweredNode,
    AskedOfNode,
    AskWithdrawn,
    Effect,
    FieldsAnnounced,
    ServiceTurn,
    ToldAll,
)
from distkv.core.ready import Answer, NodeTold, Note, ServiceAsked, ServiceResult, ServiceTell, ServiceWithdrawn
from distkv.errors import DistkvError, UnreachableError
from distkv.model.event import NodeName
from tests.service_steps import LIFE, WALL, KnownFields, KnownNodes, ground_of

PORTS = count(7000)
ATTEND = 1
"""The number of the listener's request on each start."""


@attrs.define(eq=False)
class Connection:
    """Of a client to a start of a node."""

    host: Host
    start: int
    client: NetworkClient
    id: int
    is_open: bool = True
    is_logged_in: bool = False


class NetworkClient:
    """A client that resumes, as the client's half does, or one that does not."""

    def __init__(self, fleet: Fleet, name: str, *, resumes: bool = True) -> None:
        self.fleet, self.name, self.resumes = fleet, name, resumes
        self.map: dict[str, int] = {}
        self.mark: str | None = None
        self.connection: Connection | None = None
        self.count = 0
        self.sent_on: dict[str, Connection] = {}
        """On which connection each text was sent, until its end."""
        self.echoed: set[str] = set()
        self.got: list[str] = []
        self.gaps: list[ActivityGap] = []
        self.moves = 0
        self.errors: list[str] = []
        self.since_ms: int | None = None
        """Since when it has been connected, for the first time."""

    def connect(self, host: Host) -> None:
        self.leave()
        if not host.is_up:
            self.fleet.later(200, lambda: self.connect(self.fleet.any_host()))
            return
        id = host.next_id()
        self.connection = Connection(host, host.start, self, id)
        host.connections[id] = self.connection
        login = Login(id, self.name, dict(self.map) if self.resumes else None, self.mark if self.resumes else None)
        if not self.resumes:
            self.map = {}
        host.ask(id, login)

    def leave(self) -> None:
        old, self.connection = self.connection, None
        if old is not None:
            old.is_open = False
            self.sent_on.clear()
            if old.host.is_up and old.host.start == old.start:
                old.host.connections.pop(old.id, None)
                old.host.step(ServiceWithdrawn(ACTIVITY, old.id))

    def send(self) -> str | None:
        connection = self.connection
        if connection is None or not connection.is_logged_in or not self.is_live(connection):
            return None
        self.count += 1
        text = f"{self.name}:{self.count}"
        self.sent_on[text] = connection
        self.fleet.sent_ms[text] = self.fleet.now_ms
        host = connection.host
        host.ask(host.next_id(), SendActivity(1, connection.id, (text.encode(),)))
        return text

    def is_live(self, connection: Connection) -> bool:
        return connection.is_open and connection.host.is_up and connection.host.start == connection.start

    def told(self, connection: Connection, what: ServiceResult) -> None:
        """What the node sent is here."""
        if connection is not self.connection:
            return
        match what:
            case LoggedIn(at=at, client=mark, missed=missed):
                connection.is_logged_in = True
                if self.since_ms is None:
                    self.since_ms = self.fleet.now_ms
                self.map, self.mark = dict(at or {}), mark
                for item in missed:
                    self.take(item)
            case ActivityGiven(item=item):
                if connection.is_logged_in:
                    self.take(item)
            case MoveOn(host=name):
                self.moves += 1
                self.connect(self.fleet.hosts[NodeName(name)])
            case DistkvError():
                self.errors.append(str(what))
                self.leave()
                self.fleet.later(200, lambda: self.connect(self.fleet.any_host()))

    def take(self, item: ActivityItem | ActivityGap) -> None:
        if isinstance(item, ActivityGap):
            if self.resumes:
                self.gaps.append(item)
                self.map[item.origin] = max(self.map.get(item.origin, 0), item.last)
            return
        if item.number <= self.map.get(item.origin, 0):
            return
        self.map[item.origin] = item.number
        text = item.activity.decode()
        self.got.append(text)
        if text in self.sent_on:
            self.echoed.add(text)


class Host:
    """A node, over all its starts."""

    def __init__(self, fleet: Fleet, name: NodeName, settings: ActivitySettings) -> None:
        self.fleet, self.name, self.settings = fleet, name, settings
        self.start = 0
        self.is_up = False
        self.connections: dict[int, Connection] = {}
        self.begin()

    def begin(self) -> None:
        fleet = self.fleet
        self.start += 1
        self.is_up = True
        self.connections.clear()
        self.heard: dict[NodeName, tuple[int, int]] = {}
        self.frame = 0
        self.calls: dict[int, tuple[object, int]] = {}
        self.call = 0
        self.last_id = ATTEND
        self.fields: KnownFields = KnownFields({})
        names = frozenset(fleet.names)
        self.nodes = KnownNodes(names, frozenset(name for name in names if name != self.name and fleet.is_seen(name)))
        ground = attrs.evolve(
            ground_of(self.name, LIFE, WALL, {}), nodes=self.nodes, announced=self.fields
        )  # fmt: skip
        self.machine = ActivityMachine(self.settings, random.Random(fleet.rng.random()))
        turn = self.turn()
        self.machine.begin(turn, ground)
        self.do(turn.effects)
        self.ask(ATTEND, Attend(ATTEND, self.name, next(PORTS) % 1000 + 7000))

    def turn(self) -> ServiceTurn:
        return ServiceTurn(ACTIVITY, self.fleet.now_ms, WALL + self.fleet.now_ms / 1000)

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def ask(self, id: int, request: Attend | Login | SendActivity | EndActivity) -> None:
        self.step(ServiceAsked(ACTIVITY, id, request))

    def step(self, what: ServiceInput) -> None:
        if not self.is_up:
            return
        turn = self.turn()
        self.machine.step(turn, what)
        if self.fleet.is_checked:
            self.machine.check()
        self.do(turn.effects)
        self.set_timer()

    def set_timer(self) -> None:
        wake_ms = self.machine.wake_ms()
        if wake_ms is not None:
            self.fleet.wake(self, max(wake_ms, self.fleet.now_ms + 1))

    def do(self, effects: list[Effect]) -> None:
        fleet, start = self.fleet, self.start
        for effect in effects:
            match effect:
                case ServiceTell(name=name, body=body):
                    fleet.tell(self, fleet.hosts[name], body)
                case ToldAll(body=body):
                    self.frame += 1
                    fleet.flood(self, None, self.name, start, self.frame, body)
                case FieldsAnnounced(fields=fields):
                    fleet.announce(self.name, fields)
                case AskedOfNode(node=node, body=body, purpose=purpose, patience_ms=patience_ms):
                    self.call += 1
                    self.calls[self.call] = purpose, start
                    fleet.ask(self, fleet.hosts[node], self.call, body)
                    fleet.later(patience_ms, lambda call=self.call: self.replied(start, call, UnreachableError("late")))
                case AnsweredNode(call=call, body=body):
                    asker = fleet.hosts[call.peer]
                    fleet.send(self, asker, lambda asker=asker, call=call, body=body: asker.replied(
                        call.boot, call.number, body
                    ))  # fmt: skip
                case AskWithdrawn(purpose=purpose):
                    self.calls = {call: asked for call, asked in self.calls.items() if asked[0] != purpose}
                case Answer(id=id, result=result):
                    self.answer(id, result)
                case Note(id=id):
                    fleet.notes.append(id)
                case _:
                    raise AssertionError(f"what is {effect}?")

    def replied(self, start: int, call: int, reply: object) -> None:
        if self.is_up and start == self.start and call in self.calls:
            self.step(Replied(self.calls.pop(call)[0], reply))

    def answer(self, id: int, result: ServiceResult) -> None:
        """What the listener does with it."""
        if id == ATTEND:
            if isinstance(result, ActivityGiven):
                for connection in list(self.connections.values()):
                    self.fleet.to_client(connection, result)
        elif id in self.connections:
            self.fleet.to_client(self.connections[id], result)
        elif not isinstance(result, Taken):
            self.fleet.answers.append(result)


class Fleet:
    """Nodes, the edges between them, and their clients."""

    def __init__(
        self, names: str, seed: int, *, loss: float = 0.0, tell_loss: float = 0.0, **settings: int
    ) -> None:
        self.rng = random.Random(seed)
        self.loss, self.tell_loss = loss, tell_loss
        """How often a frame is lost on an edge, and a word on its way."""
        self.names = [NodeName(name) for name in names]
        self.now_ms = 1000
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.order = count()
        self.wakes: dict[NodeName, int] = {}
        self.fields: dict[NodeName, Mapping[str, object] | None] = {}
        self.seen: set[NodeName] = {*self.names}
        """Who seems alive."""
        self.parents: dict[NodeName, NodeName] = {}
        self.hosts: dict[NodeName, Host] = {}
        self.sent_ms: dict[str, int] = {}
        self.notes: list[str] = []
        self.answers: list[ServiceResult] = []
        self.is_checked = True
        self.channel_ms: dict[tuple[object, object], int] = {}
        for name in self.names:
            self.hosts[name] = Host(self, name, ActivitySettings(**settings))
        self.grow()
        for host in self.hosts.values():
            host.set_timer()

    # -- time

    def later(self, ms: int, what: Callable[[], None]) -> None:
        heappush(self.agenda, (self.now_ms + ms, next(self.order), what))

    def wake(self, host: Host, wake_ms: int) -> None:
        if self.wakes.get(host.name, wake_ms + 1) > wake_ms or self.wakes[host.name] <= self.now_ms:
            self.wakes[host.name] = wake_ms
            start = host.start

            def woken() -> None:
                if host.is_up and host.start == start and self.wakes.get(host.name) == wake_ms:
                    del self.wakes[host.name]
                    host.step(ServiceWoken())

            self.later(wake_ms - self.now_ms, woken)

    def run(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.agenda and self.agenda[0][0] <= end_ms:
            self.now_ms, _, what = heappop(self.agenda)
            what()
        self.now_ms = end_ms

    def send(self, sender: object, receiver: object, what: Callable[[], None], ms: int | None = None) -> None:
        """In order on each way."""
        due_ms = self.now_ms + (self.rng.randint(1, 20) if ms is None else ms)
        due_ms = max(due_ms, self.channel_ms.get((sender, receiver), 0))
        self.channel_ms[sender, receiver] = due_ms
        self.later(due_ms - self.now_ms, what)

    # -- the network

    def is_seen(self, name: NodeName) -> bool:
        return name in self.seen

    def any_host(self) -> Host:
        up = [host for host in self.hosts.values() if host.is_up]
        return self.rng.choice(up or list(self.hosts.values()))

    def tell(self, sender: Host, receiver: Host, body: bytes) -> None:
        if self.rng.random() >= self.tell_loss:
            start = receiver.start
            self.send(sender.name, receiver.name, lambda: receiver.start == start and receiver.step(
                NodeTold(sender.name, LIFE, ACTIVITY, body)
            ))  # fmt: skip

    def ask(self, sender: Host, receiver: Host, call: int, body: bytes) -> None:
        if self.rng.random() >= self.tell_loss:
            key, start = CallKey(sender.name, sender.start, call), receiver.start
            self.send(sender.name, receiver.name, lambda: receiver.start == start and receiver.step(
                NodeAsked(key, body)
            ))  # fmt: skip

    def edges(self, name: NodeName) -> Iterator[NodeName]:
        if name in self.parents:
            yield self.parents[name]
        yield from (child for child, parent in self.parents.items() if parent == name)

    def flood(
        self, at: Host, came_from: NodeName | None, origin: NodeName, start: int, number: int, body: bytes
    ) -> None:
        for other in list(self.edges(at.name)):
            if other != came_from and self.rng.random() >= self.loss:
                host = self.hosts[other]
                self.send(("edge", at.name), host.name, lambda host=host, there=host.start: self.came(
                    host, there, at.name, origin, start, number, body
                ))  # fmt: skip

    def came(
        self, host: Host, there: int, came_from: NodeName, origin: NodeName, start: int, number: int, body: bytes
    ) -> None:
        if not host.is_up or host.start != there or came_from not in set(self.edges(host.name)) or origin == host.name:
            return
        if (start, number) <= host.heard.get(origin, (0, 0)):
            return  # an earlier start, or it came before
        host.heard[origin] = start, number
        host.step(Heard(Origin(origin, start), number, body))
        self.flood(host, came_from, origin, start, number, body)

    def announce(self, name: NodeName, fields: Mapping[str, object] | None) -> None:
        self.fields[name] = fields
        for other in self.names:
            if other != name and other in self.hosts:
                self.later(self.rng.randint(20, 600), lambda other=other: self.announced(other, name, fields))

    def announced(self, at: NodeName, name: NodeName, fields: Mapping[str, object] | None) -> None:
        host = self.hosts[at]
        if host.is_up and self.fields.get(name) == fields:
            if fields is None:
                host.fields.found.pop(name, None)
            else:
                host.fields.found[name] = fields
            host.step(Announced(name))

    def grow(self) -> None:
        """A tree of all that are up."""
        up = [name for name in self.names if name in self.hosts and self.hosts[name].is_up]
        self.rng.shuffle(up)
        self.parents = {name: self.rng.choice(up[max(0, at - 3) : at]) for at, name in enumerate(up) if at}
        self.see()

    def see(self) -> None:
        for host in self.hosts.values():
            host.nodes.alive = frozenset(self.seen - {host.name})
            host.nodes.neighbours = tuple(self.edges(host.name))
            host.step(NodesChanged())

    def kill(self, *names: NodeName) -> None:
        """They die at this moment; others see that later, and the tree forms again."""
        for name in names:
            host = self.hosts[name]
            host.is_up = False
            for connection in list(host.connections.values()):
                self.broken(connection)
        self.parents = {
            child: parent for child, parent in self.parents.items() if child not in names and parent not in names
        }
        self.see()
        self.later(self.rng.randint(200, 1500), self.grow)

        def noticed() -> None:
            self.seen -= {name for name in names if not self.hosts[name].is_up}
            self.see()

        self.later(self.rng.randint(500, 4000), noticed)

    def broken(self, connection: Connection) -> None:
        """What was on its way to the client still comes, in part."""
        client = connection.client

        def again() -> None:
            if client.connection is connection:
                client.connect(self.any_host())

        self.later(self.rng.randint(0, 500), again)

    def begin(self, *names: NodeName) -> None:
        for name in names:
            self.seen.add(name)
            self.hosts[name].begin()
            for other, fields in self.fields.items():
                if fields is not None and other != name:
                    self.later(self.rng.randint(20, 600), lambda name=name, other=other, fields=fields: self.announced(
                        name, other, fields
                    ))  # fmt: skip
        self.later(self.rng.randint(50, 1500), self.grow)

    def to_client(self, connection: Connection, what: ServiceResult) -> None:
        start = connection.start

        def arrive() -> None:
            if connection.host.start == start and (connection.host.is_up or self.rng.random() < 0.5):
                connection.client.told(connection, what)
            else:
                connection.is_open = False  # nothing comes behind what was lost

        self.send(connection, connection, lambda: connection.is_open and arrive())
