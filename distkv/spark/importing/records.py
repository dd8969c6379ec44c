"""Files of rows, read one record after the other: CSV, JSON lines, Parquet.

Knows: the three forms, where each record begins, and what is wrong with one that is none.  Does not know what becomes
of a record.

A file is read in pieces, each by another task. JSON lines are cut at newlines, Parquet at its row groups; where a
record of CSV ends only its beginning tells, so a CSV file is one piece.

Invariant: every record comes once, with its number in the file, or with the reason why it is none. A record that is
none does not change how the next ones are read.
"""

from __future__ import annotations

import csv
import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

import attrs

from distkv.errors import BadValueError, SettingsError
from distkv.wire.json_form import from_json
from distkv.wire.values import VALUE_BYTES_MAX

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

PIECE_BYTES: Final = 16 << 20
LINE_BYTES_MAX: Final = 8 * VALUE_BYTES_MAX
"""A longer line holds no value that could be stored."""
FIELD_CHARS_MAX: Final = 2 * VALUE_BYTES_MAX
_BOM: Final = b"\xef\xbb\xbf"
_OLD_CALENDAR: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
"""With these Spark marks files whose times are as its second release wrote them."""
_NO_TEXT: Final = "it is not UTF-8 text"
Cells = dict[str, object]


class ImportForm(enum.Enum):
    """How files are written. `csv` has a header; `json` has an object in each line."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@attrs.frozen
class Piece:
    """A stretch of a file, for one task."""

    file: int
    """Which of the files, counted from 0."""
    name: str
    begin: int = 0
    """A byte; of Parquet a row group."""
    end: int = 0
    line: int = 1
    """The number of its first line, counted from 1; of Parquet of its first row."""


@attrs.frozen
class Record:
    """One record, or why it is none."""

    line: int
    """Where it begins."""
    cells: Cells
    text: str | None = None
    """As it stands in the file, when there is a reason."""
    reason: str | None = None


def pieces_of(files: Sequence[str], form: ImportForm, columns: Iterable[str]) -> list[Piece]:
    """Cut files.

    Args:
        files: their names.
        form: of all.
        columns: which they must have; JSON has no columns, only what is in each line.

    Raises:
        SettingsError: a file cannot be read, or has not these columns.
    """
    found: list[Piece] = []
    for number, name in enumerate(files):
        try:
            found += _CUT[form](number, name, list(columns))
        except OSError as error:
            raise SettingsError(f"{name} cannot be read: {error.strerror or error}") from None
    return found


def records(piece: Piece, form: ImportForm, columns: Iterable[str]) -> Iterator[Record]:
    """The records of a piece, of which only these columns are wanted.

    Raises:
        SettingsError: the file cannot be read (any more).
    """
    try:
        yield from _READ[form](piece, list(columns))
    except OSError as error:
        raise SettingsError(f"{piece.name} cannot be read: {error}") from None


# -- CSV ----------------------------------------------------------------------------------------------------------


def _cut_csv(number: int, name: str, columns: list[str]) -> list[Piece]:
    with _opened(name) as file:
        first = next(_csv_rows(file), None)
    if first is None or first.reason is not None or first.row is None:
        why = "it is empty" if first is None else first.reason
        raise SettingsError(f"{name} has no header: {why}; a CSV file begins with the names of its columns, in UTF-8")
    _check_columns(name, columns, first.row)
    return [Piece(number, name)]


def _read_csv(piece: Piece, columns: list[str]) -> Iterator[Record]:
    with _opened(piece.name) as file:
        rows = _csv_rows(file)
        header = next(rows).row or []
        places = [(column, header.index(column)) for column in columns]
        for found in rows:
            row, reason = found.row, found.reason
            if row is not None and len(row) != len(header):
                reason = f"it has {len(row)} fields, and the header {len(header)}"
            if reason is not None or row is None:
                yield Record(found.line, {}, found.text, reason)
            else:
                yield Record(found.line, {column: row[place] for column, place in places})


@attrs.frozen
class _TextRow:
    line: int
    text: str
    row: list[str] | None
    reason: str | None = None


class _NumberedLines:
    """Numbered lines for the reader, of which those of the present row are kept: it may have to begin again."""

    def __init__(self, text: TextIO) -> None:
        self._rest = enumerate(iter(lambda: text.readline(LINE_BYTES_MAX), ""), 1)
        self._again: deque[tuple[int, str]] = deque()
        self.kept: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        found = self._again.popleft() if self._again else next(self._rest)
        self.kept.append(found)
        return found[1]

    def drop(self) -> None:
        """The row is read."""
        self.kept.clear()

    def go_back(self) -> tuple[int, str]:
        """The row is none: its first line, behind which reading goes on."""
        first, *others = self.kept
        self._again.extendleft(reversed(others))
        self.kept.clear()
        return first


def _opened(name: str) -> TextIO:
    """What is no text becomes marks that no text has, and lines end as they do."""
    return open(name, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _csv_rows(file: TextIO) -> Iterator[_TextRow]:
    """All rows but empty lines, the header first."""
    csv.field_size_limit(FIELD_CHARS_MAX)
    lines = _NumberedLines(file)
    reader = csv.reader(lines, strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line, text = lines.go_back()
            yield _TextRow(line, _shown(text), None, f"it is no CSV: {error}")
            continue
        line, text = lines.kept[0][0], "".join(text for _, text in lines.kept)
        lines.drop()
        if not row:
            continue
        if not text.isascii() and _shown(text) != text:
            yield _TextRow(line, _shown(text), None, _NO_TEXT)
        else:
            yield _TextRow(line, text, row)


def _shown(text: str) -> str:
    """Without the bytes that are no text, which nothing could keep."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


# -- JSON ---------------------------------------------------------------------------------------------------------


def _cut_json(number: int, name: str, columns: list[str]) -> list[Piece]:  # noqa: ARG001  # each line has its own
    found: list[Piece] = []
    with open(name, "rb") as file:
        begin, line = 0, 1
        while chunk := file.read(PIECE_BYTES):
            if not chunk.endswith(b"\n"):
                _pass_line(file)
            end = file.tell()
            found.append(Piece(number, name, begin, end, line))
            begin, line = end, line + chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    return found


def _read_json(piece: Piece, columns: list[str]) -> Iterator[Record]:
    with open(piece.name, "rb") as file:
        file.seek(piece.begin)
        number = piece.line
        while file.tell() < piece.end:
            line = file.readline(LINE_BYTES_MAX)
            if number == 1:
                line = line.removeprefix(_BOM)
            if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
                _pass_line(file)
                yield Record(number, {}, None, "it is longer than any value can be")
            elif line.strip():
                yield _json_record(number, line, columns)
            number += 1


def _pass_line(file: BinaryIO) -> None:
    """Go behind the newline that ends the present line, however long that is."""
    while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
        pass


def _json_record(number: int, line: bytes, columns: list[str]) -> Record:
    try:
        found = from_json(line.decode(), exact=True)
    except UnicodeDecodeError:
        return Record(number, {}, line.decode(errors="replace"), _NO_TEXT)
    except BadValueError as error:
        return Record(number, {}, line.decode(), str(error).replace("the value is no JSON", "it is no JSON"))
    if not isinstance(found, dict):
        return Record(number, {}, line.decode(), "it is no JSON object")
    return Record(number, {column: found[column] for column in columns if column in found})


# -- Parquet ------------------------------------------------------------------------------------------------------


def _cut_parquet(number: int, name: str, columns: list[str]) -> list[Piece]:
    from pyarrow import ArrowException  # it takes longer to load than all the rest
    from pyarrow import parquet as pq

    from distkv.spark.importing.arrow_values import has_times, unsuited

    try:
        with pq.ParquetFile(name) as file:
            schema, meta = file.schema_arrow, file.metadata
            old = _OLD_CALENDAR & set(meta.metadata or {})
            groups = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
    except ArrowException as error:
        raise SettingsError(f"{name} is no Parquet file: {str(error).splitlines()[0]}") from None
    _check_columns(name, columns, schema.names)
    for column in columns:
        if (wrong := unsuited(schema.field(column).type)) is not None:
            raise SettingsError(f"{name} has the column {column!r} of type {wrong}, for which there is no value")
        if old and has_times(schema.field(column).type):
            raise SettingsError(
                f"{name} has times in the column {column!r} by Spark's old calendar, in which they mean others before "
                "1900: write the file again with Spark's mode CORRECTED"
            )
    return [Piece(number, name, group, group + 1, 1 + sum(groups[:group])) for group, rows in enumerate(groups) if rows]


def _read_parquet(piece: Piece, columns: list[str]) -> Iterator[Record]:
    from pyarrow import ArrowException
    from pyarrow import parquet as pq

    from distkv.spark.importing.arrow_values import python_values

    number = piece.line
    try:
        with pq.ParquetFile(piece.name) as file, pq.ParquetFile(piece.name, coerce_int96_timestamp_unit="s") as again:
            wide = _with_int96(file)
            batches = file.iter_batches(row_groups=[piece.begin], columns=columns)
            others = again.iter_batches(row_groups=[piece.begin], columns=[name for name in columns if name in wide])
            for batch in batches:
                values = [python_values(batch.column(column)) for column in columns]
                if wide.intersection(columns):
                    other = next(others)
                    values = [
                        _exact(some, python_values(other.column(column))) if column in wide else some
                        for column, some in zip(columns, values, strict=True)
                    ]
                for row in zip(*values, strict=True):
                    yield Record(number, dict(zip(columns, row, strict=True)))
                    number += 1
    except ArrowException as error:
        raise SettingsError(f"{piece.name} is damaged: {str(error).splitlines()[0]}") from None


def _with_int96(file: ParquetFile) -> set[str]:
    """The columns in which times are, or may be, of the type INT96."""
    leaves = (file.schema.column(number) for number in range(len(file.schema)))
    paths = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    return {name for name in file.schema_arrow.names if any(f"{path}.".startswith(f"{name}.") for path in paths)}


def _exact(wrapped: list[object], seconds: list[object]) -> list[object]:
    """Of a column that was read twice (`arrow_values`)."""
    from distkv.spark.importing.arrow_values import exact_times

    found: list[object] = []
    for one, other in zip(wrapped, seconds, strict=True):
        try:
            found.append(exact_times(one, other))
        except BadValueError as error:
            found.append(error)
    return found


# -- all ----------------------------------------------------------------------------------------------------------


def _check_columns(name: str, wanted: Sequence[str], there: Sequence[str]) -> None:
    for column in wanted:
        if column not in there:
            shown = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
            raise SettingsError(f"{name} has no column {column!r}; it has {shown}")
        if there.count(column) > 1:
            raise SettingsError(f"{name} has the column {column!r} twice: rename one")


_CUT: Final[dict[ImportForm, Callable[[int, str, list[str]], list[Piece]]]] = {
    ImportForm.CSV: _cut_csv,
    ImportForm.JSON: _cut_json,
    ImportForm.PARQUET: _cut_parquet,
}
_READ: Final[dict[ImportForm, Callable[[Piece, list[str]], Iterator[Record]]]] = {
    ImportForm.CSV: _read_csv,
    ImportForm.JSON: _read_json,
    ImportForm.PARQUET: _read_parquet,
}
