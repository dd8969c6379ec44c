"""Appending and replaying, on the disk in memory and on a real one; and a disk that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from distkv.errors import StorageFailedError
from distkv.storage.base import BATCH_OVERHEAD_BYTES, Disk
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import MemoryDisk
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES, segment_numbers

SEGMENT_BYTES = 1000

Reopen = Callable[[], Disk]


@pytest.fixture(params=["memory", "directory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """The same disk, as each next server gets it."""
    if request.param == "directory":
        return lambda: DirectoryDisk(str(tmp_path / "log"))
    disk = MemoryDisk()
    return lambda: disk


def _replayed(log: SegmentedLog) -> list[list[bytes]]:
    batches = list(log.replay())
    log.close()
    return batches


def test_new_log_is_empty(reopen: Reopen) -> None:
    log = open_log(reopen())
    assert (log.next_lsn, _replayed(log)) == (0, [])


def test_append_returns_the_lsn_after_the_batch(reopen: Reopen) -> None:
    log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    assert [log.append([b"a"]), log.append([b"b", b"c"]), log.next_lsn] == [1, 3, 3]
    log.close()


def test_appended_batches_are_replayed_after_reopening(reopen: Reopen) -> None:
    batches = [[b"a"], [b"", b"b" * 200], [b"\0" * 9]]
    log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    for batch in batches:
        log.append(batch)
    log.close()
    again = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    assert again.next_lsn == 4
    assert (again.recovered.batches, again.recovered.records, again.recovered.torn_bytes) == (3, 4, 0)
    assert _replayed(again) == batches


def test_appending_goes_on_after_reopening(reopen: Reopen) -> None:
    for number in range(30):
        log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
        assert log.append([b"%d" % number * 50]) == number + 1
        log.close()
    assert _replayed(open_log(reopen())) == [[b"%d" % number * 50] for number in range(30)]


def test_batches_fill_several_segments_in_order(reopen: Reopen) -> None:
    batches = [[b"%03d" % number * 100] for number in range(20)]
    log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    for batch in batches:
        log.append(batch)
    assert log.statistics().segments == 10
    assert list(log.replay()) == batches
    log.close()
    assert _replayed(open_log(reopen(), segment_bytes=SEGMENT_BYTES)) == batches


def test_batch_above_a_segment_gets_one_of_its_own_size(reopen: Reopen) -> None:
    batches = [[b"small"], [b"x" * (3 * SEGMENT_BYTES)], [b"after"]]
    log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    for batch in batches:
        log.append(batch)
        log.refill()
    assert log.statistics().segments == 3
    log.close()
    assert _replayed(open_log(reopen(), segment_bytes=SEGMENT_BYTES)) == batches


def test_segment_size_may_change_between_openings(reopen: Reopen) -> None:
    for number, segment_bytes in enumerate([400, 4000, 300]):
        log = open_log(reopen(), segment_bytes=segment_bytes)
        log.append([b"%d" % number * 200])
        log.refill()
        log.close()
    assert _replayed(open_log(reopen())) == [[b"%d" % number * 200] for number in range(3)]


def test_append_of_nothing_writes_nothing(reopen: Reopen) -> None:
    log = open_log(reopen(), segment_bytes=SEGMENT_BYTES)
    assert log.append([]) == 0
    assert log.statistics().syncs == 0
    log.close()


def test_each_append_is_one_write_and_one_sync() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    before = disk.faults.operations
    log.append([b"a", b"b", b"c"])
    assert disk.faults.operations == before + 2


def test_going_on_to_a_spare_segment_is_one_write_and_one_sync_more() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"x" * 800])
    log.refill()
    before = disk.faults.operations
    log.append([b"y" * 800])
    assert log.statistics().segments == 2
    assert disk.faults.operations == before + 4


def test_statistics_count_batches_syncs_and_bytes() -> None:
    log = open_log(MemoryDisk(), segment_bytes=SEGMENT_BYTES)
    for _ in range(5):
        log.append([b"x" * 400])
    statistics = log.statistics()
    assert (statistics.batches, statistics.syncs, statistics.next_lsn) == (5, 5, 5)
    assert statistics.size_bytes == 3 * HEADER_BYTES + 2 * SEAL_BYTES + 5 * (BATCH_OVERHEAD_BYTES + 4 + 400)


def test_refill_keeps_one_segment_ahead(reopen: Reopen) -> None:
    disk = reopen()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    wanted = [log.wants_refill, log.refill(), log.wants_refill, log.refill()]
    assert wanted == [True, True, False, True]
    assert segment_numbers(disk.names()) == [1, 2]
    log.close()


@pytest.mark.parametrize("fault", ["fail_write_at", "fail_sync_at"])
def test_failed_append_fails_for_ever(fault: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"kept"])
    offset = HEADER_BYTES + BATCH_OVERHEAD_BYTES + 4 + 4
    setattr(disk.faults, fault, disk.faults.operations + (fault == "fail_sync_at"))
    with pytest.raises(StorageFailedError, match=f"segment-000000000001: the write or sync at offset {offset} failed"):
        log.append([b"lost"])
    operations = disk.faults.operations
    for call in (lambda: log.append([b"again"]), lambda: log.reserve_nowait(1), log.refill):
        with pytest.raises(StorageFailedError, match="the server must end"):
            call()
    assert disk.faults.operations == operations, "a failed disk is not touched again"
    assert log.next_lsn == 1


def test_failed_refill_fails_the_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    disk.faults.fail_write_at = disk.faults.operations + 1
    with pytest.raises(StorageFailedError, match="the next segment cannot be made"):
        log.refill()
    with pytest.raises(StorageFailedError):
        log.append([b"a"])


def test_batch_shown_after_a_failed_sync_survives_the_next_power_loss() -> None:
    # Linux takes the pages of a failed sync for clean: the next server reads the batch, but a sync alone keeps nothing.
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    disk.faults.fail_sync_at = disk.faults.operations + 1
    with pytest.raises(StorageFailedError):
        log.append([b"doubtful"])
    restarted = disk.after_kill()
    assert list(open_log(restarted).replay()) == [[b"doubtful"]]
    assert list(open_log(restarted.after_power_loss()).replay()) == [[b"doubtful"]]


def test_closed_log_refuses(reopen: Reopen) -> None:
    log = open_log(reopen())
    log.close()
    log.close()
    with pytest.raises(StorageFailedError, match="closed"):
        log.append([b"a"])
