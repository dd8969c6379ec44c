"""What the async client asks of a node about single values: to read and write them, and to decide their conflicts.

Knows: which question each method asks.  Does not know how a connection is made.  `blocking_values` is made of this.

Invariant: a value is checked and packed before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, overload

from distkv.client import conflicts, questions
from distkv.client.arguments import check_stored
from distkv.client.async_connection import AsyncConnection
from distkv.client.client_part import ClientPart
from distkv.client.conflicts import Listing, Loser
from distkv.client.questions import Entry, Operation, Written
from distkv.model.event import Link
from distkv.model.fence import Fence
from distkv.model.path import ROOT, Path
from distkv.wire.replicated import REPLICAS_S
from distkv.wire.values import pack_value

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class AsyncValueMethods(ClientPart[AsyncConnection]):
    """A part of the client."""

    async def get(self, path: Path | str, *, at: float | None = None) -> Entry | None:
        """What `path` holds; None when it has no value.

        With `at`, what it held on the node that is asked at this time, in seconds since 1970: what the node knew then,
        by its own clock. Raises DamagedError if the node lost that, or its past begins later: another one may know.
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
        return await self.set_packed(
            path, packed, new=new, idem=idem, head=head, previous=old, ttl=ttl, fence=fence, refence=refence,
            replicas=replicas, timeout_s=timeout_s,
        )  # fmt: skip

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
        return await self._connection.ask(question)

    async def delete(
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
        written = await self.set_packed(
            path, None, head=head, previous=old, fence=fence, refence=refence, replicas=replicas, timeout_s=timeout_s
        )
        return written.changed

    @overload
    async def batch(self, operations: tuple[Operation[A], Operation[B]]) -> tuple[A, B]: ...
    @overload
    async def batch(self, operations: tuple[Operation[A], Operation[B], Operation[C]]) -> tuple[A, B, C]: ...
    @overload
    async def batch(
        self, operations: tuple[Operation[A], Operation[B], Operation[C], Operation[D]]
    ) -> tuple[A, B, C, D]: ...
    @overload
    async def batch(self, operations: Iterable[Operation[A]]) -> tuple[A, ...]: ...
    async def batch(self, operations: Iterable[Operation[object]]) -> tuple[object, ...]:
        """Carry out several operations in one step: all, or none when one is refused.

        Args:
            operations: `Get`, `Set` and `Delete`; a later one sees what an earlier one did. Each path is written once.
                Of a tuple of up to four a type checker knows what each comes to.

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

        Raises:
            DamagedError: the disk damaged some; those that are there are in `found` of the error.
        """
        return await self._connection.ask_pages(Listing(path, closed=closed, limit=limit))

    async def restore(
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
