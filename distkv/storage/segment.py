"""The format of a segment file: a header, then batches, then zeros.

Knows: bytes and their checks. Does not know files, nor which of two damaged places matters (`storage.recovery`).

    header  magic 8 | version u32 | number u64 | log id 16 | mark 8 | CRC-32 of these
    batch   mark 8 | length of the body u32 | first lsn u64 | count u32 | CRC-32 of these and the body | body
    body    count times a record's length u32 | the records, one after the other

All numbers are little-endian. The mark is random and new for every segment, and starts each of its batches. So
neither a block's former content nor a value which imitates a batch is ever taken for one, and a batch behind a damaged
place is found by searching for the mark.

The header is durable before the first batch is written, so a header that does not check, before bytes that are not
zero, is damage and never a torn write. Its 48 bytes keep their shape in every version.

Invariant: `parse_batch` returns exactly what `encode_batch` was given, or None.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

import attrs

from distkv.storage.base import RECORD_OVERHEAD_BYTES

FORMAT_VERSION = 1
HEADER_BYTES = 48
BATCH_BYTES_MAX = 1 << 30
"""Far above what the engine collects; keeps every length in its field and every write in one system call."""

_MAGIC = b"distkvL\x00"
_HEADER_FIELDS = struct.Struct("<8sIQ16s8s")
_BATCH_FIELDS = struct.Struct("<8sIQI")
_U32 = struct.Struct("<I")
_BODY_AT = _BATCH_FIELDS.size + _U32.size
_ZEROS = bytes(1 << 16)
_NAME = re.compile(r"segment-(\d{12})\Z", re.ASCII)


@attrs.frozen
class Header:
    """Who a segment is: its number (from 1, as in its name), the log it belongs to, the mark of its batches."""

    number: int
    log_id: bytes
    mark: bytes
    version: int = FORMAT_VERSION


@attrs.frozen
class BatchSpan:
    """Where a whole, checked batch stands in its segment, and the records it covers: `first_lsn` up to `next_lsn`."""

    start: int
    end: int
    first_lsn: int
    next_lsn: int


def segment_name(number: int) -> str:
    return f"segment-{number:012}"


def segment_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of all segments among a directory's file names, in order."""
    matches = (_NAME.match(name) for name in names)
    return sorted(int(match[1]) for match in matches if match)


def content_end(data: bytes) -> int:
    """Where the zeros begin that reach to the end. In large steps first: `rstrip` alone needs 30 ms for 16 MiB."""
    end = len(data)
    while end >= len(_ZEROS) and data.endswith(_ZEROS, 0, end):
        end -= len(_ZEROS)
    start = max(0, end - len(_ZEROS))
    return start + len(data[start:end].rstrip(b"\0"))


def encode_header(header: Header) -> bytes:
    fields = _HEADER_FIELDS.pack(_MAGIC, header.version, header.number, header.log_id, header.mark)
    return fields + _U32.pack(crc32(fields))


def parse_header(data: bytes) -> Header | None:
    """The header at the start of `data`, of whatever version; None if there is none that checks."""
    if len(data) < HEADER_BYTES:
        return None
    fields = data[: _HEADER_FIELDS.size]
    magic, version, number, log_id, mark = _HEADER_FIELDS.unpack(fields)
    if magic != _MAGIC or _U32.unpack_from(data, _HEADER_FIELDS.size)[0] != crc32(fields):
        return None
    return Header(number, log_id, mark, version)


def encode_batch(mark: bytes, first_lsn: int, records: Sequence[bytes]) -> bytes:
    """One batch, ready to be written. Raises ValueError above BATCH_BYTES_MAX."""
    lengths = [len(record) for record in records]
    body_bytes = RECORD_OVERHEAD_BYTES * len(lengths) + sum(lengths)
    if body_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {body_bytes} bytes is above {BATCH_BYTES_MAX}: commit in smaller parts")
    fields = _BATCH_FIELDS.pack(mark, body_bytes, first_lsn, len(lengths))
    body = b"".join((struct.pack(f"<{len(lengths)}I", *lengths), *records))
    return b"".join((fields, _U32.pack(crc32(body, crc32(fields))), body))


def parse_batch(data: bytes, start: int, mark: bytes) -> BatchSpan | None:
    """The whole batch that starts at `start`; None if what stands there is anything else."""
    if not data.startswith(mark, start) or start + _BODY_AT > len(data):
        return None
    fields_end = start + _BATCH_FIELDS.size
    _, body_bytes, first_lsn, count = _BATCH_FIELDS.unpack_from(data, start)
    body_start = start + _BODY_AT
    end = body_start + body_bytes
    if end > len(data):
        return None
    with memoryview(data) as view:
        checked = crc32(view[body_start:end], crc32(view[start:fields_end]))
    if checked != _U32.unpack_from(data, fields_end)[0]:
        return None
    return BatchSpan(start, end, first_lsn, first_lsn + count)


def find_batch(data: bytes, start: int, mark: bytes) -> BatchSpan | None:
    """The first whole batch at or after `start`, wherever it begins."""
    at = data.find(mark, start)
    while at >= 0:
        span = parse_batch(data, at, mark)
        if span is not None:
            return span
        at = data.find(mark, at + 1)
    return None


def batch_records(data: bytes, span: BatchSpan) -> list[bytes]:
    """The records of a batch that `parse_batch` has checked."""
    count = span.next_lsn - span.first_lsn
    at = span.start + _BODY_AT
    lengths = struct.unpack_from(f"<{count}I", data, at)
    at += RECORD_OVERHEAD_BYTES * count
    records = []
    for length in lengths:
        records.append(data[at : at + length])
        at += length
    return records
