"""Records become rows with a path and a value, or rejects with a reason; then they are written, each path once.

Knows: what a worker of the job `import` does, in its two steps. Between them Spark brings the rows of each path
together, in the order of the files.  Does not know the driver's part (`imports`).

Of rows with one path the last one counts: the last line of the last file that has it. An earlier one with the same
value is `same`; another one is a reject, and its reason names the line that counts.

Invariant: each record is counted once: as written, same or rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, Protocol, TypeAlias
from zlib import crc32

import attrs

from distkv.client.addresses import Address
from distkv.client.questions import Entry, Get
from distkv.errors import BadValueError, DistkvError, FencedError, RequestError, TooLargeError
from distkv.model.path import Path
from distkv.model.sameness import same_value
from distkv.spark.importing.records import ImportForm, Piece, Record, records
from distkv.spark.importing.templates import Template
from distkv.spark.source.row_writes import RowWrite, batches
from distkv.spark.source.sending import WAIT_S, Refuse, TaskSender
from distkv.text.argument import read_argument
from distkv.wire.json_form import exact_float
from distkv.wire.values import pack_value

BATCH_OPS: Final = 500
TEXT_CHARS_MAX: Final = 10_000
"""So much of a line is kept that is a reject."""

Keyed: TypeAlias = tuple[tuple[str, int, int], tuple[bytes | None, str | None, str | None]]
"""A row between the two steps: its path (of a reject nothing), file and line, by which it is sorted; and the rest."""


@attrs.frozen
class Wanted:
    """What becomes of a record."""

    form: ImportForm
    template: Template
    value: str | None
    """The column that is the value; None: a map of `columns`."""
    columns: tuple[str, ...] = ()
    as_text: bool = False
    """Cells of CSV are text, whatever they look like."""
    ttl: float | None = None

    @property
    def all_columns(self) -> tuple[str, ...]:
        """All that are looked at, each once."""
        values = self.columns if self.value is None else (self.value,)
        return tuple(dict.fromkeys((*self.template.columns, *values)))


@attrs.frozen
class ImportRow:
    """A record on its way."""

    file: int
    line: int
    path: str | None = None
    value: bytes | None = None
    """Packed."""
    reason: str | None = None
    text: str | None = None

    @property
    def keyed(self) -> Keyed:
        """For the way to another task."""
        return (self.path or "", self.file, self.line), (self.value, self.reason, self.text)

    @classmethod
    def of(cls, keyed: Keyed) -> ImportRow:
        """The row again."""
        (path, file, line), (value, reason, text) = keyed
        return cls(file, line, path or None, value, reason, text)


@attrs.frozen
class Done:
    """What a task did in the second step."""

    written: int
    same: int
    rejected: int
    first: ImportRow | None
    """The first reject in the order of the files."""
    error: DistkvError | None
    """What ended it too early."""


def lane(key: tuple[str, int, int]) -> int:
    """Which task a row goes to, modulo how many there are: one path goes to one task, rejects to all of them."""
    path, _, line = key
    return crc32(path.encode()) if path else line


# -- the first step -----------------------------------------------------------------------------------------------


def parse(piece: Piece, wanted: Wanted) -> Iterator[Keyed]:
    """A worker's: the rows of a piece, rejects among them.

    Raises:
        SettingsError: the file cannot be read.
    """
    for record in records(piece, wanted.form, wanted.all_columns):
        yield row_of(piece.file, record, wanted).keyed


def row_of(file: int, record: Record, wanted: Wanted) -> ImportRow:
    """The path and the value of a record, or why it has none."""
    reason, text = record.reason, record.text
    if reason is None:
        try:
            path = wanted.template.path(record.cells)
            return ImportRow(file, record.line, str(path), pack_value(_value(record.cells, wanted)))
        except RequestError as error:
            reason = str(error)
    return ImportRow(file, record.line, None, None, reason, text and text.rstrip("\r\n")[:TEXT_CHARS_MAX])


def _value(cells: dict[str, object], wanted: Wanted) -> object:
    if wanted.value is not None:
        if (found := _cell(cells, wanted.value, wanted)) is None:
            is_null = wanted.value in cells
            raise BadValueError(f"the column {wanted.value} is {'null' if is_null else 'missing'}, and no value")
        return found
    found = {name: _cell(cells, name, wanted) for name in wanted.columns if name in cells}
    if not found:
        raise BadValueError(f"the columns {', '.join(wanted.columns)} are all missing")
    return found


def _cell(cells: dict[str, object], column: str, wanted: Wanted) -> object:
    found = cells.get(column)
    if isinstance(found, BadValueError):
        raise BadValueError(f"the column {column}: {found}")
    if wanted.form is not ImportForm.CSV or wanted.as_text or not isinstance(found, str):
        return found
    try:
        value = read_argument(found, "add --string or quote it")
        if isinstance(value, float) and math.isfinite(value):
            exact_float(found)
        return value
    except BadValueError as error:
        raise BadValueError(f"the column {column}: {error}") from None


# -- the second step ----------------------------------------------------------------------------------------------


class Carrier(Protocol):
    """What makes writes, or finds out what they would do."""

    written: int
    same: int

    def carry_out(self, batch: Sequence[RowWrite]) -> None: ...


def write(
    rows: Iterable[Keyed],
    addresses: Sequence[Address],
    wanted: Wanted,
    names: Sequence[str],
    *,
    dry: bool,
    wait_s: float = WAIT_S,
) -> Iterator[ImportRow | Done]:
    """A worker's: write the rows of some paths, which are sorted; the rejects, and at last what was done."""
    rejects = _Rejects(names)
    error: DistkvError | None = None
    with closing(TaskSender(addresses, refuse=rejects.refuse, wait_s=wait_s)) as sender:
        carrier: Carrier = Looker(sender, rejects.refuse, wanted.ttl is not None) if dry else sender
        try:
            for batch in batches(rejects.writes(map(ImportRow.of, rows), wanted.ttl), BATCH_OPS):
                carrier.carry_out(batch)
                yield from rejects.taken()
                rejects.forget(batch)
        except DistkvError as why:
            # Raised here it would be tried again, and hidden in what Spark says of it.
            error = why
    yield from rejects.taken()
    yield Done(carrier.written, carrier.same + rejects.same, rejects.count, rejects.first, error)


class Looker:
    """Instead of a sender: only looks what is there."""

    def __init__(self, sender: TaskSender, refuse: Refuse, renews: bool) -> None:
        self.written = self.same = 0
        self._sender = sender
        self._refuse = refuse
        self._renews = renews

    def carry_out(self, batch: Sequence[RowWrite]) -> None:
        """Count what these would do."""
        try:
            entries = self._sender.ask([Get(one.path) for one in batch])
        except TooLargeError:
            if len(batch) == 1:
                raise
            self.carry_out(batch[: len(batch) // 2])
            self.carry_out(batch[len(batch) // 2 :])
            return
        for one, entry in zip(batch, entries, strict=True):
            if not self._renews and _is_there(one, entry):
                self.same += 1
            elif entry is not None and entry.fence is not None and entry.fence.holds:
                self._refuse(one, FencedError(f"{one.path} was last written under the fence {entry.fence}"))
            else:
                self.written += 1


def _is_there(write: RowWrite, entry: Entry | None) -> bool:
    """Whether the path has the value, for good."""
    return (
        entry is not None
        and entry.ttl is None
        and write.value is not None
        and same_value(pack_value(entry.value), write.value)
    )


class _Rejects:
    """Which rows are none, which of one path do not count, and which the node refuses."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = self.same = 0
        self.first: ImportRow | None = None
        self._names = names
        self._found: list[ImportRow] = []
        self._sent: dict[Path, ImportRow] = {}

    def writes(self, rows: Iterable[ImportRow], ttl: float | None) -> Iterator[RowWrite]:
        """Of each path the last row, as a write."""
        last: ImportRow | None = None
        for row in rows:
            if row.path is None:
                self._add(row)
                continue
            if last is not None:
                if last.path == row.path:
                    self._supersede(last, row)
                else:
                    yield self._write(last, ttl)
            last = row
        if last is not None:
            yield self._write(last, ttl)

    def refuse(self, write: RowWrite, error: RequestError) -> None:
        """The node refuses a row."""
        row = self._sent[write.path]
        self._add(attrs.evolve(row, reason=f"the node refuses it ({error.code}): {error}"))

    def forget(self, batch: Sequence[RowWrite]) -> None:
        """These were sent."""
        for one in batch:
            self._sent.pop(one.path, None)

    def taken(self) -> Iterator[ImportRow]:
        """Give away what was found."""
        found, self._found = self._found, []
        yield from found

    def _write(self, row: ImportRow, ttl: float | None) -> RowWrite:
        path = Path.parse(row.path or "")
        self._sent[path] = row
        return RowWrite(path, row.value, ttl)

    def _supersede(self, old: ImportRow, new: ImportRow) -> None:
        if old.value == new.value or (old.value and new.value and same_value(old.value, new.value)):
            self.same += 1
            return
        where = f"line {new.line}" if old.file == new.file else f"{self._names[new.file]}, line {new.line}"
        self._add(attrs.evolve(old, reason=f"the path {old.path} stands again in {where}, which counts"))

    def _add(self, row: ImportRow) -> None:
        self.count += 1
        self._found.append(row)
        if self.first is None or (row.file, row.line) < (self.first.file, self.first.line):
            self.first = row
