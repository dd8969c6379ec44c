"""Clients of the activity network: each has the half that the product has, and one connection at a time.

Knows: when it connects, what it sends, and what it tells the rules.  Does not know what is right (`rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from distkv.client.activity import ActivityHalf, ActivityMissed
from distkv.errors import BusyError
from distkv.sim.activity.listening import WAY_MS, ChatConnection, ChatListener
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityHeard,
    ActivityWritten,
    ChatBegun,
    ClientArrived,
    ClientSentOn,
    GapHeard,
)
from distkv.sim.activity.nodes import activity_nodes
from distkv.sim.fleet import Fleet
from distkv.wire.activity_lines import ANONYMOUS

CONNECT_MS: Final = (20, 100, 400)
"""After so long a client whose connection ended tries another node."""


class ChatClient:
    """One client, over all its connections."""

    def __init__(
        self, fleet: Fleet, seed: int, name: str, node: str, listener_of: Callable[[str], ChatListener | None]
    ) -> None:
        """`listener_of`: that of a host; None: it does not run."""
        self.name: Final = name
        self._fleet: Final = fleet
        self._rng: Final = Random(f"chat of {name} {seed}")
        self._listener_of: Final = listener_of
        self._node = node
        self._half: Final = ActivityHalf(ANONYMOUS, None)
        self._connection: ChatConnection | None = None
        self._texts: Final = dict[int, str]()
        """What is not echoed, by its number."""
        self._count = self._heard = self._lacks = 0
        self.is_wanting = True
        """Whether it wants to be connected."""
        self._connect()

    @property
    def is_in(self) -> bool:
        """Whether it is logged in."""
        return self._half.is_in

    @property
    def is_done(self) -> bool:
        """Whether it knows what became of all that it sent."""
        return not self._texts

    @property
    def words(self) -> str:
        """Where it is, and what came."""
        place = f"at {self._node}" if self.is_in else "away"
        return f"{place}, heard {self._heard}, lacks {self._lacks}"

    def say(self, count: int) -> None:
        """Send so many activities."""
        for _ in range(count):
            self._count += 1
            text = f"{self.name}-{self._count}"
            try:
                number = self._half.send({"text": text})
            except BusyError:
                return
            self._texts[number] = text
            self._fleet.moment(ActivityWritten(self.name, text))
        self._go_on()

    def jump(self, node: str) -> None:
        """Connect to another node at once."""
        self._node, self.is_wanting = node, True
        self._leave()
        self._connect()

    def hang_up(self) -> None:
        """End the connection, and stay away."""
        self.is_wanting = False
        self._leave()

    # -- ListenerClient

    def came(self, connection: ChatConnection, data: bytes) -> None:
        """The node said this."""
        if connection is not self._connection:
            return
        was_in, is_in = self._half.was_in, self._half.is_in
        self._half.take(data)
        if self._half.was_in and not was_in:
            self._fleet.moment(ChatBegun(self.name))
        if self._half.is_in and not is_in:
            self._fleet.moment(ClientArrived(self.name, self._node))
        if self._half.redirect is not None:
            self._fleet.moment(ClientSentOn(self.name))
        self._go_on()

    def over(self, connection: ChatConnection) -> None:
        """The connection has ended."""
        if connection is self._connection:
            self._connection = None
            self._half.lost()
            self._see_results()
            self._go_elsewhere()

    # -- inside

    def _connect(self) -> None:
        if self._connection is not None or not self.is_wanting:
            return
        listener = self._listener_of(self._node)
        if listener is None:
            self._go_elsewhere()
            return
        self._connection = listener.connect(self)
        self._connection.send(self._half.connected())

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.end()
            self._connection = None
            self._half.lost()
            self._see_results()

    def _go_elsewhere(self) -> None:
        if self._half.redirect is not None:
            self._node = self._half.redirect[0]
            self._fleet.later(WAY_MS, self._connect)
        else:
            self._node = self._rng.choice([host.name for host in self._fleet.hosts.values() if host.is_ours])
            self._fleet.later(self._rng.choice(CONNECT_MS), self._connect)

    def _go_on(self) -> None:
        """Hear what was said, and send what is to be sent."""
        self._half.check()
        while self._half.news:
            news = self._half.news.popleft()
            if isinstance(news, ActivityMissed):
                self._lacks += news.last - news.first + 1
                nodes = activity_nodes(self._fleet.services)
                holders = {} if nodes is None else nodes.holders_of(news.origin, news.first, news.last)
                self._fleet.moment(GapHeard(self.name, news.origin, news.first, news.last, self._node, holders))
            else:
                self._heard += 1
                heard = ActivityHeard(self.name, str(news.activity["text"]), news.origin, news.number, self._node)
                self._fleet.moment(heard)
        self._see_results()
        if self._connection is not None and (lines := self._half.take_lines()):
            self._connection.send(lines)

    def _see_results(self) -> None:
        for number, text in list(self._texts.items()):
            if self._half.has_result(number):
                del self._texts[number]
                if self._half.result(number) is None:
                    self._fleet.moment(ActivityEchoed(self.name, text))
                    self._fleet.client(self.name, f"has the echo of {text}")
                else:
                    self._fleet.client(self.name, f"does not know whom {text} reached")
