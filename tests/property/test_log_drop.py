"""Whatever the crash, also while segments are dropped: every record is settled or in the log, and none twice."""

from __future__ import annotations

import contextlib
import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, keep_all, keep_none, tear_at
from tests.profiles import examples

pytestmark = pytest.mark.slow


@attrs.frozen
class Settle:
    """Settle this part of what is durable, in tenths, and drop what that allows; perhaps the power fails in that."""

    tenths: int
    crash_at: int | None


@attrs.frozen
class Life:
    """What one server does with the directory, and how it ends."""

    steps: list[list[bytes] | Settle]
    segment_bytes: int
    crash_at: int
    killed: bool
    torn_at: int | None
    names_seed: int

    def successor(self, disk: MemoryDisk) -> MemoryDisk:
        if self.killed:
            return disk.after_kill()
        tear = keep_none if self.torn_at == 0 else keep_all if self.torn_at is None else tear_at(self.torn_at)
        chance = random.Random(self.names_seed)
        return disk.after_power_loss(tear, keep_names=lambda _name: chance.random() < 0.5)


@attrs.define
class World:
    """What is true of the records: the first `settled` of `records` are kept elsewhere, durably."""

    records: list[bytes] = attrs.Factory(list)
    waiting: list[bytes] = attrs.Factory(list)
    settled: int = 0
    segment: int = 0
    """Where the log was when that was settled."""

    def run(self, life: Life, disk: MemoryDisk) -> None:
        with contextlib.suppress(DiskCrashed):
            log = self.open(disk, life.segment_bytes)
            for step in life.steps:
                if isinstance(step, Settle) and step.crash_at is not None:
                    disk.faults.crash_at = disk.faults.operations + step.crash_at
                self.take(step, log)

    def open(self, disk: MemoryDisk, segment_bytes: int) -> SegmentedLog:
        """Open the log and check that nothing is missing; what was being written may be there, whole."""
        log = open_log(
            disk, settled_lsn=self.settled, settled_segment=self.segment, segment_bytes=segment_bytes
        )
        found = self.records[: self.settled]
        for lsn, records in log.replay_from(self.settled):
            assert lsn == len(found)
            found += records
        assert found in (self.records, self.records + self.waiting)
        self.records, self.waiting = found, []
        return log

    def take(self, step: list[bytes] | Settle, log: SegmentedLog) -> None:
        if isinstance(step, Settle):
            self.settled = max(self.settled, len(self.records) * step.tenths // 10)
            self.segment = log.segment_number
            log.drop(self.settled)
        else:
            self.waiting = step
            log.append(step)
            self.records, self.waiting = self.records + step, []
            log.refill()


steps = st.one_of(
    st.lists(st.binary(max_size=300), min_size=1, max_size=3),
    st.lists(st.binary(max_size=300), min_size=1, max_size=3),
    st.builds(Settle, st.integers(5, 10), st.one_of(st.none(), st.integers(0, 5))),
)
lives = st.builds(
    Life,
    steps=st.lists(steps, max_size=14),
    segment_bytes=st.sampled_from([150, 300, 1000]),
    crash_at=st.integers(0, 120),
    killed=st.booleans(),
    torn_at=st.one_of(st.none(), st.integers(0, 400)),
    names_seed=st.integers(0, 1000),
)


@given(st.lists(lives, min_size=1, max_size=4))
@examples(100)
def test_crash_anywhere_keeps_every_record_that_is_not_settled(history: list[Life]) -> None:
    disk, world = MemoryDisk(), World()
    for life in history:
        disk.faults.crash_at = life.crash_at
        world.run(life, disk)
        disk = life.successor(disk)
    log = world.open(disk, 300)
    log.append([b"last"])
    world.records.append(b"last")
    world.open(disk.after_power_loss(), 300)
    assert log.next_lsn == len(world.records)


@given(st.lists(steps, max_size=20), st.sampled_from([150, 300, 1000]))
@examples(37)
def test_log_holds_one_segment_more_than_what_is_not_settled(
    todo: list[list[bytes] | Settle], segment_bytes: int
) -> None:
    disk, world = MemoryDisk(), World()
    log = world.open(disk, segment_bytes)
    for step in [*todo, Settle(10, None)]:
        world.take(step, log)
    statistics = log.statistics()
    assert statistics.segments == 1
    assert len(disk.names()) <= 2, "the current segment and the spare one"
    assert statistics.first_lsn <= world.settled == statistics.next_lsn
