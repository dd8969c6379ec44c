"""A part of the log that vanished is missed, at its end too: the start stops, and says what is whole."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from distkv.errors import LogDamagedError
from distkv.storage.base import BATCH_OVERHEAD_BYTES
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import MemoryDisk
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES, segment_name

SEGMENT_BYTES = 2000
RECORDS = [b"%d" % number * 500 for number in range(8)]
"""One batch each; three fill a segment, so that the last one has two."""
BATCH_BYTES = BATCH_OVERHEAD_BYTES + 4 + 500
LAST, SPARE = segment_name(3), segment_name(4)


@attrs.frozen
class Loss:
    """What happens to the disk, and what the start says of it."""

    spoil: Callable[[MemoryDisk], object]
    says: str
    whole: int
    """All records below are whole."""


def _without(*names: str) -> Callable[[MemoryDisk], object]:
    def spoil(disk: MemoryDisk) -> None:
        for name in names:
            disk.remove(name)

    return spoil


def _shorter(size: int, *gone: str) -> Callable[[MemoryDisk], object]:
    def spoil(disk: MemoryDisk) -> None:
        disk.truncate(LAST, size)
        _without(*gone)(disk)

    return spoil


def _flipped(name: str, offset: int) -> Callable[[MemoryDisk], object]:
    return lambda disk: disk.corrupt(name, offset, bytes([disk.content(name)[offset] ^ 4]))


def _longer(disk: MemoryDisk) -> None:
    disk.corrupt(LAST, SEGMENT_BYTES, b"\0")


SECOND = HEADER_BYTES + BATCH_BYTES
END = HEADER_BYTES + 2 * BATCH_BYTES
SEAL_AT = HEADER_BYTES + 3 * BATCH_BYTES
LOSSES = {
    "removed": Loss(_without(LAST), f"{LAST} is damaged at offset 0: it is gone", 6),
    "removed-with-spare": Loss(_without(LAST, SPARE), f"{LAST} is damaged at offset 0: it is gone, and seg", 6),
    "empty": Loss(_shorter(0), f"{LAST} is damaged at offset 0: it has no header", 6),
    "empty-without-spare": Loss(_shorter(0, SPARE), f"{LAST} is damaged at offset 0: it has no header", 6),
    "header-cut": Loss(_shorter(30, SPARE), f"{LAST} is damaged at offset 0: its header does not check", 6),
    "header-only": Loss(_shorter(HEADER_BYTES, SPARE), f"{LAST} is damaged at offset {HEADER_BYTES}: the file has", 6),
    "at-a-batch": Loss(_shorter(SECOND), f"{LAST} is damaged at offset {SECOND}: the file has {SECOND} bytes", 7),
    "in-a-batch": Loss(_shorter(SECOND + 100), f"{LAST} is damaged at offset {SECOND}: the file has", 7),
    "zeros-gone": Loss(_shorter(END), f"{LAST} is damaged at offset {END}: the file has {END} bytes", 8),
    "one-zero-gone": Loss(_shorter(SEGMENT_BYTES - 1), f"{LAST} is damaged at offset {END}: the file has", 8),
    "longer": Loss(_longer, f"{LAST} is damaged at offset {END}: the file has", 8),
    "header-flipped": Loss(_flipped(LAST, 20), f"{LAST} is damaged at offset 0: its header does not check", 6),
    "file-length-flipped": Loss(_flipped(LAST, 50), f"{LAST} is damaged at offset 0: its header does not check", 6),
    "mark-flipped": Loss(_flipped(LAST, SECOND), f"{LAST} is damaged at offset {SECOND}: what stands there does", 7),
    "length-flipped": Loss(_flipped(LAST, SECOND + 9), f"{LAST} is damaged at offset {SECOND}: what stands there", 7),
    "lsn-flipped": Loss(_flipped(LAST, SECOND + 12), f"{LAST} is damaged at offset {SECOND}: what stands there", 7),
    "record-flipped": Loss(_flipped(LAST, END - 9), f"{LAST} is damaged at offset {SECOND}: the batch there does", 7),
    "seal-flipped-and-removed": Loss(
        lambda disk: [spoil(disk) for spoil in (_flipped(segment_name(2), SEAL_AT + 1), _without(LAST, SPARE))],
        f"{segment_name(2)} is damaged at offset {SEAL_AT}: what stands there does not check",
        6,
    ),
}


def _written() -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for record in RECORDS:
        log.append([record])
        log.refill()
    log.close()
    return disk


def _open(disk: MemoryDisk, settled_lsn: int = 0, settled_segment: int = 0) -> SegmentedLog:
    return open_log(
        disk, settled_lsn=settled_lsn, settled_segment=settled_segment, segment_bytes=SEGMENT_BYTES
    )


def _refusal(disk: MemoryDisk, settled_lsn: int = 0, settled_segment: int = 0) -> str:
    before = {name: disk.content(name) for name in disk.names()}
    with pytest.raises(LogDamagedError) as caught:
        _open(disk, settled_lsn, settled_segment)
    assert {name: disk.content(name) for name in disk.names()} == before, "nothing is changed"
    return str(caught.value)


@pytest.mark.parametrize("settled_lsn", [0, 5])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_last_part_spoilt_stops_the_start(loss: Loss, settled_lsn: int) -> None:
    disk = _written()
    loss.spoil(disk)
    said = _refusal(disk, settled_lsn)
    assert said.startswith(f"memory/{loss.says}")
    assert f"; all before record {loss.whole} are whole" in said


def test_refusal_is_one_line_that_names_both_ways_on() -> None:
    disk = _written()
    disk.truncate(LAST, 0)
    said = _refusal(disk)
    assert "\n" not in said
    assert "start once with --restored to go on with what is whole" in said
    assert "move memory aside and keep it, then start the node empty" in said


def test_refusal_names_the_records_that_were_seen_behind_the_damage() -> None:
    disk = _written()
    _flipped(segment_name(1), SECOND + 50)(disk)
    assert "all before record 1 are whole, records 1 to 7 at least are damaged or lie behind it" in _refusal(disk)


def test_refusal_of_a_damaged_last_batch_names_its_records() -> None:
    disk = _written()
    LOSSES["record-flipped"].spoil(disk)
    assert "all before record 7 are whole, records 7 to 7 at least are damaged" in _refusal(disk)


def test_refusal_says_when_nobody_knows_how_many_are_gone() -> None:
    disk = _written()
    disk.remove(LAST)
    assert "all before record 6 are whole, how many are gone cannot be known" in _refusal(disk)


def test_refusal_where_nothing_is_whole_offers_the_empty_start_only() -> None:
    disk = _written()
    disk.corrupt(segment_name(1), 20, b"!")
    said = _refusal(disk)
    assert "nothing before it is whole" in said
    assert "--restored" not in said


# -- segments that the archive knows ------------------------------------------------------------------------------


def test_only_segment_gone_is_missed_when_the_archive_knows_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"kept"])
    number = log.segment_number
    log.close()
    disk.remove(segment_name(1))
    assert "segment-000000000001 is damaged at offset 0: it is gone, and the archive" in _refusal(disk, 1, number)


def test_only_segment_emptied_is_missed_when_the_archive_knows_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"kept"])
    log.close()
    disk.truncate(segment_name(1), 0)
    assert "segment-000000000001 is damaged at offset 0: it has no header" in _refusal(disk, 1, 1)


def test_segments_removed_from_the_end_are_missed_when_the_archive_knows_the_last() -> None:
    disk = _written()
    _without(LAST, SPARE)(disk)
    disk.corrupt(segment_name(2), SEAL_AT, bytes(SEAL_BYTES))
    assert f"{LAST} is damaged at offset 0: it is gone, and the archive knows of it" in _refusal(disk, 6, 3)


def test_only_segment_gone_is_missed_when_the_next_one_is_there() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"gone"])
    log.refill()
    log.close()
    disk.remove(segment_name(1))
    assert "segment-000000000001 is damaged at offset 0: it is gone" in _refusal(disk)


def test_only_segment_emptied_is_missed_when_the_next_one_is_there() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    log.append([b"gone"])
    log.refill()
    log.close()
    disk.truncate(segment_name(1), 0)
    assert "segment-000000000001 is damaged at offset 0: it has no header" in _refusal(disk)


def test_segment_number_is_that_of_the_last_batch_and_opens_the_log() -> None:
    disk = _written()
    log = _open(disk, 5, 3)
    assert log.segment_number == 3
    assert [lsn for lsn, _ in log.replay_from(5)] == [5, 6, 7]


def test_spare_segment_spoilt_costs_nothing() -> None:
    for spoil in (_without(SPARE), lambda disk: disk.truncate(SPARE, 30), _flipped(SPARE, 20)):
        disk = _written()
        spoil(disk)
        log = _open(disk)
        assert log.append([b"next" * 400]) == 9
        assert list(log.replay()) == [*([record] for record in RECORDS), [b"next" * 400]]


# -- what is in the archive ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "offset"),
    [
        (_flipped(segment_name(1), SECOND + 50), SECOND),
        (_flipped(segment_name(1), 20), 0),
        (_flipped(segment_name(2), SECOND), SECOND),
        (_flipped(LAST, HEADER_BYTES + 50), HEADER_BYTES),
        (_without(segment_name(2)), 0),
        (lambda disk: disk.truncate(segment_name(1), 700), SECOND),
    ],
    ids=["record", "header", "mark", "same-segment", "gone", "shorter"],
)
def test_damage_below_what_is_settled_is_passed_over_and_told(
    spoil: Callable[[MemoryDisk], object], offset: int
) -> None:
    disk = _written()
    spoil(disk)
    log = _open(disk, 7, 3)
    assert f"is damaged at offset {offset}: " in log.recovered.damage
    assert list(log.replay_from(7)) == [(7, [RECORDS[7]])]
    assert log.append([b"next"]) == 9
    log.close()
    assert list(_open(disk, 7, 3).replay_from(7)) == [(7, [RECORDS[7]]), (8, [b"next"])]


def test_segments_before_damage_that_is_settled_are_dropped() -> None:
    disk = _written()
    _flipped(segment_name(2), SECOND)(disk)
    log = _open(disk, 7, 3)
    assert log.drop(7) == 2
    assert disk.names() == [LAST, SPARE]
    log.close()
    assert _open(disk, 7, 3).recovered.damage == ""


def test_two_damaged_places_below_what_is_settled_are_both_told() -> None:
    disk = _written()
    _flipped(segment_name(1), SECOND)(disk)
    _flipped(LAST, HEADER_BYTES)(disk)
    told = _open(disk, 7, 3).recovered.damage
    assert told.count("is damaged at offset") == 2


@pytest.mark.parametrize("settled_lsn", [6, 7, 8])
def test_damage_to_the_last_batch_stops_the_start_though_it_be_settled(settled_lsn: int) -> None:
    # Nobody knows whether something stood behind it.
    disk = _written()
    LOSSES["record-flipped"].spoil(disk)
    _refusal(disk, settled_lsn, 3)


@pytest.mark.parametrize("settled_lsn", [0, 3, 4])
def test_damage_before_a_batch_that_is_not_settled_stops_the_start(settled_lsn: int) -> None:
    disk = _written()
    _flipped(segment_name(2), SECOND + 50)(disk)
    assert "records 4 to 4 cannot be read" in _refusal(disk, settled_lsn, 3)
