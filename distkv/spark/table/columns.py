"""The columns of events: what each is called, its type, and how the set of them grows.

Knows: Arrow schemas, and the form's number in the metadata of each Parquet file.  Does not know which files there are
(`spark.table.manifest`), nor how a value of a column comes about.

Invariant: a form is the one before it with columns added, and no column ever changes its type; so every older file can
be read as the present form, with null in what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from distkv.errors import FormatVersionError, LogDamagedError
from distkv.spark.table.folder import translated
from distkv.spark.table.manifest import EVENTS_FORM, PLAIN_FORM

FORM_KEY: Final = b"distkv.events"
"""In the metadata of a file's schema: the number of its form, in decimal digits."""

_TIME: Final = pa.timestamp("us", tz="UTC")

FENCE_COLUMNS: Final = pa.schema(
    [
        ("fence_base", pa.int64()),
        ("fence_epoch", pa.int64()),
        ("fence_counter", pa.int64()),
        ("fence_token", pa.string()),
    ]
)
"""What orders an event before its tock does, in this order; all null where there is no fence, which sorts below all."""
EVENT_COLUMNS: Final = pa.schema(
    [
        ("path", pa.list_(pa.string())),
        ("path_str", pa.string()),
        ("root", pa.string()),
        ("system", pa.bool_()),
        ("kind", pa.string()),
        ("value", pa.string()),
        ("value_msgpack", pa.binary()),
        ("node", pa.string()),
        ("tick", pa.int64()),
        ("tick_end", pa.int64()),
        ("tock", pa.int64()),
        ("chain", pa.list_(pa.struct([("node", pa.string()), ("tick", pa.int64())]))),
        ("truncated", pa.bool_()),
        ("ttl", pa.float64()),
        ("time", _TIME),
        ("time_s", pa.float64()),
        ("arrived", _TIME),
        ("read_from", pa.string()),
        *FENCE_COLUMNS,
    ]
)
"""What the source gives; `tick_end` is of gap rows, and null in others. docs/event-table says what each means."""


@attrs.frozen
class EventsForm:
    """A version of the columns of an event table."""

    number: int
    columns: pa.Schema
    """In their order, without metadata."""

    @property
    def schema(self) -> pa.Schema:
        """The schema to write a file with."""
        return self.columns.with_metadata({FORM_KEY: b"%d" % self.number})

    def check(self, schema: pa.Schema, place: str) -> None:
        """Whether a file with this schema can be read as this form; `place` is its name, for messages.

        Raises:
            FormatVersionError: a newer release wrote it.
            LogDamagedError: it holds no events, or other columns than its form has.
        """
        number = (schema.metadata or {}).get(FORM_KEY, b"")
        if not number.isdigit():
            raise LogDamagedError(f"{place} holds no events of distkv: move it out of the table")
        if int(number) > self.number:
            raise FormatVersionError(
                f"{place} has events of form {int(number)}, this release knows {self.number}: upgrade distkv"
            )
        for name in schema.names:
            at = self.columns.get_field_index(name)
            if at < 0 or schema.field(name).type != self.columns.field(at).type:
                raise LogDamagedError(f"{place} has a column {name!r} that events have not: take the table from a copy")

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of this form or an older one, which `check` passed, in the columns of this form."""
        names = batch.schema.names
        arrays = [
            batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type)
            for field in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def only(self, names: Iterable[str]) -> EventsForm:
        """The same with these columns, in this order."""
        return EventsForm(self.number, pa.schema([self.columns.field(name) for name in names]))


TABLE_FORM: Final = EventsForm(EVENTS_FORM, pa.schema([field for field in EVENT_COLUMNS if field.name != "tick_end"]))
"""As which all files are read today. A gap is no row of a table: the manifest has it."""
FENCELESS_FORM: Final = EventsForm(
    PLAIN_FORM, pa.schema([field for field in TABLE_FORM.columns if field.name not in FENCE_COLUMNS.names])
)
"""The form before fences: what a file is written with that has none."""


def form_of(rows: pa.RecordBatch | pa.Table) -> EventsForm:
    """The form that a file of these rows needs; they have the columns of `TABLE_FORM`."""
    return FENCELESS_FORM if rows.column("fence_base").null_count == rows.num_rows else TABLE_FORM


def read_batches(
    file: str, columns: Iterable[str] | None = None, form: EventsForm = TABLE_FORM
) -> Iterator[pa.RecordBatch]:
    """The rows of one data file, some ten thousand at a time, and never more than a row group of the file; `columns`:
    only these, in this order.

    Raises:
        FormatVersionError, LogDamagedError: see `EventsForm.check`; or it is no whole Parquet file, or a page of it has
            another checksum.
        StorageFailedError: it cannot be read.
    """
    wanted = form if columns is None else form.only(columns)
    with translated(file), _damage_told(file), _opened(file) as opened:
        form.check(opened.schema_arrow, file)
        there = [name for name in wanted.columns.names if name in opened.schema_arrow.names]
        for group in range(opened.num_row_groups):  # else Arrow puts groups together, whatever their size
            for batch in opened.iter_batches(columns=there, row_groups=[group]):
                yield wanted.fit(batch)


def damaged(file: str, reason: str) -> LogDamagedError:
    """What is said of a data file that is not as it was written."""
    return LogDamagedError(f"{file} is damaged: {reason}: take the table from a copy")


def _opened(file: str) -> pq.ParquetFile:
    """Pages have a checksum; without a look at it a bit that was turned may be just another value."""
    return pq.ParquetFile(file, page_checksum_verification=True)


@contextmanager
def _damage_told(file: str) -> Iterator[None]:
    """Raise our error for Arrow's, of which some are OSErrors that no system call made; and for text that is none."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(file, (str(error).splitlines() or ["it cannot be read"])[0]) from error
