"""What a worker of the job `audit` does: is a data file what the manifest says?

Knows: one file.  Does not know the others: no tick is given to two files by a manifest, so while each file has just its
own ticks, each once, none is in two of them.

Invariant: whatever was done to a file is told as its damage, and stops nobody; every column of every row is read.
"""

from __future__ import annotations

from typing import Final

import attrs
import pyarrow as pa

from distkv.errors import (
    BadValueError,
    DecodeError,
    FormatVersionError,
    LogDamagedError,
    StorageFailedError,
    TooLargeError,
)
from distkv.spark.nodes.rows import without_collector
from distkv.spark.table.columns import damaged, read_batches
from distkv.spark.table.contents import Contents, other_bytes
from distkv.spark.table.manifest import DataFile
from distkv.wire.json_form import from_json, packed_to_json
from distkv.wire.values import canonical, pack_value

_SET: Final = "set"


@attrs.frozen
class Checked:
    """What was found of one file."""

    place: str
    damage: str | None
    """In one line; None: it is whole."""
    is_readable: bool = True
    has_own_ticks: bool = True
    """Whether its rows have no ticks but its own, none twice. Else an event may be in the table twice."""


def check(place: str, file: DataFile) -> Checked | FormatVersionError:
    """Read a file to its end. The error is given, since Spark would try what raises again, and hide it."""
    contents = Contents()
    fault = other = None
    try:
        other = other_bytes(file, place)
        for batch in read_batches(place):
            contents.add(batch)
            with without_collector():
                fault = fault or _wrong_value(batch)
    except FormatVersionError as error:
        # The number of the form may be what rotted.
        return error if other is None else Checked(place, str(damaged(place, other)), is_readable=False)
    except (LogDamagedError, StorageFailedError) as error:
        return Checked(place, str(error), is_readable=False)
    wrong = contents.fault(file) or fault or other
    return Checked(
        place,
        str(damaged(place, wrong)) if wrong else None,
        has_own_ticks=not contents.others(file) and contents.are_each_once,
    )


# -- inside -------------------------------------------------------------------------------------------------------


def _wrong_value(batch: pa.RecordBatch) -> str | None:
    """The first value that cannot be read, or that is not the same in both of its columns."""
    kinds, texts, values = (batch.column(name).to_pylist() for name in ("kind", "value", "value_msgpack"))
    for at, (kind, text, value) in enumerate(zip(kinds, texts, values, strict=True)):
        if (value is None) == (kind == _SET) or not _is_same(text, value):
            row = batch.slice(at, 1).select(["node", "tick"]).to_pylist()[0]
            return f"the value of {row['node']} {row['tick']} cannot be read, or differs from its JSON"
    return None


def _is_same(text: str | None, value: bytes | None) -> bool:
    if text is None or value is None:
        return text is None and value is None
    try:
        # A later release may write other JSON of the same.
        return packed_to_json(value) == text or pack_value(from_json(text)) == canonical(value)
    except (BadValueError, DecodeError, TooLargeError):
        return False
