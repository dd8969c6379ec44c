"""What the engine asks of a log, and what a log asks of a disk.

Knows: the shape of both, and what each call promises when it returns or raises.  Does not know a file format
(`storage.segment`), an operating system (`storage.disk`) or what a record means.

Invariant of every `Log`: what `append` has returned for is replayed by every later opening, whole and in order, until
`drop` was told that it is kept elsewhere; a batch is there whole or not at all; and what `replay` has once shown is
there at the next opening too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Protocol

import attrs

# What one record and one batch take in the log besides the records' own bytes; see `Log.reserve_nowait`.
RECORD_OVERHEAD_BYTES = 4
BATCH_OVERHEAD_BYTES = 38

# What a power failure leaves of a write is whole ones of these, counted from the beginning of the file.
SECTOR_BYTES = 512

# The system has run out of something that may come back: the write is refused, and the server lives.
SCARCE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


@attrs.frozen
class Recovered:
    """What opening found: whole batches, their records, and how many bytes of a torn tail were cut (normally 0)."""

    batches: int
    records: int
    torn_bytes: int
    torn_at: str
    """File and offset of the cut, for people; empty when nothing was torn."""
    damage: str = ""
    """What is damaged and was passed over, for people: all of it is kept elsewhere. Empty when nothing is."""
    cut: str = ""
    """What was left out behind damage, for people, as long as no record follows: the directory is older than it was."""


@attrs.frozen
class LogStatistics:
    """A look at a live log. `batches` and `syncs` count the appends since it was opened, the others what it holds."""

    segments: int
    size_bytes: int
    spare_bytes: int
    first_lsn: int
    """Of the oldest record that is still here; `next_lsn` when there is none."""
    next_lsn: int
    batches: int
    syncs: int
    shortage: str
    """Why the last preallocation was refused; empty when it was not."""


class Log(Protocol):
    """An append-only log of batches of records; a record's lsn is its place among all there ever were, from 0.

    `append` and `replay` are never called two at once, nor are `drop` and `replay`; `drop`, `reserve_nowait`, `refill`,
    `statistics` and the properties may be called on another thread while an `append` runs. `close` is called when
    nothing else runs.
    """

    @property
    def next_lsn(self) -> int:
        """The lsn that the next record gets: the number of records that were ever in the log."""

    @property
    def segment_number(self) -> int:
        """The number of the segment that the last batch went to: whatever else is dropped, that one is kept."""

    @property
    def recovered(self) -> Recovered:
        """What opening found."""

    @property
    def wants_refill(self) -> bool:
        """No segment is preallocated ahead: call `refill` soon, on a thread."""

    def append(self, records: Sequence[bytes]) -> int:
        """Make `records` durable as one batch, with one write and one fdatasync; return the lsn after it.

        Raises StorageFailedError when the write or the sync failed, and from then on for ever: what the disk holds is
        unknown until the log is opened again, and a sync that failed once may lie when it is repeated. It raises the
        same when there is no room, which a `reserve_nowait` before would have told.
        """

    def reserve_nowait(self, size: int) -> None:
        """Check that appending `size` more bytes cannot meet a full disk; raise NoSpaceError if it could.

        `size` counts everything that is not yet appended, a batch in flight included: RECORD_OVERHEAD_BYTES and its
        length for each record, and BATCH_OVERHEAD_BYTES for each batch. However these are then cut into batches, they
        fit. Nothing is set aside: the next call must count the same bytes again until they are appended.

        Usually a comparison. When the room is used up and the last preallocation did not fail, it makes a segment
        there and then, which blocks for some ten milliseconds; after a failure it raises until `refill` succeeds.
        Raises StorageFailedError when the log has failed.
        """

    def refill(self) -> bool:
        """Preallocate the next segment if there is none; say whether there is one now.

        Blocking (it writes and syncs a whole segment); runs beside an `append` on another thread. False means that
        space is short: the caller decides when to try again, about once a second is right; this call is the only one
        that tries again. Raises StorageFailedError when the disk failed in another way.
        """

    def replay(self) -> Iterator[list[bytes]]:
        """All batches in order, each as the list of its records; to be used before the first `append`."""

    def replay_from(self, lsn: int) -> Iterator[tuple[int, list[bytes]]]:
        """The records from `lsn` on: for each batch the lsn of its first record and the list of its records.

        A batch that begins below `lsn` is given without what lies below. To be used before the first `append`. Raises
        ValueError when the log does not reach back so far.
        """

    def drop(self, lsn: int) -> int:
        """Let go of records below `lsn`, because they are kept elsewhere, durably; return how many segments went.

        Whole segments only, and never the current one, nor the one before while that is empty, so records below `lsn`
        may stay. Blocking. A crash at any moment leaves a log without a gap, that reaches back to `lsn` at least.
        Raises ValueError when `lsn` is not durable yet, StorageFailedError when the disk failed, from then on for ever.
        """

    def statistics(self) -> LogStatistics:
        """Counters of this log."""

    def close(self) -> None:
        """Give up the files and the lock of the directory; a second call does nothing. Syncs nothing: nothing waits."""


class DiskFile(Protocol):
    """One open file. Every method may raise OSError."""

    def size(self) -> int:
        """Length in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """What is there, shorter than `length` only at the end of the file."""

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data`; durable only after the next `sync`, and until then by any part."""

    def sync(self) -> None:
        """Make everything written so far durable (fdatasync)."""

    def preallocate(self, size: int) -> None:
        """Make the file `size` bytes long, durably; later writes within need neither space nor metadata.

        What was there stays, the rest reads as zeros; a longer file stays as it is. After an OSError whose errno is in
        SCARCE_ERRNOS the file has its former length.
        """

    def close(self) -> None:
        """Let go of the file."""


class Disk(Protocol):
    """One directory, used by one server at a time. Every method but `close` may raise OSError."""

    @property
    def path(self) -> str:
        """The directory's name, for messages."""

    def lock(self) -> None:
        """Take the directory until `close`; raises DirectoryLockedError when another server has it."""

    def names(self) -> list[str]:
        """The names of the files in the directory, in no order."""

    def open_file(self, name: str) -> DiskFile:
        """Open a file to read and write, and create it if there is none; the name is durable after `sync_directory`."""

    def unlink(self, name: str) -> None:
        """Remove a file, which nobody has open; it may come back in a crash before the next `sync_directory`."""

    def rename(self, name: str, new_name: str) -> None:
        """Give a file, which nobody has open, a name that no file has; durable after `sync_directory`."""

    def sync_directory(self) -> None:
        """Make durable which names there are: files created and removed so far."""

    def random_bytes(self, length: int) -> bytes:
        """Bytes that nobody can foresee."""

    def close(self) -> None:
        """Release the lock and the directory."""
