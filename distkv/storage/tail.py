"""Whether a crash explains the bytes that are no batch, behind the last whole one of a segment.

Knows: what a write that a crash interrupted leaves.  Does not know which segment is the last one (`storage.recovery`).

Behind the last batch there were zeros when the next one was written. A power failure leaves each sector (512 bytes of
the file, or a multiple) as it was or as it was written; a kill leaves a beginning of what was written. So in a torn
batch at least one sector which should hold something holds zeros, and a batch of which all sectors hold what they
should, but for a few bits, was whole once: somebody may rely on it, and a crash does not explain it.

The fields of a batch have a check of their own. If they check, they tell how far the batch reaches and how many of its
sectors are blank by right, and then it is torn exactly if its last byte is zero (the sector of it is missing, or it is
a beginning) or if more sectors are blank. If they do not check, they are incomplete, which is one of:

* the first byte is zero: the first sector never arrived, or a cut (`storage.repair`) was interrupted;
* all behind a place within the fields is zeros: a beginning was written;
* the fields lie in two sectors, and the second one is blank.

In the last two cases what there is must be what the fields begin with: the mark, and the lsn that is due.

What this cannot tell: a whole sector of the last batch that was overwritten with zeros, a sector of it whose only bit
was flipped to zero, and a batch all of which was overwritten with zeros, look as a torn write does. In format 1 the
fields have no check and blank sectors are not counted: there a batch is damaged only if its fields say that it ends
where the bytes end and none of its sectors is blank. Any other flipped bit is found.

Invariant: no state that a crash leaves is called damage, if a crash is what is said above.
"""

from __future__ import annotations

from struct import pack

from distkv.storage.base import SECTOR_BYTES
from distkv.storage.segment import Fields, SegmentHeader, blank_sectors, content_end, parse_fields


def tail_damage(data: bytes, header: SegmentHeader, start: int, due_lsn: int) -> str:
    """Why no crash explains what stands in a segment from `start` on; empty when one does.

    `due_lsn` is that of the first record which would have been written there.
    """
    used = content_end(data)
    fields = parse_fields(data, start, header)
    if header.version == 1:
        return _damage_in_format_1(data, fields, start, used, due_lsn)
    if fields is None:
        return "" if _are_fields_torn(data, header, start, used, due_lsn) else "what stands there does not check"
    if fields.first_lsn != due_lsn:
        return f"record {fields.first_lsn} comes where {due_lsn} is due"
    if fields.end > len(data) or used > fields.end:
        return f"a batch would end at {fields.end}, and the bytes end at {used}"
    if data[fields.end - 1] == 0:
        return ""
    blank = blank_sectors(data, start + header.fields_bytes, fields.end - 1)
    return "" if blank > fields.blank_sectors else "the batch there does not check"


def _are_fields_torn(data: bytes, header: SegmentHeader, start: int, used: int, due_lsn: int) -> bool:
    if data[start] == 0:
        return True
    fields_end = start + header.fields_bytes
    if used < fields_end:
        return _begins_fields(data[start:used], header, due_lsn)
    border = start + -start % SECTOR_BYTES
    is_second_blank = border < fields_end and not any(data[border : border + SECTOR_BYTES])
    return is_second_blank and _begins_fields(data[start:border], header, due_lsn)


def _begins_fields(begin: bytes, header: SegmentHeader, due_lsn: int) -> bool:
    """Whether these bytes may begin a batch: the mark and the lsn are known, the length between them is not."""
    known = header.mark + begin[8:12] + pack("<Q", due_lsn)
    return begin[: len(known)] == known[: len(begin)]


def _damage_in_format_1(data: bytes, fields: Fields | None, start: int, used: int, due_lsn: int) -> str:
    if fields is None or fields.first_lsn != due_lsn or fields.end != used:
        return ""
    first_border = start + -start % SECTOR_BYTES
    last_border = used - used % SECTOR_BYTES
    parts = [data[start:first_border], data[last_border:used]] if first_border <= last_border else [data[start:used]]
    is_blank = blank_sectors(data, start, used) or any(part and not any(part) for part in parts)
    return "" if is_blank else "the batch there does not check"
