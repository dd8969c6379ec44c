"""Damage is never passed over in silence, in the last batch neither."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from distkv.errors import LogDamagedError
from distkv.storage.base import SECTOR_BYTES
from distkv.storage.log import open_log
from distkv.storage.memory import MemoryDisk
from distkv.storage.segment import HEADER_BYTES, BatchSpan, parse_batch, parse_header, segment_name, segment_numbers
from tests.profiles import examples

pytestmark = pytest.mark.slow

Place = tuple[str, BatchSpan]

some_records = st.one_of(st.binary(max_size=300), st.integers(0, 1500).map(bytes))
some_batches = st.lists(st.lists(some_records, min_size=1, max_size=3), min_size=2, max_size=10)
segment_sizes = st.sampled_from([150, 300, 1000, 5000])


def _written(batches: list[list[bytes]], segment_bytes: int) -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes=segment_bytes)
    for batch in batches:
        log.append(batch)
    log.refill()
    log.close()
    return disk


def _places(disk: MemoryDisk) -> list[Place]:
    """Where each batch stands, in order."""
    places = []
    for number in segment_numbers(disk.names()):
        data = disk.content(segment_name(number))
        header = parse_header(data)
        assert header is not None
        span = parse_batch(data, HEADER_BYTES, header)
        while span is not None:
            if span.next_lsn > span.first_lsn:  # no seal
                places.append((segment_name(number), span))
            span = parse_batch(data, span.end, header)
    return places


def _flip(disk: MemoryDisk, name: str, bit: int) -> None:
    disk.corrupt(name, bit // 8, bytes([disk.content(name)[bit // 8] ^ 1 << bit % 8]))


@given(some_batches, segment_sizes, st.data())
@examples(62)
def test_bit_flipped_in_any_but_the_last_batch_is_damage(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    places = _places(disk)
    assert len(places) == len(batches)
    name, span = data.draw(st.sampled_from(places[:-1]))
    _flip(disk, name, data.draw(st.integers(8 * span.start, 8 * span.end - 1)))
    with pytest.raises(LogDamagedError, match=f"{name} is damaged at offset {span.start}: .*cannot be read"):
        open_log(disk, segment_bytes=segment_bytes)


@given(some_batches, segment_sizes, st.data())
@examples(50)
def test_bit_flipped_in_a_segment_header_is_damage(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    name, _ = data.draw(st.sampled_from(_places(disk)))
    _flip(disk, name, data.draw(st.integers(0, 8 * HEADER_BYTES - 1)))
    with pytest.raises(LogDamagedError, match=f"{name} is damaged at offset 0"):
        open_log(disk, segment_bytes=segment_bytes)


def _is_the_only_one_of_its_sector(disk: MemoryDisk, name: str, bit: int) -> bool:
    begin = bit // 8 - bit // 8 % SECTOR_BYTES
    return int.from_bytes(disk.content(name)[begin : begin + SECTOR_BYTES], "little").bit_count() == 1


@given(some_batches, segment_sizes, st.data())
@examples(62)
def test_bit_flipped_anywhere_is_damage_or_costs_nothing(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    name = data.draw(st.sampled_from(disk.names()))
    bit = data.draw(st.integers(0, 8 * len(disk.content(name)) - 1))
    assume(not _is_the_only_one_of_its_sector(disk, name, bit))
    _flip(disk, name, bit)
    try:
        log = open_log(disk, segment_bytes=segment_bytes)
    except LogDamagedError:
        return
    assert list(log.replay()) == batches


@given(some_batches, segment_sizes, st.data())
@examples(62)
def test_bit_flipped_in_the_last_batch_is_damage(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    name, span = _places(disk)[-1]
    bit = data.draw(st.integers(8 * span.start, 8 * span.end - 1))
    assume(not _is_the_only_one_of_its_sector(disk, name, bit))
    _flip(disk, name, bit)
    with pytest.raises(LogDamagedError, match=f"{name} is damaged at offset {span.start}: "):
        open_log(disk, segment_bytes=segment_bytes)


@given(some_batches, segment_sizes, st.data())
@examples(62)
def test_file_that_lost_its_end_or_all_is_damage(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    first, spare = min(disk.names()), max(disk.names())
    name = data.draw(st.sampled_from(sorted({name for name, _ in _places(disk)})))
    size = data.draw(st.one_of(st.none(), st.integers(0, len(disk.content(name)) - 1)))
    if size is None:
        disk.remove(name)
    else:
        disk.truncate(name, size)
    if name != first and data.draw(st.booleans()):  # of an empty directory nobody knows that it held something
        disk.remove(spare)
    with pytest.raises(LogDamagedError):
        open_log(disk, segment_bytes=segment_bytes)


@given(some_batches, segment_sizes, st.data())
@examples(62)
def test_bytes_overwritten_anywhere_are_damage_or_lose_the_last_batch_at_most(
    batches: list[list[bytes]], segment_bytes: int, data: st.DataObject
) -> None:
    disk = _written(batches, segment_bytes)
    name, last = _places(disk)[-1]
    victim = data.draw(st.sampled_from(disk.names()))
    before_last = last.start if victim == name else len(disk.content(victim))
    offset = data.draw(st.integers(0, before_last - 1))
    junk = data.draw(st.binary(min_size=1, max_size=400))[: before_last - offset]
    disk.corrupt(victim, offset, junk)
    try:
        found = list(open_log(disk, segment_bytes=segment_bytes).replay())
    except LogDamagedError:
        return
    assert found == batches
