"""Opening after a crash, after damage, beside another server, and on another release's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from distkv.errors import DirectoryLockedError, FormatVersionError, LogDamagedError, StorageFailedError
from distkv.storage.base import BATCH_OVERHEAD_BYTES
from distkv.storage.disk import DirectoryDisk
from distkv.storage.log import open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, Tear, keep_all, tear_at, tear_by_sectors
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES, SegmentHeader, encode_header, segment_name

SEGMENT_BYTES = 2000
BATCHES = [[b"%d" % number * 500] for number in range(9)]
BATCH_BYTES = BATCH_OVERHEAD_BYTES + 4 + 500


def _filled(count: int = len(BATCHES)) -> MemoryDisk:
    """Three batches in each of the first segments, and a spare one."""
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for batch in BATCHES[:count]:
        log.append(batch)
        log.refill()
    log.close()
    return disk


def _crash_in_append(disk: MemoryDisk, record: bytes, *, after: int = 0) -> None:
    """The power fails in a write: the first one, or the one after so many other operations."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.refill()
    disk.faults.crash_at = disk.faults.operations + after
    with pytest.raises(DiskCrashed):
        log.append([record])


def _expect_damage(disk: MemoryDisk, message: str) -> None:
    before = {name: disk.content(name) for name in disk.names()}
    with pytest.raises(LogDamagedError, match=message) as caught:
        open_log(disk, segment_bytes=SEGMENT_BYTES)
    assert "\n" not in str(caught.value)
    assert {name: disk.content(name) for name in disk.names()} == before, "nothing is changed"


def _sectors(*wanted: int) -> Tear:
    return tear_by_sectors(lambda sector: sector in wanted)


# -- a crash ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tear",
    [tear_at(1), tear_at(27), tear_at(100), tear_at(-1), _sectors(1), _sectors(2), _sectors(1, 3)],
    ids=["byte", "header", "body", "all-but-one", "first-sector", "middle-sector", "holes"],
)
def test_torn_tail_is_cut_and_reported(tear: Tear) -> None:
    disk = _filled(1)
    _crash_in_append(disk, b"torn" * 300)
    torn = disk.after_power_loss(tear)
    log = open_log(torn, segment_bytes=SEGMENT_BYTES)
    assert list(log.replay()) == BATCHES[:1]
    assert log.recovered.torn_bytes > 0
    assert log.recovered.torn_at == f"memory/{segment_name(1)} offset {HEADER_BYTES + BATCH_BYTES}"
    assert not torn.after_power_loss().content(segment_name(1))[HEADER_BYTES + BATCH_BYTES :].strip(b"\0")


def test_torn_tail_of_a_real_file_is_cut_and_reported(tmp_path: Path) -> None:
    log = open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES)
    log.append([b"whole"])
    log.append([b"torn"])
    log.close()
    file = tmp_path / segment_name(1)
    content = file.read_bytes()
    file.write_bytes(content.replace(b"torn\xff", b"to\0\0\0"))
    again = open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES)
    assert list(again.replay()) == [[b"whole"]]
    assert again.recovered.torn_bytes == BATCH_OVERHEAD_BYTES - 1 + 4 + 2
    again.close()
    third = open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES)
    assert third.recovered.torn_bytes == 0
    third.close()


def test_torn_first_batch_of_a_segment_is_cut() -> None:
    disk = _filled(3)
    _crash_in_append(disk, b"torn" * 400, after=2)
    log = open_log(disk.after_power_loss(tear_at(-1)), segment_bytes=SEGMENT_BYTES)
    assert log.recovered.torn_at == f"memory/{segment_name(2)} offset {HEADER_BYTES}"
    log.append([b"next" * 400])
    assert list(log.replay()) == [*BATCHES[:3], [b"next" * 400]]


def test_cut_tail_does_not_come_back_with_the_next_power_loss() -> None:
    # Were the zeros not synced, the end of the old torn batch would stand behind the new torn one.
    disk = _filled(3)
    _crash_in_append(disk, b"torn" * 400, after=2)
    cut = disk.after_power_loss(tear_at(-1))
    log = open_log(cut, segment_bytes=SEGMENT_BYTES)
    cut.faults.crash_at = cut.faults.operations
    with pytest.raises(DiskCrashed):
        log.append([b"torn again"])
    again = cut.after_power_loss(lambda start, end: [(start, end - 1)] if end - start < 100 else [])
    assert list(open_log(again, segment_bytes=SEGMENT_BYTES).replay()) == BATCHES[:3]


def test_crash_while_the_tail_is_cut_loses_nothing_acknowledged() -> None:
    disk = _filled(1)
    _crash_in_append(disk, b"torn" * 300)
    torn = disk.after_power_loss(tear_at(-1))
    torn.faults.crash_at = 0
    with pytest.raises(DiskCrashed):
        open_log(torn, segment_bytes=SEGMENT_BYTES)
    log = open_log(torn.after_power_loss(tear_at(600)), segment_bytes=SEGMENT_BYTES)
    assert list(log.replay()) == BATCHES[:1]


def test_unacknowledged_batch_that_arrived_whole_is_kept() -> None:
    disk = _filled(1)
    _crash_in_append(disk, b"late")
    assert list(open_log(disk.after_power_loss(keep_all)).replay()) == [BATCHES[0], [b"late"]]


def test_batch_read_from_the_cache_after_a_kill_is_made_durable() -> None:
    disk = _filled(1)
    log = open_log(disk)
    disk.faults.crash_at = disk.faults.operations + 1
    with pytest.raises(DiskCrashed):
        log.append([b"written, not synced"])
    restarted = disk.after_kill()
    shown = list(open_log(restarted).replay())
    assert shown == [BATCHES[0], [b"written, not synced"]]
    assert list(open_log(restarted.after_power_loss()).replay()) == shown


@pytest.mark.parametrize("operation", range(6))
@pytest.mark.parametrize("keep_names", [False, True])
@pytest.mark.parametrize("tear", [tear_at(0), tear_at(20), keep_all], ids=["lost", "torn", "whole"])
def test_crash_while_a_segment_is_made_loses_nothing(operation: int, keep_names: bool, tear: Tear) -> None:
    disk = _filled(1)
    disk.remove(segment_name(2))
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    disk.faults.crash_at = disk.faults.operations + operation
    with pytest.raises(DiskCrashed):
        log.refill()
    again = open_log(disk.after_power_loss(tear, keep_names=keep_names), segment_bytes=SEGMENT_BYTES)
    assert again.recovered.torn_bytes == 0
    for batch in BATCHES[1:]:
        again.append(batch)
    assert list(again.replay()) == BATCHES


# -- damage -------------------------------------------------------------------------------------------------------


def test_damaged_batch_before_a_whole_one_stops_the_start() -> None:
    disk = _filled()
    disk.corrupt(segment_name(2), HEADER_BYTES + BATCH_BYTES + 100, b"!")
    offset = HEADER_BYTES + BATCH_BYTES
    _expect_damage(disk, f"{segment_name(2)} is damaged at offset {offset}: records 4 to 4 cannot be read")


def test_damage_says_how_to_go_on() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), 100, b"!")
    _expect_damage(disk, "move memory aside and keep it, then start the node empty: it joins again under a new life")


def test_damaged_last_batch_of_an_earlier_segment_stops_the_start() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), HEADER_BYTES + 2 * BATCH_BYTES, b"!")
    offset = HEADER_BYTES + 2 * BATCH_BYTES
    _expect_damage(disk, f"{segment_name(1)} is damaged at offset {offset}: records 2 to 2 cannot be read")


def test_damage_over_several_batches_names_all_records() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), HEADER_BYTES + BATCH_BYTES, bytes(SEGMENT_BYTES - HEADER_BYTES - BATCH_BYTES))
    disk.corrupt(segment_name(2), HEADER_BYTES, bytes(BATCH_BYTES))
    _expect_damage(disk, f"{segment_name(2)} is damaged at offset {HEADER_BYTES}: records 1 to 3 cannot be read")


def test_damaged_segment_header_stops_the_start() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), 20, b"!")
    _expect_damage(disk, f"{segment_name(1)} is damaged at offset 0: its header does not check")


def test_header_of_the_only_segment_damaged_stops_the_start() -> None:
    disk = _filled(1)
    disk.corrupt(segment_name(1), 0, bytes(HEADER_BYTES))
    _expect_damage(disk, "its header does not check")


def test_missing_first_segment_stops_the_start() -> None:
    disk = _filled()
    disk.remove(segment_name(1))
    _expect_damage(disk, f"{segment_name(2)} is damaged at offset {HEADER_BYTES}: records 0 to 2 cannot be read")


@pytest.mark.parametrize("number", [2, 3])
def test_missing_later_segment_stops_the_start(number: int) -> None:
    disk = _filled()
    disk.remove(segment_name(number))
    _expect_damage(disk, f"{segment_name(number)} is damaged at offset 0: it is gone")


def test_segment_of_another_log_stops_the_start() -> None:
    disk = _filled()
    stranger = MemoryDisk(seed=1)
    log = open_log(stranger, segment_bytes=SEGMENT_BYTES)
    for batch in BATCHES:
        log.append(batch)
    disk.corrupt(segment_name(2), 0, stranger.content(segment_name(2)))
    _expect_damage(disk, "it belongs to another log")


def test_segment_twice_stops_the_start() -> None:
    disk = _filled()
    disk.corrupt(segment_name(4), 0, disk.content(segment_name(1)))
    _expect_damage(disk, "has another number")


def test_batch_twice_stops_the_start() -> None:
    disk = _filled()
    second = disk.content(segment_name(1))[HEADER_BYTES + BATCH_BYTES :][:BATCH_BYTES]
    disk.corrupt(segment_name(1), HEADER_BYTES + 2 * BATCH_BYTES, second)
    _expect_damage(disk, "record 1 comes where 2 is due")


def test_two_torn_places_stop_the_start() -> None:
    # A crash tears the one batch that was being written. Data behind a torn batch means that it was acknowledged.
    disk = _filled()
    disk.corrupt(segment_name(3), HEADER_BYTES + 2 * BATCH_BYTES, b"!")
    disk.corrupt(segment_name(4), HEADER_BYTES, b"torn first batch")
    _expect_damage(disk, f"{segment_name(4)} holds data behind it")


def test_damage_in_the_unused_end_of_an_earlier_segment_costs_nothing() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), SEGMENT_BYTES - 1, b"!")
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    assert (list(log.replay()), log.recovered.torn_bytes) == (BATCHES, 0)


def test_record_that_imitates_a_batch_is_not_taken_for_one() -> None:
    # The value is a copy of a batch of an older segment; the tail behind it is torn in its middle.
    disk = _filled()
    imitation = disk.content(segment_name(1))[HEADER_BYTES:][:BATCH_BYTES]
    _crash_in_append(disk, imitation * 2, after=2)
    log = open_log(disk.after_power_loss(tear_at(-1)), segment_bytes=SEGMENT_BYTES)
    assert list(log.replay()) == BATCHES


def test_damage_after_opening_is_noticed_by_replay() -> None:
    disk = _filled()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    disk.corrupt(segment_name(1), HEADER_BYTES + BATCH_BYTES + 50, b"!")
    batches = log.replay()
    assert next(batches) == BATCHES[0]
    with pytest.raises(LogDamagedError, match=f"offset {HEADER_BYTES + BATCH_BYTES}"):
        next(batches)


# -- others -------------------------------------------------------------------------------------------------------


def test_other_format_version_stops_the_start() -> None:
    disk = _filled()
    disk.corrupt(segment_name(1), 0, encode_header(SegmentHeader(1, bytes(16), bytes(8), version=3)))
    with pytest.raises(FormatVersionError, match="has format 3, this release reads 1 and 2"):
        open_log(disk)


def test_second_opener_is_refused_and_the_first_goes_on() -> None:
    disk = MemoryDisk()
    first = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for _ in range(2):
        with pytest.raises(DirectoryLockedError):
            open_log(disk, segment_bytes=SEGMENT_BYTES)
    assert first.append([b"a"]) == 1
    first.close()
    assert open_log(disk, segment_bytes=SEGMENT_BYTES).next_lsn == 1


def test_second_opener_of_a_real_directory_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    first = open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES)
    disk = DirectoryDisk(str(tmp_path))
    with pytest.raises(DirectoryLockedError):
        open_log(disk, segment_bytes=SEGMENT_BYTES)
    first.close()
    open_log(disk, segment_bytes=SEGMENT_BYTES).close()


def test_refused_opening_releases_the_directory(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(b"not a segment".ljust(100, b"!"))
    for _ in range(2):
        with pytest.raises(LogDamagedError):
            open_log(DirectoryDisk(str(tmp_path)))


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    open_log(DirectoryDisk(str(tmp_path)), segment_bytes=SEGMENT_BYTES).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("operation", [0, 1])
def test_disk_that_fails_while_opening_is_reported(operation: int) -> None:
    # Each opening writes and syncs the last batch once more.
    disk = _filled()
    disk.faults.fail_write_at = disk.faults.fail_sync_at = disk.faults.operations + operation
    with pytest.raises(StorageFailedError, match=r"the log cannot be opened: .*Input/output error"):
        open_log(disk, segment_bytes=SEGMENT_BYTES)


def test_segment_size_that_holds_no_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold one batch"):
        open_log(MemoryDisk(), segment_bytes=HEADER_BYTES + BATCH_OVERHEAD_BYTES + SEAL_BYTES - 1)
