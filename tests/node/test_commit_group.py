"""Group commit under virtual time: who shares a commit, who does it inline, and what a failed disk does to all.

Knows: `Committer` and a log on a disk in memory.  Does not know records, replicas or sessions.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.engine.commit import CONTROL_BYTES, SHARED_S, Committer
from distkv.errors import NoSpaceError, StorageFailedError
from distkv.storage.base import Log
from distkv.storage.log import open_log
from distkv.storage.memory import MemoryDisk
from tests.node.nodes import SEGMENT_BYTES, committing_in


class TimedLog:
    """A log whose appends take `seconds` by a clock of its own, which otherwise goes as the others do."""

    def __init__(self, inner: Log, seconds: float) -> None:
        self._inner = inner
        self.seconds = seconds
        self._lead = 0.0

    def clock(self) -> float:
        return trio.current_time() + self._lead

    def append(self, records: Sequence[bytes]) -> int:
        self._lead += self.seconds
        return self._inner.append(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@attrs.define
class Bench:
    disk: MemoryDisk
    log: Log
    timed: TimedLog
    committer: Committer
    nursery: trio.Nursery
    woken: list[int] = attrs.field(factory=list)
    failed: list[int] = attrs.field(factory=list)

    async def write(self, number: int, writer: object = None) -> None:
        """Append one record and wait for it."""
        position = self.committer.append([b"%d" % number], number)
        try:
            await self.committer.wait_durable(position, writer)
            self.woken.append(number)
        except StorageFailedError:
            self.failed.append(number)

    def records(self) -> list[bytes]:
        """What the log would replay after a power failure now."""
        log = open_log(self.disk.after_power_loss(), segment_bytes=SEGMENT_BYTES)
        return [record for batch in log.replay() for record in batch]


@asynccontextmanager
async def bench(commit_s: float, disk_s: float = 0) -> AsyncIterator[Bench]:
    """`commit_s`: what a commit on a thread takes until the loop hears of it, `disk_s` what of that the disk takes."""
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.refill()
    timed = TimedLog(log, disk_s)
    committer = Committer(cast(Log, timed), run_blocking=committing_in(commit_s), clock=timed.clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        yield Bench(disk, log, timed, committer, nursery)
        nursery.cancel_scope.cancel()
    log.close()


@pytest.mark.trio
async def test_writers_at_once_share_one_commit(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b, trio.open_nursery() as writers:
        for number in range(50):
            writers.start_soon(b.write, number, object())
        await trio.sleep(1)
        assert sorted(b.woken) == list(range(50))
        assert (b.committer.thread_count, b.committer.inline_count) == (1, 0)


@pytest.mark.trio
async def test_writers_during_a_commit_share_the_next_one(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b, trio.open_nursery() as writers:
        for number in range(100):
            writers.start_soon(b.write, number, object())
            await trio.sleep(0.001)
        await trio.sleep(1)
        assert b.committer.thread_count <= 12
        assert len(b.woken) == 100
        assert b.records() == [b"%d" % number for number in range(100)]


@pytest.mark.trio
async def test_waiters_wake_in_the_order_of_their_batches(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b, trio.open_nursery() as writers:
        for number in range(9):
            writers.start_soon(b.write, number // 3, object())
            if number % 3 == 2:
                await trio.sleep(0.006)
        await trio.sleep(1)
        assert b.woken == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.trio
async def test_nothing_is_durable_before_the_disk_has_it(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b:
        b.nursery.start_soon(b.write, 7, object())
        await trio.sleep(0.004)
        assert (b.committer.durable, b.woken, b.records(), b.committer.is_idle) == (0, [], [], False)
        await trio.sleep(0.002)
        assert (b.committer.durable, b.woken, b.records()) == (0, [], [b"7"])
        await trio.sleep(0.01)
        assert (b.committer.durable, b.committer.durable_mark, b.woken) == (1, 7, [7])
        assert b.committer.is_idle


@pytest.mark.trio
async def test_lone_writer_on_a_fast_disk_commits_inline(autojump_clock: MockClock) -> None:
    async with bench(0.0005) as b:
        writer = object()
        await b.write(0, writer)
        await trio.sleep(SHARED_S)
        on_thread = b.committer.thread_count
        for number in range(1, 21):
            await b.write(number, writer)
        assert (b.committer.inline_count, b.committer.thread_count) == (20, on_thread)
        assert len(b.records()) == 21


@pytest.mark.trio
async def test_lone_writer_on_a_slow_disk_leaves_the_loop_free(autojump_clock: MockClock) -> None:
    async with bench(0.02, disk_s=0.01) as b:
        writer = object()
        for number in range(10):
            await b.write(number, writer)
        until_known = b.committer.inline_count
        for number in range(10, 30):
            await b.write(number, writer)
        assert b.committer.inline_count == until_known < 10


@pytest.mark.trio
async def test_one_slow_sync_does_not_make_a_fast_disk_slow(autojump_clock: MockClock) -> None:
    async with bench(0.02, disk_s=0.0001) as b:
        writer = object()
        for number in range(30):
            await b.write(number, writer)
        on_thread = b.committer.thread_count
        b.timed.seconds = 1.0
        await b.write(30, writer)
        b.timed.seconds = 0.0001
        for number in range(31, 40):
            await b.write(number, writer)
        assert b.committer.thread_count == on_thread


@pytest.mark.trio
async def test_loop_that_hears_late_of_a_commit_does_not_make_a_fast_disk_slow(autojump_clock: MockClock) -> None:
    async with bench(0.02, disk_s=0.0005) as b:
        writers = object(), object()
        for number in range(20):
            await b.write(number, writers[number % 2])
        assert b.committer.inline_count == 0
        await trio.sleep(SHARED_S)
        for number in range(20, 40):
            await b.write(number, writers[1])
        assert b.committer.inline_count == 20


@pytest.mark.trio
async def test_two_writers_in_turn_do_not_commit_inline(autojump_clock: MockClock) -> None:
    async with bench(0.0005) as b:
        writers = object(), object()
        for number in range(40):
            await b.write(number, writers[number % 2])
        assert b.committer.inline_count == 0


@pytest.mark.trio
async def test_what_is_durable_already_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b:
        await b.write(1, object())
        began = trio.current_time()
        await b.committer.wait_durable(1, object())
        assert trio.current_time() == began


@pytest.mark.trio
async def test_who_comes_while_a_commit_is_under_way_waits_for_that_one_if_it_is_enough(
    autojump_clock: MockClock,
) -> None:
    async with bench(0.01) as b:
        position = b.committer.append([b"0", b"1"], 1)
        await trio.sleep(0.005)
        with trio.fail_after(1):
            await b.committer.wait_durable(position, object())
        assert b.committer.thread_count == 1


@pytest.mark.trio
async def test_lone_writer_does_not_overtake_a_commit_that_is_under_way(autojump_clock: MockClock) -> None:
    async with bench(0.5, disk_s=0.0001) as b:
        writer = object()
        await b.write(0, writer)
        await trio.sleep(SHARED_S)
        await b.write(1, writer)
        assert b.committer.inline_count == 1
        b.committer.append([b"2"], 2)
        await trio.sleep(0.1)
        b.committer.append([b"3"], 3, is_awaited=True)
        b.committer.hurry(writer)
        assert b.committer.durable == 2
        await trio.sleep(2)
        assert b.records() == [b"0", b"1", b"2", b"3"]


@pytest.mark.trio
async def test_clients_leave_room_that_replication_control_may_take(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b:
        b.disk.faults.capacity_bytes = b.disk.faults.used_bytes

        def fits(size: int, **reserve: int) -> bool:
            try:
                b.committer.check_room(size, **reserve)
            except NoSpaceError:
                return False
            return True

        most = max(size for size in range(0, 2 * SEGMENT_BYTES, 100) if fits(size, reserve=0))
        assert most > CONTROL_BYTES
        assert not fits(most)
        assert fits(most - CONTROL_BYTES)


@pytest.mark.trio
async def test_cancelled_waiter_disturbs_nobody(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b, trio.open_nursery() as writers:
        scope = trio.CancelScope()

        async def impatient() -> None:
            with scope:
                await b.write(1, object())

        writers.start_soon(b.write, 0, object())
        writers.start_soon(impatient)
        writers.start_soon(b.write, 2, object())
        await trio.sleep(0.002)
        scope.cancel()
        await trio.sleep(1)
        assert sorted(b.woken) == [0, 2]
        assert sorted(b.records()) == [b"0", b"1", b"2"], "what was appended is committed all the same"


@pytest.mark.trio
@pytest.mark.parametrize("fault", ["fail_write_at", "fail_sync_at"])
async def test_failed_disk_fails_all_waiters_and_is_not_asked_again(autojump_clock: MockClock, fault: str) -> None:
    with pytest.RaisesGroup(StorageFailedError):
        async with bench(0.01) as b:
            first = b.disk.faults.operations
            setattr(b.disk.faults, fault, first if fault == "fail_write_at" else first + 1)
            async with trio.open_nursery() as writers:
                with trio.CancelScope(shield=True):  # the committer ends the bench; its waiters are looked at first
                    for number in range(3):
                        writers.start_soon(b.write, number, object())
                        await trio.sleep(0.004)
                    await trio.sleep(1)
                    await wait_all_tasks_blocked()
                    with pytest.raises(StorageFailedError):
                        await b.committer.wait_durable(1)
                    assert (b.woken, sorted(b.failed), b.committer.durable) == ([], [0, 1, 2], 0)
                    assert b.disk.faults.operations == first + (1 if fault == "fail_write_at" else 2)


@pytest.mark.trio
async def test_failure_of_an_inline_commit_ends_the_committer_too(autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(StorageFailedError):
        async with bench(0.0005) as b:
            writer = object()
            await b.write(0, writer)
            await trio.sleep(SHARED_S)
            b.disk.faults.fail_sync_at = b.disk.faults.operations + 1
            await b.write(1, writer)
            assert (b.woken, b.failed, b.committer.inline_count) == ([0], [1], 0)
            await trio.sleep(60)
            pytest.fail("the committer goes on with a failed disk")


@pytest.mark.trio
async def test_unforeseen_failure_of_an_inline_commit_ends_the_committer_though_its_writer_contains_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise KeyError("unforeseen")

    with pytest.RaisesGroup(KeyError):
        async with bench(0.0005) as b:
            writer = object()
            await b.write(0, writer)
            await trio.sleep(SHARED_S)
            monkeypatch.setattr(b.timed, "append", fail, raising=True)
            with pytest.raises(KeyError):
                await b.write(1, writer)
            await trio.sleep(60)
            pytest.fail("the committer goes on, and nobody knows what the disk holds")


@pytest.mark.trio
async def test_waiting_bytes_count_what_is_queued_and_what_is_under_way(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b:
        idle = b.committer.waiting_bytes
        b.committer.append([bytes(1000)], 1)
        await trio.sleep(0.001)
        b.committer.append([bytes(500)], 2)
        assert b.committer.waiting_bytes > 1500
        await trio.sleep(1)
        assert b.committer.waiting_bytes == idle


@pytest.mark.trio
async def test_room_is_refused_while_the_disk_is_full_and_given_after(autojump_clock: MockClock) -> None:
    async with bench(0.01) as b:
        b.disk.faults.capacity_bytes = b.disk.faults.used_bytes
        for _ in range(8):  # both segments, up to a rest that is smaller than what is kept for replication control
            b.committer.append([bytes(30_000)], 0)
            await trio.sleep(0.1)
        with pytest.raises(NoSpaceError, match="nothing was changed"):
            b.committer.check_room(CONTROL_BYTES)
        b.disk.faults.capacity_bytes = None
        assert b.log.refill()
        b.committer.check_room(100)
