"""The connection of a client to one node at a time.

Knows: how a request gets to a node as a frame does, and its answer back; which node comes next when one ends.  Does not
know what is asked.

A client is a process on a machine of its own, beside the nodes: between it and a node there are a few milliseconds, and
the end of a node's process, but no cuts and no losses.

Invariant: what belongs to an earlier connection is not heard.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs

from distkv.core.ready import Answer, ServiceAsked, ServiceResult, ServiceWithdrawn
from distkv.core.topics.settings import TOPICS
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.wire.asking import encode_request
from distkv.wire.frames import decode_request
from distkv.wire.services import ServiceRequest
from distkv.wire.topic_requests import TopicRequest

Tell: TypeAlias = Callable[[ServiceResult], object]
"""Who is told the answer."""

WAY_MS: Final = 2
"""Between a client and a node, one way."""
CONNECT_MS: Final = 100
"""After so long a client that lost its connection tries the next node."""


class ClientLine:
    """While it is not closed it looks for a node."""

    def __init__(
        self, fleet: Fleet, node: str, connected: Callable[[], object], lost: Callable[[], object]
    ) -> None:
        """`connected` and `lost`: who is told of it."""
        self._fleet: Final = fleet
        self._node = node
        self._connected: Final = connected
        self._lost: Final = lost
        self._process: Process | None = None
        self._number = 0
        self._is_closed = False
        self._count = 0
        self._open: Final = set[int]()
        """What was asked on this connection and is not answered."""
        self._asked: Final = dict[int, Process]()
        """The requests that are at a node, by their numbers there."""
        self._fleet.later(0, self._connect)

    @property
    def is_connected(self) -> bool:
        return self._process is not None

    def ask(self, request: TopicRequest, tell: Tell) -> int:
        """Ask the node that it is connected with; nobody, if there is none. Returns the number that `is_open` takes."""
        self._count += 1
        if self._process is not None:
            self._open.add(self._count)
            self._fleet.later(WAY_MS, partial(self._ask, self._process, self._number, request, tell, self._count))
        return self._count

    def is_open(self, number: int) -> bool:
        """Whether a request is not answered, and still may be."""
        return number in self._open

    def move(self, node: str) -> None:
        """Connect to this node."""
        self._end()
        self._node = node
        self._lost()
        self._fleet.later(CONNECT_MS, self._connect)

    def give_up(self) -> None:
        """The node does not answer: connect to the next one."""
        if self._process is not None:
            self._disconnected()

    def close(self) -> None:
        """For good."""
        self._is_closed = True
        self._end()

    # -- inside

    def _connect(self) -> None:
        if self._is_closed or self._process is not None:
            return
        process = self._fleet.hosts[self._node].process
        if process is None:
            self._next_node()
            return
        self._process = process
        process.connected[self] = self._disconnected
        self._connected()

    def _disconnected(self) -> None:
        self._end()
        self._lost()
        self._next_node()

    def _end(self) -> None:
        """Its requests are not waited for any more."""
        for number, process in list(self._asked.items()):
            if process.asked.pop(number, None) is not None:
                process.host.give(process, partial(process.step, ServiceWithdrawn(TOPICS, number)))
        self._asked.clear()
        self._open.clear()
        if self._process is not None:
            self._process.connected.pop(self, None)
        self._process = None
        self._number += 1

    def _next_node(self) -> None:
        names = [host.name for host in self._fleet.hosts.values() if host.is_ours]
        self._node = names[(names.index(self._node) + 1) % len(names)]
        self._fleet.later(CONNECT_MS, self._connect)

    def _ask(self, process: Process, connection: int, request: TopicRequest, tell: Tell, count: int) -> None:
        """The request is there, if anybody is."""
        if connection == self._number and process.is_running:
            number = process.next_request()
            self._asked[number] = process
            give_request(process, number, request, partial(self._answered, connection, tell, count))

    def _answered(self, connection: int, tell: Tell, count: int, answer: Answer) -> None:
        if connection == self._number:
            self._asked.pop(answer.id, None)
            self._fleet.later(WAY_MS, partial(self._hear, connection, tell, count, answer))

    def _hear(self, connection: int, tell: Tell, count: int, answer: Answer) -> None:
        if connection == self._number:
            self._open.discard(count)
            tell(answer.result)


def give_request(process: Process, number: int, request: TopicRequest, tell: Callable[[Answer], object]) -> None:
    """Let a node have a request, as its frame says it."""
    read = decode_request(encode_request(attrs.evolve(request, seq=number)))
    if not isinstance(read, ServiceRequest) or not isinstance(read, type(request)):
        raise TypeError(f"a node takes {request} for {read}")
    process.asked[number] = tell
    process.host.give(process, partial(process.step, ServiceAsked(TOPICS, number, read)))
