"""The listener of one process, and what it says to its clients.

Knows: how a conversation is carried on, and in which order its client hears what.  Does not know what a client makes of
that (`chatting`).

Between a client and a node there are a few milliseconds, and the end of a node's process, but no cuts and no losses.

Invariant: what is sent to a client comes in its order, and nothing of a connection comes after its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, assert_never

from distkv.core.activity.conversation import (
    TOGETHER_MAX,
    ActivityTalk,
    Checking,
    CloseTalk,
    Entering,
    Registering,
    SayLines,
    Sending,
    TalkEffect,
    TalkPhase,
    TellMissed,
    line_of,
)
from distkv.core.activity.requests import (
    ActivityGap,
    ActivityGiven,
    ActivityItem,
    Attend,
    EndActivity,
    Ended,
    LoggedIn,
    Login,
    MoveOn,
    SendActivity,
    Taken,
)
from distkv.core.activity.settings import ACTIVITY
from distkv.core.ready import Answer, ServiceAsked, ServiceWithdrawn
from distkv.errors import DistkvError, InternalError
from distkv.sim.activity.moments import ActivityGivenOut, NodeEnded, NodeEnding, PassedOver
from distkv.sim.activity.nodes import activity_nodes
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.wire.services import ServiceRequest

WAY_MS: Final = 2
"""Between a client and a node, one way."""
END_MS: Final = 15_000
"""So long a node that is told to end is waited for."""
AGAIN_MS: Final = 300
"""After so long a listener that was refused attends again."""


class ListenerClient(Protocol):
    """Who is at the other end."""

    def came(self, connection: ChatConnection, data: bytes) -> None:
        """The node said this."""

    def over(self, connection: ChatConnection) -> None:
        """The connection has ended."""


class ChatConnection:
    """Of one client to one process."""

    def __init__(self, listener: ChatListener, client: ListenerClient) -> None:
        self._listener: Final = listener
        self._client: Final = client
        self._talk: Final = ActivityTalk(TOGETHER_MAX)
        self._login = 0
        self._asked: Final = set[int]()
        self.is_open = True
        """Whether the client hears what is said."""
        self._is_served = True
        """Whether the node has not ended it: what the client sent before its end is still read."""
        self.is_in = False
        """Whether the client is told what is given."""

    # -- from the client

    def send(self, data: bytes) -> None:
        """The client says something."""
        self._listener.later(partial(self._feed, data))

    def end(self) -> None:
        """The client has gone."""
        if self.is_open:
            self.is_open = False
            self._listener.later(self._withdraw)

    # -- from the node

    def give(self, given: ActivityGiven) -> None:
        """Every client is given this."""
        if self.is_in and (self._talk.resumes or not isinstance(given.item, ActivityGap)):
            self._say(line_of(given.item))

    def broke(self) -> None:
        """The process has ended."""
        if self.is_open:
            self.is_open = self.is_in = False
            self._client.over(self)

    # -- inside

    def _feed(self, data: bytes) -> None:
        self._talk.feed(data)
        self._go_on()

    def _go_on(self) -> None:
        while self._is_served and (effects := self._talk.next()) is not None:
            self._do(effects)

    def _do(self, effects: list[TalkEffect]) -> None:
        for effect in effects:
            match effect:
                case SayLines(lines=lines):
                    self._say(lines)
                case TellMissed(items=items):
                    self._say(b"".join(map(line_of, items)))
                case Registering():
                    self._do(self._talk.registered(InternalError("nobody registers here")))
                case Checking():
                    self._do(self._talk.checked(None))
                case Entering(username=user, resume=resume, client=client):
                    self._login = self._expect()
                    self._listener.ask(self._login, Login(1, user, resume, client))
                case Sending(activities=activities):
                    self._listener.ask(self._expect(), SendActivity(1, self._login, activities))
                case CloseTalk():
                    self._withdraw()
                    self._listener.to_client(self.broke)
                case _:
                    assert_never(effect)

    def _say(self, lines: bytes) -> None:
        self._listener.to_client(partial(self._arrive, lines))

    def _arrive(self, lines: bytes) -> None:
        if self.is_open:
            self._client.came(self, lines)

    def _expect(self) -> int:
        """The number of the next request: it is answered, perhaps with the last word, before `ask` is over."""
        number = self._listener.expect(self._answered)
        self._asked.add(number)
        return number

    def _answered(self, answer: Answer) -> None:
        result = answer.result
        if answer.is_last:
            self._asked.discard(answer.id)
        if isinstance(result, LoggedIn):
            self._do(self._talk.entered(result.at, result.client, result.missed))
            self.is_in = self._talk.phase is TalkPhase.IN
        elif isinstance(result, MoveOn):
            self._do(self._talk.moved(result.host, result.port, result.resume))
        elif isinstance(result, Taken):
            self._do(self._talk.taken(result.origin, result.first, result.last))
        elif isinstance(result, DistkvError):
            is_login = answer.id == self._login
            self._do(self._talk.refused(result) if is_login else self._talk.not_taken(result))
        self._listener.soon(self._go_on)

    def _withdraw(self) -> None:
        """Nothing of it waits at the service any more."""
        self.is_in = self._is_served = False
        self._listener.gone(self, self._asked)
        self._asked.clear()


class ChatListener:
    """That of one process."""

    def __init__(self, fleet: Fleet, process: Process) -> None:
        self.process: Final = process
        self._fleet: Final = fleet
        self._connections: Final = dict[ChatConnection, None]()
        self._is_ending = False
        self._attend()

    def connect(self, client: ListenerClient) -> ChatConnection:
        """A client connects."""
        connection = ChatConnection(self, client)
        self._connections[connection] = None
        self.process.connected[connection] = connection.broke
        return connection

    def end(self) -> None:
        """The process is told to end."""
        if not self._is_ending:
            self._is_ending = True
            self._fleet.moment(NodeEnding(self.process.host.name))
            self.ask(self.expect(self._told_of_end), EndActivity(1))
            self._fleet.later(END_MS, partial(self._end, is_done=False))

    # -- for connections

    def later(self, do: Callable[[], object]) -> None:
        """The node does this, when it is there."""
        self._fleet.later(WAY_MS, partial(self.process.host.give, self.process, do))

    def soon(self, do: Callable[[], object]) -> None:
        """The node does this when its step is over."""
        self._fleet.later(0, partial(self.process.host.give, self.process, do))

    def to_client(self, do: Callable[[], object]) -> None:
        """This happens to a client."""
        self._fleet.later(WAY_MS, do)

    def expect(self, tell: Callable[[Answer], object]) -> int:
        """The number of a request that is asked next; its answers go to `tell`."""
        number = self.process.next_request()
        self.process.asked[number] = tell
        return number

    def ask(self, number: int, request: ServiceRequest) -> None:
        """Ask the service of the node."""
        self._give(ServiceAsked(ACTIVITY, number, request))

    def gone(self, connection: ChatConnection, asked: set[int]) -> None:
        """A connection has ended, of which these requests are open."""
        self._connections.pop(connection, None)
        self.process.connected.pop(connection, None)
        for number in asked:
            self.process.asked.pop(number, None)
            self._give(ServiceWithdrawn(ACTIVITY, number))

    # -- inside

    def _give(self, what: ServiceAsked | ServiceWithdrawn) -> None:
        self.process.host.give(self.process, partial(self.process.step, what))

    def _moment_of(self, item: ActivityItem | ActivityGap) -> ActivityGivenOut | PassedOver:
        node, nodes = self.process.host.name, activity_nodes(self._fleet.services)
        if isinstance(item, ActivityGap):
            by_number = {} if nodes is None else nodes.holders_of(item.origin, item.first, item.last)
            return PassedOver(node, item.origin, item.first, item.last, by_number)
        if nodes is None or not item.origin.startswith(f"{node}."):
            return ActivityGivenOut(node, item.origin, item.number)
        holders = nodes.holders(item.origin, item.number)
        return ActivityGivenOut(node, item.origin, item.number, holders, nodes.settings.copies)

    def _told_of_end(self, answer: Answer) -> None:
        self._fleet.later(0, partial(self._end, is_done=isinstance(answer.result, Ended)))

    def _end(self, *, is_done: bool) -> None:
        if self.process.is_running:
            host = self.process.host
            left = sum(connection.is_in for connection in self._connections)
            self._fleet.moment(NodeEnded(host.name, is_done, left))
            self._fleet.befell(host.name, "ends in order")
            self._fleet.end(host)

    def _attend(self) -> None:
        if self.process.is_running:
            self.ask(self.expect(self._told), Attend(1, self.process.host.name, 1))

    def _told(self, answer: Answer) -> None:
        if isinstance(answer.result, ActivityGiven):
            self._fleet.moment(self._moment_of(answer.result.item))
            for connection in list(self._connections):
                connection.give(answer.result)
        elif answer.is_last:
            self._fleet.later(AGAIN_MS, self._attend)
