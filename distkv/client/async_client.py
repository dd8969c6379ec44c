"""The client for trio and asyncio: the methods of the blocking one, to be awaited, by many tasks at once.

Knows: which question each method asks.  Does not know tasks and sockets (`async_connection`).

Invariant: methods, parameters and words are those of `blocking.Client`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from distkv.client import conflicts, questions
from distkv.client.addresses import DEFAULT_ADDRESS, read_hosts
from distkv.client.async_connection import AsyncConnection, Line, open_connection
from distkv.client.conflicts import Listing, Loser
from distkv.client.protocol import Backoff, read_answer
from distkv.client.questions import Answer, Entry, Listed, Operation, Past, Question, Written
from distkv.client.watch import SILENCE_S, Begun, Change, Contested, Resync, UpToDate, WatchEvent, Watching
from distkv.errors import DistkvError
from distkv.model.event import Link
from distkv.model.path import ROOT, Path
from distkv.wire.fields import Fields
from distkv.wire.frames import REPLICAS_S
from distkv.wire.replies import Hello
from distkv.wire.values import pack_value

Told = TypeVar("Told", bound=WatchEvent)

OPEN_MAX: Final = 256
"""How many requests of one client may be on their way at once, by default; a server takes about a thousand."""


@asynccontextmanager
async def open_client(
    host: str | Sequence[str] = DEFAULT_ADDRESS[0],
    port: int = DEFAULT_ADDRESS[1],
    *,
    connect_s: float = 5.0,
    reply_s: float = 30.0,
    open_max: int = OPEN_MAX,
) -> AsyncIterator[AsyncClient]:
    """Connect to a node, and again whenever the connection breaks, until the block is left.

    Args:
        host: HOST, HOST:PORT or unix:/PATH; of several the first that answers is taken.
        port: for hosts without one.
        connect_s: how long one address is tried.
        reply_s: how long a method may take, with all attempts to connect again.
        open_max: how many requests may be on their way at once; further ones wait.

    Raises:
        UnreachableError: no node answers.
        PeerError: something else answers there.
        SettingsError: a host or port that is none.
    """
    if open_max < 1:
        raise ValueError(f"open_max is {open_max}: it must be 1 or more")
    addresses = read_hosts(host, port)
    async with open_connection(addresses, connect_s=connect_s, reply_s=reply_s, open_max=open_max) as connection:
        yield AsyncClient(connection)


class AsyncClient:
    """A connection to one node, for many tasks at once. `open_client` makes it.

    Requests leave in the order in which they were asked, without waiting for one another's replies. A cancelled write
    may take place all the same.

    Every method raises `UnreachableError` when no node answers, `ConnectionLostError` when it is unknown whether a
    write took place, `PeerError` when the node answers nonsense, and else the class of `distkv.errors` that has the
    code of the node's answer.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection: Final = connection

    @property
    def hello(self) -> Hello:
        """How the node greeted, when it was connected last."""
        return self._connection.hello

    @property
    def address(self) -> str:
        """HOST:PORT or unix:/PATH of the node that was connected last."""
        return self._connection.name

    # -- values

    async def get(self, path: Path | str, *, at: float | None = None) -> Entry | None:
        """What `path` holds; None when it has no value.

        With `at`, what it held on the node that is asked at this time, in seconds since 1970: what the node knew then,
        by its own clock.
        """
        return await self._connection.ask(questions.get_value(path) if at is None else questions.get_value_at(path, at))

    async def set(
        self,
        path: Path | str,
        value: object,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: object = None,
        ttl: float | None = None,
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> Written:
        """Store `value`. The conditions are judged on this node alone; two nodes can both find them true.

        Args:
            path: where.
            value: as in `Entry`; not None, which would delete.
            new: only when there is no value.
            idem: do nothing when the same value is there.
            head: only when this change is the last one.
            previous: only when this value is there; None: whatever is there.
            ttl: after so many seconds it goes by itself, unless it is stored again before; None: it stays. Not with
                `idem`, which would not renew it.
            replicas: return when so many nodes hold it durably, the one that is asked included.
            timeout_s: but wait no longer for them; `reply_s` is extended by it. Then the write stands all the same:
                `Written.replicas` says how many nodes are known to hold it.

        Raises:
            ExistsError, ChainMismatchError, ValueMismatchError: the condition does not hold.
            BadValueError, TooLargeError: the value cannot be stored; it was not sent.
            RequestError: more `replicas` than 1024, a `timeout_s` above 3600, or a `ttl` of nothing; it was not sent.
        """
        packed = pack_value(value)
        old = None if previous is None else pack_value(previous)
        return await self.set_packed(
            path, packed, new=new, idem=idem, head=head, previous=old, ttl=ttl, replicas=replicas, timeout_s=timeout_s
        )

    async def set_packed(
        self,
        path: Path | str,
        value: bytes | None,
        *,
        new: bool = False,
        idem: bool = False,
        head: Link | None = None,
        previous: bytes | None = None,
        ttl: float | None = None,
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> Written:
        """As `set`, of values that `pack_value` made. None deletes, and tells more than `delete` does."""
        question = questions.set_value(
            path, value, new=new, idem=idem, head=head, previous=previous, ttl=ttl, replicas=replicas,
            timeout_s=timeout_s,
        )  # fmt: skip
        return await self._connection.ask(question)

    async def delete(self, path: Path | str, *, replicas: int = 1, timeout_s: float = REPLICAS_S) -> bool:
        """Delete the value of `path`; whether there was one.

        Args:
            path: where.
            replicas: return when so many nodes hold the deletion durably, the one that is asked included.
            timeout_s: but wait no longer for them; `reply_s` is extended by it. Then the deletion stands all the same;
                how many nodes are known to hold it, `set_packed` without a value tells.
        """
        written = await self.set_packed(path, None, replicas=replicas, timeout_s=timeout_s)
        return written.changed

    async def batch(self, operations: Iterable[Operation]) -> tuple[Entry | Written | None, ...]:
        """Carry out several operations in one step: all, or none when one is refused.

        Args:
            operations: `Get`, `Set` and `Delete`; a later one sees what an earlier one did. Each path is written once.

        Returns:
            For each operation in its order, for `Get` an `Entry` or None, else a `Written`.

        Raises:
            RequestError: one is refused; its number, from 0, is in `op` of the error.
        """
        return await self._connection.ask(questions.batch(operations))

    # -- conflicts

    async def conflicts(
        self, path: Path | str = ROOT, *, closed: bool = False, limit: int | None = None
    ) -> tuple[Loser, ...]:
        """The open losers at and below `path`, in the order of paths, at each the highest first. All nodes that hold
        the same ticks have the same.

        Args:
            path: where. The system's own paths are shown only when it is one of them.
            closed: those of `path` alone that are open no more instead, the latest first, as far as the history of the
                node that is asked knows them.
            limit: how many at the most.
        """
        listing = Listing(path, closed=closed, limit=limit)
        while (question := listing.question) is not None:
            listing.add(await self._connection.ask(question))
        return listing.found

    async def restore(
        self, id: str | Link, *, head: Link | None = None, path: Path | str = ROOT, closed: bool = False
    ) -> Written:
        """Write an open loser again, by a change that knows it and what won: its conflict is over on all nodes. Other
        losers of the path stay open.

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
        return await self._connection.ask(conflicts.restore(id, head=head, path=path, closed=closed))

    async def dismiss(self, id: str | Link, *, head: Link | None = None, path: Path | str = ROOT) -> Written:
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
        return await self._connection.ask(conflicts.dismiss(id, head=head, path=path))

    # -- trees

    def get_tree(
        self, path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
    ) -> Items[tuple[Path, Entry]]:
        """The values at and below `path`, in order, while they arrive.

        They come on a connection of their own, so that who reads them slowly holds up nothing else. When that breaks,
        `UnreachableError` is raised, and you may begin anew.

        Args:
            path: where.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
            limit: how many values at the most.
        """
        question = questions.get_tree(path, min_depth=min_depth, max_depth=max_depth, limit=limit)
        return Items(self._connection, question)

    def history(self, path: Path | str, *, limit: int | None = None, before: int | None = None) -> Items[Past]:
        """The changes of `path` that reached the node that is asked, newest first, while they arrive.

        They come on a connection of their own; see `get_tree`.

        Args:
            path: where.
            limit: how many at the most.
            before: only those before this `Past.position`.
        """
        return Items(self._connection, questions.history(path, limit=limit, before=before))

    async def list(self, path: Path | str) -> tuple[Listed, ...]:
        """The names directly below `path` that lead to a value."""
        return await self._connection.ask(questions.list_names(path))

    async def delete_tree(self, path: Path | str) -> int:
        """Delete the values at and below `path`; how many there were.

        A large tree is deleted in several steps, each of which takes place as a whole.
        """
        return await self._connection.ask(questions.delete_tree(path))

    # -- watching

    def watch(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
    ) -> Watch[Change | Resync]:
        """Be told of every change at and below `path`, until you stop iterating.

        When the connection breaks it is made again, and the watch goes on where it was. When it cannot, a `Resync` says
        so, and all that is there follows.

        Args:
            path: where.
            fetch: begin with what is there.
            since: begin behind the change that had this token.
            min_depth: how many names below `path` a value has at the least.
            max_depth: and at the most; None: any number.
        """
        watching = Watching(path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth)
        return Watch(self._connection, watching, (Change, Resync))

    def watch_events(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
    ) -> Watch[WatchEvent]:
        """As `watch`, and also: when what was told is complete (`UpToDate`), and conflicts (`Contested`)."""
        watching = Watching(path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth)
        return Watch(self._connection, watching, (Change, Resync, UpToDate, Contested))

    # -- the node

    async def state(self) -> Mapping[str, object]:
        """What the node says of itself and the network (docs: client protocol, `get_state`)."""
        return await self._connection.ask(questions.get_state())

    async def retire_node(self, name: str, *, force: bool = False) -> bool:
        """Say that a node is gone for good, so that nothing waits for it any more; whether that is news.

        Should it return it gives the others what only it has, and then joins anew, as if it were empty.

        Args:
            name: the node, not the one that is asked.
            force: also when it is seen alive.

        Raises:
            NotFoundError: no such node is registered.
            ExistsError: it is seen alive.
        """
        return await self._connection.ask(questions.retire_node(name, force=force))

    def backup(self) -> Items[bytes]:
        """A copy of the whole node, in parts; `distkv restore` makes a data directory of it."""
        return Items(self._connection, questions.backup())

    def scrub(self, *, fast: bool = False) -> Items[Mapping[str, object]]:
        """Have the node read all that is on its disk, compare checksums, and mend what it can.

        Gives the progress about once a second, `{"rows", "of"}`, and last what was found: `{"rows", "of", "found"}`.
        `fast`: without the pauses that leave the disk to others.
        """
        return Items(self._connection, questions.scrub(fast=fast))

    async def ping(self) -> None:
        """One round trip; a node answers in every state."""
        await self._connection.ask(questions.ping())

    async def request(
        self, action: str, fields: Mapping[str, object] | None = None, *, is_read: bool = False
    ) -> Mapping[str, object]:
        """Any other request that has one reply, with the fields as they are sent; the reply without `seq`.

        Args:
            action: what is asked (docs: client protocol).
            fields: a path is a list of its elements here.
            is_read: it changes nothing, so it may be sent again when the connection breaks.
        """
        return await self._connection.ask(questions.anything(action, fields or {}, is_read=is_read))


class Items(Generic[Answer]):
    """The items of a long result, while they arrive, on a connection of their own.

    Iterate with `async for`. Who leaves before the end closes it: `async with`, or `aclose`; else it stays open until
    the client is closed.
    """

    def __init__(
        self, connection: AsyncConnection, question: Question[Answer], *, reply_s: float | None = None
    ) -> None:
        self._connection: Final = connection
        self._reply_s: Final = reply_s
        self._question: Final = question
        self._line: Line[None] | None = None
        self._ready: deque[Fields | DistkvError | None] = deque()
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            answer = await self._next()
        except DistkvError:
            await self.aclose()
            raise
        if answer is None:
            await self.aclose()
            raise StopAsyncIteration
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ask for no more. May be called again."""
        self._is_closed = True
        self._ready.clear()
        if self._line is not None:
            await self._connection.close_line(self._line)

    async def _next(self) -> Answer | None:
        """The next item; None after the last one."""
        if self._line is None:
            self._line = await self._connection.open_line(self._question)
        while not self._ready:
            self._ready += await self._connection.receive(self._line, self._reply_s)
        answer = self._ready.popleft()
        if isinstance(answer, DistkvError):
            raise answer
        return None if answer is None else read_answer(self._question, answer, self._line.hello.node)


class Watch(Generic[Told]):
    """What a watch is told, over as many connections as it takes, each its own.

    Iterate with `async for`. Who leaves closes it: `async with`, or `aclose`; else it stays open until the client is
    closed.
    """

    def __init__(self, connection: AsyncConnection, watching: Watching, kinds: tuple[type[Told], ...]) -> None:
        self._connection: Final = connection
        self._watching: Final = watching
        self._kinds: Final = kinds
        self._pauses: Final = Backoff()
        self._items: Items[WatchEvent | Begun] | None = None
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        while not self._is_closed:
            event = await self._next()
            if isinstance(event, self._kinds):
                return event
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Be told of no more. May be called again."""
        self._is_closed = True
        if self._items is not None:
            await self._items.aclose()

    async def _next(self) -> WatchEvent | Begun | None:
        """What comes next; None when the connection broke."""
        if self._items is None:
            self._items = Items(self._connection, self._watching.question(), reply_s=SILENCE_S)
        try:
            event = await anext(self._items)
        except StopAsyncIteration:  # nobody asked it to stop, so it is the node that does
            pass
        except DistkvError as error:
            if self._connection.is_over or not self._watching.is_bearable(error):
                await self.aclose()
                raise
        else:
            self._pauses.reset()
            return event
        self._items = None
        await self._connection.pause(self._pauses)
        return None
