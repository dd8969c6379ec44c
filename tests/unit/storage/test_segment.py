"""The bytes of a segment: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES
from distkv.storage.segment import (
    Header,
    batch_records,
    content_end,
    encode_batch,
    encode_header,
    find_batch,
    parse_batch,
    parse_header,
    segment_name,
    segment_numbers,
)

MARK = b"8 bytes."
HEADER = Header(number=7, log_id=b"sixteen bytes id", mark=MARK)


def test_header_encoded_is_parsed_back() -> None:
    assert parse_header(encode_header(HEADER)) == HEADER


def test_header_of_a_later_version_is_still_recognised() -> None:
    later = Header(number=1, log_id=HEADER.log_id, mark=MARK, version=99)
    assert parse_header(encode_header(later)) == later


def test_header_with_any_bit_flipped_is_none() -> None:
    whole = encode_header(HEADER)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert parse_header(bytes(flipped)) is None


def test_header_cut_short_is_none() -> None:
    assert parse_header(encode_header(HEADER)[:-1]) is None


def test_batch_encoded_is_parsed_back() -> None:
    records = [b"", b"one", bytes(300)]
    data = b"before" + encode_batch(MARK, 5, records) + bytes(9)
    span = parse_batch(data, 6, MARK)
    assert span is not None
    assert (span.first_lsn, span.next_lsn, span.end) == (5, 8, len(data) - 9)
    assert batch_records(data, span) == records


def test_batch_takes_the_bytes_that_reserve_counts() -> None:
    batch = encode_batch(MARK, 0, [b"four", b"sixsix"])
    assert len(batch) == BATCH_OVERHEAD_BYTES + 2 * RECORD_OVERHEAD_BYTES + 10


def test_batch_with_any_bit_flipped_is_none() -> None:
    whole = encode_batch(MARK, 5, [b"one", b"two"])
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert parse_batch(bytes(flipped), 0, MARK) is None


def test_batch_cut_anywhere_is_none() -> None:
    whole = encode_batch(MARK, 5, [b"one", b"two"])
    assert [length for length in range(len(whole)) if parse_batch(whole[:length], 0, MARK)] == []


def test_batch_of_another_segment_is_none() -> None:
    assert parse_batch(encode_batch(b"otherone", 5, [b"one"]), 0, MARK) is None


def test_batch_behind_broken_bytes_is_found() -> None:
    broken = encode_batch(MARK, 5, [b"one"])[:-1] + b"?"
    data = broken + encode_batch(MARK, 6, [b"two"])
    found = find_batch(data, 0, MARK)
    assert found is not None
    assert found.start == len(broken)


def test_batch_is_not_found_where_a_record_imitates_one() -> None:
    assert find_batch(encode_batch(MARK, 5, [encode_batch(b"guessed?", 6, [b"x"])])[1:], 0, MARK) is None


@pytest.mark.parametrize("end", [0, 1, 65535, 65536, 65537, 200_000])
@pytest.mark.parametrize("zeros", [0, 1, 65535, 65536, 65537, 200_000])
def test_content_end_is_where_the_last_zeros_begin(end: int, zeros: int) -> None:
    content = b"x".rjust(end, b"\0") if end else b""
    assert content_end(content + bytes(zeros)) == end


def test_segment_numbers_ignore_other_files_and_are_in_order() -> None:
    names = [segment_name(12), "lock", "segment-1", segment_name(3) + ".old", segment_name(2)]
    assert segment_numbers(names) == [2, 12]
