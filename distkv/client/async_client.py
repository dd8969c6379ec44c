"""The client for trio and asyncio: the methods of the blocking one, to be awaited, by many tasks at once.

Knows: how it is opened and closed, and which question each method asks; those about values, trees and the node itself
are parts (`async_values`, `async_trees`, `async_node`), and so is what each service adds.  Does not know tasks and
sockets (`async_connection`).
The methods of `blocking.Client` are made of these.

Invariant: what was asked is answered, or raises; once it is closed nobody waits any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Final

from distkv.client import changes
from distkv.client.addresses import DEFAULT_ADDRESS, read_hosts
from distkv.client.arguments import check_bound, check_patience
from distkv.client.async_connection import AsyncConnection, open_connection
from distkv.client.async_items import Items
from distkv.client.async_node import AsyncNodeMethods
from distkv.client.async_tokens import AsyncTokenMethods
from distkv.client.async_topics import AsyncTopicMethods
from distkv.client.async_trees import AsyncTreeMethods
from distkv.client.async_values import AsyncValueMethods
from distkv.client.changes import ChangePage, Located, News, Ticks
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges
from distkv.wire.replies import Hello

OPEN_MAX: Final = 256
"""How many requests of one client may be on their way at once, by default; a server takes about a thousand."""


def open_client(
    host: str | Sequence[str] = DEFAULT_ADDRESS[0],
    port: int = DEFAULT_ADDRESS[1],
    *,
    connect_s: float = 5.0,
    reply_s: float = 30.0,
    open_max: int = OPEN_MAX,
) -> Opening:
    """Connect to a node, and again whenever the connection breaks: `async with open_client() as client`, until the
    block is left; or `client = await open_client()`, until `client.aclose()`, from whichever task.

    Args:
        host: HOST, HOST:PORT or unix:/PATH; of several the first that answers is taken.
        port: for hosts without one.
        connect_s: how long one address is tried.
        reply_s: how long a method may take, with all attempts to connect again.
        open_max: how many requests may be on their way at once; further ones wait.

    Raises:
        UnreachableError: no node answers.
        PeerError: something else answers there.
        SettingsError: a host, a port, a time or a bound that is none.
    """
    check_patience("connect_s", connect_s)
    check_patience("reply_s", reply_s)
    check_bound("open_max", open_max)
    addresses = read_hosts(host, port)
    return Opening(lambda: open_connection(addresses, connect_s=connect_s, reply_s=reply_s, open_max=open_max))


class Opening:
    """What `open_client` returns: to be awaited, or to be entered by `async with`."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._connect: Final = connect
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[object, None, AsyncClient]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncClient:
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _open(self) -> AsyncClient:
        return AsyncClient(await self._connect())


class AsyncClient(AsyncValueMethods, AsyncTreeMethods, AsyncNodeMethods, AsyncTokenMethods, AsyncTopicMethods):
    """A connection to one node, for many tasks at once. `open_client` makes it.

    Requests leave in the order in which they were asked, without waiting for one another's replies. A cancelled write
    may take place all the same.

    Every method raises `UnreachableError` when no node answers, `ConnectionLostError` when it is unknown whether a
    write took place, `PeerError` when the node answers nonsense, and else the class of `distkv.errors` that has the
    code of the node's answer.
    """

    async def aclose(self) -> None:
        """End the connection for good, from any task; who waits for something, such as a reply, a change or a
        token, gets `UnreachableError` at once. A token that is held stays so until its block ends. May be called
        again."""
        await self._connection.aclose()

    @property
    def hello(self) -> Hello:
        """How the node greeted, when it was connected last."""
        return self._connection.hello

    @property
    def address(self) -> str:
        """HOST:PORT or unix:/PATH of the node that was connected last."""
        return self._connection.name

    # -- what happened

    def get_changes(
        self, nodes: Ticks, *, path: Path | str = ROOT, content: bool = True
    ) -> Items[ChangePage | Located]:
        """The changes of some ticks, of each node in order of tick, as pages while they arrive, and last a `Located`
        that says of which ticks the node has no content.

        They come on a connection of their own; see `get_tree`.

        Args:
            nodes: per node its ticks, as `held` of `state()` has them, or `distkv.Ranges`.
            path: only what happened at and below it; ticks of other paths are in no page, and not absent.
            content: False: no pages, only which of the ticks have their content `here`.

        Raises:
            NotReadyError: the node serves no clients yet.
            DamagedError: some of its history cannot be read: ask another node.
            RequestError: `nodes` are no ticks; nothing was sent.
        """
        return Items(self._connection, changes.get_changes(nodes, path=path, content=content))

    async def wait_events(
        self,
        nodes: News,
        *,
        others: bool = False,
        timeout_s: float = 60.0,
    ) -> TickRanges:
        """Wait until the node durably holds events that are news, and return which; nothing after `timeout_s` seconds.

        Args:
            nodes: per node the ticks that are no news, or one tick: all up to it.
            others: whether all events of nodes that are not named are news, too.
            timeout_s: at most 3600; `reply_s` is extended by it.

        Raises:
            BusyError: more than `limits.event_waits` wait on this connection.
            RequestError: an argument is none that a node takes; nothing was sent.
        """
        return await self._connection.ask(changes.events_wait(nodes, others=others, timeout_s=timeout_s))
