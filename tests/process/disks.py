"""What a data directory holds, read while no server uses it: every change that reached the disk, in order.

Knows: how history and the tail of the log come together, and what a download voided.  Does not know who wrote what,
nor whether something should be there.

A download sends the event at the network's own path, which never changes, once, and only the root's before it. So what
counts begins where these came last; what lies before was voided (docs/protocol, START-14), though the history keeps it.

Invariant: reading changes no row; a torn tail, which a start would cut, is cut.
"""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path

import attrs

from distkv.config import Config
from distkv.core.registry import NETWORK_PATH
from distkv.daemon.directory import Directory, open_directory
from distkv.model import path as model
from distkv.model.event import Event, Link, is_above
from distkv.wire.message import EventRecord, KnownRecord, LifeRecord, ResetRecord
from distkv.wire.records import decode_record
from distkv.wire.states import decode_meta


@attrs.frozen
class Row:
    """A change that reached the disk."""

    lsn: int
    event: Event
    arrived: float
    """The node's wall clock, seconds since 1970."""
    won: bool
    """Whether its path had this content then."""


@attrs.frozen(slots=False)
class Disk:
    """All of a directory, of one moment."""

    name: str
    """The node, and how it came to be read: for people."""
    life: int
    """In which its node writes; -1: it holds nothing that counts, a download was under way."""
    rows: list[Row]
    first: int
    """From this row on nothing was voided."""

    @cached_property
    def links(self) -> set[Link]:
        """The changes that the node would have were it started."""
        return set() if self.life < 0 else {row.event.link for row in self.rows[self.first :]}

    def at(self, path: model.Path) -> list[Row]:
        """The rows of one path, those that were voided, too."""
        return self._by_path.get(path, [])

    @property
    def begin(self) -> int:
        """The lsn from which on nothing was voided."""
        return self.rows[self.first].lsn if self.first < len(self.rows) else -1

    @cached_property
    def _by_path(self) -> dict[model.Path, list[Row]]:
        found: dict[model.Path, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.event.path, []).append(row)
        return found


def copy_disk(directory: Path, to: Path) -> Path:
    """A copy; whoever uses the directory stands still. Segments are mostly zeros, which take no room in it."""
    to.mkdir(parents=True)
    for file in directory.iterdir():
        if file.is_file():
            _copy_sparse(file, to / file.name)
    return to


def read_disk(name: str, directory: Path) -> Disk:
    """Read a directory that no server uses."""
    with open_directory(Config(node=name, data_dir=directory)) as opened:
        return _read(name, opened)


def discard(directory: Path) -> None:
    """It is read, and needed no more."""
    shutil.rmtree(directory, ignore_errors=True)


# -- inside -------------------------------------------------------------------------------------------------------


def _read(name: str, opened: Directory) -> Disk:
    archive = opened.archive
    meta = archive.meta()
    life = decode_meta(meta).life if meta else None
    rows: list[Row] = []
    first = 0
    for found in archive.past.rows():
        record = decode_record(found.record)
        if isinstance(record, KnownRecord):
            continue  # what was missed
        assert isinstance(record, EventRecord)
        if record.event.path == NETWORK_PATH:
            first = len(rows) - (bool(rows) and rows[-1].event.path == model.ROOT)
        rows.append(Row(found.lsn, record.event, found.arrived, found.won))
    tail = _Tail(rows, first, -1 if life is None else life)
    for first_lsn, records in opened.log.replay_from(archive.settled_lsn):
        for lsn, data in enumerate(records, first_lsn):
            tail.add(lsn, data)
    return Disk(name, tail.life, rows, tail.first)


class _Tail:
    """What only the log has, on top of the history."""

    def __init__(self, rows: list[Row], first: int, life: int) -> None:
        self.first = first
        self.life = life
        self._rows = rows
        self._heads: dict[model.Path, Event] = {}
        for row in rows[first:]:
            self._is_winner(row.event)

    def add(self, lsn: int, data: bytes) -> None:
        match decode_record(data):
            case EventRecord(event=event, arrived=arrived):
                self._rows.append(Row(lsn, event, arrived, self._is_winner(event)))
            case ResetRecord():
                self.first, self.life = len(self._rows), -1
                self._heads.clear()
            case LifeRecord(life=life):
                self.life = life

    def _is_winner(self, event: Event) -> bool:
        """Whether it is above all that were seen on its path (docs/protocol, APPLY-1); nothing is purged here."""
        head = self._heads.get(event.path)
        if head is not None and not is_above(event, head):
            return False
        self._heads[event.path] = event
        return True


def _copy_sparse(file: Path, to: Path) -> None:
    block = bytes(1 << 16)
    with file.open("rb") as source, to.open("wb") as target:
        while data := source.read(len(block)):
            if data == block[: len(data)]:
                target.seek(len(data), 1)
            else:
                target.write(data)
        target.truncate()
