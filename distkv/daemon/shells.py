"""The listeners of services that have clients of their own, in one process.

Knows: which services have some, where they are bound, and how they end.  Does not know what is said there
(`services.service_shell`).

Invariant: all are bound, or none. A failure of one costs that one until the next start, unless the node itself must
end. Who begins again in the same process listens where he did before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import trio

from distkv.config import Config
from distkv.daemon.files import allow_files
from distkv.daemon.listeners import listener_text, open_listeners
from distkv.engine.driver import Driver
from distkv.mount import parts
from distkv.services.service_shell import ServiceShell

END_S: Final = 15.0
"""So long it may take until the clients of a node that ends are elsewhere."""


class Shells:
    """Those of one process."""

    def __init__(self, config: Config, known: Sequence[ServiceShell] | None = None) -> None:
        """`known`: None: those of all services."""
        found: list[ServiceShell] = [part.SHELL for part in parts("shell")] if known is None else [*known]
        self._config: Final = config
        self._addresses: Final = {shell: addresses for shell in found if (addresses := shell.addresses(config))}
        self._open: Mapping[ServiceShell, Sequence[trio.SocketListener]] = {}
        self._driver: Driver | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen, until the block is left.

        Raises:
            SettingsError: it is not possible somewhere; then nothing stays bound.
        """
        async with AsyncExitStack() as stack:
            found = {}
            for shell, addresses in self._addresses.items():
                listeners = await stack.enter_async_context(open_listeners(addresses, shell.option))
                self._addresses[shell] = [*map(listener_text, listeners)]
                found[shell] = listeners
            self._open = found
            try:
                yield
            finally:
                self._open, self._driver = {}, None

    @property
    def places(self) -> list[str]:
        """Where they listen, for people."""
        return [f"{shell.name} on {', '.join(map(listener_text, found))}" for shell, found in self._open.items()]

    def allow_connections(self, connections: int) -> int:
        """See that so many connections of the node can be open beside those of the shells; how many can be, where that
        is fewer. Those of the shells are not made fewer: a node that runs out of files says so, and goes on.

        Raises:
            SettingsError: the process may open too few files to serve anybody.
        """
        others = sum(shell.connections(self._config) for shell in self._open)
        wanted = connections + others
        possible = allow_files(wanted)
        return connections if possible == wanted else max(1, possible * connections // wanted)

    async def serve(self, driver: Driver) -> None:
        """Serve all clients until cancelled."""
        self._driver = driver
        async with trio.open_nursery() as nursery:
            for shell, listeners in self._open.items():
                nursery.start_soon(self._serve, driver, shell, listeners)

    async def end(self) -> None:
        """The node ends in order: see that clients are told, if that can be had soon."""
        driver = self._driver
        if driver is None:
            return
        with trio.move_on_after(END_S):
            async with trio.open_nursery() as nursery:
                for shell in self._open:
                    nursery.start_soon(self._end, driver, shell)

    # -- inside

    async def _serve(self, driver: Driver, shell: ServiceShell, listeners: Sequence[trio.SocketListener]) -> None:
        try:
            await shell.serve(driver, self._config, listeners)
        except Exception as error:
            driver.faults.contain(error, f"the listener of {shell.name}, which is off from now on")
        for listener in listeners:
            await listener.aclose()

    async def _end(self, driver: Driver, shell: ServiceShell) -> None:
        try:
            await shell.end(driver)
        except Exception as error:
            driver.faults.contain(error, f"the end of {shell.name}")
