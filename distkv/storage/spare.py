"""Segments made ahead of their use, so that a full disk is met before a write is accepted.

Knows: how a segment is created and made durable, and whether space was short the last time.  Does not know batches.

Invariant: a segment that `take` hands out has its whole length on the disk, a durable header that tells this length,
and a durable name, and holds nothing else. There is never more than one that was not taken.
"""

from __future__ import annotations

import os
import threading

import attrs

from distkv.errors import NoSpaceError
from distkv.storage.base import BATCH_OVERHEAD_BYTES, SCARCE_ERRNOS, Disk, DiskFile
from distkv.storage.segment import HEADER_BYTES, SEAL_BYTES, SegmentHeader, encode_header, new_mark, segment_name

_MARK_BYTES = 8


@attrs.define
class OpenSegment:
    """A segment that can be written: batches stand from `start` to `end`, zeros between `end` and `size`."""

    file: DiskFile
    header: SegmentHeader
    size: int
    start: int
    end: int
    first_lsn: int = 0
    """Of its first batch; known when it is taken into use."""

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def room(self) -> int:
        """How many bytes of batches fit, with the seal behind them."""
        return self.size - self.end - SEAL_BYTES

    @property
    def is_empty(self) -> bool:
        return self.end == self.header.end


class SpareSegments:
    """Keeps one segment ahead. Each method may run on any thread; making a segment excludes taking it."""

    def __init__(self, disk: Disk, log_id: bytes, *, segment_bytes: int, next_number: int) -> None:
        if segment_bytes < HEADER_BYTES + BATCH_OVERHEAD_BYTES + SEAL_BYTES:
            raise ValueError(f"segments of {segment_bytes} bytes cannot hold one batch")
        self._disk = disk
        self._log_id = log_id
        self._segment_bytes = segment_bytes
        self._next_number = next_number
        self._spare: OpenSegment | None = None
        self._shortage = ""
        self._making = threading.Lock()

    @property
    def room(self) -> int:
        """How many bytes the spare segment can take; 0 when there is none."""
        spare = self._spare
        return 0 if spare is None else spare.room

    @property
    def shortage(self) -> str:
        """Why the last attempt was refused; empty when it was not."""
        return self._shortage

    def refill(self, size: int = 0) -> bool:
        """See to a spare segment with room for `size` bytes; False if space is short. Raises OSError for the rest."""
        with self._making:
            return self._refill(size)

    def take(self, size: int, first_lsn: int) -> OpenSegment | None:
        """Hand out the spare segment, with room for `size` bytes, made now if need be; None if space is short.

        Raises OSError when the disk fails.
        """
        with self._making:
            spare = self._spare
            if spare is None or spare.room < size:
                self._refill(size)
                spare = self._spare
            if spare is None or spare.room < size:
                return None
            self._spare = None
            self._next_number += 1
            spare.first_lsn = first_lsn
            return spare

    def refusal(self) -> NoSpaceError:
        """The error for whoever asked for room that there is not."""
        return NoSpaceError(
            f"{self._disk.path}: no space for the next log segment ({self._shortage}): "
            "writes are refused until there is space"
        )

    def close(self) -> None:
        with self._making:
            if self._spare is not None:
                self._spare.file.close()
                self._spare = None

    def _refill(self, size: int) -> bool:
        wanted = max(self._segment_bytes, HEADER_BYTES + size + SEAL_BYTES)
        try:
            if self._spare is None:
                self._spare = self._make(wanted)
            elif self._spare.size < wanted:
                self._enlarge(self._spare, wanted)
        except OSError as error:
            if error.errno not in SCARCE_ERRNOS:
                raise
            self._shortage = os.strerror(error.errno or 0)
            return False
        self._shortage = ""
        return True

    def _make(self, wanted: int) -> OpenSegment:
        """Create the next segment, or finish one that a crash or a full disk left behind: it holds only zeros.

        The length of such a one may be known to the kernel only, when the server ended because a sync had failed: the
        last zero is written again, so that the sync that makes the header durable makes the length so, too.
        """
        number = self._next_number
        file = self._disk.open_file(segment_name(number))
        try:
            file.preallocate(wanted)
            mark = new_mark(self._disk.random_bytes(_MARK_BYTES))
            header = SegmentHeader(number, self._log_id, mark, file.size())
            file.write(header.length - 1, b"\0")
            file.write(0, encode_header(header))
            file.sync()
            self._disk.sync_directory()
            return OpenSegment(file, header, header.length, header.end, header.end)
        except BaseException:
            file.close()
            raise

    def _enlarge(self, spare: OpenSegment, wanted: int) -> None:
        """Until its new header is durable it has another length than it tells, which nobody minds in a spare one."""
        spare.file.preallocate(wanted)
        header = attrs.evolve(spare.header, length=spare.file.size())
        spare.file.write(0, encode_header(header))
        spare.file.sync()
        spare.header, spare.size = header, header.length
