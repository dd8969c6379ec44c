"""Which bytes behind the last batch are a torn write, and which are damage: one case each; all cases are drawn in
`tests/property/test_log_tail.py`."""

from __future__ import annotations

import pytest

from distkv.storage.base import SECTOR_BYTES
from distkv.storage.segment import SegmentHeader, encode_batch, new_mark
from distkv.storage.tail import tail_damage

HEADER = SegmentHeader(number=1, log_id=bytes(16), mark=new_mark(b"marked.."))
START = SECTOR_BYTES - 20
"""The fields of a batch here lie in two sectors: 20 bytes of them in the first."""
BATCH = encode_batch(HEADER, START, 7, [b"x" * 3000])
SIZE = 8 * SECTOR_BYTES


def _damage(*pieces: tuple[int, bytes], start: int = START, due_lsn: int = 7) -> str:
    """What is said of zeros with these pieces in them."""
    data = bytearray(SIZE)
    for at, piece in pieces:
        data[at : at + len(piece)] = piece
    return tail_damage(bytes(data), HEADER, start, due_lsn)


def test_batch_whose_second_sector_is_missing_is_torn() -> None:
    second = 20 + SECTOR_BYTES
    assert _damage((START, BATCH[:20]), (START + second, BATCH[second:])) == ""


def test_batch_whose_second_sector_is_blank_and_whose_mark_is_wrong_is_damaged() -> None:
    second = 20 + SECTOR_BYTES
    assert _damage((START, b"Marked!!" + BATCH[8:20]), (START + second, BATCH[second:])) != ""


def test_batch_whose_second_sector_is_blank_and_whose_lsn_is_not_due_is_damaged() -> None:
    second = 20 + SECTOR_BYTES
    assert _damage((START, BATCH[:20]), (START + second, BATCH[second:]), due_lsn=8) != ""


@pytest.mark.parametrize("length", [1, 8, 11, 19, 30, 36])
def test_beginning_of_the_fields_is_torn(length: int) -> None:
    assert _damage((START, BATCH[:length])) == ""


@pytest.mark.parametrize("begin", [b"\x01", b"Marked!!", BATCH[:12] + b"\x08"], ids=["byte", "mark", "lsn"])
def test_few_bytes_that_no_batch_begins_with_are_damage(begin: bytes) -> None:
    assert _damage((START, begin)) == "what stands there does not check"


def test_whole_batch_that_is_not_due_is_damage() -> None:
    assert _damage((START, BATCH), due_lsn=6) == "record 7 comes where 6 is due"


def test_bytes_behind_the_end_of_a_batch_are_damage() -> None:
    flipped = BATCH[:-9] + b"y" + BATCH[-8:]
    assert _damage((START, flipped), (START + len(BATCH) + 3, b"!")).startswith("a batch would end at ")


def test_batch_that_would_end_behind_the_file_is_damage() -> None:
    at = SIZE - 1000
    assert _damage((at, encode_batch(HEADER, at, 7, [b"x" * 3000])[:1000]), start=at).startswith("a batch would end")


def test_blank_sector_that_was_one_is_no_sign_of_a_torn_write() -> None:
    batch = encode_batch(HEADER, START, 7, [bytes(1500) + b"x" * 500])
    assert _damage((START, batch[:-9] + b"y" + batch[-8:])) == "the batch there does not check"


def test_sector_whose_only_bit_flipped_cannot_be_told_from_a_missing_one() -> None:
    batch = bytearray(encode_batch(HEADER, START, 7, [bytes(1200) + b"\x01" + bytes(1200)]))
    batch[batch.index(b"\x01", 60)] = 0
    assert _damage((START, bytes(batch))) == ""
