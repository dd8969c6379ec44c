"""What an opening changes in the files before the first append.

Knows: how a torn tail is cut, how a log is made to go on behind damage, and how the segment is opened that is appended
to.  Does not judge what is found (`storage.recovery`).

A log goes on behind damage in a new segment, which begins with a cut: that says behind which segment, and behind which
place in it, the log goes on. With it all that lies between counts no more; until it is durable the start is refused as
before. Nothing is deleted: segments that do not count are renamed.

Invariant: after a crash at any moment the next opening finds what this one found, or a part of it mended; and bytes
behind the `end` of the segment that is appended to are zeros on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable

from distkv.errors import LogDamagedError
from distkv.storage.base import Disk
from distkv.storage.recovery import Place, Scan, Segment
from distkv.storage.segment import CUT_BYTES, LogCut, encode_cut, encode_header, segment_name, segment_numbers
from distkv.storage.spare import OpenSegment, SpareSegments

_LOG_ID_BYTES = 16
_SET_ASIDE = ".damaged"


def refusal(found: Scan) -> LogDamagedError:
    """The error for whoever starts on a damaged log."""
    path, whole = found.path, found.whole_lsn
    ways = f"move {path} aside and keep it, then start the node empty: it joins again under a new life and downloads"
    says = "nothing before it is whole"
    if whole:
        says = f"all before record {whole} are whole"
        ways = f"start once with --restored to go on with what is whole, and the others bring back the rest; or {ways}"
    return LogDamagedError(f"{path}/{found.damage}; {says}, {found.left_out}: {ways}")


def cut_off(disk: Disk, found: Scan, segment_bytes: int) -> None:
    """Begin a segment behind the damage, so that the next `scan` finds a log without it.

    Raises NoSpaceError when there is no space for it, OSError. The log is then as it was.
    """
    write_again(disk, found.last)
    last = found.last if found.next_lsn >= found.settled.lsn else None
    cut = LogCut(0, 0) if last is None else LogCut(last.number, last.end)
    damaged = 0 if found.damage is None else found.damage.number
    # Above everything that was ever there, or the new segment would fill a hole that is part of the damage.
    number = max([damaged, found.settled.segment, *segment_numbers(disk.names())]) + 1
    spares = SpareSegments(disk, _log_id(disk, found), segment_bytes=segment_bytes, next_number=number)
    begun = spares.take(CUT_BYTES, found.whole_lsn)
    if begun is None:
        raise spares.refusal()
    try:
        begun.file.write(begun.end, encode_cut(begun.header, begun.end, begun.first_lsn, cut))
        begun.file.sync()
    finally:
        begun.file.close()


def set_aside(disk: Disk, numbers: Iterable[int]) -> None:
    """Rename segments, durably: what they hold does not count any more, and is kept."""
    numbers = list(numbers)
    for number in numbers:
        taken = disk.names()
        new_name = segment_name(number) + _SET_ASIDE
        while new_name in taken:
            new_name += _SET_ASIDE
        disk.rename(segment_name(number), new_name)
    if numbers:
        disk.sync_directory()


def open_current(
    disk: Disk, found: Scan, segment_bytes: int
) -> tuple[SpareSegments, OpenSegment]:
    """The segment that is appended to, and what makes the next ones. The former leaves `found.segments`.

    Raises NoSpaceError when there is no space for the first segment of a new log, OSError.
    """
    last = found.segments.pop() if found.segments else None
    next_number = 1 if last is None else last.number + 1
    spares = SpareSegments(disk, _log_id(disk, found), segment_bytes=segment_bytes, next_number=next_number)
    current = spares.take(0, found.next_lsn) if last is None else _reopen(disk, last)
    if current is None:
        raise spares.refusal()
    return spares, current


def cut_tail(disk: Disk, tail: Place | None) -> None:
    """Overwrite a torn tail with zeros, durably, so that no later opening finds a part of it behind a new batch."""
    if tail is not None:
        _write(disk, tail, bytes(tail.end - tail.start))


def write_again(disk: Disk, last: Place | None) -> None:
    """Make the last batch durable.

    It may have been read from the kernel's cache only: the server may have been killed before its sync, or have ended
    because the sync failed, after which Linux takes the pages for clean. Written again, it is synced again.
    """
    if last is not None:
        _write(disk, last, None)


def _write(disk: Disk, place: Place, data: bytes | None) -> None:
    """Write at a place what is given, or what is there."""
    file = disk.open_file(segment_name(place.number))
    try:
        file.write(place.start, file.read(place.start, place.end - place.start) if data is None else data)
        file.sync()
    finally:
        file.close()


def _reopen(disk: Disk, last: Segment) -> OpenSegment:
    file = disk.open_file(segment_name(last.number))
    try:
        if last.end == last.header.end:  # Nothing is durable because of what follows it: the name, neither.
            file.write(0, encode_header(last.header))
            file.sync()
            disk.sync_directory()
        return OpenSegment(file, last.header, file.size(), last.start, last.end, last.first_lsn)
    except BaseException:
        file.close()
        raise


def _log_id(disk: Disk, found: Scan) -> bytes:
    return found.log_id or disk.random_bytes(_LOG_ID_BYTES)
