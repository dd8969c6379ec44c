"""The rows of the archive, and the checksum that stands in each of them.

Knows: what a row of each table holds, and over what its checksum is made.  Does not know connections, queries, or what
the bytes mean.

A checksum is the CRC-32 of a number of the table, of the key and of the bytes that are stored, so a row is checked
without being decoded, and a row that lies under another key, or in another table, does not check either. A bit that
flips on the disk is found for certain; other damage goes unnoticed once in four thousand million times.

Invariant: a row that was written, and is read as it was written, checks; `DamagedRow` names a place that a person can
find.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import attrs

INSERT_ROWS: Final = 256
"""By one statement: about a millisecond's work, for which the interpreter's lock is let go once."""

_STATE, _HISTORY, _LEDGER, _META, _PROGRESS, _DAMAGE, _SLOTS, _DATA, _DATA_KEY = (
    number << 24 for number in range(1, 10)
)
"""Where each table's checksums begin; to it comes the length of the first part, so that parts cannot trade bytes."""
_HISTORY_NUMBERS: Final = struct.Struct("<qqd?")
MALFORMED: Final = (TypeError, ValueError, AttributeError, struct.error)
"""What a column of another type than was written leads to."""
_PAGE: Final = ", a page that cannot be read"
_STATE_ROW: Final = "state, row "
_PAST_ROW: Final = "history, row "
SLOTS: Final = "slots"
"""The table of what services promise."""
DATA: Final = "data"
"""The table of what they keep row by row."""
UNKNOWN: Final = -1
"""For how many rows the state has, in a file that was not told."""

HISTORY_COLUMNS: Final = "lsn, path, node, tick, arrived, record, won, checked"
CHANGE_COLUMNS: Final = "lsn, path, tick, arrived, record, won, checked"
"""Where all are of one node, which need not be read: the checksum tells when a row is another one's."""
_REPLACING: Final = " ON CONFLICT (path) DO UPDATE SET entry = excluded.entry, checked = excluded.checked"

_Row = TypeVar("_Row")
_Values: TypeAlias = Callable[[Iterable[_Row]], list[object]]


class StateRow(NamedTuple):
    """What a path holds now. A tuple, as is the next: one of each is made for every write."""

    path: bytes
    entry: bytes


class HistoryRow(NamedTuple):
    """One record that reached this node. `arrived` is this node's wall clock then, in seconds since 1970."""

    lsn: int
    path: bytes
    node: str
    tick: int
    arrived: float
    record: bytes
    won: bool
    """Whether it gave its path another value when it arrived."""


@attrs.frozen
class LedgerRow:
    """What is known about one writer."""

    node: str
    life: int
    book: bytes


@attrs.frozen
class SlotRow:
    """What a service of the node keeps under a key."""

    machine: str
    key: str
    value: bytes


class DataRow(NamedTuple):
    """What it keeps there as a row of data; a tuple, because a start makes one of each."""

    machine: str
    key: str
    value: bytes


@attrs.frozen
class SettledUpTo:
    """How far the archive is: the one row that says so, in the order of its columns."""

    settled_lsn: int
    history_rows: int
    history_from: int
    state_rows: int
    segment: int
    ledger_sum: int
    meta_sum: int
    slots_sum: int


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@attrs.frozen
class DamagedRow:
    """A row that is not as it was written, or a place where rows are missing."""

    place: str = attrs.field(converter=_printable)
    """The table, and the row in it, for people, who may be shown what a bit that flipped made of a text."""
    path: bytes | None = None
    """The path that it was about, where that can be read."""
    lsn: int | None = None
    """Of a row of the history."""

    @classmethod
    def of_page(cls, table: str) -> DamagedRow:
        """A table that cannot be read to its end. What of it is lost is known when the rest was written anew."""
        return cls(f"{table}{_PAGE}")

    @classmethod
    def of_value(cls, path: bytes) -> DamagedRow:
        """What a path held."""
        return cls(f"{_STATE_ROW}{path!r:.80}", path)

    @property
    def is_page(self) -> bool:
        """Whether a page is damaged, so that the table is not to be used until it was written anew."""
        return self.place.endswith(_PAGE)

    @property
    def is_value(self) -> bool:
        """Whether it is about what one path held."""
        return self.place.startswith(_STATE_ROW)

    @property
    def is_slot(self) -> bool:
        """Whether it is about what the services of the node promise, of which no other node has a copy."""
        return self.place.startswith(SLOTS)

    @property
    def is_data(self) -> bool:
        """Whether it is about a row of data of a service, which knows what to do without it."""
        return self.place.startswith(f"{DATA}, ")

    @property
    def is_past(self) -> bool:
        """Whether it is about the history: what is damaged otherwise, a running node writes anew."""
        return self.place.startswith("history")

    @property
    def is_past_row(self) -> bool:
        """Whether it is just the row of the history that `lsn` names."""
        return self.place.startswith(_PAST_ROW)


# -- checksums ----------------------------------------------------------------------------------------------------


def check_state(path: bytes, entry: bytes) -> int:
    return crc32(entry, crc32(path, _STATE + len(path)))


def check_history(row: HistoryRow) -> int:
    lsn, path, node, tick, arrived, record, won = row
    numbers = _HISTORY_NUMBERS.pack(lsn, tick, arrived, won)
    return crc32(b"".join((numbers, path, _bytes(node), record)), _HISTORY + len(path))


def check_ledger(row: LedgerRow) -> int:
    return crc32(row.book, crc32(b"%d %b" % (row.life, _bytes(row.node)), _LEDGER + len(row.book)))


def check_meta(key: str, value: bytes) -> int:
    return crc32(value, crc32(_bytes(key), _META + len(value)))


def check_slot(row: SlotRow) -> int:
    machine, key = _bytes(row.machine), _bytes(row.key)
    return crc32(row.value, crc32(b"%d %d %b%b" % (len(machine), len(key), machine, key), _SLOTS))


def check_data(machine: str, key: str, value: bytes) -> int:
    return crc32(value, crc32(key.encode(), crc32(machine.encode(), _DATA + len(machine)) + len(key)))


def check_data_key(machine: str, key: str) -> int:
    """Says that the key of a row whose value does not check is right."""
    return crc32(key.encode(), crc32(machine.encode(), _DATA_KEY + len(machine)))


def check_numbers(numbers: Sequence[int]) -> int:
    """Of the one row that says how far the archive is."""
    return crc32(repr(tuple(numbers)).encode(), _PROGRESS)


def check_damage(damage: DamagedRow, found: float) -> int:
    return crc32(repr((damage.place, damage.path, damage.lsn, found)).encode(errors="surrogateescape"), _DAMAGE)


def is_intact_state(path: Any, entry: Any, checked: Any) -> bool:
    """Whether a row as it was read is as it was written; what was read may be of any type."""
    try:
        return bool(check_state(path, entry) == checked)
    except MALFORMED:
        return False


def is_intact_history(row: HistoryRow, checked: Any) -> bool:
    try:
        return bool(check_history(row) == checked)
    except MALFORMED:
        return False


def is_intact_ledger(row: LedgerRow, checked: Any) -> bool:
    try:
        return bool(check_ledger(row) == checked)
    except MALFORMED:
        return False


def is_intact_slot(row: SlotRow, checked: Any) -> bool:
    try:
        return bool(check_slot(row) == checked)
    except MALFORMED:
        return False


def is_intact_meta(key: Any, value: Any, checked: Any) -> bool:
    try:
        return bool(check_meta(key, value) == checked)
    except MALFORMED:
        return False


def checked_changes(node: str, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[HistoryRow, bool]]:
    """Rows of the history of one node, and whether each is as it was written; of `CHANGE_COLUMNS`.

    Who archives what happened reads a million of them, hence no call for each: a profile showed that as half the time.
    """
    name, pack, join, new_row = _bytes(node), _HISTORY_NUMBERS.pack, b"".join, tuple.__new__
    for lsn, path, tick, arrived, record, won, checked in rows:
        row: HistoryRow = new_row(HistoryRow, (lsn, path, node, tick, arrived, record, won != 0))
        try:
            content = join((pack(lsn, tick, arrived, won != 0), path, name, record))
            is_intact = crc32(content, _HISTORY + len(path)) == checked
        except MALFORMED:
            is_intact = False
        yield row, is_intact


def state_damage(path: Any, entry: Any) -> DamagedRow:
    """A row of the state that does not check. Its path is readable where it stands in the entry, too."""
    return DamagedRow(f"{_STATE_ROW}{path!r:.80}", path if _is_in(path, entry) else None)


def history_damage(row: HistoryRow) -> DamagedRow:
    """A row of the history that does not check. Its path is readable where it stands in the record, too."""
    path = row.path if _is_in(row.path, row.record) else None
    return DamagedRow(f"{_PAST_ROW}{row.lsn}", path, row.lsn)


def slot_damage(row: SlotRow) -> DamagedRow:
    """A row of a service that does not check."""
    return DamagedRow(f"{SLOTS}, {row.machine}: {row.key}")


def data_damage(machine: str, key: str | None) -> DamagedRow:
    """A row of data of a service that is lost; None: nobody knows which, or how many."""
    return DamagedRow(f"{DATA}, {machine}: {'rows whose keys are not known' if key is None else key}")


def _is_in(path: Any, content: Any) -> bool:
    return isinstance(path, bytes) and isinstance(content, bytes) and path in content


def _bytes(text: str) -> bytes:
    """Also of what is no text, which a connection of ours reads as a text that stands for its bytes."""
    return text.encode(errors="surrogateescape")


# -- writing ------------------------------------------------------------------------------------------------------


def insert_states(writer: sqlite3.Connection, rows: Iterable[StateRow]) -> None:
    """Write rows of the state, over those of the same paths."""
    _insert(writer, "state (path, entry, checked)", 3, rows, _state_values, _REPLACING)


def insert_history(writer: sqlite3.Connection, table: str, rows: Iterable[HistoryRow]) -> None:
    """Write rows of the history into a table of its shape."""
    _insert(writer, f"{table} ({HISTORY_COLUMNS})", 8, rows, _history_values, "")


def insert_data(writer: sqlite3.Connection, rows: Iterable[DataRow]) -> None:
    """Write rows of data, of which none is there."""
    _insert(writer, f"{DATA} (machine, key, value, key_checked, checked)", 5, rows, _data_values, "")


def _insert(
    writer: sqlite3.Connection, into: str, width: int, rows: Iterable[_Row], values: _Values[_Row], rest: str
) -> None:
    """Insert rows, `INSERT_ROWS` of them by one statement, which ends in `rest`.

    The interpreter's lock is let go while a statement runs. With a statement for every row it would change hands
    several times for each, and whoever else wants it, the event loop first of all, would wait every time.
    """
    left = iter(rows)
    one = f"({', '.join('?' * width)})"
    while part := list(islice(left, INSERT_ROWS)):
        writer.execute(f"INSERT INTO {into} VALUES {', '.join([one] * len(part))}{rest}", values(part))


# `sqlite3` binds bytes as bytearray as they are; for bytes and booleans it first seeks an adapter, five times as long.
# A settlement makes these lists for each of its rows, hence no call for each: see `check_state` and `check_history`.


def _state_values(rows: Iterable[StateRow]) -> list[object]:
    values: list[object] = []
    for path, entry in rows:
        values += (bytearray(path), bytearray(entry), crc32(entry, crc32(path, _STATE + len(path))))
    return values


def _history_values(rows: Iterable[HistoryRow]) -> list[object]:
    values: list[object] = []
    pack, join, writer, name = _HISTORY_NUMBERS.pack, b"".join, "", b""
    for lsn, path, node, tick, arrived, record, won in rows:
        if node is not writer:  # nearly always the same object as in the row before
            writer, name = node, _bytes(node)
        checked = crc32(join((pack(lsn, tick, arrived, won), path, name, record)), _HISTORY + len(path))
        values += (lsn, bytearray(path), node, tick, arrived, bytearray(record), 1 if won else 0, checked)
    return values


def _data_values(rows: Iterable[DataRow]) -> list[object]:
    values: list[object] = []
    for machine, key, value in rows:
        values += (machine, key, bytearray(value), check_data_key(machine, key), check_data(machine, key, value))
    return values
