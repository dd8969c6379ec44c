"""The bytes of a segment: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import attrs
import pytest

from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, SECTOR_BYTES
from distkv.storage.segment import (
    CUT_BYTES,
    SEAL_BYTES,
    LogCut,
    SegmentHeader,
    batch_records,
    blank_sectors,
    content_end,
    cut_by,
    encode_batch,
    encode_cut,
    encode_header,
    encode_seal,
    find_batch,
    is_seal,
    new_mark,
    parse_batch,
    parse_header,
    segment_name,
    segment_numbers,
)

HEADER = SegmentHeader(number=7, log_id=b"sixteen bytes id", mark=b"8 bytes.", length=1000)
HEADER_1 = attrs.evolve(HEADER, length=0, version=1)
HEADERS = pytest.mark.parametrize("header", [HEADER, HEADER_1], ids=["2", "1"])


@HEADERS
def test_header_encoded_is_parsed_back(header: SegmentHeader) -> None:
    assert parse_header(encode_header(header)) == header


@HEADERS
def test_header_takes_the_bytes_before_the_first_batch(header: SegmentHeader) -> None:
    assert len(encode_header(header)) == header.end


def test_header_of_a_later_version_is_still_recognised() -> None:
    later = attrs.evolve(HEADER, length=0, version=99)
    assert parse_header(encode_header(later)[:48]) == later


@HEADERS
def test_header_with_any_bit_flipped_is_none(header: SegmentHeader) -> None:
    whole = encode_header(header)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert parse_header(bytes(flipped)) is None


@HEADERS
def test_header_cut_short_is_none(header: SegmentHeader) -> None:
    assert parse_header(encode_header(header)[:-1]) is None


def test_mark_begins_with_what_no_flipped_bit_makes_zero() -> None:
    assert {new_mark(bytes([first]) + b"1234567")[0].bit_count() > 1 for first in range(256)} == {True}


@HEADERS
def test_batch_encoded_is_parsed_back(header: SegmentHeader) -> None:
    records = [b"", b"one", bytes(300)]
    data = b"before" + encode_batch(header, 6, 5, records) + bytes(9)
    span = parse_batch(data, 6, header)
    assert span is not None
    assert (span.first_lsn, span.next_lsn, span.end) == (5, 8, len(data) - 9)
    assert batch_records(data, span, header) == records
    assert (is_seal(data, span, header), cut_by(data, span, header)) == (False, None)


@HEADERS
def test_seal_encoded_is_parsed_back(header: SegmentHeader) -> None:
    data = encode_seal(header, 0, 5)
    span = parse_batch(data, 0, header)
    assert span is not None
    assert (span.first_lsn, span.next_lsn, span.end) == (5, 5, len(data))
    assert (is_seal(data, span, header), cut_by(data, span, header)) == (True, None)


def test_cut_encoded_is_parsed_back() -> None:
    data = encode_cut(HEADER, 0, 5, LogCut(3, 1234))
    span = parse_batch(data, 0, HEADER)
    assert span is not None
    assert (is_seal(data, span, HEADER), cut_by(data, span, HEADER)) == (False, LogCut(3, 1234))


def test_seal_and_cut_take_the_bytes_that_are_kept_for_them() -> None:
    assert len(encode_seal(HEADER, 0, 5)) == SEAL_BYTES
    assert len(encode_cut(HEADER, 0, 5, LogCut(1, 2))) == CUT_BYTES


def test_batch_takes_the_bytes_that_reserve_counts() -> None:
    batch = encode_batch(HEADER, 0, 0, [b"four", b"sixsix"])
    assert len(batch) == BATCH_OVERHEAD_BYTES + 2 * RECORD_OVERHEAD_BYTES + 10


@HEADERS
def test_batch_with_any_bit_flipped_is_none(header: SegmentHeader) -> None:
    whole = encode_batch(header, 0, 5, [b"one", b"two"])
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert parse_batch(bytes(flipped), 0, header) is None


@HEADERS
def test_batch_cut_anywhere_is_none(header: SegmentHeader) -> None:
    whole = encode_batch(header, 0, 5, [b"one", b"two"])
    assert [length for length in range(len(whole)) if parse_batch(whole[:length], 0, header)] == []


def test_batch_of_another_segment_is_none() -> None:
    other = attrs.evolve(HEADER, mark=b"otherone")
    assert parse_batch(encode_batch(other, 0, 5, [b"one"]), 0, HEADER) is None


def test_batch_behind_broken_bytes_is_found() -> None:
    broken = encode_batch(HEADER, 0, 5, [b"one"])[:-1] + b"?"
    data = broken + encode_batch(HEADER, len(broken), 6, [b"two"])
    found = find_batch(data, 0, HEADER)
    assert found is not None
    assert found.start == len(broken)


def test_batch_is_not_found_where_a_record_imitates_one() -> None:
    imitation = encode_batch(attrs.evolve(HEADER, mark=b"guessed?"), 0, 6, [b"x"])
    assert find_batch(encode_batch(HEADER, 0, 5, [imitation])[1:], 0, HEADER) is None


@pytest.mark.parametrize("end", [0, 1, 65535, 65536, 65537, 200_000])
@pytest.mark.parametrize("zeros", [0, 1, 65535, 65536, 65537, 200_000])
def test_content_end_is_where_the_last_zeros_begin(end: int, zeros: int) -> None:
    content = b"x".rjust(end, b"\0") if end else b""
    assert content_end(content + bytes(zeros)) == end


@pytest.mark.parametrize("offset", [0, 1, 100, 511, 512])
@pytest.mark.parametrize("length", [511, 512, 513, 1023, 1024, 1535, 3000])
def test_blank_sectors_are_those_of_the_file_that_lie_wholly_within(offset: int, length: int) -> None:
    sectors = {at // SECTOR_BYTES for at in range(offset, offset + length)}
    within = [n for n in sectors if n * SECTOR_BYTES >= offset and (n + 1) * SECTOR_BYTES <= offset + length]
    assert blank_sectors(bytes(length), 0, length, offset) == len(within)
    framed = b"x" * offset + bytes(length) + b"x" * 600
    assert blank_sectors(framed, offset, offset + length) == len(within)


def test_sector_with_one_bit_is_not_blank() -> None:
    data = bytearray(4 * SECTOR_BYTES)
    data[SECTOR_BYTES + 7] = data[4 * SECTOR_BYTES - 1] = 1
    assert blank_sectors(bytes(data), 0, len(data)) == 2


def test_segment_numbers_ignore_other_files_and_are_in_order() -> None:
    names = [segment_name(12), "lock", "segment-1", segment_name(3) + ".damaged", segment_name(2)]
    assert segment_numbers(names) == [2, 12]
