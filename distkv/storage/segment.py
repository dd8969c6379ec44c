"""The format of a segment file: a header, then batches, then zeros.

Knows: bytes and their checks. Does not know files, nor which of two damaged places matters (`storage.recovery`).

    header  magic 8 | version u32 | number u64 | log id 16 | mark 8 | CRC-32 of these
            | length of the file u64 | CRC-32 of all before
    batch   mark 8 | length of the body u32 | first lsn u64 | count u32 | blank sectors u32 | CRC-32 of the body
            | CRC-32 of these | end byte | body | end byte
    body    count times a record's length u32 | the records, one after the other
    seal    a batch of no records; body: "S": the next segment follows, and its first lsn is that of the seal
    cut     a batch of no records; body: "C" | number of the segment before u64 | where that one ends now u64

All numbers are little-endian. The mark is random and new for every segment, and starts each of its batches. So
neither a block's former content nor a value which imitates a batch is ever taken for one, and a batch behind a damaged
place is found by searching for the mark.

The header is durable before the first batch is written, so a header that does not check, before bytes that are not
zero, is damage and never a torn write. So is a file that has not the length which its header tells. The first 48 bytes
keep their shape in every version.

What begins a batch, what ends its fields and what ends the batch is never zero, not with one bit flipped either; and
the fields say how many sectors (of the file, 512 bytes each) lie wholly in the body and hold only zeros. With that
`storage.tail` tells a batch which was torn from one which was damaged.

Format 1 has no length in the header, and its batches are shorter: mark, length, first lsn, count, CRC-32 of these and
of the body, body. It is read, and a segment that was begun in it is filled in it.

Invariant: `parse_batch` returns exactly what `encode_batch` was given, or None.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

import attrs

from distkv.storage.base import RECORD_OVERHEAD_BYTES, SECTOR_BYTES

FORMAT_VERSION = 2
HEADER_BYTES = 60
"""In the present format."""
BATCH_BYTES_MAX = 1 << 30
"""Far above what the engine collects; keeps every length in its field and every write in one system call."""

_MAGIC = b"distkvL\x00"
_HEADER_FIELDS = struct.Struct("<8sIQ16s8s")
_COMMON_BYTES = 48
_LENGTH_FIELD = struct.Struct("<Q")
_U32 = struct.Struct("<I")
_FIELDS_1 = struct.Struct("<8sIQI")
_FIELDS_2 = struct.Struct("<8sIQIII")
_FIELD_BYTES = {1: _FIELDS_1.size + _U32.size, 2: _FIELDS_2.size + _U32.size + 1}
_END = b"\xff"
_LEAD_BITS = 0x81
_SEAL = b"S"
_CUT = struct.Struct("<cQQ")
SEAL_BYTES = _FIELD_BYTES[2] + len(_SEAL) + 1
CUT_BYTES = _FIELD_BYTES[2] + _CUT.size + 1
_ZEROS = bytes(1 << 16)
_ZERO_SECTOR = bytes(SECTOR_BYTES)
_NAME = re.compile(r"segment-(\d{12})\Z", re.ASCII)


@attrs.frozen
class SegmentHeader:
    """Who a segment is: its number (from 1, as in its name), the log it belongs to, the mark of its batches."""

    number: int
    log_id: bytes
    mark: bytes
    length: int = 0
    """Of the file, in bytes; format 1 does not say it."""
    version: int = FORMAT_VERSION

    @property
    def end(self) -> int:
        """Where the first batch begins."""
        return _COMMON_BYTES if self.version == 1 else HEADER_BYTES

    @property
    def fields_bytes(self) -> int:
        """How many bytes of a batch stand before its body."""
        return _FIELD_BYTES[self.version]


@attrs.frozen
class LogCut:
    """A log goes on behind damage: after the segment `previous`, of which all from `end` on does not count."""

    previous: int
    """0: no earlier segment counts."""
    end: int


@attrs.frozen
class Fields:
    """What stands before the body of a batch."""

    end: int
    """Where the batch ends."""
    first_lsn: int
    count: int
    blank_sectors: int
    checksum: int


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


def blank_sectors(data: bytes, start: int, end: int, offset: int = 0) -> int:
    """How many sectors lie wholly between two places of `data`, which stands at `offset` of its file, and are zeros."""
    first = start + -(offset + start) % SECTOR_BYTES
    begins = data[first : max(first, end - SECTOR_BYTES + 1) : SECTOR_BYTES]
    count = 0
    at = begins.find(0)
    while at >= 0:
        count += data.startswith(_ZERO_SECTOR, first + at * SECTOR_BYTES)
        at = begins.find(0, at + 1)
    return count


# -- the header ---------------------------------------------------------------------------------------------------


def new_mark(random: bytes) -> bytes:
    """A mark of 8 random bytes, which begins with a byte that no flipped bit makes zero."""
    return bytes([random[0] | _LEAD_BITS]) + random[1:]


def encode_header(header: SegmentHeader) -> bytes:
    fields = _HEADER_FIELDS.pack(_MAGIC, header.version, header.number, header.log_id, header.mark)
    common = fields + _U32.pack(crc32(fields))
    if header.version == 1:
        return common
    checked = common + _LENGTH_FIELD.pack(header.length)
    return checked + _U32.pack(crc32(checked))


def parse_header(data: bytes) -> SegmentHeader | None:
    """The header at the start of `data`, of whatever version; None if there is none that checks."""
    if len(data) < _COMMON_BYTES:
        return None
    fields = data[: _HEADER_FIELDS.size]
    magic, version, number, log_id, mark = _HEADER_FIELDS.unpack(fields)
    if magic != _MAGIC or _U32.unpack_from(data, _HEADER_FIELDS.size)[0] != crc32(fields):
        return None
    if version != FORMAT_VERSION:
        return SegmentHeader(number, log_id, mark, version=version)
    checked = data[: _COMMON_BYTES + _LENGTH_FIELD.size]
    if len(data) < HEADER_BYTES or _U32.unpack_from(data, len(checked))[0] != crc32(checked):
        return None
    return SegmentHeader(number, log_id, mark, _LENGTH_FIELD.unpack_from(data, _COMMON_BYTES)[0])


# -- batches ------------------------------------------------------------------------------------------------------


def encode_batch(header: SegmentHeader, offset: int, first_lsn: int, records: Sequence[bytes]) -> bytes:
    """One batch, ready to be written at `offset` of its segment. Raises ValueError above BATCH_BYTES_MAX."""
    lengths = [len(record) for record in records]
    body_bytes = RECORD_OVERHEAD_BYTES * len(lengths) + sum(lengths)
    if body_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {body_bytes} bytes is above {BATCH_BYTES_MAX}: commit in smaller parts")
    body = b"".join((struct.pack(f"<{len(lengths)}I", *lengths), *records))
    return _encode(header, offset, first_lsn, len(lengths), body)


def encode_seal(header: SegmentHeader, offset: int, first_lsn: int) -> bytes:
    """What ends a segment: the next one follows, and its first lsn is `first_lsn`."""
    return _encode(header, offset, first_lsn, 0, _SEAL)


def encode_cut(header: SegmentHeader, offset: int, first_lsn: int, cut: LogCut) -> bytes:
    """What begins the first segment behind damage."""
    return _encode(header, offset, first_lsn, 0, _CUT.pack(b"C", cut.previous, cut.end))


def parse_fields(data: bytes, start: int, header: SegmentHeader) -> Fields | None:
    """What a batch that begins at `start` says of itself; None if nothing that checks does. Format 1 has no check."""
    if not data.startswith(header.mark, start) or start + header.fields_bytes > len(data):
        return None
    if header.version == 1:
        _, body_bytes, first_lsn, count = _FIELDS_1.unpack_from(data, start)
        checksum = _U32.unpack_from(data, start + _FIELDS_1.size)[0]
        return Fields(start + _FIELD_BYTES[1] + body_bytes, first_lsn, count, 0, checksum)
    checked_end = start + _FIELDS_2.size
    if crc32(data[start:checked_end]) != _U32.unpack_from(data, checked_end)[0]:
        return None
    if not data.startswith(_END, checked_end + _U32.size):
        return None
    _, body_bytes, first_lsn, count, blank, checksum = _FIELDS_2.unpack_from(data, start)
    return Fields(start + _FIELD_BYTES[2] + body_bytes + 1, first_lsn, count, blank, checksum)


def parse_batch(data: bytes, start: int, header: SegmentHeader) -> BatchSpan | None:
    """The whole batch that starts at `start`; None if what stands there is anything else."""
    fields = parse_fields(data, start, header)
    if fields is None or fields.end > len(data):
        return None
    body_start = start + header.fields_bytes
    with memoryview(data) as view:
        if header.version == 1:
            checked = crc32(view[body_start : fields.end], crc32(view[start : start + _FIELDS_1.size]))
        else:
            checked = crc32(view[body_start : fields.end - 1])
    if checked != fields.checksum or (header.version != 1 and data[fields.end - 1] != _END[0]):
        return None
    return BatchSpan(start, fields.end, fields.first_lsn, fields.first_lsn + fields.count)


def find_batch(data: bytes, start: int, header: SegmentHeader) -> BatchSpan | None:
    """The first whole batch at or after `start`, wherever it begins."""
    at = data.find(header.mark, start)
    while at >= 0:
        span = parse_batch(data, at, header)
        if span is not None:
            return span
        at = data.find(header.mark, at + 1)
    return None


def batch_records(data: bytes, span: BatchSpan, header: SegmentHeader) -> list[bytes]:
    """The records of a batch that `parse_batch` has checked."""
    count = span.next_lsn - span.first_lsn
    at = span.start + header.fields_bytes
    lengths = struct.unpack_from(f"<{count}I", data, at)
    at += RECORD_OVERHEAD_BYTES * count
    records = []
    for length in lengths:
        records.append(data[at : at + length])
        at += length
    return records


def is_seal(data: bytes, span: BatchSpan, header: SegmentHeader) -> bool:
    """Whether this batch says that another segment follows."""
    return _body_without_records(data, span, header) == _SEAL


def cut_by(data: bytes, span: BatchSpan, header: SegmentHeader) -> LogCut | None:
    """Behind what the log goes on, if this batch is a cut."""
    body = _body_without_records(data, span, header)
    return LogCut(*_CUT.unpack(body)[1:]) if body[:1] == b"C" else None


def _encode(header: SegmentHeader, offset: int, first_lsn: int, count: int, body: bytes) -> bytes:
    if header.version == 1:
        fields = _FIELDS_1.pack(header.mark, len(body), first_lsn, count)
        return b"".join((fields, _U32.pack(crc32(body, crc32(fields))), body))
    blank = blank_sectors(body, 0, len(body), offset + _FIELD_BYTES[2])
    fields = _FIELDS_2.pack(header.mark, len(body), first_lsn, count, blank, crc32(body))
    return b"".join((fields, _U32.pack(crc32(fields)), _END, body, _END))


def _body_without_records(data: bytes, span: BatchSpan, header: SegmentHeader) -> bytes:
    if span.next_lsn != span.first_lsn:
        return b""
    return data[span.start + header.fields_bytes : span.end - (header.version != 1)]
