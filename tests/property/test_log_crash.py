"""Whatever the crash, the log has every acknowledged batch, in order, and at most the one that was being written."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distkv.errors import StorageFailedError
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, Tear, keep_all, keep_none, tear_at, tear_by_sectors
from tests.profiles import examples

pytestmark = pytest.mark.slow

Batch = list[bytes]

zeros = st.integers(0, 2000).map(bytes)
records = st.one_of(st.binary(max_size=700), zeros, st.tuples(zeros, st.binary(max_size=3), zeros).map(b"".join))
batches = st.lists(st.lists(records, min_size=1, max_size=4), max_size=12)
segment_sizes = st.sampled_from([150, 300, 1000, 5000])


def _random_sectors(seed: int) -> Tear:
    chance = random.Random(seed)
    return tear_by_sectors(lambda _sector: chance.random() < 0.5)


tears = st.one_of(
    st.sampled_from([keep_all, keep_none]),
    st.integers(-40, 3000).map(tear_at),
    st.integers(0, 1 << 20).map(_random_sectors),
)


def _append(log: SegmentedLog, todo: list[Batch], done: list[Batch]) -> None:
    """Append all of `todo`, and note in `done` what was acknowledged."""
    for number, batch in enumerate(todo):
        log.append(batch)
        done.append(batch)
        if number % 3 == 0:
            log.refill()


def _acknowledged_until_crash(disk: MemoryDisk, todo: list[Batch], segment_bytes: int) -> list[Batch]:
    done: list[Batch] = []
    with contextlib.suppress(DiskCrashed):
        _append(open_log(disk, segment_bytes=segment_bytes), todo, done)
    return done


def _expect_at_most_one_more(found: list[Batch], acknowledged: list[Batch], todo: list[Batch]) -> None:
    assert found in (acknowledged, todo[: len(acknowledged) + 1])


@given(batches, segment_sizes, st.integers(0, 60), tears, st.booleans(), batches)
@examples(100)
def test_power_loss_anywhere_keeps_every_acknowledged_batch(
    todo: list[Batch], segment_bytes: int, crash_at: int, tear: Tear, keep_names: bool, more: list[Batch]
) -> None:
    disk = MemoryDisk()
    disk.faults.crash_at = crash_at
    acknowledged = _acknowledged_until_crash(disk, todo, segment_bytes)
    after = disk.after_power_loss(tear, keep_names=keep_names)
    log = open_log(after, segment_bytes=segment_bytes)
    found = list(log.replay())
    _expect_at_most_one_more(found, acknowledged, todo)
    assert list(open_log(after.after_power_loss(), segment_bytes=segment_bytes).replay()) == found, (
        "what was shown once stays"
    )
    _append(log, more, found)
    again = open_log(after.after_power_loss(), segment_bytes=segment_bytes)
    assert list(again.replay()) == found
    assert again.recovered.torn_bytes == 0


@given(batches, segment_sizes, st.integers(0, 60), st.lists(st.tuples(st.integers(0, 12), tears), max_size=4), tears)
@examples(75)
def test_power_loss_while_opening_keeps_every_acknowledged_batch(
    todo: list[Batch], segment_bytes: int, crash_at: int, openings: list[tuple[int, Tear]], last: Tear
) -> None:
    disk = MemoryDisk()
    disk.faults.crash_at = crash_at
    acknowledged = _acknowledged_until_crash(disk, todo, segment_bytes)
    for crash_at_opening, tear in openings:
        disk = disk.after_power_loss(tear)
        disk.faults.crash_at = crash_at_opening
        _acknowledged_until_crash(disk, [], segment_bytes)
    found = list(open_log(disk.after_power_loss(last), segment_bytes=segment_bytes).replay())
    _expect_at_most_one_more(found, acknowledged, todo)


@given(batches, segment_sizes, st.integers(0, 60), st.booleans(), tears, batches)
@example([[b""] * 4, [bytes(10)]], 150, 3, False, keep_all, [[b""]]).via("the first segment's length was not synced")
@example([[b""] * 4, [bytes(10)]], 150, 24, False, keep_all, [[b""]]).via("a longer spare's length was not synced")
@examples(75)
def test_failed_disk_or_kill_then_power_loss_keeps_what_was_shown(
    todo: list[Batch], segment_bytes: int, fault_at: int, killed: bool, tear: Tear, more: list[Batch]
) -> None:
    disk = MemoryDisk()
    if killed:
        disk.faults.crash_at = fault_at
    else:
        disk.faults.fail_sync_at = disk.faults.fail_write_at = fault_at
    acknowledged: list[Batch] = []
    with contextlib.suppress(DiskCrashed, StorageFailedError):
        _append(open_log(disk, segment_bytes=segment_bytes), todo, acknowledged)
    restarted = disk.after_kill()
    log = open_log(restarted, segment_bytes=segment_bytes)
    shown = list(log.replay())
    _expect_at_most_one_more(shown, acknowledged, todo)
    _append(log, more, shown)
    assert list(open_log(restarted.after_power_loss(tear), segment_bytes=segment_bytes).replay()) == shown
