"""Rows become writes: which columns say what, and which rows are none.

Knows: the columns of a row that is written, and how its writes are cut into batches.  Does not know Spark, nor how a
batch travels (`sending`).

The columns are those that a read gives, so what was read can be written. A batch of rows that comes again, because its
task is tried again, makes the same writes in the same batches.

Invariant: a write can be sent: its path is no path of the system, its value can be stored. A row that is none raises
one line with its path, before anything of its batch is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from distkv.client import arguments
from distkv.client.questions import Delete, Operation, Set, Written
from distkv.errors import BadPathError, BadValueError, RequestError, SettingsError
from distkv.model.event import Link
from distkv.model.path import Path
from distkv.spark.source.options import WriteOptions
from distkv.spark.table.columns import EVENT_COLUMNS
from distkv.wire.json_form import from_json
from distkv.wire.values import NIL, canonical, pack_value, unpack_value

BATCH_BYTES: Final = 256 << 10
"""A batch is sent when it has so much; a node takes four times that, if it was not told otherwise."""

_TEXT, _WHOLE = (pa.string(), pa.large_string()), (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TYPES: Final[dict[str, tuple[tuple[pa.DataType, ...], str]]] = {
    "path_str": (_TEXT, "text"),
    "path": ((pa.list_(pa.string()),), "an array of text"),
    "value": (_TEXT, "JSON as text, as to_json makes it"),
    "value_msgpack": ((pa.binary(), pa.large_binary()), "binary"),
    "ttl": ((*_WHOLE, pa.float32(), pa.float64()), "a number of seconds"),
    "node": (_TEXT, "text"),
    "tick": (_WHOLE, "a whole number"),
}
USED: Final = tuple(_TYPES)
"""The columns that say something."""
_PASSED_OVER: Final = frozenset([*EVENT_COLUMNS.names, "winner_node", "winner_tick"])
"""Those that a read gives besides."""


@attrs.frozen
class RowWrite:
    """What one row asks for."""

    path: Path
    value: bytes | None
    """Packed; None deletes."""
    ttl: float | None = None
    head: Link | None = None
    """Only while this is the last change of the path."""
    new: bool = False
    """Only while there is no value."""

    @property
    def operation(self) -> Operation[Written]:
        """The same for a batch. What is there already is not written again; with a `ttl` it is, which renews it."""
        if self.value is None:
            return Delete(self.path, head=self.head)
        value = unpack_value(self.value)
        return Set(self.path, value, idem=self.ttl is None, head=self.head, new=self.new, ttl=self.ttl)


def check_columns(names: Sequence[str], types: pa.Schema, options: WriteOptions) -> None:
    """Whether rows of these columns can be written.

    Args:
        names: all columns.
        types: of those which are `USED`.
        options: how they are written.

    Raises:
        SettingsError: a column is missing, of another type, or has a name that means nothing here.
    """
    for name in names:
        if name not in _TYPES and name not in _PASSED_OVER:
            raise SettingsError(f"there is no column {name!r}; a row that is written has {', '.join(USED)}")
    for field in types:
        allowed, words = _TYPES[field.name]
        if field.type not in allowed and not pa.types.is_null(field.type):
            if not (field.name == "path" and _is_texts(field.type)):
                raise SettingsError(f"the column {field.name} is of type {field.type}: it must be {words}")
    for alternatives in (("path_str", "path"), ("value", "value_msgpack")):
        if not set(alternatives) & set(names):
            raise SettingsError(f"the rows have no column {alternatives[0]}, and no {alternatives[1]}: one is needed")
    if options.if_unchanged and not {"node", "tick"} <= set(names):
        raise SettingsError("ifUnchanged needs the columns node and tick, as the view state gives them")


def writes_of(batch: pa.RecordBatch, options: WriteOptions) -> Iterator[RowWrite]:
    """What the rows of a batch ask for, one after the other.

    Raises:
        BadPathError, BadValueError, TooLargeError, RequestError: a row is none that can be written; the message names
            its path.
    """
    names = [name for name in USED if name in batch.schema.names]
    columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
    for cells in zip(*columns, strict=True):
        row = dict(zip(names, cells, strict=True))
        path = _path(row, options)
        try:
            write = _write(path, row, options)
        except RequestError as error:
            raise type(error)(f"the row of {path} cannot be written: {error}") from None
        if write is not None:
            yield write


def batches(writes: Iterable[RowWrite], size: int) -> Iterator[list[RowWrite]]:
    """Cut them, in their order: a batch has `size` writes at the most, each path once, and about `BATCH_BYTES`."""
    batch: list[RowWrite] = []
    paths: set[Path] = set()
    size_bytes = 0
    for write in writes:
        if len(batch) >= size or size_bytes >= BATCH_BYTES or write.path in paths:
            yield batch
            batch, paths, size_bytes = [], set(), 0
        batch.append(write)
        paths.add(write.path)
        size_bytes += len(write.value or b"")
    if batch:
        yield batch


# -- inside -------------------------------------------------------------------------------------------------------


def _is_texts(kind: pa.DataType) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and kind.value_type in _TEXT


def _path(row: dict[str, Any], options: WriteOptions) -> Path:
    given = row.get("path_str")
    if given is None:
        given = row.get("path")
    if given is None:
        value = row.get("value")
        shown = "" if value is None else f" (its value is {value[:60]})"
        raise BadPathError(f"a row cannot be written: it has no path{shown}")
    try:
        path = Path.parse(given) if isinstance(given, str) else _joined(given)
    except BadPathError as error:
        raise BadPathError(f"the row of {given} cannot be written: {error}") from None
    if path.is_reserved:
        raise BadPathError(f"the row of {path} cannot be written: the path belongs to the system")
    if options.path is not None and path.key[: len(options.path)] != options.path.key:
        raise BadPathError(
            f"the row of {path} cannot be written: it is not below {options.path}, as the option path asks"
        )
    return path


def _joined(names: Sequence[str | None]) -> Path:
    """The path of these names, each in its text form."""
    found: list[Any] = []
    for name in names:
        if name is None:
            raise BadPathError("a name is null: the null name is written :n")
        one = Path.parse(name).names
        if len(one) != 1:
            raise BadPathError(f"{name!r} is not one name: write a dot in a name as ':.'")
        found += one
    return Path(found)


def _write(path: Path, row: dict[str, Any], options: WriteOptions) -> RowWrite | None:
    """What a row asks for; None: nothing."""
    value = _value(row.get("value"), row.get("value_msgpack"))
    if value is None and options.ignore_nulls:
        return None
    head = _head(row) if options.if_unchanged else None
    is_new = options.if_unchanged and head is None
    if value is None:
        if is_new:
            raise RequestError("it deletes, and has no node and tick: by what was read there is nothing to delete")
        return RowWrite(path, None, head=head)
    ttl = row.get("ttl")
    ttl = options.ttl if ttl is None else float(ttl)
    arguments.check_ttl(ttl)
    return RowWrite(path, value, ttl, head, is_new)


def _value(text: str | None, packed: bytes | None) -> bytes | None:
    """The packed value, of which `value_msgpack` says more than `value`."""
    if packed is not None:
        found = canonical(packed)
    elif text is not None:
        found = pack_value(from_json(text, exact=True))
    else:
        return None
    if found == NIL:
        raise BadValueError("null is no value: to delete, leave the columns value and value_msgpack null")
    return found


def _head(row: dict[str, Any]) -> Link | None:
    node, tick = row["node"], row["tick"]
    if node is None and tick is None:
        return None
    head = (node, tick)
    try:
        arguments.check_head(head)
    except RequestError:
        raise RequestError(f"node is {node!r} and tick is {tick!r}, which name no change") from None
    return head
