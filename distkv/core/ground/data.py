"""What the services of this node keep row by row: values by the name of the service and a key.

Knows: all rows, which of them the disk lost, and whether it is an old one.  Does not know what a value means, nor who
keeps it.

A row belongs to this disk alone: it is in no event, no digest and no download. Unlike a slot it is no promise: it stays
when the disk turns out to be an old one, and while the node downloads, and backups have it. Its service is told what is
in doubt, until it says that this is made good.

What is in doubt is itself a row, a *mark*, under a key that no service can use: so it is logged, settled, read and
copied as all others are.

Invariant: every change has a record, and replaying the records in order gives the same rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile
from typing import Final, TypeAlias

from distkv.errors import BadValueError, NoSpaceError, TooLargeError
from distkv.model.invariant import must
from distkv.model.sorted_keys import SortedKeys
from distkv.wire.message import DataRecord

DataRow: TypeAlias = tuple[str, str, bytes]
"""The name of the service, the key, and the value."""

KEY_BYTES_MAX: Final = 1024
"""Of a key in UTF-8."""
VALUE_BYTES_MAX: Final = 1 << 20
ROW_BYTES: Final = 256
"""Counted for each row besides its key and value."""
BYTES_MAX: Final = 1 << 30
"""Of all rows, where no setting says otherwise."""

MARK: Final = "\0"
"""How the key of a mark begins."""
OLD: Final = f"{MARK}old"
"""Marks that the disk was found to be an old one."""
UNKNOWN: Final = f"{MARK}unknown"
"""Marks that rows are lost, and nobody knows which."""
_LOST: Final = f"{MARK}lost "


def mark_lost(key: str) -> str:
    """The key of the mark that the row under `key` is lost."""
    return UNKNOWN if key.startswith(MARK) else _LOST + key


class ServiceRows:
    """Those of one service. What is in them is always as it is now; a step sees what was kept before it."""

    def __init__(self) -> None:
        self._held: Final = dict[str, bytes]()
        self._keys: Final = SortedKeys()
        self._marks: Final = dict[str, bytes]()

    # -- for the service

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._held)

    def get(self, key: str) -> bytes | None:
        """The value under a key; None: there is none."""
        return self._held.get(key)

    def keys(self, prefix: str = "", first: str = "") -> Iterator[str]:
        """Those that begin with `prefix`, from `first` on, in the order of their characters; to be read to its end, or
        left, within the step."""
        found = self._keys.begin(max(prefix, first))
        return takewhile(lambda key: key.startswith(prefix), found) if prefix else found

    def items(self, prefix: str = "", first: str = "") -> Iterator[tuple[str, bytes]]:
        """The same, each with its value."""
        return ((key, self._held[key]) for key in self.keys(prefix, first))

    @property
    def lost(self) -> frozenset[str]:
        """The keys whose rows the disk lost, until something is kept or removed there, or all is made good."""
        return frozenset(mark.removeprefix(_LOST) for mark in self._marks if mark.startswith(_LOST))

    @property
    def is_unknown(self) -> bool:
        """Whether rows were lost of which nobody knows the keys: then this is to be treated as an old copy."""
        return UNKNOWN in self._marks

    @property
    def is_old(self) -> bool:
        """Whether the disk was found to be an old one: rows may be older than what was kept last, or missing."""
        return OLD in self._marks

    # -- for the ground

    @property
    def marks(self) -> Collection[str]:
        """The keys of all marks; not to be changed."""
        return self._marks

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """All rows and marks, in no order."""
        yield from self._held.items()
        yield from self._marks.items()

    def find(self, key: str) -> bytes | None:
        """As `get`, of a row or a mark."""
        return (self._marks if key.startswith(MARK) else self._held).get(key)

    def put(self, key: str, value: bytes | None) -> int:
        """Change a row or a mark; by how many bytes they become larger."""
        held = self._marks if key.startswith(MARK) else self._held
        before = held.get(key)
        if value is None:
            if before is None:
                return 0
            del held[key]
        else:
            held[key] = value
        if held is self._held:
            if before is None:
                self._keys.add(key)
            elif value is None:
                self._keys.remove(key)
        return (0 if value is None else row_size(key, value)) - (0 if before is None else row_size(key, before))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._keys.check()
        must([*self._keys.begin()] == sorted(self._held), "the keys in order are those of all rows")


class Data:
    """Those of all services of one node."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        """Of all rows, in bytes."""
        self.check_room: Callable[[int], object] = _has_room
        """Raises a RequestError when the disk has no room for so many bytes more. Whoever drives the node puts it here:
        a write that the disk refuses would end the node."""
        self._held: Final = dict[str, ServiceRows]()

    def __len__(self) -> int:
        """How many rows there are, without marks."""
        return sum(map(len, self._held.values()))

    def of(self, machine: str) -> ServiceRows:
        """What one service keeps, always in one object; the service may read it."""
        rows = self._held.get(machine)
        if rows is None:
            rows = self._held[machine] = ServiceRows()
        return rows

    def rows(self) -> Iterator[tuple[str, str]]:
        """The service and the key of each row and mark, in no order; they must not change meanwhile."""
        return ((machine, key) for machine, rows in self._held.items() for key, _ in rows.rows())

    def find(self, machine: str, key: str) -> bytes | None:
        """What stands in a row or a mark."""
        rows = self._held.get(machine)
        return None if rows is None else rows.find(key)

    def lost(self) -> Iterator[tuple[str, str | None]]:
        """The service and the key of each row that is lost; None: of some that nobody can name."""
        for machine, rows in self._held.items():
            yield from ((machine, key) for key in sorted(rows.lost))
            if rows.is_unknown:
                yield machine, None

    def keep(self, machine: str, key: str, value: bytes | None) -> list[DataRecord]:
        """Keep a value from now on; None: none any more. No record when it is so already. What was lost there is
        replaced."""
        rows = self.of(machine)
        changes = [(key, value), *([(mark_lost(key), None)] if rows.marks else [])]
        records = [DataRecord(machine, *change) for change in changes if rows.find(change[0]) != change[1]]
        for record in records:
            self.replay(record)
        return records

    def make_good(self, machine: str) -> list[DataRecord]:
        """A service has made good what was in doubt."""
        records = [DataRecord(machine, mark, None) for mark in self.of(machine).marks]
        for record in records:
            self.replay(record)
        return records

    def mark_old(self) -> list[DataRecord]:
        """The disk is an old one. A service without a row begins as on a new disk."""
        found = [machine for machine, rows in self._held.items() if len(rows) and not rows.is_old]
        records = [DataRecord(machine, OLD, b"") for machine in found]
        for record in records:
            self.replay(record)
        return records

    # -- the disk

    def load(self, rows: Iterable[DataRow]) -> None:
        """Take over what was archived, marks included; of each service in order of the keys it is faster."""
        for machine, key, value in rows:
            self.size += self.of(machine).put(key, value)

    def lose(self, lost: Iterable[tuple[str, str | None]]) -> None:
        """Rows of these services and keys are lost, None: nobody knows which. Before anything is replayed: what the log
        has came later. The next start would find this again, until the settler has written the marks."""
        for machine, key in lost:
            self.size += self.of(machine).put(UNKNOWN if key is None else mark_lost(key), b"")

    def replay(self, record: DataRecord) -> None:
        """Repeat one record of the log."""
        rows = self.of(record.machine)
        self.size += rows.put(record.key, record.value)
        if rows.marks and not record.key.startswith(MARK):
            self.size += rows.put(mark_lost(record.key), None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for rows in self._held.values():
            rows.check()
        sizes = [row_size(key, value) for rows in self._held.values() for key, value in rows.rows()]
        must(self.size == sum(sizes), "the size is that of all rows")


def _has_room(_size: int) -> None:
    """Nobody knows of a disk."""


def row_size(key: str, value: bytes) -> int:
    """What a row counts, in bytes."""
    return len(key) + len(value) + ROW_BYTES


def check_row(key: str, value: bytes | None, room: int) -> None:
    """Whether a row can be kept, where there is room for so many bytes.

    Raises:
        BadValueError: the key is none.
        TooLargeError: key or value is too long.
        NoSpaceError: there is no room; a row can be removed all the same.
    """
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or key.startswith(MARK):
        raise BadValueError(f"the key {key!r:.80} of a row is no text, is empty or begins with a zero character")
    if size > KEY_BYTES_MAX:
        raise TooLargeError(f"the key {key!r:.80} has {size} bytes: a key of a row has {KEY_BYTES_MAX} at the most")
    if value is None:
        return
    if len(value) > VALUE_BYTES_MAX:
        raise TooLargeError(f"the row {key!r:.80} has {len(value)} bytes: it may have {VALUE_BYTES_MAX} at the most")
    if row_size(key, value) > room:
        raise NoSpaceError(
            f"the row {key!r:.80} cannot be kept: the services of this node keep as much as limits.data_bytes allows;"
            " remove something, or allow more"
        )
