"""Rows of Spark become values: what `df.write` and `df.writeStream` call.

Knows: PySpark's classes and when each of their methods is called.  Does not know what a row asks for (`row_writes`),
nor how it gets to a node (`sending`).

Spark sends a writer to each task, where it writes, and to one process beside the driver, where it hears what the tasks
did. A task that fails is tried again from its first row; then what it had written is there already.

Invariant: a write that comes to its end has made all rows true on some node, or raises a line that says what is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from distkv.client.addresses import address_text
from distkv.client.blocking import Client
from distkv.client.questions import Entry
from distkv.errors import ChainMismatchError, FencedError, UnreachableError
from distkv.model.path import Path
from distkv.spark.nodes.differences import Difference, carry_out
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts
from distkv.spark.source.options import WriteOptions
from distkv.spark.source.row_writes import USED, batches, check_columns, writes_of
from distkv.spark.source.sending import Pace, TaskSender

DIGEST_BYTES: Final = 16


@attrs.frozen
class TaskResult(WriterCommitMessage):
    """What a task did."""

    rows: int
    conflicts: int
    first_conflict: Path | None
    kept: bytes = b""
    """Of an overwrite the digests of the paths that were in the rows, one behind the other."""


class RowsWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        """
        Raises:
            SettingsError: the columns are none that can be written.
            UnreachableError: no host answers.
        """
        _check_schema(schema, options)
        Hosts(options.hosts).views()
        self._options = options
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        return _write(iterator, self._options, keeps=self._overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """
        Raises:
            ChainMismatchError: some rows were not written, since their paths had changed.
            UnreachableError: of an overwrite the rows are written, and what is to be deleted is there still.
            FencedError: the same of values that a token holds; the others are deleted.
        """
        told = [message for message in messages if isinstance(message, TaskResult)]
        late = [one for one in told if one.conflicts]
        if late:
            count, rows = sum(one.conflicts for one in late), sum(one.rows for one in told)
            raise ChainMismatchError(
                f"{count} of {rows} rows were not written, since their paths have changed: the first is "
                f"{late[0].first_conflict}; the others are written. Read anew, and write again what you still want"
            )
        if self._overwrite:
            _delete_others(self._options, told)


class RowsStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. Whether a batch comes for the second time need not be known: it sets the same values."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """
        Raises:
            SettingsError: the columns are none that can be written.
        """
        _check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        return _write(iterator, self._options, keeps=False)


# -- inside -------------------------------------------------------------------------------------------------------


def _check_schema(schema: StructType, options: WriteOptions) -> None:
    used = StructType([field for field in schema.fields if field.name in USED])
    check_columns(schema.fieldNames(), to_arrow_schema(used), options)


def _write(iterator: Iterator[pa.RecordBatch], options: WriteOptions, *, keeps: bool) -> TaskResult:
    """A task's rows."""
    rows, kept = 0, bytearray()
    size = options.batch_size if options.rate is None else min(options.batch_size, options.rate)
    pace = Pace(options.rate)
    writes = (write for batch in iterator for write in writes_of(batch, options))
    with closing(TaskSender(options.hosts)) as sender:
        for batch in batches(writes, size):
            pace.wait(len(batch))
            sender.carry_out(batch)
            rows += len(batch)
            if keeps:
                kept += b"".join(_digest(write.path) for write in batch if write.value is not None)
        return TaskResult(rows, sender.conflicts, sender.first_conflict, bytes(kept))


def _digest(path: Path) -> bytes:
    """Instead of a path: a million of them stay small, and no two will ever have the same."""
    return hashlib.blake2b(str(path).encode(), digest_size=DIGEST_BYTES).digest()


def _delete_others(options: WriteOptions, told: Sequence[TaskResult]) -> None:
    """Delete what is at and below the path and was in no row. What changes meanwhile is left: it is newer."""
    assert options.path is not None
    kept = {one.kept[begin : begin + DIGEST_BYTES] for one in told for begin in range(0, len(one.kept), DIGEST_BYTES)}
    failures: list[str] = []
    for address in options.hosts:
        try:
            with Client((address,)) as client:
                left = carry_out(client, _others(client, options.path, kept))
            break
        except HOST_FAILURES as error:
            failures.append(f"{address_text(address)}: {error}")
    else:
        why = "; ".join(failures)
        raise UnreachableError(f"all rows are written, but what is in no row was not deleted ({why}): write again")
    if left.fenced:
        raise FencedError(
            f"all rows are written, but {left.fenced} values that are in no row were not deleted, since a token holds "
            f"them: the first is {left.fenced_paths[0]}"
        )


def _others(client: Client, path: Path, kept: set[bytes]) -> Iterator[Difference]:
    entry: Entry
    for place, entry in client.get_tree(path):
        if not place.is_reserved and _digest(place) not in kept:
            yield Difference(place, None, entry)
