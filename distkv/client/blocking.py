"""The blocking client: one method per request that a node answers.

Knows: when to connect again and what then is asked again.  Does not know sockets (`connection`), nor how a path or a
value is written by people.  Imports neither trio nor anyio.

Invariant: a write is sent at most once, unless a second time can do no harm (`questions`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Final, Self

from distkv.client import conflicts, questions
from distkv.client.addresses import DEFAULT_ADDRESS, Address, in_turn, read_hosts
from distkv.client.conflicts import Listing, Loser
from distkv.client.connection import Connection, open_connection
from distkv.client.protocol import Backoff, Call, read_answer
from distkv.client.questions import Answer, Entry, Listed, Operation, Past, Question, Written
from distkv.client.watch import SILENCE_S, Begun, Change, Resync, WatchEvent, Watching
from distkv.errors import ConnectionLostError, DistkvError, UnreachableError
from distkv.model.event import Link
from distkv.model.path import ROOT, Path
from distkv.wire.frames import REPLICAS_S
from distkv.wire.replies import Hello
from distkv.wire.values import pack_value


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
        SettingsError: a host or port that is none.
    """
    return Client(read_hosts(host, port), connect_s=connect_s, reply_s=reply_s, reconnect=True)


class Client:
    """A connection to one node. For one thread at a time.

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
        self._addresses = tuple(addresses)
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._reconnect = reconnect
        self._backoff: Final = Backoff()
        self._connection = open_connection(self._addresses, connect_s=connect_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection for good. May be called again."""
        self._reconnect = False
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
        by its own clock.
        """
        return self._ask(questions.get_value(path) if at is None else questions.get_value_at(path, at))

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
        return self.set_packed(
            path, packed, new=new, idem=idem, head=head, previous=old, ttl=ttl, replicas=replicas, timeout_s=timeout_s
        )

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
        replicas: int = 1,
        timeout_s: float = REPLICAS_S,
    ) -> Written:
        """As `set`, of values that `pack_value` made. None deletes, and tells more than `delete` does."""
        question = questions.set_value(
            path, value, new=new, idem=idem, head=head, previous=previous, ttl=ttl, replicas=replicas,
            timeout_s=timeout_s,
        )  # fmt: skip
        return self._ask(question)

    def delete(self, path: Path | str, *, replicas: int = 1, timeout_s: float = REPLICAS_S) -> bool:
        """Delete the value of `path`; whether there was one.

        Args:
            path: where.
            replicas: return when so many nodes hold the deletion durably, the one that is asked included.
            timeout_s: but wait no longer for them; `reply_s` is extended by it. Then the deletion stands all the same;
                how many nodes are known to hold it, `set_packed` without a value tells.
        """
        return self.set_packed(path, None, replicas=replicas, timeout_s=timeout_s).changed

    def batch(self, operations: Iterable[Operation]) -> tuple[Entry | Written | None, ...]:
        """Carry out several operations in one step: all, or none when one is refused.

        Args:
            operations: `Get`, `Set` and `Delete`; a later one sees what an earlier one did. Each path is written once.

        Returns:
            For each operation in its order, for `Get` an `Entry` or None, else a `Written`.

        Raises:
            RequestError: one is refused; its number, from 0, is in `op` of the error.
        """
        return self._ask(questions.batch(operations))

    def history(self, path: Path | str, *, limit: int | None = None, before: int | None = None) -> Iterator[Past]:
        """The changes of `path` that reached the node that is asked, newest first, while they arrive.

        They come on a connection of their own; see `get_tree`.

        Args:
            path: where.
            limit: how many at the most.
            before: only those before this `Past.position`.
        """
        return self._items(questions.history(path, limit=limit, before=before))

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
        """
        listing = Listing(path, closed=closed, limit=limit)
        while (question := listing.question) is not None:
            listing.add(self._ask(question))
        return listing.found

    def restore(
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
        return self._ask(conflicts.restore(id, head=head, path=path, closed=closed))

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
        return self._ask(conflicts.dismiss(id, head=head, path=path))

    # -- trees

    def get_tree(
        self, path: Path | str, *, min_depth: int = 0, max_depth: int | None = None, limit: int | None = None
    ) -> Iterator[tuple[Path, Entry]]:
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
        return self._items(question)

    def list(self, path: Path | str) -> tuple[Listed, ...]:
        """The names directly below `path` that lead to a value."""
        return self._ask(questions.list_names(path))

    def delete_tree(self, path: Path | str) -> int:
        """Delete the values at and below `path`; how many there were.

        A large tree is deleted in several steps, each of which takes place as a whole.
        """
        return self._ask(questions.delete_tree(path))

    # -- watching

    def watch(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
    ) -> Iterator[Change | Resync]:
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
        events = self.watch_events(path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth)
        with closing(events):
            for event in events:
                if isinstance(event, Change | Resync):
                    yield event

    def watch_events(
        self,
        path: Path | str,
        *,
        fetch: bool = False,
        since: bytes | None = None,
        min_depth: int = 0,
        max_depth: int | None = None,
    ) -> Generator[WatchEvent, None, None]:
        """As `watch`, and also: when what was told is complete (`UpToDate`), and conflicts (`Contested`)."""
        watching = Watching(path, fetch=fetch, since=since, min_depth=min_depth, max_depth=max_depth)
        pauses = Backoff()
        while True:
            try:
                for event in self._items(watching.question(), SILENCE_S):
                    pauses.reset()
                    if not isinstance(event, Begun):
                        yield event
            except DistkvError as error:
                if not self._reconnect or not watching.is_bearable(error):
                    raise
            time.sleep(pauses.next_s(random.random()))

    # -- the node

    def state(self) -> Mapping[str, object]:
        """What the node says of itself and the network (docs: client protocol, `get_state`)."""
        return self._ask(questions.get_state())

    def retire_node(self, name: str, *, force: bool = False) -> bool:
        """Say that a node is gone for good, so that nothing waits for it any more; whether that is news.

        Should it return it gives the others what only it has, and then joins anew, as if it were empty.

        Args:
            name: the node, not the one that is asked.
            force: also when it is seen alive.

        Raises:
            NotFoundError: no such node is registered.
            ExistsError: it is seen alive.
        """
        return self._ask(questions.retire_node(name, force=force))

    def backup(self) -> Iterator[bytes]:
        """A copy of the whole node, in parts; `distkv restore` makes a data directory of it."""
        return self._items(questions.backup())

    def scrub(self, *, fast: bool = False) -> Iterator[Mapping[str, object]]:
        """Have the node read all that is on its disk, compare checksums, and mend what it can.

        Gives the progress about once a second, `{"rows", "of"}`, and last what was found: `{"rows", "of", "found"}`.
        `fast`: without the pauses that leave the disk to others.
        """
        return self._items(questions.scrub(fast=fast))

    def ping(self) -> None:
        """One round trip; a node answers in every state."""
        self._ask(questions.ping())

    def request(
        self, action: str, fields: Mapping[str, object] | None = None, *, is_read: bool = False
    ) -> Mapping[str, object]:
        """Any other request that has one reply, with the fields as they are sent; the reply without `seq`.

        Args:
            action: what is asked (docs: client protocol).
            fields: a path is a list of its elements here.
            is_read: it changes nothing, so it may be sent again when the connection breaks.
        """
        return self._ask(questions.anything(action, fields or {}, is_read=is_read))

    # -- inside

    def _ask(self, question: Question[Answer]) -> Answer:
        call = Call(question)
        deadline = time.monotonic() + self._reply_s + question.wait_s
        while True:
            try:
                connection = self._connected(deadline)
                call.begin(connection.hello.node)
                answer = connection.ask(question, deadline)
            except ConnectionLostError:
                raise
            except UnreachableError as error:
                call.lose(error)
                if not self._reconnect or time.monotonic() >= deadline:
                    raise call.give_up(error) from None
            else:
                self._backoff.reset()
                return call.conclude(answer)

    def _connected(self, deadline: float) -> Connection:
        """The connection; when it is broken a new one, after a pause that grows with every failure."""
        if not self._reconnect:
            self._connection.check_open()
        elif not self._connection.is_alive():
            self._connection.close()
            self._connection = self._connect_again(deadline - time.monotonic())
        return self._connection

    def _connect_again(self, left_s: float) -> Connection:
        time.sleep(max(0.0, min(self._backoff.next_s(random.random()), left_s)))
        connect_s = max(0.001, min(self._connect_s, left_s))
        try:
            return open_connection(self._in_turn(), connect_s=connect_s)
        except DistkvError as error:  # whatever it is, it may be over soon: something starts, or makes room
            raise UnreachableError(str(error)) from None

    def _items(self, question: Question[Answer], reply_s: float | None = None) -> Iterator[Answer]:
        connection = self._another()
        with closing(connection.items(question, self._reply_s if reply_s is None else reply_s)) as items:
            for item in items:
                yield read_answer(question, item, connection.hello.node)

    def _another(self) -> Connection:
        """One more connection, to the same node if it can be."""
        if not self._reconnect:
            self._connection.check_open()
        try:
            return open_connection(self._in_turn(), connect_s=self._connect_s)
        except UnreachableError:
            if not self._reconnect:
                raise
            self.ping()  # which waits until there is a node again
            return open_connection(self._in_turn(), connect_s=self._connect_s)

    def _in_turn(self) -> Sequence[Address]:
        return in_turn(self._addresses, self._connection.address)
