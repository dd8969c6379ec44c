"""A log that an earlier release wrote, in format 1, is opened, checked and continued."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.errors import LogDamagedError
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import MemoryDisk, Tear, keep_none, tear_at, tear_by_sectors
from distkv.storage.segment import SegmentHeader, encode_batch, encode_header, new_mark, parse_header, segment_name

SEGMENT_BYTES = 200
FIRST, SPARE = segment_name(1), segment_name(2)
WRITTEN = {  # by the release before format 2, in segments of SEGMENT_BYTES
    FIRST: (
        "646973746b764c00010000000100000000000000de767d796adadc442c1e50a84c1d758779e099aadb888b598070a7e8"
        "79e099aadb888b59100000000000000000000000020000003ee2894308000000000000007265636f72642030"
        "79e099aadb888b5911000000020000000000000002000000bbb1502708000000010000007265636f7264203100"
        "79e099aadb888b5912000000040000000000000002000000d0f7751408000000020000007265636f726420320000"
    ),
    SPARE: "646973746b764c00010000000200000000000000de767d796adadc442c1e50a84c1d7587e5748124ff39b36180ad1277",
}
BATCHES = [[b"record 0", b""], [b"record 1", b"\0"], [b"record 2", b"\0\0"]]
LAST_AT = 48 + 44 + 45
END = LAST_AT + 46


def _disk() -> MemoryDisk:
    disk = MemoryDisk()
    for name, content in WRITTEN.items():
        file = disk.open_file(name)
        file.write(0, bytes.fromhex(content).ljust(SEGMENT_BYTES, b"\0"))
        file.sync()
    disk.sync_directory()
    return disk


def _large() -> tuple[MemoryDisk, SegmentHeader]:
    """A segment with room for batches over several sectors, and its header."""
    disk = MemoryDisk()
    header = SegmentHeader(1, bytes(16), new_mark(b"marked.."), version=1)
    file = disk.open_file(FIRST)
    file.write(0, encode_header(header).ljust(8000, b"\0"))
    file.sync()
    disk.sync_directory()
    return disk, header


def _open(disk: MemoryDisk, segment_bytes: int = SEGMENT_BYTES) -> SegmentedLog:
    return open_log(disk, segment_bytes=segment_bytes)


def _versions(disk: MemoryDisk) -> list[int]:
    return [header.version for name in disk.names() if (header := parse_header(disk.content(name))) is not None]


def test_log_of_format_1_is_replayed() -> None:
    log = _open(_disk())
    assert list(log.replay()) == BATCHES
    assert (log.recovered.torn_bytes, log.recovered.damage, log.recovered.cut) == (0, "", "")


def test_log_of_format_1_goes_on_in_the_present_format() -> None:
    disk = _disk()
    log = _open(disk)
    added = [[b"%d" % number * 30] for number in range(6)]
    for batch in added:
        log.append(batch)
        log.refill()
    log.close()
    assert _versions(disk)[:2] == [1, 2]
    assert list(_open(disk).replay()) == BATCHES + added


def test_segment_of_format_1_is_filled_and_sealed_in_its_format() -> None:
    disk, _ = _large()
    log = _open(disk, 8000)
    for number in range(5):
        log.append([b"%d" % number * 2000])
    log.close()
    assert _versions(disk) == [1, 2]
    again = _open(disk, 8000)
    assert list(again.replay()) == [[b"%d" % number * 2000] for number in range(5)]
    again.close()
    disk.remove(SPARE)
    with pytest.raises(LogDamagedError, match=f"{SPARE} is damaged at offset 0: it is gone"):
        _open(disk, 8000)


@pytest.mark.parametrize(
    ("spoil", "offset"),
    [
        (lambda disk: disk.truncate(FIRST, SEGMENT_BYTES - 1), END),
        (lambda disk: disk.truncate(FIRST, LAST_AT), LAST_AT),
        (lambda disk: disk.truncate(FIRST, 0), 0),
        (lambda disk: disk.remove(FIRST), 0),
        (lambda disk: disk.corrupt(FIRST, 20, b"!"), 0),
        (lambda disk: disk.corrupt(FIRST, LAST_AT - 5, b"!"), LAST_AT - 45),
    ],
    ids=["shorter", "at-a-batch", "empty", "gone", "header", "batch"],
)
def test_damage_to_a_log_of_format_1_stops_the_start(spoil: Callable[[MemoryDisk], None], offset: int) -> None:
    disk = _disk()
    spoil(disk)
    with pytest.raises(LogDamagedError, match=f"{FIRST} is damaged at offset {offset}: "):
        _open(disk)


def test_flipped_bit_in_a_last_batch_of_format_1_without_zeros_stops_the_start() -> None:
    disk, header = _large()
    batch = encode_batch(header, header.end, 0, [b"x" * 1000])
    disk.corrupt(FIRST, header.end, batch)
    disk.corrupt(FIRST, header.end + 700, b"y")
    with pytest.raises(LogDamagedError, match=f"{FIRST} is damaged at offset 48: the batch there does not check"):
        _open(disk, 8000)


@pytest.mark.parametrize(
    "tear",
    [keep_none, tear_at(1), tear_at(20), tear_at(-1), tear_by_sectors(lambda sector: sector != 1)],
    ids=["lost", "byte", "fields", "short", "hole"],
)
def test_torn_batch_of_format_1_is_cut(tear: Tear) -> None:
    disk, header = _large()
    whole = encode_batch(header, header.end, 0, [b"first"])
    file = disk.open_file(FIRST)
    file.write(header.end, whole)
    file.sync()
    at = header.end + len(whole)
    file.write(at, encode_batch(header, at, 1, [b"x" * 3000]))
    log = _open(disk.after_power_loss(tear), 8000)
    assert list(log.replay()) == [[b"first"]]
    assert log.append([b"next"]) == 2
