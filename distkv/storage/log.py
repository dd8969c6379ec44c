"""The append-only log that makes a write durable: one write and one fdatasync for each batch.

Knows: in which order segments are filled, what an opening does before the first append, and that a failed disk stays
failed.  Does not know the bytes of a segment (`storage.segment`), how they are judged (`storage.recovery`), or when to
call `refill` (the engine).

Segments are numbered files of fixed length, filled with zeros and synced before they are used, one always ahead. The
name holds a number and not the first lsn, so that a segment has its durable name before anybody knows its first lsn:
going on to the next one is then neither a rename nor a metadata write, and cannot meet a full disk. The space left at
the end of a segment is given up when a batch does not fit; one above `segment_bytes` gets a segment of its own size.

Records that are kept elsewhere are dropped, in whole segments, the oldest first, and each is gone for good before the
next one goes. So whatever a crash leaves is one run of records without a gap; a gap is always damage.

What is assumed of the disk: a sector that is written again with the same bytes keeps them, also when the power fails in
between (batches share sectors); an fdatasync that succeeded is true. Space taken ahead holds on file systems that write
in place (ext4, xfs); one that copies on write may still meet a full disk, which then ends the server as a failed write.

Invariant: bytes behind `end` of the current segment are zeros on the disk, or the log has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import attrs

from distkv.errors import LogDamagedError, StorageFailedError
from distkv.storage.base import Disk, LogStatistics, Recovered
from distkv.storage.recovery import Scan, Segment, Tail, read_segment, scan
from distkv.storage.segment import HEADER_BYTES, BatchSpan, batch_records, encode_batch, parse_batch, segment_name
from distkv.storage.spare import OpenSegment, SpareSegments

SEGMENT_BYTES = 16 << 20
_LOG_ID_BYTES = 16
_CLOSED = "the log is closed: open it again"


def open_log(
    disk: Disk, *, settled_lsn: int = 0, locked: bool = False, segment_bytes: int = SEGMENT_BYTES
) -> SegmentedLog:
    """Lock the directory, check all that is in it, cut a torn tail, and make ready to append.

    Every record below `settled_lsn` is kept elsewhere: the log may begin anywhere up to there, must reach up to there,
    and when it is empty goes on there. Who asks another file of the directory for that number locks the disk before,
    and says so with `locked`.

    Once locked, `disk` belongs to the log and is closed with it, or when this raises: FormatVersionError,
    LogDamagedError (nothing was changed), StorageFailedError when a system call failed, NoSpaceError when there is no
    space for the first segment of a new log. An old log opens on a full disk. With DirectoryLockedError the disk
    stays the caller's to close.
    """
    with ExitStack() as undo:
        try:
            if not locked:
                disk.lock()
            undo.callback(disk.close)
            log = _open(disk, settled_lsn, segment_bytes)
        except OSError as error:
            raise StorageFailedError(
                f"{disk.path}: the log cannot be opened: {error}: see to the disk, then start again"
            ) from error
        undo.pop_all()
        return log


def _open(disk: Disk, settled_lsn: int, segment_bytes: int) -> SegmentedLog:
    # A server may have been killed between the removal of a segment and its sync: that one goes before any other.
    disk.sync_directory()
    found = scan(disk, settled_lsn)
    if found.tail is not None:
        _cut(disk, found.tail)
    log_id = found.log_id or disk.random_bytes(_LOG_ID_BYTES)
    last = found.segments.pop() if found.segments else None
    next_number = 1 if last is None else last.number + 1
    spares = SpareSegments(disk, log_id, segment_bytes=segment_bytes, next_number=next_number)
    current = spares.take(0, found.next_lsn) if last is None else _reopen(disk, last, found.last_start)
    if current is None:
        raise spares.refusal()
    return SegmentedLog(disk, spares, current, found)


def _cut(disk: Disk, tail: Tail) -> None:
    """Overwrite a torn tail with zeros, durably, so that no later opening finds a part of it behind a new batch."""
    file = disk.open_file(segment_name(tail.number))
    try:
        file.write(tail.start, bytes(tail.end - tail.start))
        file.sync()
    finally:
        file.close()


def _reopen(disk: Disk, last: Segment, last_start: int) -> OpenSegment:
    """Go on in the last segment, after making its last batch durable.

    That batch may have been read from the kernel's cache only: the server may have been killed before its sync, or
    have ended because the sync failed, after which Linux takes the pages for clean. Written again, it is synced again.
    """
    file = disk.open_file(segment_name(last.number))
    try:
        file.write(last_start, file.read(last_start, last.end - last_start))
        file.sync()
        return OpenSegment(file, last.number, last.mark, file.size(), last.end, last.first_lsn)
    except BaseException:
        file.close()
        raise


@attrs.define
class _Counters:
    batches: int = 0
    syncs: int = 0


class SegmentedLog:
    """Implements `storage.base.Log`; made by `open_log`."""

    def __init__(self, disk: Disk, spares: SpareSegments, current: OpenSegment, found: Scan) -> None:
        self._disk = disk
        self._spares = spares
        self._current = current
        self._sealed = found.segments
        self._next_lsn = found.next_lsn
        self._failure = ""
        self._counters = _Counters()
        tail = found.tail
        self._recovered = Recovered(
            batches=found.batches,
            records=found.next_lsn - self._first_lsn,
            torn_bytes=0 if tail is None else tail.end - tail.start,
            torn_at="" if tail is None else f"{disk.path}/{tail}",
        )

    @property
    def next_lsn(self) -> int:
        return self._next_lsn

    @property
    def recovered(self) -> Recovered:
        return self._recovered

    @property
    def wants_refill(self) -> bool:
        return self._spares.room == 0

    def append(self, records: Sequence[bytes]) -> int:
        self._check_sound()
        if not records:
            return self._next_lsn
        current = self._current
        batch = encode_batch(current.mark, self._next_lsn, records)
        if len(batch) > current.room:
            current = self._advance(len(batch))
            batch = encode_batch(current.mark, self._next_lsn, records)
        try:
            current.file.write(current.end, batch)
            current.file.sync()
        except OSError as error:
            name = segment_name(current.number)
            raise self._fail(f"{name}: the write or sync at offset {current.end} failed: {error}") from error
        self._counters.syncs += 1
        self._counters.batches += 1
        current.end += len(batch)
        self._next_lsn += len(records)
        return self._next_lsn

    def reserve_nowait(self, size: int) -> None:
        self._check_sound()
        # Not the sum of the two: a batch is never split. And whatever fits in one of them whole also fits in parts.
        if size <= self._current.room or size <= self._spares.room:
            return
        if self._spares.shortage or not self._refill(size):
            raise self._spares.refusal()

    def refill(self) -> bool:
        self._check_sound()
        return self._refill(0)

    def replay(self) -> Iterator[list[bytes]]:
        for _, records in self.replay_from(self._first_lsn):
            yield records

    def replay_from(self, lsn: int) -> Iterator[tuple[int, list[bytes]]]:
        if lsn < self._first_lsn:
            raise ValueError(f"record {lsn} is not in the log any more: it begins at {self._first_lsn}")
        segments = [*self._sealed, self._seal()]
        return self._replay_segments([segment for segment in segments if segment.next_lsn > lsn], lsn)

    def drop(self, lsn: int) -> int:
        self._check_sound()
        if lsn > self._next_lsn:
            raise ValueError(f"record {lsn - 1} cannot be kept elsewhere: the log ends at {self._next_lsn}")
        dropped = 0
        # An append on another thread adds at the other end of the list.
        while (oldest := self._sealed[:1]) and oldest[0].next_lsn <= lsn:
            name = segment_name(oldest[0].number)
            try:
                self._disk.unlink(name)
                self._disk.sync_directory()
            except OSError as error:
                raise self._fail(f"{name}: it cannot be removed: {error}") from error
            del self._sealed[0]
            dropped += 1
        return dropped

    def statistics(self) -> LogStatistics:
        sealed = self._sealed[:]
        return LogStatistics(
            segments=len(sealed) + 1,
            size_bytes=sum(segment.end for segment in sealed) + self._current.end,
            spare_bytes=self._spares.room,
            first_lsn=self._first_lsn,
            next_lsn=self._next_lsn,
            batches=self._counters.batches,
            syncs=self._counters.syncs,
            shortage=self._spares.shortage,
        )

    def close(self) -> None:
        if self._failure == _CLOSED:
            return
        self._failure = _CLOSED
        self._current.file.close()
        self._spares.close()
        self._disk.close()

    @property
    def _first_lsn(self) -> int:
        current = self._current  # read first: it is sealed before there is another one
        oldest = self._sealed[:1]
        return oldest[0].first_lsn if oldest else current.first_lsn

    def _check_sound(self) -> None:
        if self._failure:
            raise StorageFailedError(self._failure)

    def _fail(self, what: str) -> StorageFailedError:
        self._failure = f"{self._disk.path}: {what}: the server must end; see to the disk, then start it again"
        return StorageFailedError(self._failure)

    def _refill(self, size: int) -> bool:
        try:
            return self._spares.refill(size)
        except OSError as error:
            raise self._fail(f"the next segment cannot be made: {error}") from error

    def _advance(self, size: int) -> OpenSegment:
        """Go on to the next segment; the one before is complete, and all its batches are synced."""
        try:
            spare = self._spares.take(size, self._next_lsn)
            if spare is not None:
                self._current.file.close()
        except OSError as error:
            raise self._fail(f"the next segment cannot be used: {error}") from error
        if spare is None:
            raise self._fail(f"no room for a batch of {size} bytes ({self._spares.shortage}), and none was reserved")
        self._sealed.append(self._seal())
        self._current = spare
        return spare

    def _seal(self) -> Segment:
        """What the current segment holds by now."""
        current = self._current
        return Segment(current.number, current.mark, current.end, current.first_lsn, self._next_lsn)

    def _replay_segments(self, segments: list[Segment], lsn: int) -> Iterator[tuple[int, list[bytes]]]:
        for segment in segments:
            for span, data in self._batches(segment):
                if span.first_lsn >= lsn:
                    yield span.first_lsn, batch_records(data, span)
                elif span.next_lsn > lsn:
                    yield lsn, batch_records(data, span)[lsn - span.first_lsn :]

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchSpan, bytes]]:
        data = read_segment(self._disk, segment.number)
        at = HEADER_BYTES
        while at < segment.end:
            span = parse_batch(data, at, segment.mark)
            if span is None:
                raise LogDamagedError(
                    f"{self._disk.path}/{segment_name(segment.number)} changed at offset {at} since it was opened: "
                    "see to the disk, then start again"
                )
            yield span, data
            at = span.end
