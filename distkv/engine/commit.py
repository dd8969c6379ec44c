"""Group commit: many records, one fsync.

Knows: what waits for the disk, what is on its way, and what is durable.  Does not know what a record means.

Invariant: records become durable in the order in which they were appended; `wait_durable(p)` returns only when the
first p of them are; after a failed write nothing is ever durable again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final, TypeAlias

import attrs
import trio

from distkv.engine.scarce import on_a_thread
from distkv.errors import NoSpaceError
from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, Log

INLINE_SYNC_S: Final = 0.001
"""While syncs take less, a lone writer's commits are done on the loop: a thread would cost more than it gains."""
SHARED_S: Final = 0.01
"""So long after two connections wrote in turn, commits go to the thread, where others can join the next one."""
CONTROL_BYTES: Final = 64 << 10
"""What clients' writes leave free, so that the records of replication control always fit."""


Append: TypeAlias = Callable[[Sequence[bytes]], int]
RunBlocking: TypeAlias = Callable[[Append, Sequence[bytes]], Awaitable[int]]
"""How `Log.append` is called without blocking the loop: on a thread, or, under virtual time, by a fake without one."""


@attrs.define(slots=True)
class _CommitGroup:
    """Records that will be, or are being, committed together."""

    records: list[bytes] = attrs.field(factory=list)
    size: int = BATCH_OVERHEAD_BYTES
    done: trio.Event = attrs.field(factory=trio.Event)


class Committer:
    """The queue before one log. All methods belong to the trio thread; only `Log.append` runs on another.

    `run_blocking` is not to be abandoned when it is cancelled: the log must not be closed under a write. `clock` gives
    seconds, to judge how fast the disk is; while syncs take less than `inline_s`, a lone writer's are done on the loop.
    """

    def __init__(
        self,
        log: Log,
        *,
        run_blocking: RunBlocking = on_a_thread,
        clock: Callable[[], float] = perf_counter,
        inline_s: float = INLINE_SYNC_S,
    ) -> None:
        self._log = log
        self._run_blocking = run_blocking
        self._clock = clock
        self._inline_s = inline_s
        self._next = _CommitGroup()
        self._flying: _CommitGroup | None = None
        self._work = trio.Event()
        self._failure: Exception | None = None
        self._sync_s = 0.0
        self.last_writer: object = None
        """Who waited for a commit the last time, or hurried one. What nobody waits for is committed in his name: that
        does not mean that he is not alone."""
        self._shared_until = 0.0
        self._mark = 0
        self.is_wanted = False
        """Whether somebody waits for what was appended, but not here; set by whoever appended it."""
        self.appended = 0
        """How many records were ever appended."""
        self.durable = 0
        """How many of them are on the disk."""
        self.durable_mark = 0
        """The `mark` of the last durable record."""
        self.inline_count = 0
        self.thread_count = 0
        self.listeners: list[Callable[[], None]] = []
        """Called after every commit, one after another; quick, and do not raise."""

    # -- filling

    @property
    def is_idle(self) -> bool:
        """Whether everything appended is durable."""
        return self.durable == self.appended

    @property
    def waiting_bytes(self) -> int:
        """What is not durable yet."""
        return self._next.size + (self._flying.size if self._flying is not None else 0)

    def check_room(self, size: int, *, reserve: int = CONTROL_BYTES) -> None:
        """Ask before a step whether `size` bytes of records would fit.

        Raises:
            NoSpaceError: the disk is full.
        """
        try:
            self._log.reserve_nowait(self.waiting_bytes + size + reserve)
        except NoSpaceError as error:
            raise NoSpaceError(f"the disk is full, nothing was changed: {error}") from error

    def append(self, records: list[bytes], mark: int, *, is_awaited: bool = False) -> int:
        """Queue records; returns the position to wait for. `mark` rises with every call, or stays.

        `is_awaited`: the caller will `wait_durable` before it waits for anything else, so `run` need not be woken; a
        lone writer, who commits by himself, would pay for that with every write.
        """
        batch = self._next
        batch.records += records
        batch.size += sum(map(len, records)) + len(records) * RECORD_OVERHEAD_BYTES
        self.appended += len(records)
        self._mark = mark
        if not is_awaited:
            self._work.set()
        return self.appended

    # -- emptying

    async def wait_durable(self, position: int, writer: object = None) -> None:
        """Wait until the first `position` records are durable.

        `writer` is whoever waits: while it is alone and the disk is fast, the commit happens right here.

        Raises:
            StorageFailedError: a write failed; it is not known what the disk holds.
        """
        while self.durable < position:
            if self._failure is not None:
                raise self._failure
            if self._flying is None and self._is_alone(writer):
                self._commit_inline()
                continue
            in_flight = self._flying is not None and self.durable + len(self._flying.records) >= position
            batch = self._flying if in_flight and self._flying is not None else self._next
            self._work.set()
            await batch.done.wait()

    def hurry(self, writer: object) -> None:
        """Have what was appended committed soon: right here while `writer` is alone and the disk is fast.

        Raises:
            StorageFailedError: a write failed; it is not known what the disk holds.
        """
        if self._failure is not None:
            raise self._failure
        if self._flying is None and self._is_alone(writer):
            self._commit_inline()
        else:
            self._work.set()

    def begin(self) -> None:
        """Have what was appended committed on the thread, beside what goes on here."""
        self._work.set()

    async def run(self) -> None:
        """Commit what nobody commits inline, until cancelled.

        Raises:
            StorageFailedError: the node must end.
        """
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._failure is None and self._next.records:
                await self._commit_on_thread()
            if self._failure is not None:
                raise self._failure  # also when it met a lone writer, inline: the node must end

    def _is_alone(self, writer: object) -> bool:
        now = self._clock()
        if writer is not self.last_writer:
            self.last_writer = writer
            self._shared_until = now + SHARED_S
        return now >= self._shared_until and self._sync_s < self._inline_s

    def _take(self) -> tuple[_CommitGroup, int]:
        batch, self._next = self._next, _CommitGroup()
        self.is_wanted = False
        self._flying = batch
        return batch, self._mark

    def _commit_inline(self) -> None:
        batch, mark = self._take()
        try:
            self._append(batch.records)
        except Exception as error:
            self._fail(error, batch)
            raise
        self.inline_count += 1
        self._land(batch, mark)

    async def _commit_on_thread(self) -> None:
        batch, mark = self._take()
        try:
            await self._run_blocking(self._append, batch.records)
        except Exception as error:
            self._fail(error, batch)
            raise
        self.thread_count += 1
        self._land(batch, mark)

    def _append(self, records: Sequence[bytes]) -> int:
        """On the loop or on a thread, never on both. How long it takes is measured here: what a thread takes to begin,
        and to be heard of by a loop that is busy, says nothing about the disk. Nor does a single slow sync."""
        began = self._clock()
        end = self._log.append(records)
        took_s = min(self._clock() - began, 2 * self._inline_s)
        self._sync_s += (took_s - self._sync_s) / 8
        return end

    def _land(self, batch: _CommitGroup, mark: int) -> None:
        self.durable += len(batch.records)
        self.durable_mark = mark
        self._flying = None
        batch.done.set()
        for listener in self.listeners:
            listener()

    def _fail(self, error: Exception, batch: _CommitGroup) -> None:
        """Whatever it is, nobody knows what the disk holds: the node ends, also when who met it is a client's session,
        which contains what it does not foresee."""
        self._failure = error
        self._flying = None
        batch.done.set()
        self._next.done.set()
        self._work.set()


PUT_OFF_S: Final = 0.005
"""So long what came by links is kept for a commit that it shares with what comes meanwhile; and twice as long at most,
when nothing more comes: a clock that rings costs more than a look at it."""
PUT_OFF_BYTES: Final = 64 << 10
"""So much is committed at once."""


class LateCommits:
    """Commits that are put off, because nobody waits for them. A node that follows gets each set of a busy writer in a
    frame of its own. Then a commit for each costs more than taking it in.

    Invariant: what was put off is committed soon, or earlier with something for which somebody waits. Until then nobody
    is told of it: to put off a commit weakens nothing."""

    def __init__(self, committer: Committer) -> None:
        self._committer: Final = committer
        self._came = trio.Event()
        self._is_set = False
        self._seen = -1
        """How much was durable when the first of what is put off now came, and when that was."""
        self._since_s = 0.0

    def put_off(self) -> None:
        """Have what was appended committed soon, but not now.

        Raises:
            StorageFailedError: as `Committer.hurry`.
        """
        committer, now_s = self._committer, trio.current_time()
        if self._seen != committer.durable:  # what was put off before is committed
            self._seen, self._since_s = committer.durable, now_s
        if now_s - self._since_s >= PUT_OFF_S or committer.waiting_bytes > PUT_OFF_BYTES:
            committer.hurry(committer.last_writer)
        elif not self._is_set:
            self._is_set = True
            self._came.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            StorageFailedError: as `Committer.hurry`.
        """
        while True:
            await self._came.wait()
            await trio.sleep(2 * PUT_OFF_S)
            self._came = trio.Event()
            self._is_set = False
            if not self._committer.is_idle:
                self._committer.hurry(self._committer.last_writer)
