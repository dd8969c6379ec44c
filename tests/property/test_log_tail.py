"""Whatever a crash leaves of the last write is taken for that, wherever the write stands and whatever it holds."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.storage.base import SECTOR_BYTES
from distkv.storage.segment import SegmentHeader, content_end, encode_batch, new_mark, parse_batch
from distkv.storage.tail import tail_damage
from tests.profiles import examples

pytestmark = pytest.mark.slow

HEADER = SegmentHeader(number=1, log_id=bytes(16), mark=new_mark(b"marked.."))
SEGMENT_BYTES = 16 << 10

zeros = st.integers(0, 1600).map(bytes)
records = st.lists(
    st.one_of(st.binary(max_size=100), zeros, st.tuples(zeros, st.binary(max_size=3), zeros).map(b"".join)),
    min_size=1,
    max_size=4,
)
formats = st.sampled_from([HEADER, attrs.evolve(HEADER, version=1)])


def _segment(batch: bytes, start: int) -> bytes:
    return (bytes(start) + batch).ljust(SEGMENT_BYTES, b"\0")


def _expect_torn(data: bytes, whole: bytes, header: SegmentHeader, start: int) -> None:
    if content_end(data) > start and data != whole:
        assert parse_batch(data, start, header) is None
        assert tail_damage(data, header, start, 7) == ""


@given(formats, records, st.integers(60, 2000), st.integers(0, 1 << 30))
@examples(125)
def test_any_choice_of_sectors_is_a_torn_write(
    header: SegmentHeader, batch: list[bytes], start: int, seed: int
) -> None:
    whole = _segment(encode_batch(header, start, 7, batch), start)
    chance = random.Random(seed)
    for share in (0.5, 0.9, 0.1):
        data = bytearray(whole)
        for sector in range(start // SECTOR_BYTES, SEGMENT_BYTES // SECTOR_BYTES):
            if chance.random() < share:
                data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = bytes(SECTOR_BYTES)
        _expect_torn(bytes(data), whole, header, start)


@given(formats, records, st.integers(60, 2000))
@examples(10)
def test_any_beginning_is_a_torn_write(header: SegmentHeader, batch: list[bytes], start: int) -> None:
    written = encode_batch(header, start, 7, batch)
    whole = _segment(written, start)
    for length in (*range(min(len(written), 600)), len(written) - 1):
        _expect_torn(_segment(written[:length], start), whole, header, start)


@given(formats, records, st.integers(60, 2000), st.integers(0, 1 << 30), st.integers(1, 6000))
@examples(75)
def test_torn_write_that_was_cut_in_part_is_one_still(
    header: SegmentHeader, batch: list[bytes], start: int, seed: int, cut_bytes: int
) -> None:
    whole = _segment(encode_batch(header, start, 7, batch), start)
    chance = random.Random(seed)
    data = bytearray(whole)
    for sector in range(start // SECTOR_BYTES, SEGMENT_BYTES // SECTOR_BYTES):
        if chance.random() < 0.5:
            data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = bytes(SECTOR_BYTES)
    data[start : start + cut_bytes] = bytes(cut_bytes)
    _expect_torn(bytes(data[:SEGMENT_BYTES]), whole, header, start)


@given(records, st.integers(60, 2000), st.data())
@examples(125)
def test_flipped_bit_is_damage_unless_it_was_the_only_one_of_its_sector(
    batch: list[bytes], start: int, data: st.DataObject
) -> None:
    written = encode_batch(HEADER, start, 7, batch)
    flipped = bytearray(_segment(written, start))
    bit = data.draw(st.integers(8 * start, 8 * (start + len(written)) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    begin = bit // 8 - bit // 8 % SECTOR_BYTES
    is_left_blank = not any(flipped[begin : begin + SECTOR_BYTES])
    assert (tail_damage(bytes(flipped), HEADER, start, 7) == "") == is_left_blank
