"""A client of the plays that watches all tokens, at one node after another.

Knows: what the last watch told.  Does not know what is true.
"""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.wire.token_replies import TokenReply, TokensChanged
from distkv.wire.token_requests import TokenWatch
from tests.property.token_clients import REQUESTS, ClientNode, ClientWorld

NUMBER: Final = 90
"""The first watcher's; those of clients that want tokens are others."""


class WatchedNode(ClientNode, Protocol):
    """A node that can be watched."""

    def more(self, id: int) -> None:
        """Whoever asked this has taken what it was told."""


class Watcher:
    """It reads at its own pace."""

    def __init__(self, fleet: ClientWorld, nodes: dict[NodeName, WatchedNode], number: int) -> None:
        self.seen: Final = dict[str, tuple[str, ...]]()
        """The sessions that hold each token that somebody holds."""
        self._fleet: Final = fleet
        self._nodes: Final = nodes
        self._number: Final = number
        self._rng: Final = Random(fleet.rng.random())
        self._count = 0
        self._node: WatchedNode | None = None
        self._watch()

    def move(self) -> None:
        """To another node, where all is told anew."""
        if self._node is not None:
            self._node.leave(self._number)
            self._watch()

    def _watch(self) -> None:
        self._node = None
        running = [node for node in self._nodes.values() if node.is_up]
        if not running:
            self._fleet.later(50, self._watch)
            return
        node = self._node = self._rng.choice(running)
        self.seen.clear()
        self._count += 1
        id = self._number * REQUESTS + self._count

        def told(result: TokenReply | DistkvError) -> None:
            if node is not self._node or id != self._number * REQUESTS + self._count:
                return
            if not isinstance(result, TokensChanged):
                self._fleet.later(50, self._watch)
                return
            for item in result.items:
                self.seen.pop(item.token, None)
                if item.holders:
                    self.seen[item.token] = tuple(sorted(one.session for one in item.holders))
            self._fleet.later(self._rng.choice((1, 20, 400)), lambda: node.more(id))

        node.ask(id, TokenWatch(0, ""), told)
