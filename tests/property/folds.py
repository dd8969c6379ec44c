"""Events as a worker of the pipeline gets them, and all that a fold of them comes to.

Knows: Arrow batches in rising order, and `distkv.spark.folding`.  Does not judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from distkv.client.changes import ChangePage
from distkv.model.event import Event, NodeName
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.spark.folding import EVENT_COLUMNS, IS_EXPIRY, RISING, fold
from distkv.spark.nodes.rows import ValueForm, rows_of
from distkv.spark.table.columns import FENCE_COLUMNS
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record


@attrs.frozen
class Folded:
    """All that a fold came to."""

    values: dict[Path, tuple[Any, ...]]
    conflicts: int
    deletions: int
    rows: int
    digest: int


def rows_by_node(events: Iterable[Event]) -> list[pa.RecordBatch]:
    """Rows of the events' log records, a batch for each node, in order of node and tick."""
    by_node: dict[NodeName, list[Event]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event)
    batches = []
    for node, some in sorted(by_node.items()):
        some.sort(key=lambda event: event.tick)
        records = b"".join(encode_record(EventRecord(event, 1.0)) for event in some)
        wanted = Ranges.from_ticks([event.tick for event in some])
        batches.append(rows_of(ChangePage(node, bytes(len(some)), records), wanted, ValueForm.BOTH, node).batch)
    return batches


def rising(events: Iterable[Event]) -> pa.Table:
    """Rows of events, sorted as Spark sorts them."""
    table = pa.Table.from_batches(rows_by_node(events)).select([*EVENT_COLUMNS, "system"])
    table = table.append_column(IS_EXPIRY, pc.equal(table["kind"], "expire"))
    keys = table.select([name for name, _ in RISING])
    for field in FENCE_COLUMNS:  # null is below all others, and Arrow would put it above them
        none = "" if field.type == pa.string() else -1
        keys = keys.set_column(keys.schema.get_field_index(field.name), field, keys[field.name].fill_null(none))
    return table.take(pc.sort_indices(keys, list(RISING)))


def folded(batches: Sequence[pa.RecordBatch]) -> Folded:
    rows = [row for batch in fold(batches) for row in batch.to_pylist()]
    names = ("value_msgpack", "node", "tick", "tock", "time_s", "ttl", "conflicts")
    sums = rows.pop()
    assert sums["path_str"] is None
    values = {Path.parse(row["path_str"]): tuple(row[name] for name in names) for row in rows}
    assert len(values) == len(rows)
    return Folded(values, sums["conflicts"], sums["deletions"], sums["rows"], int.from_bytes(sums["digest"], "big"))


def fold_events(events: Iterable[Event], rows_max: int = 1000) -> Folded:
    return folded(rising(events).to_batches(rows_max))
