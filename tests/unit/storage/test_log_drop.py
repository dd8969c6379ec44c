"""Segments whose records are kept elsewhere are dropped, and the log opens without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from distkv.errors import LogDamagedError, StorageFailedError
from distkv.storage.base import Disk
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, tear_at
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES, segment_name, segment_numbers

SEGMENT_BYTES = 2000
RECORDS = [b"%d" % number * 500 for number in range(9)]
"""One batch each; three fill a segment."""

Reopen = Callable[[], Disk]


@pytest.fixture(params=["memory", "directory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """The same disk, as each next server gets it."""
    if request.param == "directory":
        return lambda: DirectoryDisk(str(tmp_path / "log"))
    disk = MemoryDisk()
    return lambda: disk


def _filled(disk: Disk) -> SegmentedLog:
    """Records 0-2 in segment 1, 3-5 in 2, 6-8 in 3, which is the current one."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for record in RECORDS:
        log.append([record])
    return log


def _open(disk: Disk, settled_lsn: int) -> SegmentedLog:
    return open_log(disk, settled_lsn=settled_lsn, segment_bytes=SEGMENT_BYTES)


def _expect_damage(disk: MemoryDisk, settled_lsn: int, message: str) -> None:
    before = {name: disk.content(name) for name in disk.names()}
    with pytest.raises(LogDamagedError, match=message):
        _open(disk, settled_lsn)
    assert {name: disk.content(name) for name in disk.names()} == before, "nothing is changed"


# -- dropping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lsn", "left"), [(0, [1, 2, 3]), (2, [1, 2, 3]), (3, [2, 3]), (5, [2, 3]), (6, [3]), (8, [3]), (9, [3])]
)
def test_drop_removes_whole_segments_below_and_never_the_current_one(reopen: Reopen, lsn: int, left: list[int]) -> None:
    disk = reopen()
    log = _filled(disk)
    assert log.drop(lsn) == 3 - len(left)
    assert segment_numbers(disk.names()) == left
    assert log.statistics().first_lsn == 3 * (left[0] - 1)
    log.close()


def test_log_without_its_first_segments_opens_and_goes_on(reopen: Reopen) -> None:
    log = _filled(reopen())
    log.drop(7)
    log.close()
    again = _open(reopen(), 7)
    assert again.next_lsn == 9
    assert (again.recovered.batches, again.recovered.records) == (3, 3)
    assert again.append([b"new"]) == 10
    assert list(again.replay()) == [[record] for record in [*RECORDS[6:], b"new"]]
    again.close()


def test_dropped_bytes_are_given_back() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    before = log.statistics()
    log.drop(6)
    after = log.statistics()
    assert (before.segments, after.segments) == (3, 1)
    assert 3 * after.size_bytes + 2 * SEAL_BYTES == before.size_bytes
    assert disk.faults.used_bytes == SEGMENT_BYTES


def test_full_disk_takes_writes_again_after_a_drop() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    disk.faults.capacity_bytes = 3 * SEGMENT_BYTES
    assert not log.refill()
    log.drop(3)
    assert log.refill()
    assert log.append([bytes(1000)]) == 10


def test_drop_twice_removes_nothing_more() -> None:
    log = _filled(MemoryDisk())
    assert (log.drop(6), log.drop(6)) == (2, 0)


def test_drop_of_what_is_not_durable_yet_is_refused() -> None:
    log = _filled(MemoryDisk())
    with pytest.raises(ValueError, match="record 9 cannot be kept elsewhere"):
        log.drop(10)
    assert log.statistics().segments == 3


def test_appending_goes_on_over_segments_while_others_are_dropped() -> None:
    log = _filled(MemoryDisk())
    for number in range(9, 30):
        log.append([b"x" * 500])
        log.drop(number - 4)
    assert log.statistics().segments <= 3
    assert list(log.replay_from(27)) == [(lsn, [b"x" * 500]) for lsn in (27, 28, 29)]


@pytest.mark.parametrize("fault", ["fail_write_at", "fail_sync_at"])
def test_drop_on_a_failed_disk_fails_the_log(fault: str) -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    setattr(disk.faults, fault, disk.faults.operations + (fault == "fail_sync_at"))
    with pytest.raises(StorageFailedError, match="segment-000000000001: it cannot be removed"):
        log.drop(3)
    with pytest.raises(StorageFailedError):
        log.append([b"a"])


def test_drop_after_the_end_is_refused() -> None:
    log = _filled(MemoryDisk())
    log.close()
    with pytest.raises(StorageFailedError, match="closed"):
        log.drop(3)


@pytest.mark.parametrize("keep_names", [False, True], ids=["back", "gone"])
@pytest.mark.parametrize("operation", range(4))
def test_crash_while_segments_are_dropped_leaves_an_unbroken_log(operation: int, keep_names: bool) -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    disk.faults.crash_at = disk.faults.operations + operation
    with pytest.raises(DiskCrashed):
        log.drop(6)
    again = _open(disk.after_power_loss(keep_names=keep_names), 6)
    assert list(again.replay_from(6)) == [(lsn, [RECORDS[lsn]]) for lsn in (6, 7, 8)]


def test_removal_that_a_kill_interrupted_is_durable_before_the_next_one() -> None:
    # Otherwise segment 1 may come back in a power loss that segment 2 does not survive.
    disk = MemoryDisk()
    log = _filled(disk)
    disk.faults.crash_at = disk.faults.operations + 1
    with pytest.raises(DiskCrashed):
        log.drop(6)
    restarted = disk.after_kill()
    log = _open(restarted, 6)
    restarted.faults.crash_at = restarted.faults.operations + 1
    with pytest.raises(DiskCrashed):
        log.drop(6)
    left = restarted.after_power_loss(keep_names=lambda name: name == segment_name(2))
    assert _open(left, 6).next_lsn == 9


# -- replaying from a record --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lsn", range(10))
def test_replay_from_gives_each_record_its_lsn(reopen: Reopen, lsn: int) -> None:
    log = _filled(reopen())
    assert list(log.replay_from(lsn)) == [(at, [RECORDS[at]]) for at in range(lsn, 9)]
    log.close()


def test_replay_from_the_middle_of_a_batch_begins_there() -> None:
    log = open_log(MemoryDisk(), segment_bytes=SEGMENT_BYTES)
    for batch in ([b"a", b"b", b"c"], [b"d"], [b"e", b"f"]):
        log.append(batch)
    assert list(log.replay_from(1)) == [(1, [b"b", b"c"]), (3, [b"d"]), (4, [b"e", b"f"])]
    assert list(log.replay_from(5)) == [(5, [b"f"])]


def test_replay_from_a_dropped_record_is_refused() -> None:
    log = _filled(MemoryDisk())
    log.drop(3)
    with pytest.raises(ValueError, match="record 2 is not in the log any more: it begins at 3"):
        log.replay_from(2)


def test_replay_does_not_read_settled_segments() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    disk.corrupt(segment_name(1), HEADER_BYTES, b"!")
    assert list(log.replay_from(3)) == [(lsn, [RECORDS[lsn]]) for lsn in range(3, 9)]


# -- opening ------------------------------------------------------------------------------------------------------


def test_empty_log_goes_on_where_the_archive_ends(reopen: Reopen) -> None:
    log = _open(reopen(), 1000)
    assert (log.next_lsn, list(log.replay_from(1000)), log.statistics().first_lsn) == (1000, [], 1000)
    assert log.append([b"a", b"b"]) == 1002
    log.close()
    again = _open(reopen(), 1000)
    assert list(again.replay_from(1000)) == [(1000, [b"a", b"b"])]
    again.close()


def test_settled_segment_that_was_not_dropped_is_opened_and_dropped(reopen: Reopen) -> None:
    _filled(reopen()).close()
    log = _open(reopen(), 8)
    assert log.statistics().first_lsn == 0
    assert list(log.replay_from(8)) == [(8, [RECORDS[8]])]
    assert log.drop(8) == 2
    log.close()


@pytest.mark.parametrize("settled_lsn", [0, 5])
def test_first_segment_above_what_is_settled_stops_the_start(settled_lsn: int) -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.drop(6)
    log.close()
    _expect_damage(disk, settled_lsn, f"records {settled_lsn} to 5 cannot be read")


@pytest.mark.parametrize("settled_lsn", [0, 5])
def test_missing_middle_segment_stops_the_start(settled_lsn: int) -> None:
    disk = MemoryDisk()
    _filled(disk).close()
    disk.remove(segment_name(2))
    _expect_damage(disk, settled_lsn, f"{segment_name(2)} is damaged at offset 0: it is gone")


def test_log_that_ends_before_what_is_settled_stops_the_start() -> None:
    disk = MemoryDisk()
    _filled(disk).close()
    disk.corrupt(segment_name(3), HEADER_BYTES, bytes(SEGMENT_BYTES - HEADER_BYTES))
    _expect_damage(disk, 8, f"{segment_name(3)} is damaged .*records 6 to 7, which the archive knows, are not in the")


def test_settled_batch_that_looks_torn_is_damage() -> None:
    # It was whole when it was settled, so no crash has torn it.
    disk = MemoryDisk()
    _filled(disk).close()
    disk.corrupt(segment_name(3), HEADER_BYTES + 2 * 542 + 100, b"!")
    _expect_damage(disk, 9, "records 8 to 8, which the archive knows, are not in the log")


def _crash_in_first_batch_of_segment_4(disk: MemoryDisk) -> MemoryDisk:
    log = _filled(disk)
    log.refill()
    disk.faults.crash_at = disk.faults.operations + 2
    with pytest.raises(DiskCrashed):
        log.append([b"torn" * 300])
    return disk.after_power_loss(tear_at(-1))


def test_segment_before_an_empty_one_is_not_dropped() -> None:
    # Or nobody could tell an empty one, behind which all was dropped, from one made ahead of a segment that is lost.
    log = _open(_crash_in_first_batch_of_segment_4(MemoryDisk()), 9)
    assert (log.recovered.torn_bytes > 0, log.segment_number) == (True, 4)
    assert (log.drop(9), log.statistics().segments) == (2, 2)
    assert log.append([b"next"]) == 10
    assert (log.drop(9), log.statistics().segments) == (1, 1)
    assert list(log.replay_from(9)) == [(9, [b"next"])]


def test_all_segments_gone_but_an_empty_one_stops_the_start() -> None:
    disk = _crash_in_first_batch_of_segment_4(MemoryDisk())
    disk.corrupt(segment_name(4), HEADER_BYTES, bytes(SEGMENT_BYTES - HEADER_BYTES))
    for number in (1, 2, 3):
        disk.remove(segment_name(number))
    _expect_damage(disk, 9, f"{segment_name(3)} is damaged at offset 0: it is gone")


def test_directory_locked_before_is_opened_and_closed_with_the_log(tmp_path: Path) -> None:
    disk = DirectoryDisk(str(tmp_path))
    disk.lock()
    open_log(disk, locked=True, segment_bytes=SEGMENT_BYTES).close()
    open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES).close()
    assert segment_numbers(file.name for file in tmp_path.iterdir()) == [1]


# -- the disks ----------------------------------------------------------------------------------------------------


def test_unlinked_file_is_gone_and_a_missing_one_is_an_error(reopen: Reopen) -> None:
    disk = reopen()
    disk.open_file("f").close()
    disk.unlink("f")
    assert disk.names() == []
    with pytest.raises(FileNotFoundError):
        disk.unlink("f")
    disk.close()


def test_unsynced_removal_is_undone_by_a_power_loss_unless_it_arrived() -> None:
    disk = MemoryDisk()
    for name in ("f", "g"):
        disk.open_file(name).preallocate(5)
    disk.sync_directory()
    for name in ("f", "g"):
        disk.unlink(name)
    assert disk.after_power_loss().names() == ["f", "g"]
    assert disk.after_power_loss(keep_names=lambda name: name == "f").names() == ["g"]
    assert disk.after_kill().after_power_loss().names() == ["f", "g"]
    disk.sync_directory()
    assert disk.after_power_loss().names() == []


def test_renamed_file_keeps_its_bytes(reopen: Reopen) -> None:
    disk = reopen()
    file = disk.open_file("f")
    file.write(0, b"kept")
    file.close()
    disk.rename("f", "g")
    assert disk.names() == ["g"]
    assert disk.open_file("g").read(0, 9) == b"kept"
    disk.close()


def test_unsynced_new_name_is_lost_in_a_power_loss_and_the_old_one_is_back() -> None:
    disk = MemoryDisk()
    disk.open_file("f").preallocate(5)
    disk.sync_directory()
    disk.rename("f", "g")
    assert disk.after_power_loss().names() == ["f"]
    assert disk.after_power_loss(keep_names=True).names() == ["g"]
    disk.sync_directory()
    assert disk.after_power_loss().names() == ["g"]


def test_removal_of_a_name_that_was_never_durable_needs_no_sync() -> None:
    disk = MemoryDisk()
    disk.open_file("f").preallocate(5)
    disk.unlink("f")
    assert disk.after_power_loss().names() == []
    assert disk.faults.used_bytes == 0
