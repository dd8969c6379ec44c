"""The same calls on each client: blocking, under trio, under asyncio.

Knows: how to open each, and how to tell which event loop runs.  Does not know what the calls do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import trio

from distkv.client.addresses import address_text
from distkv.client.async_client import AsyncClient, open_client
from distkv.client.blocking import connect
from distkv.errors import DistkvError
from tests.unit.client.scripted_server import ScriptedServer

LOOPS: Final = ("trio", "asyncio")
SHELLS: Final = ("blocking", *LOOPS)

DEADLINE_S: Final = 300.0


def running_loop() -> str:
    """The event loop that runs this; a plugin can make it another one than the test asked for."""
    if trio.lowlevel.in_trio_run():
        return "trio"
    asyncio.get_running_loop()
    return "asyncio"


@asynccontextmanager
async def opened(loop: str, *servers: ScriptedServer | str, **options: Any) -> AsyncIterator[AsyncClient]:
    """A client under the event loop that the test asked for, for a bounded time."""
    assert running_loop() == loop
    with anyio.fail_after(DEADLINE_S):
        async with open_client(hosts(servers), **options) as client:
            yield client


def hosts(servers: Sequence[ScriptedServer | str]) -> list[str]:
    return [server if isinstance(server, str) else address_text(server.address) for server in servers]


def perform(
    shell: str, servers: Sequence[ScriptedServer | str], *calls: tuple[Any, ...], **options: Any
) -> list[object]:
    """Make calls, each (method, arguments…), one after another; what each returned or raised, of items a list."""
    if shell == "blocking":
        with connect(hosts(servers), **options) as client:
            return [_tried(getattr(client, name), arguments) for name, *arguments in calls]
    return anyio.run(_perform, shell, servers, calls, options, backend=shell)


def _tried(method: Any, arguments: Sequence[object]) -> object:
    try:
        found = method(*_positional(arguments), **_named(arguments))
        return list(found) if isinstance(found, Iterator) else found
    except DistkvError as error:
        return error


async def _perform(
    loop: str, servers: Sequence[ScriptedServer | str], calls: Sequence[tuple[Any, ...]], options: dict[str, Any]
) -> list[object]:
    async with opened(loop, *servers, **options) as client:
        return [await _tried_async(getattr(client, name), arguments) for name, *arguments in calls]


async def _tried_async(method: Any, arguments: Sequence[object]) -> object:
    try:
        found = method(*_positional(arguments), **_named(arguments))
        return [item async for item in found] if isinstance(found, AsyncIterator) else await found
    except DistkvError as error:
        return error


def _positional(arguments: Sequence[object]) -> list[object]:
    return [argument for argument in arguments if not isinstance(argument, Named)]


def _named(arguments: Sequence[object]) -> dict[str, object]:
    return {name: value for argument in arguments if isinstance(argument, Named) for name, value in argument.items()}


class Named(dict[str, object]):
    """Arguments by name, as the last one of a call."""
