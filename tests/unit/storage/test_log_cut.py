"""A damaged log goes on with what is whole when it is told to, says what it left out, and keeps that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.errors import LogDamagedError, NoSpaceError
from distkv.storage.base import BATCH_OVERHEAD_BYTES
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, Tear, keep_all, keep_none, tear_at
from distkv.storage.segment import CUT_BYTES, HEADER_BYTES, segment_name

SEGMENT_BYTES = 2000
RECORDS = [b"%d" % number * 500 for number in range(8)]
"""One batch each; three fill a segment, so that the last one has two."""
BATCH_BYTES = BATCH_OVERHEAD_BYTES + 4 + 500
SECOND = HEADER_BYTES + BATCH_BYTES
FIRST, MIDDLE, LAST, SPARE, NEW = map(segment_name, range(1, 6))
ASIDE = ".damaged"

Spoil = Callable[[MemoryDisk], object]


def _written() -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for record in RECORDS:
        log.append([record])
        log.refill()
    log.close()
    return disk


def _open(disk: MemoryDisk, settled_lsn: int = 0, settled_segment: int = 0, *, cut: bool = False) -> SegmentedLog:
    return open_log(
        disk,
        settled_lsn=settled_lsn,
        settled_segment=settled_segment,
        segment_bytes=SEGMENT_BYTES,
        cut_damage=cut,
    )


def _flip(disk: MemoryDisk, name: str, offset: int) -> None:
    disk.corrupt(name, offset, bytes([disk.content(name)[offset] ^ 4]))


SPOILT: dict[str, tuple[Spoil, int]] = {
    "last-batch-flipped": (lambda disk: _flip(disk, LAST, SECOND + 50), 7),
    "middle-flipped": (lambda disk: _flip(disk, MIDDLE, SECOND + 50), 4),
    "last-header-flipped": (lambda disk: _flip(disk, LAST, 20), 6),
    "last-gone": (lambda disk: disk.remove(LAST), 6),
    "last-and-spare-gone": (lambda disk: [disk.remove(name) for name in (LAST, SPARE)], 6),
    "last-emptied": (lambda disk: disk.truncate(LAST, 0), 6),
    "last-shorter": (lambda disk: disk.truncate(LAST, SECOND + 9), 7),
    "zeros-gone": (lambda disk: disk.truncate(LAST, SEGMENT_BYTES - 1), 8),
    "middle-gone": (lambda disk: disk.remove(MIDDLE), 3),
    "middle-emptied": (lambda disk: disk.truncate(MIDDLE, 0), 3),
    "first-flipped": (lambda disk: _flip(disk, FIRST, SECOND + 50), 1),
}
every_spoil = pytest.mark.parametrize(("spoil", "whole"), SPOILT.values(), ids=SPOILT)


@every_spoil
@pytest.mark.parametrize("settled_lsn", [0, 1])
def test_damaged_log_that_is_cut_has_what_is_whole_and_goes_on(spoil: Spoil, whole: int, settled_lsn: int) -> None:
    disk = _written()
    spoil(disk)
    log = _open(disk, settled_lsn, cut=True)
    assert (log.next_lsn, log.recovered.cut != "") == (whole, True)
    log.append([b"new"])
    log.close()
    again = _open(disk, settled_lsn)
    begin = settled_lsn
    expected = [(lsn, [RECORDS[lsn]]) for lsn in range(begin, whole)]
    assert list(again.replay_from(begin)) == [*expected, (whole, [b"new"])]
    assert again.recovered.cut == ""


@every_spoil
def test_cut_log_keeps_all_bytes_that_do_not_count(spoil: Spoil, whole: int) -> None:
    disk = _written()
    spoil(disk)
    before = {name: disk.content(name) for name in disk.names()}
    log = _open(disk, cut=True)
    for number in range(12):
        log.append([b"x" * 500])
        log.drop(whole + number)
    after = {name.removesuffix(ASIDE): disk.content(name) for name in disk.names() if name.endswith(ASIDE)}
    last_whole = (whole - 1) // 3 + 1
    kept = {name: content for name, content in before.items() if name >= segment_name(last_whole)}
    assert after == kept


def test_cut_says_what_it_left_out() -> None:
    disk = _written()
    _flip(disk, MIDDLE, SECOND + 50)
    said = _open(disk, cut=True).recovered.cut
    assert f"{MIDDLE} is damaged at offset {SECOND}" in said
    assert "records 4 to 7 at least are damaged or lie behind it" in said


def test_cut_is_told_at_each_opening_until_a_record_follows() -> None:
    # Who starts must know that its directory is older than it was, also when it was killed before it wrote that down.
    disk = _written()
    disk.remove(LAST)
    _open(disk, cut=True).close()
    told = []
    for _ in range(2):
        log = _open(disk)
        told.append(log.recovered.cut != "")
        log.close()
    log = _open(disk)
    log.append([b"stale"])
    log.close()
    assert [*told, _open(disk).recovered.cut] == [True, True, ""]


def test_log_that_is_whole_is_not_cut() -> None:
    disk = _written()
    log = _open(disk, cut=True)
    assert (log.next_lsn, log.recovered.cut) == (8, "")


def test_torn_tail_is_cut_as_ever_when_damage_may_be() -> None:
    disk = _written()
    disk.corrupt(LAST, SECOND + BATCH_BYTES - 5, bytes(5))
    log = _open(disk, cut=True)
    assert (log.next_lsn, log.recovered.cut, log.recovered.torn_bytes > 0) == (7, "", True)


def test_log_without_anything_whole_is_refused_though_it_may_be_cut() -> None:
    disk = _written()
    _flip(disk, FIRST, 20)
    with pytest.raises(LogDamagedError, match="nothing before it is whole"):
        _open(disk, cut=True)
    assert disk.names() == [FIRST, MIDDLE, LAST, SPARE]


def test_log_of_which_only_the_archive_has_something_begins_behind_that() -> None:
    disk = _written()
    _flip(disk, FIRST, 20)
    log = _open(disk, 2, 3, cut=True)
    assert (log.next_lsn, list(log.replay_from(2))) == (2, [])
    assert log.append([b"new"]) == 3
    log.close()
    again = _open(disk, 2, 3)
    assert list(again.replay_from(2)) == [(2, [b"new"])]
    assert disk.names() == [*(name + ASIDE for name in (FIRST, MIDDLE, LAST, SPARE)), NEW]


def test_log_that_ends_below_the_archive_begins_behind_that() -> None:
    disk = _written()
    _flip(disk, LAST, SECOND + 50)
    log = _open(disk, 8, 3, cut=True)
    assert (log.next_lsn, log.append([b"new"])) == (8, 9)
    log.close()
    again = _open(disk, 8, 3)
    assert (list(again.replay_from(8)), again.recovered.damage) == ([(8, [b"new"])], "")


def test_segment_that_the_archive_knows_may_be_one_that_was_cut() -> None:
    disk = _written()
    for name in (LAST, SPARE):
        disk.remove(name)
    log = _open(disk, 5, 7, cut=True)
    assert log.segment_number == 8
    log.close()
    again = _open(disk, 5, 7)
    assert list(again.replay_from(5)) == [(5, [RECORDS[5]])]


def test_log_is_cut_twice() -> None:
    disk = _written()
    _flip(disk, LAST, SECOND + 50)
    log = _open(disk, cut=True)
    for number in range(4):
        log.append([b"%d" % number * 500])
    log.close()
    _flip(disk, NEW, HEADER_BYTES + CUT_BYTES + 100)
    _open(disk, cut=True).close()
    again = _open(disk)
    assert [records for _, records in again.replay_from(0)] == [[record] for record in RECORDS[:7]]


def test_name_of_a_segment_set_aside_is_never_overwritten() -> None:
    disk = _written()
    disk.open_file(LAST + ASIDE).write(0, b"kept")
    _flip(disk, LAST, 20)
    _open(disk, cut=True)
    assert disk.content(LAST + ASIDE) == b"kept"
    assert LAST + ASIDE + ASIDE in disk.names()


def test_cut_without_space_changes_nothing() -> None:
    disk = _written()
    disk.remove(SPARE)
    _flip(disk, LAST, SECOND + 50)
    disk.faults.used_bytes = disk.faults.capacity_bytes = 3 * SEGMENT_BYTES
    with pytest.raises(NoSpaceError, match="no space for the next log segment"):
        _open(disk, cut=True)
    disk.faults.capacity_bytes = None
    with pytest.raises(LogDamagedError):
        _open(disk)
    assert _open(disk, cut=True).next_lsn == 7


@every_spoil
@pytest.mark.parametrize("keep_names", [False, True], ids=["names-lost", "names-kept"])
@pytest.mark.parametrize("tear", [keep_none, tear_at(20), tear_at(-1), keep_all], ids=["no", "20", "short", "whole"])
def test_crash_while_a_log_is_cut_leaves_it_damaged_or_cut(
    spoil: Spoil, whole: int, keep_names: bool, tear: Tear
) -> None:
    operations = 0
    while True:
        disk = _written()
        spoil(disk)
        disk.faults.crash_at = disk.faults.operations + operations
        try:
            _open(disk, 1, 3, cut=True)
            break
        except DiskCrashed:
            pass
        left = disk.after_power_loss(tear, keep_names=keep_names)
        try:
            log = _open(left, 1, 3)
            assert log.recovered.cut != ""
        except LogDamagedError:
            log = _open(left, 1, 3, cut=True)
        assert [records for _, records in log.replay_from(0)] == [[record] for record in RECORDS[:whole]]
        operations += 1
    assert operations > 6
