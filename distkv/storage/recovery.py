"""What a directory's segments hold after any end of the server that wrote them, and whether that can be trusted.

Knows: how to tell the torn tail of a crash from damage, and from segments that were dropped.  Does not change a file
(`storage.repair` does), nor look into a broken batch (`storage.tail` does).

A batch is written only when all before it are durable. So a crash leaves at most one batch in pieces, at the very end;
whatever is broken before that is damage. Nothing that was there may be missing at the end either:

* Segments have consecutive numbers, and are dropped from the oldest on, one by one, and only below `settled_lsn`, the
  end of what is kept elsewhere. So the first batch may have any lsn up to that, and the last one reaches it at least.
  An empty log goes on there.
* A segment is complete before the next one is used: its seal says, durably, which one follows. So that one is there.
* A segment is made when the one before is in use. So all but the last one have a header, and the first one holds
  something, unless it is the first that there ever was.
* Every file has the length that its header tells, but for one that was only made ahead.
* The archive knows in which segment the log was when it settled last: that one is there, or a later one.

What is damaged and wholly below `settled_lsn` is passed over: the log is read from the first whole batch behind it that
begins at `settled_lsn` or before, and whatever is needed lies behind that one.

Invariant: a `Scan` without `damage` has every lsn once, from the first whole batch that it counts up to `next_lsn`, and
the first is not above `settled_lsn`; with `damage` all that is said is true of what lies before it.
"""

from __future__ import annotations

from typing import NoReturn

import attrs

from distkv.errors import FormatVersionError
from distkv.storage.base import Disk
from distkv.storage.layout import Layout, read_layout, read_segment
from distkv.storage.segment import (
    FORMAT_VERSION,
    HEADER_BYTES,
    BatchSpan,
    SegmentHeader,
    content_end,
    cut_by,
    find_batch,
    is_seal,
    parse_batch,
    parse_fields,
    parse_header,
    segment_name,
)
from distkv.storage.tail import tail_damage


@attrs.frozen
class Settled:
    """What the archive knows of the log: 0, 0 when there is none."""

    lsn: int = 0
    """All records below are in it."""
    segment: int = 0
    """Which segment the log was in when the archive was written last; 0: not known."""


@attrs.frozen
class Segment:
    """A segment in use. Its batches stand from `start` to `end`; its records are `first_lsn` up to `next_lsn`."""

    header: SegmentHeader
    start: int
    end: int
    first_lsn: int
    next_lsn: int
    is_cut_off: bool = False
    """Whether it is damaged behind `end`, so that its file is kept."""

    @property
    def number(self) -> int:
        return self.header.number


@attrs.frozen
class Place:
    """Bytes of a segment, from `start` up to `end`."""

    number: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{segment_name(self.number)} offset {self.start}"


@attrs.frozen
class LogDamage:
    """Where the first thing is that no crash explains, and what."""

    number: int
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{segment_name(self.number)} is damaged at offset {self.offset}: {self.what}"


@attrs.define
class Scan:
    """What was found so far, and at the end of `scan` all there is."""

    path: str
    settled: Settled
    next_lsn: int
    """The lsn that is due."""
    log_id: bytes | None = None
    segments: list[Segment] = attrs.Factory(list)
    """Those in use; the last one is the current one."""
    last: Place | None = None
    """The last whole batch, seals and cuts included."""
    batches: int = 0
    tail: Place | None = None
    """Bytes that are no batch, behind the last one, up to the last one that is not zero."""
    tail_damage: str = ""
    """Why no crash explains them."""
    number: int = 0
    """The segment that was read last."""
    is_sealed: bool = False
    """Whether it says that another one follows."""
    is_cut: bool = False
    """Whether nothing follows the last cut."""
    aside: list[int] = attrs.Factory(list)
    """Segments that a cut has set aside."""
    passed_over: str = ""
    """Damage to what is kept elsewhere."""
    damage: LogDamage | None = None
    seen_lsn: int = 0
    """The highest one that anything tells of; known only with damage."""

    @property
    def whole_lsn(self) -> int:
        """All records below are whole, here or in the archive."""
        return max(self.next_lsn, self.settled.lsn)

    @property
    def left_out(self) -> str:
        """What does not count, because it is damaged or lies behind damage."""
        if self.seen_lsn > self.whole_lsn:
            return f"records {self.whole_lsn} to {self.seen_lsn - 1} at least are damaged or lie behind it"
        return "how many are gone cannot be known"


class _FoundDamage(Exception):
    """Ends the reading."""

    def __init__(self, number: int, offset: int, what: str) -> None:
        super().__init__(what)
        self.damage = LogDamage(number, offset, what)


def scan(disk: Disk, settled: Settled, segment_bytes: int) -> Scan:
    """Read all segments. No segment of format 1 was made shorter than `segment_bytes`.

    Raises FormatVersionError, and OSError when a file cannot be read.
    """
    layout = read_layout(disk)
    found = _Reader(disk, layout, settled, segment_bytes).read()
    passed_over: list[LogDamage] = []
    while found.damage is not None:
        place = _first_whole_behind(disk, layout, found)
        if place is None:
            break
        passed_over.append(found.damage)
        found = _Reader(disk, layout, settled, segment_bytes).read(place)
    if passed_over:
        places = "; ".join(f"{disk.path}/{damage}" for damage in passed_over)
        found.passed_over = f"{places}; the archive has all of it"
    if found.damage is not None:
        found.seen_lsn = _seen_lsn(disk, layout, found.damage, found.next_lsn)
    found.aside = layout.aside
    return found


def _first_whole_behind(disk: Disk, layout: Layout, found: Scan) -> Place | None:
    """The first whole batch behind the damage, if all that is not settled lies behind its beginning."""
    damage = found.damage
    due_lsn = 0 if found.last is None else found.next_lsn
    if damage is None or due_lsn >= found.settled.lsn:
        return None
    for number in layout.numbers:
        # Where the header is wrong, nothing in the segment can be relied on.
        if number < damage.number or (number == damage.number and damage.offset == 0):
            continue
        data = read_segment(disk, number)[: layout.end_of(number)]
        header = parse_header(data)
        if header is None or header.version > FORMAT_VERSION:
            continue
        batch = find_batch(data, damage.offset if number == damage.number else header.end, header)
        if batch is not None:
            is_enough = due_lsn <= batch.first_lsn <= found.settled.lsn
            return Place(number, batch.start, batch.end) if is_enough else None
    return None


def _seen_lsn(disk: Disk, layout: Layout, damage: LogDamage, due_lsn: int) -> int:
    """What anything behind the damage tells of, be it whole or not."""
    seen = due_lsn
    for number in (number for number in layout.numbers if number >= damage.number):
        data = read_segment(disk, number)[: layout.end_of(number)]
        header = parse_header(data)
        if header is None or header.version > FORMAT_VERSION:
            continue
        at = damage.offset if number == damage.number else 0
        fields = parse_fields(data, at, header)
        if header.version != 1 and fields is not None and fields.first_lsn == due_lsn:
            seen = max(seen, due_lsn + fields.count)
        batch = find_batch(data, at, header)
        while batch is not None:
            seen = max(seen, batch.next_lsn)
            batch = find_batch(data, batch.end, header)
    return seen


class _Reader:
    """Reads the segments once, in order, up to the first damage."""

    def __init__(self, disk: Disk, layout: Layout, settled: Settled, segment_bytes: int) -> None:
        self._disk = disk
        self._layout = layout
        self._segment_bytes = segment_bytes
        self._found = Scan(disk.path, settled, settled.lsn)
        self._begins_at: Place | None = None

    def read(self, begins_at: Place | None = None) -> Scan:
        """All that is there, or what there is from a whole batch on."""
        found, self._begins_at = self._found, begins_at
        numbers = self._layout.numbers
        passed = [number for number in numbers if begins_at is not None and number < begins_at.number]
        try:
            for number in numbers[len(passed) :]:
                self._add_segment(number, read_segment(self._disk, number))
            self._check_end()
        except _FoundDamage as error:
            found.damage = error.damage
        first_lsn = found.segments[0].first_lsn if found.segments else found.next_lsn
        found.segments[:0] = [Segment(SegmentHeader(number, b"", b""), 0, 0, first_lsn, first_lsn) for number in passed]
        return found

    def _add_segment(self, number: int, data: bytes) -> None:
        found, header = self._found, parse_header(data)
        if header is not None and header.version not in (1, FORMAT_VERSION):
            raise FormatVersionError(
                f"{found.path}/{segment_name(number)} has format {header.version}, this release reads 1 and"
                f" {FORMAT_VERSION}: start the release that wrote it"
            )
        self._check_follows(number)
        is_first, is_sealed_to = found.number == 0, found.is_sealed
        found.number, found.is_sealed = number, False
        size = len(data)
        data = data[: self._layout.end_of(number)]
        used = content_end(data)
        is_in_use = number != self._layout.numbers[-1] or is_sealed_to or number == found.settled.segment
        is_first_ever = is_first and number == 1 and header is not None and not self._length_damage(header, size)
        is_in_use = is_in_use or is_first_ever or (is_first and number != 1)
        if used <= (HEADER_BYTES if header is None else header.end) and not is_in_use:
            return  # Made ahead, or being made when the server ended: it never held a batch.
        if header is None:
            raise _FoundDamage(number, 0, "its header does not check" if used else "it has no header")
        if header.number != number or found.log_id not in (None, header.log_id):
            raise _FoundDamage(number, 0, "it belongs to another log or has another number")
        found.log_id = header.log_id
        end = self._add_batches(header, data)
        if is_first and end == header.end and number != 1:
            raise _FoundDamage(number - 1, 0, f"it is gone, and {segment_name(number)} holds nothing yet")
        length_damage = self._length_damage(header, size)
        if length_damage:
            raise _FoundDamage(number, end, length_damage)
        if end < used and not found.is_sealed:
            self._set_tail(header, data, Place(number, end, used))

    def _check_follows(self, number: int) -> None:
        """Whether this is the segment that is due."""
        found, cut = self._found, self._layout.cuts.get(number)
        if found.number == 0:
            return
        due = found.number + 1
        if cut is not None and cut.previous != found.number:
            due = cut.previous
        elif cut is not None or number == due:
            return
        raise _FoundDamage(due, 0, "it is gone")

    def _length_damage(self, header: SegmentHeader, size: int) -> str:
        if self._layout.end_of(header.number) is not None:
            return ""
        is_as_made = size >= self._segment_bytes if header.version == 1 else size == header.length
        made = self._segment_bytes if header.version == 1 else header.length
        return "" if is_as_made else f"the file has {size} bytes, and was made with {made}"

    def _add_batches(self, header: SegmentHeader, data: bytes) -> int:
        """Count the batches that stand one behind the other; return where the last of them ends."""
        found, place = self._found, self._begins_at
        start = end = header.end if place is None or place.number != header.number else place.start
        first_lsn = found.next_lsn
        try:
            while not found.is_sealed and (batch := parse_batch(data, end, header)) is not None:
                if found.last is None and batch.first_lsn < found.next_lsn:
                    first_lsn = found.next_lsn = batch.first_lsn  # settled, but its segment is not dropped yet
                if batch.first_lsn != found.next_lsn:
                    self._miss(Place(header.number, end, end), batch)
                # Broken bytes behind the last batch of an earlier segment cost nothing: no lsn is missing between.
                found.tail = None
                found.last = Place(header.number, batch.start, batch.end)
                found.batches += batch.next_lsn > batch.first_lsn
                found.next_lsn, end = batch.next_lsn, batch.end
                found.is_sealed = is_seal(data, batch, header)
                found.is_cut = cut_by(data, batch, header) is not None
        finally:
            is_cut_off = self._layout.end_of(header.number) is not None
            found.segments.append(Segment(header, start, end, first_lsn, found.next_lsn, is_cut_off))
        return end

    def _set_tail(self, header: SegmentHeader, data: bytes, tail: Place) -> None:
        found = self._found
        later = find_batch(data, tail.start, header)
        if later is not None:
            self._miss(tail, later)
        if found.tail is not None:
            what = f"{segment_name(header.number)} holds data behind it"
            raise _FoundDamage(found.tail.number, found.tail.start, what)
        found.tail = tail
        found.tail_damage = tail_damage(data, header, tail.start, found.next_lsn)

    def _miss(self, here: Place, later: BatchSpan) -> NoReturn:
        """`later` is whole, and does not follow what was read before: name the place where the chain first broke."""
        found = self._found
        place = found.tail or here
        if later.first_lsn > found.next_lsn:
            what = f"records {found.next_lsn} to {later.first_lsn - 1} cannot be read, later ones can"
        else:
            what = f"record {later.first_lsn} comes where {found.next_lsn} is due"
        raise _FoundDamage(place.number, place.start, what)

    def _check_end(self) -> None:
        """Whether something is missing behind what is there."""
        found, settled = self._found, self._found.settled
        if found.is_sealed:
            what = f"it is gone, and {segment_name(found.number)} says that it follows"
            raise _FoundDamage(found.number + 1, 0, what)
        if settled.segment > (found.segments[-1].number if found.segments else 0):
            raise _FoundDamage(settled.segment, 0, "it is gone, and the archive knows of it")
        if not found.segments:
            return
        current, tail = found.segments[-1], found.tail
        if found.next_lsn < settled.lsn:
            what = f"records {found.next_lsn} to {settled.lsn - 1}, which the archive knows, are not in the log"
            raise _FoundDamage(current.number, current.end, what)
        if tail is not None and tail.number != current.number:
            raise _FoundDamage(tail.number, tail.start, f"{segment_name(current.number)} was begun behind it")
        if tail is not None and found.tail_damage:
            raise _FoundDamage(tail.number, tail.start, found.tail_damage)
