"""The append-only log that makes a write durable: one write and one fdatasync for each batch.

Knows: in which order segments are filled, what an opening does before the first append, and that a failed disk stays
failed.  Does not know the bytes of a segment (`storage.segment`), how they are judged (`storage.recovery`) and mended
(`storage.repair`), or when to call `refill` (the engine).

Segments are numbered files of fixed length, filled with zeros and synced before they are used, one always ahead. The
name holds a number and not the first lsn, so that a segment has its durable name before anybody knows its first lsn:
going on to the next one is then neither a rename nor a metadata write, and cannot meet a full disk. The space left at
the end of a segment is given up when a batch does not fit; one above `segment_bytes` gets a segment of its own size.

Before a batch goes to the next segment, the one before gets a seal, durably: so whoever opens the log knows that
another one follows, and a segment that is lost is missed. This is one write and one sync more for each segment.

Records that are kept elsewhere are dropped, in whole segments, the oldest first, and each is gone for good before the
next one goes. So whatever a crash leaves is one run of records without a gap; a gap is always damage. The current one
is never dropped, nor the one before while it holds nothing: so the oldest segment always holds something.

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
from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, Disk, LogStatistics, Recovered
from distkv.storage.layout import read_segment
from distkv.storage.recovery import Scan, Segment, Settled, scan
from distkv.storage.repair import cut_off, cut_tail, open_current, refusal, set_aside, write_again
from distkv.storage.segment import BatchSpan, batch_records, encode_batch, encode_seal, parse_batch, segment_name
from distkv.storage.spare import OpenSegment, SpareSegments

SEGMENT_BYTES = 16 << 20
_CLOSED = "the log is closed: open it again"


def open_log(
    disk: Disk,
    *,
    settled_lsn: int = 0,
    settled_segment: int = 0,
    locked: bool = False,
    segment_bytes: int = SEGMENT_BYTES,
    cut_damage: bool = False,
) -> SegmentedLog:
    """Lock the directory, check all that is in it, cut a torn tail, and make ready to append.

    Every record below `settled_lsn` is kept elsewhere: the log may begin anywhere up to there, must reach up to there,
    and when it is empty goes on there; damage below costs nothing, as long as all from there on is whole. When that was
    settled last, the log's `segment_number` was `settled_segment`; 0 if that is not known. Who asks another file of the
    directory for these numbers locks the disk before, and says so with `locked`.

    With `cut_damage` a damaged log goes on with what is whole before the damage; what lies behind is kept in renamed
    files. `recovered` says so at each opening, until a record follows: the directory is then older than it was.

    Once locked, `disk` belongs to the log and is closed with it, or when this raises: FormatVersionError,
    LogDamagedError (nothing was changed), StorageFailedError when a system call failed, NoSpaceError when there is no
    space for the first segment of a new log, or the one behind damage. An old log opens on a full disk. With
    DirectoryLockedError the disk stays the caller's to close.
    """
    with ExitStack() as undo:
        try:
            if not locked:
                disk.lock()
            undo.callback(disk.close)
            log = _open(disk, Settled(settled_lsn, settled_segment), segment_bytes, cut_damage=cut_damage)
        except OSError as error:
            raise StorageFailedError(
                f"{disk.path}: the log cannot be opened: {error}: see to the disk, then start again"
            ) from error
        undo.pop_all()
        return log


def _open(disk: Disk, settled: Settled, segment_bytes: int, *, cut_damage: bool) -> SegmentedLog:
    # A server may have been killed between the removal of a segment and its sync: that one goes before any other.
    disk.sync_directory()
    found = scan(disk, settled, segment_bytes)
    cut = "it was cut behind damage at an earlier start, which did not get far" if found.is_cut else ""
    if found.damage is not None and cut_damage and found.whole_lsn:
        cut = f"{disk.path}/{found.damage}; {found.left_out}, and stay in files named .damaged"
        cut_off(disk, found, segment_bytes)
        found = scan(disk, settled, segment_bytes)
    if found.damage is not None:
        raise refusal(found)
    cut_tail(disk, found.tail)
    write_again(disk, found.last)
    set_aside(disk, found.aside)
    spares, current = open_current(disk, found, segment_bytes)
    return SegmentedLog(disk, spares, current, found, cut)


@attrs.define
class _Counters:
    batches: int = 0
    syncs: int = 0


class SegmentedLog:
    """Implements `storage.base.Log`; made by `open_log`."""

    def __init__(self, disk: Disk, spares: SpareSegments, current: OpenSegment, found: Scan, cut: str) -> None:
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
            damage=found.passed_over,
            cut=cut,
        )

    @property
    def next_lsn(self) -> int:
        return self._next_lsn

    @property
    def segment_number(self) -> int:
        return self._current.number

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
        batch = encode_batch(current.header, current.end, self._next_lsn, records)
        if len(batch) > current.room:
            current = self._advance(BATCH_OVERHEAD_BYTES + sum(RECORD_OVERHEAD_BYTES + len(data) for data in records))
            batch = encode_batch(current.header, current.end, self._next_lsn, records)
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
        segments = [*self._sealed, self._as_segment()]
        return self._replay_segments([segment for segment in segments if segment.next_lsn > lsn], lsn)

    def drop(self, lsn: int) -> int:
        self._check_sound()
        if lsn > self._next_lsn:
            raise ValueError(f"record {lsn - 1} cannot be kept elsewhere: the log ends at {self._next_lsn}")
        dropped = 0
        # An append on another thread adds at the other end of the list.
        while (oldest := self._sealed[:1]) and oldest[0].next_lsn <= lsn:
            current = self._current
            if oldest[0].number >= current.number - current.is_empty:
                break
            try:
                self._remove(oldest[0])
            except OSError as error:
                raise self._fail(f"{segment_name(oldest[0].number)}: it cannot be removed: {error}") from error
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

    def _remove(self, segment: Segment) -> None:
        if segment.is_cut_off:
            set_aside(self._disk, [segment.number])
        else:
            self._disk.unlink(segment_name(segment.number))
            self._disk.sync_directory()

    def _advance(self, size: int) -> OpenSegment:
        """Go on to the next segment; the one before is complete, and all its batches are synced."""
        spare = None
        try:
            if self._spares.refill(size):
                self._write_seal()
                spare = self._spares.take(size, self._next_lsn)
        except OSError as error:
            raise self._fail(f"the next segment cannot be used: {error}") from error
        if spare is None:
            raise self._fail(f"no room for a batch of {size} bytes ({self._spares.shortage}), and none was reserved")
        self._current.file.close()
        self._sealed.append(self._as_segment())
        self._current = spare
        return spare

    def _write_seal(self) -> None:
        """Say durably that another segment follows, before anything is in it.

        There is always room, but in a segment that an earlier release began.
        """
        current = self._current
        seal = encode_seal(current.header, current.end, self._next_lsn)
        if current.end + len(seal) <= current.size:
            current.file.write(current.end, seal)
            current.file.sync()
            current.end += len(seal)

    def _as_segment(self) -> Segment:
        """What the current segment holds by now."""
        current = self._current
        return Segment(current.header, current.start, current.end, current.first_lsn, self._next_lsn)

    def _replay_segments(self, segments: list[Segment], lsn: int) -> Iterator[tuple[int, list[bytes]]]:
        for segment in segments:
            for span, data in self._batches(segment):
                if span.next_lsn > max(lsn, span.first_lsn):
                    begin = max(lsn, span.first_lsn)
                    yield begin, batch_records(data, span, segment.header)[begin - span.first_lsn :]

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchSpan, bytes]]:
        data = read_segment(self._disk, segment.number)
        at = segment.start
        while at < segment.end:
            span = parse_batch(data, at, segment.header)
            if span is None:
                raise LogDamagedError(
                    f"{self._disk.path}/{segment_name(segment.number)} changed at offset {at} since it was opened: "
                    "see to the disk, then start again"
                )
            yield span, data
            at = span.end
