"""A disk that runs full: met before a write, and over when there is space again."""

from __future__ import annotations

import threading

import pytest

from distkv.errors import NoSpaceError, StorageFailedError
from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import MemoryDisk
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES

SEGMENT_BYTES = 1000
CAPACITY = SEGMENT_BYTES - HEADER_BYTES - SEAL_BYTES
OVERHEAD = BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES


def _log(disk: MemoryDisk, segments: int) -> SegmentedLog:
    """A log on a disk with space for so many segments."""
    disk.faults.capacity_bytes = segments * SEGMENT_BYTES
    return open_log(disk, segment_bytes=SEGMENT_BYTES)


def test_reserve_passes_to_the_last_byte_and_append_fits() -> None:
    log = _log(MemoryDisk(), 1)
    log.reserve_nowait(CAPACITY)
    assert log.append([bytes(CAPACITY - OVERHEAD)]) == 1


def test_reserve_beyond_the_last_byte_raises() -> None:
    log = _log(MemoryDisk(), 1)
    with pytest.raises(NoSpaceError, match=r"no space for the next log segment \(No space left on device\)"):
        log.reserve_nowait(CAPACITY + 1)


def test_reserve_counts_the_spare_segment() -> None:
    log = _log(MemoryDisk(), 2)
    log.append([bytes(600)])
    assert log.refill()
    log.reserve_nowait(CAPACITY)
    assert log.append([bytes(CAPACITY - OVERHEAD)]) == 2


def test_reserve_does_not_add_what_is_left_in_two_segments() -> None:
    log = _log(MemoryDisk(), 2)
    assert log.refill()
    with pytest.raises(NoSpaceError):
        log.reserve_nowait(2 * CAPACITY)


def test_reserved_bytes_fit_however_they_are_cut_into_batches() -> None:
    log = _log(MemoryDisk(), 2)
    log.append([bytes(CAPACITY - OVERHEAD - 3 * OVERHEAD)])
    assert log.refill()
    log.reserve_nowait(CAPACITY)
    sizes = [0, 10, 600, 20]
    rest = CAPACITY - sum(sizes) - (len(sizes) + 1) * OVERHEAD
    for size in [*sizes, rest]:
        log.append([bytes(size)])
    assert log.next_lsn == 6


def test_refused_write_changes_nothing() -> None:
    disk = MemoryDisk()
    log = _log(disk, 1)
    log.append([bytes(800)])
    with pytest.raises(NoSpaceError):
        log.reserve_nowait(200)
    before = [disk.content(name) for name in disk.names()]
    with pytest.raises(NoSpaceError):
        log.reserve_nowait(200)
    assert [disk.content(name) for name in disk.names()] == before
    assert log.append([b"small"]) == 2, "what still fits is taken"


def test_shortage_is_seen_in_the_statistics_until_it_is_over() -> None:
    disk = MemoryDisk()
    log = _log(disk, 1)
    assert not log.refill()
    assert log.statistics().shortage == "No space left on device"
    disk.faults.capacity_bytes = None
    assert log.refill()
    assert log.statistics().shortage == ""


def test_space_that_returns_is_used_after_refill() -> None:
    disk = MemoryDisk()
    log = _log(disk, 1)
    log.append([bytes(800)])
    assert not log.refill()
    disk.faults.capacity_bytes = None
    with pytest.raises(NoSpaceError):  # Only `refill` tries again: a refusal must stay cheap.
        log.reserve_nowait(100)
    assert log.refill()
    log.reserve_nowait(100)
    assert log.append([bytes(60)]) == 2


def test_reserve_makes_a_segment_itself_when_no_shortage_is_known() -> None:
    log = _log(MemoryDisk(), 2)
    log.append([bytes(800)])
    log.reserve_nowait(500)
    assert log.append([bytes(400)]) == 2


def test_reserve_makes_room_for_a_batch_above_a_segment() -> None:
    log = _log(MemoryDisk(), 9)
    log.refill()
    log.reserve_nowait(5 * SEGMENT_BYTES)
    assert log.append([bytes(5 * SEGMENT_BYTES - OVERHEAD)]) == 1


def test_large_batch_refused_leaves_small_ones_their_room() -> None:
    disk = MemoryDisk()
    log = _log(disk, 2)
    assert log.refill()
    with pytest.raises(NoSpaceError):
        log.reserve_nowait(5 * SEGMENT_BYTES)
    log.append([bytes(800)])
    log.reserve_nowait(860)
    assert log.append([bytes(800)]) == 2


def test_append_without_room_fails_the_log_and_keeps_what_was_there() -> None:
    disk = MemoryDisk()
    log = _log(disk, 1)
    log.append([bytes(800)])
    with pytest.raises(StorageFailedError, match=r"no room for a batch of 842 bytes \(No space left on device\)"):
        log.append([bytes(800)])
    assert list(open_log(disk.after_kill()).replay()) == [[bytes(800)]]


def test_new_log_on_a_full_disk_is_refused() -> None:
    with pytest.raises(NoSpaceError):
        _log(MemoryDisk(), 0)


def test_old_log_opens_on_a_full_disk() -> None:
    disk = MemoryDisk()
    _log(disk, 1).append([b"a"])
    restarted = disk.after_kill()
    log = _log(restarted, 0)
    assert list(log.replay()) == [[b"a"]]
    assert log.append([b"b"]) == 2


def test_spare_segment_survives_a_restart_on_a_full_disk() -> None:
    disk = MemoryDisk()
    log = _log(disk, 2)
    log.append([bytes(800)])
    assert log.refill()
    restarted = _log(disk.after_kill(), 0)
    restarted.reserve_nowait(CAPACITY)
    assert restarted.append([bytes(CAPACITY - OVERHEAD)]) == 2


def test_refill_beside_appends_loses_nothing() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=200)
    done = threading.Event()

    def refill_always() -> None:
        while not done.is_set():
            log.refill()

    thread = threading.Thread(target=refill_always)
    thread.start()
    try:
        for number in range(500):
            log.reserve_nowait(OVERHEAD + 40)
            log.append([b"%040d" % number])
    finally:
        done.set()
        thread.join()
    assert list(open_log(disk.after_power_loss()).replay()) == [[b"%040d" % number] for number in range(500)]
