"""Which segment files of a directory belong to the log, and which a cut has set aside.

Knows: the names, and the cuts with which a log went on behind damage.  Does not know whether what counts is whole.

A cut counts as soon as it is whole: the segments between the one that it names and its own are not read any more. They
keep their bytes under another name, which `storage.repair` gives them.

Invariant: `numbers` are in order, and without those set aside.
"""

from __future__ import annotations

import attrs

from distkv.storage.base import Disk
from distkv.storage.segment import (
    CUT_BYTES,
    FORMAT_VERSION,
    HEADER_BYTES,
    LogCut,
    cut_by,
    parse_batch,
    parse_header,
    segment_name,
    segment_numbers,
)


@attrs.frozen
class Layout:
    """The segments of a log."""

    numbers: list[int]
    aside: list[int]
    """Those between a cut and what it goes on from."""
    cuts: dict[int, LogCut]
    """By the number of the segment that begins with one."""

    def end_of(self, number: int) -> int | None:
        """Where a segment ends of which the rest was cut off; None: where its file ends."""
        return next((cut.end for cut in self.cuts.values() if cut.previous == number), None)


def read_layout(disk: Disk) -> Layout:
    """Raises OSError when a file cannot be read."""
    numbers: list[int] = []
    aside: list[int] = []
    cuts: dict[int, LogCut] = {}
    last: int | None = None
    for number in reversed(segment_numbers(disk.names())):
        if last is not None and number > last:
            aside.append(number)
            continue
        numbers.append(number)
        cut = _read_cut(disk, number)
        if cut is not None:
            cuts[number], last = cut, cut.previous
    return Layout(numbers[::-1], aside[::-1], cuts)


def _read_cut(disk: Disk, number: int) -> LogCut | None:
    data = read_segment(disk, number, HEADER_BYTES + CUT_BYTES)
    header = parse_header(data)
    if header is None or header.version != FORMAT_VERSION or header.number != number:
        return None
    span = parse_batch(data, header.end, header)
    return None if span is None else cut_by(data, span, header)


def read_segment(disk: Disk, number: int, length: int | None = None) -> bytes:
    """A segment, or so many bytes of it. Raises OSError."""
    file = disk.open_file(segment_name(number))
    try:
        return file.read(0, file.size() if length is None else length)
    finally:
        file.close()
