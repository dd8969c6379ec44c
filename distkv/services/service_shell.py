"""What a service may have around its machine: listeners for clients of its own, who speak another protocol.

Knows: the form of that.  Does not know a service, nor what its clients say.

Invariant: a shell asks its service as everybody does (`ServiceDesk`), and decides nothing about data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from distkv.config import Config
from distkv.engine.driver import Driver


class ServiceShell(Protocol):
    """That of one service. The module of its layer has one as `SHELL` (`distkv.mount`)."""

    name: str
    """Of the service."""
    option: str
    """What names another address, for people."""

    def addresses(self, config: Config) -> Sequence[str]:
        """Where it listens, HOST:PORT; empty: nowhere, and then it does not run."""

    def connections(self, config: Config) -> int:
        """How many it may have open."""

    async def serve(self, driver: Driver, config: Config, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve its clients until cancelled, or until there is nothing to serve any more. The listeners are bound, and
        are closed by whoever bound them."""

    async def end(self, driver: Driver) -> None:
        """The node ends in order: see that clients are told. Whoever calls does not wait for ever."""
