"""What a directory's segments hold after any end of the server that wrote them, and whether that can be trusted.

Knows: how to tell the torn tail of a crash from damage, and from segments that were dropped.  Does not change a file:
`storage.log` cuts the tail.

A batch is written only when all before it are durable. So a crash leaves at most one batch in pieces, at the very end;
whatever is broken before that is damage, and the start stops. There is one case which nobody can tell apart: a bit that
flipped in the very last batch looks like a torn write, and is cut and reported like one.

Segments are dropped from the oldest on, one by one, and only below `settled_lsn`, the end of what is kept elsewhere. So
the first batch may have any lsn up to that, and the last one reaches it at least; an empty log goes on there.

Invariant: `scan` returns only if the whole batches, in the order of the segments, have every lsn once from the first
on, and the first is not above `settled_lsn`.
"""

from __future__ import annotations

from typing import NoReturn

import attrs

from distkv.errors import FormatVersionError, LogDamagedError
from distkv.storage.base import Disk
from distkv.storage.segment import (
    FORMAT_VERSION,
    HEADER_BYTES,
    BatchSpan,
    Header,
    content_end,
    find_batch,
    parse_batch,
    parse_header,
    segment_name,
    segment_numbers,
)


@attrs.frozen
class Segment:
    """A segment with batches, the last of which ends at `end`; its records are `first_lsn` up to `next_lsn`."""

    number: int
    mark: bytes
    end: int
    first_lsn: int
    next_lsn: int


@attrs.frozen
class Tail:
    """Bytes that are no batch, from `start` up to the last one that is not zero."""

    number: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{segment_name(self.number)} offset {self.start}"


@attrs.define
class Scan:
    """What was found so far, and at the end of `scan` all there is."""

    path: str
    next_lsn: int
    """The lsn that is due."""
    log_id: bytes | None = None
    segments: list[Segment] = attrs.Factory(list)
    last_start: int = 0
    """Where the last batch of the last segment starts."""
    batches: int = 0
    tail: Tail | None = None


def scan(disk: Disk, settled_lsn: int = 0) -> Scan:
    """Read all segments. Raises LogDamagedError, FormatVersionError, and OSError when a file cannot be read."""
    found = Scan(disk.path, settled_lsn)
    for number in segment_numbers(disk.names()):
        _add_segment(found, number, read_segment(disk, number))
    if found.next_lsn < settled_lsn:
        last = found.segments[-1]
        what = f"records {found.next_lsn} to {settled_lsn - 1}, which the archive knows, are not in the log"
        _damaged(found, last.number, last.end, what)
    return found


def read_segment(disk: Disk, number: int) -> bytes:
    file = disk.open_file(segment_name(number))
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _add_segment(found: Scan, number: int, data: bytes) -> None:
    used = content_end(data)
    header = parse_header(data)
    if header is not None and header.version != FORMAT_VERSION:
        raise FormatVersionError(
            f"{found.path}/{segment_name(number)} has format {header.version}, this release reads {FORMAT_VERSION}: "
            "start the release that wrote it"
        )
    if used <= HEADER_BYTES:  # Made ahead, or being made when the server ended: it never held a batch.
        if header is not None and found.log_id is None:
            found.log_id = header.log_id
        return
    if header is None:
        _damaged(found, number, 0, "its header does not check")
    if header.number != number or found.log_id not in (None, header.log_id):
        _damaged(found, number, 0, "it belongs to another log or has another number")
    found.log_id = header.log_id
    end = _add_batches(found, header, data)
    if end < used:
        _set_tail(found, header, data, Tail(number, end, used))


def _add_batches(found: Scan, header: Header, data: bytes) -> int:
    """Count the batches that stand one behind the other; return where the last of them ends."""
    end = HEADER_BYTES
    first_lsn = found.next_lsn
    while (batch := parse_batch(data, end, header.mark)) is not None:
        if found.batches == 0 and batch.first_lsn < found.next_lsn:
            first_lsn = found.next_lsn = batch.first_lsn  # settled, but its segment is not dropped yet
        if batch.first_lsn != found.next_lsn:
            _missing(found, Tail(header.number, end, end), batch)
        # Broken bytes behind the last batch of an earlier segment cost nothing: no lsn is missing between.
        found.tail = None
        found.batches += 1
        found.next_lsn = batch.next_lsn
        found.last_start, end = batch.start, batch.end
    if end > HEADER_BYTES:
        found.segments.append(Segment(header.number, header.mark, end, first_lsn, found.next_lsn))
    return end


def _set_tail(found: Scan, header: Header, data: bytes, tail: Tail) -> None:
    later = find_batch(data, tail.start, header.mark)
    if later is not None:
        _missing(found, tail, later)
    if found.tail is not None:
        _damaged(found, found.tail.number, found.tail.start, f"{segment_name(header.number)} holds data behind it")
    found.tail = tail


def _missing(found: Scan, here: Tail, later: BatchSpan) -> NoReturn:
    """`later` is whole, and does not follow what was read before: name the place where the chain first broke."""
    place = found.tail or here
    if later.first_lsn > found.next_lsn:
        what = f"records {found.next_lsn} to {later.first_lsn - 1} cannot be read, later ones can"
    else:
        what = f"record {later.first_lsn} comes where {found.next_lsn} is due"
    _damaged(found, place.number, place.start, what)


def _damaged(found: Scan, number: int, offset: int, what: str) -> NoReturn:
    raise LogDamagedError(
        f"{found.path}/{segment_name(number)} is damaged at offset {offset}: {what}; all before record "
        f"{found.next_lsn} are whole. Move {found.path} aside and keep it, then start the node empty: it joins again "
        "under a new life and downloads from the others"
    )
