"""What one watch has told its client, so that also what nobody tells is told: that a token is free.

Knows: which tokens the client takes for held, and what each server has told of all that it knows.  Does not know calls,
nor who serves what: that is given.

Invariant: a token that a server was said to have, and that is not among all that this server has, is told as free. So
nothing is lost when a server restarts, or its part goes to another one: then each tells anew all that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from distkv.model.event import NodeName
from distkv.wire.token_messages import WatchedTokens
from distkv.wire.token_replies import TokenItem


class WatchView:
    """Of one client's watch."""

    def __init__(self) -> None:
        self._shown: Final = dict[str, None]()
        """The tokens of which the client was last told that they are held, wanted, or have data."""
        self._telling: Final = dict[NodeName, dict[str, None]]()
        """Of each server that tells all that it has, what it told so far."""
        self._whole: Final = dict[NodeName, None]()
        """The servers that have told all that they have."""
        self._is_complete = False

    def restart(self) -> None:
        """All servers are asked anew for all."""
        self._telling.clear()
        self._whole.clear()

    def complete(self, servers: Iterable[NodeName]) -> bool:
        """Whether the client knows all, because each of these has told all that it has. That is said once."""
        if self._is_complete or not self._whole.keys() >= set(servers):
            return False
        self._is_complete = True
        return True

    def take_news(
        self, server: NodeName, told: WatchedTokens, server_of: Callable[[str], NodeName | None]
    ) -> tuple[TokenItem, ...]:
        """What the client is to be told, after a server told something."""
        if told.is_first:
            self._telling[server] = {}
        for item in told.items:
            if server in self._telling:
                self._telling[server][item.token] = None
            if item.holders or item.waiting or item.data is not None:
                self._shown[item.token] = None
            else:
                self._shown.pop(item.token, None)
        if not (told.is_last and server in self._telling):
            return told.items
        self._whole[server] = None
        there = self._telling.pop(server)
        gone = [name for name in self._shown if name not in there and server_of(name) == server]
        for name in gone:
            del self._shown[name]
        return (*told.items, *(TokenItem(name, server, (), 0, None) for name in gone))
