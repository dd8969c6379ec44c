"""The blocking client: one method per request that a node answers.

Knows: how it is opened and left. Signature and docstring of `connect` are made of those of `async_client.open_client`,
its methods of those of `async_client.AsyncClient`, and so are those of its parts (`blocking_values`, `blocking_trees`,
`blocking_node`, and what each service adds).  Does not know threads and sockets (`blocking_connection`), nor how a path
or a value is written by people.  Imports neither trio nor anyio, and what watches and conflicts need only when somebody
asks for them: most clients of a command ask for one value.

Invariant: methods, parameters and words are those of `async_client.AsyncClient`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from distkv.client.addresses import DEFAULT_ADDRESS, Address, check_addresses, read_hosts
from distkv.client.arguments import check_patience
from distkv.client.blocking_connection import SharedConnection
from distkv.client.blocking_node import NodeMethods
from distkv.client.blocking_tokens import TokenMethods
from distkv.client.blocking_topics import TopicMethods
from distkv.client.blocking_trees import TreeMethods
from distkv.client.blocking_values import ValueMethods
from distkv.model.path import ROOT, Path
from distkv.wire.replies import Hello

if TYPE_CHECKING:
    from distkv.client.changes import ChangePage, Located, News, Ticks
    from distkv.model.tick_ranges import TickRanges


# -- begin generated from async_client.open_client, its head: python packaging/blocking_client.py
def connect(
    host: str | Sequence[str] = DEFAULT_ADDRESS[0],
    port: int = DEFAULT_ADDRESS[1],
    *,
    connect_s: float = 5.0,
    reply_s: float = 30.0,
) -> Client:
    """Connect to a node, and again whenever the connection breaks.

    Args:
        host: HOST, HOST:PORT or unix:/PATH; of several the first that answers is taken.
        port: for hosts without one.
        connect_s: how long one address is tried.
        reply_s: how long a method may take, with all attempts to connect again.

    Raises:
        UnreachableError: no node answers.
        PeerError: something else answers there.
        SettingsError: a host, a port or a time that is none.
    """
    # -- end generated
    return Client(read_hosts(host, port), connect_s=connect_s, reply_s=reply_s, reconnect=True)


class Client(ValueMethods, TreeMethods, NodeMethods, TokenMethods, TopicMethods):
    """A connection to one node, for several threads: one asks after the other. `connect` makes it.

    Every method raises `UnreachableError` when no node answers, `ConnectionLostError` when it is unknown whether a
    write took place, `PeerError` when the node answers nonsense, and else the class of `distkv.errors` that has the
    code of the node's answer.
    """

    def __init__(
        self,
        addresses: Sequence[Address] = (DEFAULT_ADDRESS,),
        *,
        connect_s: float = 5.0,
        reply_s: float = 30.0,
        reconnect: bool = False,
    ) -> None:
        """Connect to the first of `addresses` that answers. See `connect`.

        Args:
            reconnect: connect again when the connection breaks; else the first break is the end.
        """
        check_addresses(addresses)
        check_patience("connect_s", connect_s)
        check_patience("reply_s", reply_s)
        super().__init__(SharedConnection(addresses, connect_s=connect_s, reply_s=reply_s, reconnect=reconnect))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- begin generated from async_client.AsyncClient: python packaging/blocking_client.py

    def close(self) -> None:
        """End the connection for good, from any thread; who waits for something, such as a reply, a change or a
        token, gets `UnreachableError` at once. A token that is held stays so until its block ends. May be called
        again."""
        self._connection.close()

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
    ) -> Generator[ChangePage | Located, None, None]:
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
        from distkv.client import changes

        return self._connection.items(changes.get_changes(nodes, path=path, content=content))

    def wait_events(
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
        from distkv.client import changes

        return self._connection.ask(changes.events_wait(nodes, others=others, timeout_s=timeout_s))

    # -- end generated
