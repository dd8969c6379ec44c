"""Whether a follower was told all that its node's disk says it had: every change in its turn, and no wrong picture.

Knows: what a token is worth, and the rows of the disk.  Does not know sockets or why a watch broke.

A follower's story is cut where it forgot all (`Fresh`, `Resync`). Within a part, from the first `UpToDate` on, the
changes told must be those that won their paths on the disk, in order, from that token up to the last one. At each
`UpToDate` the picture must be that of the disk at its token.

Invariant: what was told before the first `UpToDate` of a part, and never became one, is not judged: it is void.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from distkv.client.watch import Change, Contested, Lost, Missed, Resync, UpToDate
from distkv.model.event import Kind, Link, tick_text
from distkv.model.path import Path
from distkv.wire.watch import Token, decode_token
from tests.process.disks import Disk, Row
from tests.process.followers import Fresh, Resumed, Told

TOLD_MAX: Final = 5


@attrs.define
class _Part:
    """What was told between two times at which all was forgotten."""

    begun_by: str
    changes: list[tuple[Link, Token]] = attrs.field(factory=list)
    """Those behind the first `UpToDate`."""
    pictures: list[tuple[Token, dict[Path, Link]]] = attrs.field(factory=list)
    known: dict[Path, Link] = attrs.field(factory=dict)


def missed(told: Sequence[Told], disks: Sequence[Disk]) -> list[str]:
    """What was told wrongly or not at all, in words. `disks`: those of the node, in the order of its lives."""
    return [fault for part in _parts(told) for fault in _faults(part, disks)]


def _parts(told: Sequence[Told]) -> Iterator[_Part]:
    part = _Part("begin")
    for item in told:
        match item:
            case Fresh() | Resync():
                yield part
                part = _Part(type(item).__name__)
            case UpToDate(token=token):
                part.pictures.append((_token(token), dict(part.known)))
            case Change():
                if item.is_deleted:
                    part.known.pop(item.path, None)
                else:
                    part.known[item.path] = item.link
                if part.pictures:
                    part.changes.append((item.link, _token(item.token)))
            case Contested() | Lost() | Missed() | Resumed():
                pass
    yield part


def _faults(part: _Part, disks: Sequence[Disk]) -> Iterator[str]:
    if not part.pictures:
        return
    first = part.pictures[0][0]
    disk = next((disk for disk in disks if disk.life >= first.life), None)
    if disk is None:
        yield f"a token of life {first.life}, in which no disk was written"
        return
    begin = disk.first if disk.begin <= first.lsn else 0
    rows = [row for row in disk.rows[begin:] if not row.event.path.is_reserved]
    yield from _order_faults(part, first, disk, rows)
    yield from _picture_faults(part, disk, rows)


def _order_faults(part: _Part, first: Token, disk: Disk, rows: Sequence[Row]) -> Iterator[str]:
    tokens = [token for token, _ in part.pictures] + [token for _, token in part.changes]
    last = max(token.lsn for token in tokens)
    due = [_text(row.event.link) for row in rows if row.won and first.lsn <= row.lsn < last]
    came = [_text(link) for link, _ in part.changes]
    if due == came:
        return
    lacking, more = Counter(due) - Counter(came), Counter(came) - Counter(due)
    same = (one == other for one, other in zip(due, came, strict=False))
    at = next((n for n, is_same in enumerate(same) if not is_same), min(len(due), len(came)))
    around = slice(max(0, at - TOLD_MAX), at + TOLD_MAX)
    yield (
        f"after {part.begun_by}, life {first.life} of {disk.name}, lsn {first.lsn} to {last}: {len(due)} changes won,"
        f" {len(came)} were told, lacking {_some(lacking)}, too many {_some(more)}; first at {at}: on the disk"
        f" {due[around]}, told {came[around]}"
    )


def _picture_faults(part: _Part, disk: Disk, rows: Sequence[Row]) -> Iterator[str]:
    left = iter(row for row in rows if row.won)
    row = next(left, None)
    there: dict[Path, Link] = {}
    for token, known in sorted(part.pictures, key=lambda picture: picture[0].lsn):
        while row is not None and row.lsn < token.lsn:
            if row.event.kind is Kind.SET:
                there[row.event.path] = row.event.link
            else:
                there.pop(row.event.path, None)
            row = next(left, None)
        wrong = [path for path in {**there, **known} if there.get(path) != known.get(path)]
        if wrong:
            shown = [f"{path}: disk {there.get(path)}, told {known.get(path)}" for path in wrong[:TOLD_MAX]]
            yield f"after {part.begun_by}, at lsn {token.lsn} of {disk.name}: {len(wrong)} paths wrong, such as {shown}"


def _token(data: bytes | None) -> Token:
    token = decode_token(data or b"")
    assert token is not None, f"{data!r} is no token"
    return token


def _some(links: Counter[str]) -> str:
    return f"{links.total()}: {list(links)[:TOLD_MAX]}" if links else "none"


def _text(link: Link) -> str:
    return tick_text(*link)
