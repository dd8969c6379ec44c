"""The blocking client: one method per request that a node answers.

Knows: which question each method asks.  Does not know threads and sockets (`blocking_connection`), nor how a path or a
value is written by people.  Imports neither trio nor anyio, and what watches and conflicts need only when somebody asks
for them: most clients of a command ask for one value.

Invariant: methods, parameters and words are those of `async_client.AsyncClient`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, overload

from distkv.client import questions
from distkv.client.addresses import DEFAULT_ADDRESS, Address, check_addresses, read_hosts
from distkv.client.arguments import check_patience, check_stored
from distkv.client.blocking_connection import SharedConnection
from distkv.client.blocking_node import NodeMethods
from distkv.client.names import Listed, NameListing
from distkv.client.questions import DeletedCount, Entry, Operation, Past, Written
from distkv.model.event import Link
from distkv.model.fence import Fence
from distkv.model.path import ROOT, Name, Path
from distkv.wire.replies import Hello
from distkv.wire.request import REPLICAS_S
from distkv.wire.values import pack_value

if TYPE_CHECKING:
    from distkv.client.blocking_token import TokenHold
    from distkv.client.changes import ChangePage, Located, News, Ticks
    from distkv.client.conflicts import Loser
    from distkv.client.outages import OnConnect, OnDisconnect
    from distkv.client.watch import Change, Lost, Resync, WatchEvent
    from distkv.model.tick_ranges import TickRanges

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


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
    return Client(read_hosts(host, port), connect_s=connect_s, reply_s=reply_s, reconnect=True)


class Client(NodeMethods):
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

    # -- values

    def get(self, path: Path | str, *, at: float | None = None) -> Entry | None:
        """What `path` holds; None when it has no value.

        With `at`, what it held on the node that is asked at this time, in seconds since 1970: what the node knew then,
        by its own clock. Raises DamagedError if the node lost that, or its past begins later: another one may know.
        """
        return self._connection.ask(questions.get_value(path) if at is None else questions.get_value_at(path, at))

    def set(
        self,
        path: Path | str,
        value: object,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: object = None,
        ttl: float | None = None,
        fence: Fence | str | None = None,
        refence: bool = False,
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> Written:
        """Store `value`. The conditions are judged on this node alone; two nodes can both find them true.

        Args:
            path: where.
            value: as in `Entry`; not None: `delete` deletes.
            new: only when there is no value.
            idem: do nothing when the same value is there, and neither it nor this one has a ttl.
            head: only when this change is the last one.
            previous: only when this value is there; None: whatever is there.
            ttl: after so many seconds it goes by itself, unless it is stored again before; None: it stays.
            fence: of the token under which it is written: text, NAME:EPOCH.COUNTER, or a `Fence`. From then on only
                this fence and higher ones of this token may write the path.
            refence: lift the fence of the path, whoever holds the token. Afterwards anybody may write it.
            replicas: return when so many nodes hold it durably, the one that is asked included.
            timeout_s: but wait no longer for them; `reply_s` is extended by it. Then the write stands all the same:
                `Written.replicas` says how many nodes are known to hold it.

        Raises:
            ExistsError, ChainMismatchError, ValueMismatchError: the condition does not hold.
            FencedError: a token holds the path, and `fence` is not its latest one.
            BadValueError, TooLargeError: the value cannot be stored; it was not sent.
            RequestError: more `replicas` than 1024, a `timeout_s` above 3600, a `ttl` of nothing, or another argument
                that no node takes; it was not sent.
        """
        check_stored(value)
        packed = pack_value(value)
        old = None if previous is None else pack_value(previous)
        return self.set_packed(
            path, packed, new=new, idem=idem, head=head, previous=old, ttl=ttl, fence=fence, refence=refence,
            replicas=replicas, timeout_s=timeout_s,
        )  # fmt: skip

    def set_packed(
        self,
        path: Path | str,
        value: bytes | None,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: bytes | None = None,
        ttl: float | None = None,
        fence: Fence | str | None = None,
        refence: bool = False,
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> Written:
        """As `set`, of values that `pack_value` made. None deletes, and tells more than `delete` does."""
        question = questions.set_value(
            path, value, new=new, idem=idem, head=head, previous=previous, ttl=ttl, fence=fence,
            refence=refence, replicas=replicas, timeout_s=timeout_s,
        )  # fmt: skip
        return self._connection.ask(question)

    def delete(
        self,
        path: Path | str,
        *,
        head: Link | None = None,
        previous: object = None,
        fence: Fence | str | None = None,
        refence: bool = False,
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> bool:
        """Delete the value of `path`; whether there was one. The conditions are judged as those of `set`.

        Args:
            path: where.
            head: only when this change is the last one.
            previous: only when this value is there; None: whatever is there.
            fence, refence: as those of `set`. Where there is no value, they may still change the fence of the path,
                which counts as if there had been one.
            replicas: return when so many nodes hold the deletion durably, the one that is asked included.
            timeout_s: but wait no longer for them; `reply_s` is extended by it. Then the deletion stands all the same;
                how many nodes are known to hold it, `set_packed` without a value tells.

        Raises:
            ChainMismatchError, ValueMismatchError: the condition does not hold.
            FencedError: a token holds the path, and `fence` is not its latest one.
            NotFoundError: `previous` was given, and there is no value.
            RequestError: an argument is none that a node takes; nothing was sent.
        """
        old = None if previous is None else pack_value(previous)
        written = self.set_packed(
            path, None, head=head, previous=old, fence=fence, refence=refence, replicas=replicas, timeout_s=timeout_s
        )
        return written.changed

    @overload
    def batch(self, operations: tuple[Operation[A], Operation[B]]) -> tuple[A, B]: ...
    @overload
    def batch(self, operations: tuple[Operation[A], Operation[B], Operation[C]]) -> tuple[A, B, C]: ...
    @overload
    def batch(
        self, operations: tuple[Operation[A], Operation[B], Operation[C], Operation[D]]
    ) -> tuple[A, B, C, D]: ...
    @overload
    def batch(self, operations: Iterable[Operation[A]]) -> tuple[A, ...]: ...
    def batch(self, operations: Iterable[Operation[object]]) -> tuple[object, ...]:
        """Carry out several operations in one step: all, or none when one is refused.

        Args:
            operations: `Get`, `Set` and `Delete`; a later one sees what an earlier one did. Each path is written once.
                Of a tuple of up to four a type checker knows what each comes to.

        Returns:
            For each operation in its order, for `Get` an `Entry` or None, else a `Written`.

        Raises:
            RequestError: one is refused; its number, from 0, is in `op` of the error.
        """
        return self._connection.ask(questions.batch(operations))

    def history(self, path: Path | str, *, limit: int | None = None, before: int | None = None) -> Iterator[Past]:
        """The changes of `path` that reached the node that is asked, newest first, while they arrive.

        They come on a connection of their own; see `get_tree`.

        Args:
            path: where.
            limit: how many at the most.
            before: only those before this `Past.position`.
        """
        return self._connection.items(questions.history(path, limit=limit, before=before))

    # -- conflicts

    def conflicts(
        self, path: Path | str = ROOT, *, closed: bool = False, limit: int | None = None
    ) -> tuple[Loser, ...]:
        """The open losers at and below `path`, in the order of paths, at each the highest first. All nodes that hold
        the same ticks have the same.

        Args:
            path: where. The system's own paths are shown only when it is one of them.
            closed: those of `path` alone that are open no more instead, the latest first, as far as the history of the
                node that is asked knows them.
            limit: how many at the most.
        DamagedError with `found` if others are lost."""
        from distkv.client.conflicts import Listing

        return self._connection.ask_pages(Listing(path, closed=closed, limit=limit))

    def restore(
        self, id: str | Link, *, head: Link | None = None, path: Path | str = ROOT, closed: bool = False
    ) -> Written:
        """Write an open loser again, by a change that knows it and what won: its conflict is over on all nodes. Other
        losers of the path stay open. If a token holds the path, this lifts its fence.

        Args:
            id: the loser, as `Loser.id` or `Loser.link`.
            head: only while this is the change that won, such as `Loser.winner`.
            path: only when it lies at or below this path.
            closed: it may be a loser that is open no more, or any other change in the history of the node that is
                asked. It is written again whatever was decided since.

        Raises:
            NotFoundError: it is not open, or with `closed` not in the history.
            ChainMismatchError: the path has changed.
        """
        from distkv.client import conflicts

        return self._connection.ask(conflicts.restore(id, head=head, path=path, closed=closed))

    def dismiss(self, id: str | Link, *, head: Link | None = None, path: Path | str = ROOT) -> Written:
        """Write what won over an open loser again, by a change that knows both: its conflict is over on all nodes.
        Other losers of the path stay open.

        Args:
            id: the loser, as `Loser.id` or `Loser.link`.
            head: only while this is the change that won, such as `Loser.winner`.
            path: only when it lies at or below this path.

        Raises:
            NotFoundError: it is not open.
            ChainMismatchError: the path has changed.
        """
        from distkv.client import conflicts

        return self._connection.ask(conflicts.dismiss(id, head=head, path=path))

    # -- trees

    def get_tree(
        self, path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
    ) -> Iterator[tuple[Path, Entry]]:
        """The values at and below `path`, in order, while they arrive. Last comes DamagedError if others are lost.

        They come on a connection of their own, so that who reads them slowly holds up nothing else. When that breaks,
        `UnreachableError` is raised, and you may begin anew.

        Args:
            path: where.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
            limit: how many values at the most.
        """
        question = questions.get_tree(path, min_depth=min_depth, max_depth=max_depth, limit=limit)
        return self._connection.items(question)

    def list(self, path: Path | str, *, limit: int | None = None, after: Name | Path = None) -> tuple[Listed, ...]:
        """The names directly below `path` that lead to a value, in order, `limit` at the most. Only those that come
        after the name `after`, which need not be there; as a `Path` of one name it may also be null.
        DamagedError with `found` if others are lost."""
        return self._connection.ask_pages(NameListing(path, limit=limit, after=after))

    def delete_tree(self, path: Path | str) -> DeletedCount:
        """Delete the values at and below `path`, and return how many.

        Those whose paths tokens hold stay: `fenced` of the result counts them. A large tree is deleted in several
        steps, each of which takes place as a whole.
        """
        return self._connection.ask(questions.delete_tree(path))

    # -- watching

    def watch(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_connect: OnConnect | None = None,
    ) -> Iterator[Change | Resync | Lost]:
        """Be told of every change at and below `path`, from this call on (async: from where `async with` enters it),
        until you stop iterating.

        When the connection breaks it is made again, and the watch goes on where it was. When it cannot, a `Resync` says
        so, and all that is there follows. Behind what is shown, a `Lost` names each path whose value the disk lost.

        Args:
            path: where.
            fetch: begin with what is there.
            since: begin behind the change that had this token.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
            on_disconnect: called with the reason, one line, when the connection is lost and before it is tried again.
            on_connect: called when it is back and the node watches again. Both are called by who iterates, between two
                events; what they raise is raised there.
        """
        events = self.watch_events(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return _changes(events)

    def watch_events(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_connect: OnConnect | None = None,
    ) -> Generator[WatchEvent, None, None]:
        """As `watch`, and also: when what was told is complete (`UpToDate`), conflicts (`Contested`), and how many
        changes were overwritten before they came to the node (`Missed`)."""
        from distkv.client.watch import Watching

        watching = Watching(
            path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth, on_disconnect=on_disconnect,
            on_connect=on_connect,
        )  # fmt: skip
        return self._connection.begin_watch(watching)

    # -- tokens

    def token(
        self,
        name: str,
        *,
        shared: bool = False,
        data: object = None,
        keep_data: bool = False,
        wait_s: float | None = None,
        ttl_s: float | None = None,
    ) -> TokenHold:
        """Hold the token `name` inside a block. A session of its own is kept alive, by any node that the client knows;
        at the end it is closed. When the token is lost an async block is cancelled; others ask `token.is_lost`.

        Args:
            name: 1 to 255 bytes of text without control characters.
            shared: others may hold it at the same time if they ask for the same.
            data: a small value (64 KiB) that everybody sees, stored with the grant; None: as it is.
            keep_data: data of this holder stays when nobody holds the token; else it ends with the last holder.
            wait_s: how many seconds to wait for it, in turn, also while no majority answers; None: try once.
            ttl_s: how long the session lives without an answer, at least three leases (15 s by default); None: as the
                servers say.

        Raises:
            HeldError, TimedOutError: somebody else holds it, and `wait_s` is None, or over.
            NoQuorumError: no majority of the token servers answers.
            DisabledError: the settings name no token servers.
            UnreachableError: the client is closed.
            TokenLostError: on leaving: the token was lost. What the block raises itself comes first.
        """
        from distkv.client.blocking_token import TokenHold, as_wish  # few clients hold tokens

        return TokenHold(self._connection, as_wish(name, shared, data, wait_s, ttl_s, keep_data))

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


def _changes(events: Generator[WatchEvent, None, None]) -> Iterator[Change | Resync | Lost]:
    from distkv.client.watch import Change, Lost, Resync

    with closing(events):
        for event in events:
            if isinstance(event, Change | Resync | Lost):
                yield event
