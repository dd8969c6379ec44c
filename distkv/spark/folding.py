"""What a worker of `asof` does: the events of a path, in rising order, become what a node held there.

Knows: in which order events are to come, and how Arrow batches of them become the product's own `Entry`, path by path.
Does not know Spark, nor which events were chosen.

Nearly all paths have a chain of one link and nothing open, so rows are taken column by column and no map is made for
any; what decides is `Entry.settle`, as on a node.

Invariant: each path's events all come to one worker, in rising order, and the sums at the end are of all its paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from distkv.errors import DecodeError
from distkv.model.entry import Entry
from distkv.model.event import Chain, Event, Kind, Tock, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import ROOT, Path
from distkv.model.tree import share
from distkv.spark.nodes.rows import without_collector
from distkv.spark.table.columns import FENCE_COLUMNS

EVENT_COLUMNS: Final = (
    "path_str", "kind", "value_msgpack", "node", "tick", "tock", "chain", "truncated", "ttl", "time_s",
    *FENCE_COLUMNS.names,
)  # fmt: skip
"""What is needed of each event."""
IS_EXPIRY: Final = "is_expiry"
"""A column beside them, to sort by: whether the kind is expire."""
RISING: Final = (
    ("path_str", "ascending"),
    *((name, "ascending") for name in FENCE_COLUMNS.names),
    ("tock", "ascending"),
    (IS_EXPIRY, "descending"),
    ("tick", "ascending"),
    ("node", "descending"),
)
"""Path by path the order of events (docs/protocol, ORDER-2, FENCE-1), the lowest first. Text is compared by its bytes,
and null, which is no fence, comes before all others, as Spark has it where a sort is ascending."""
ENTRIES: Final = pa.schema(
    [
        ("path_str", pa.string()),
        ("value_msgpack", pa.binary()),
        ("node", pa.string()),
        ("tick", pa.int64()),
        ("tock", pa.int64()),
        ("time_s", pa.float64()),
        ("ttl", pa.float64()),
        ("conflicts", pa.int32()),
        ("deletions", pa.int32()),
        ("rows", pa.int64()),
        ("digest", pa.binary()),
    ]
)
"""What a worker gives for each path that has a value, and last a row without path: how many events it took in, the
open losers of all its paths and how many of those are deletions, and what its paths add to the digest."""

_KINDS: Final = {"set": Kind.SET, "delete": Kind.DELETE, "expire": Kind.EXPIRE}


def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Entries of events that come in the order of `RISING`.

    Raises:
        DecodeError: a row is no event.
    """
    folding = _Folding()
    for batch in batches:
        with without_collector():
            folding.take(batch)
            found = folding.rows()
        yield found
    yield folding.finish()


class _Folding:
    """One path after another."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._path = ROOT
        self._entry: Entry | None = None
        self._digest = self._count = self._conflicts = self._deletions = 0
        self._rows: list[tuple[Any, ...]] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """More events."""
        texts, kinds, values, tocks, times, truncated = (
            _listed(batch.column(name)) for name in ("path_str", "kind", "value_msgpack", "tock", "time_s", "truncated")
        )
        chains, ttls, fences = chains_of(batch), _ttls(batch.column("ttl")), _fences(batch)
        if unknown := set(kinds).difference(_KINDS):
            raise DecodeError(f"there are rows of the kind {unknown.pop()!r}, which no event has", "bad_kind")
        self._count += batch.num_rows
        entry = self._entry
        for text, kind, value, chain, tock, time, is_cut, ttl, fence in zip(
            texts, kinds, values, chains, tocks, times, truncated, ttls, fences, strict=True
        ):
            if text != self._text:
                self._end_path(entry)
                entry = None
                self._text, self._path = text, _read_path(text)
            parts = self._path, _KINDS[kind], value or b"", chain, Tock(tock), time, is_cut
            event = Event(*parts) if ttl is None and fence is NO_FENCE else new_event(*parts, ttl, fence)
            if entry is None:
                entry = Entry(event)
            else:
                entry.settle(event, event.older)
        self._entry = entry

    def rows(self) -> pa.RecordBatch:
        """The entries that are complete."""
        rows, self._rows = self._rows, []
        columns = list(zip(*rows, strict=True)) or [()] * len(ENTRIES)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ENTRIES, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)

    def finish(self) -> pa.RecordBatch:
        """The last entry, and what all came to."""
        self._end_path(self._entry)
        self._entry = None
        digest = self._digest.to_bytes(8, "big")
        self._rows.append((*[None] * 7, self._conflicts, self._deletions, self._count, digest))
        return self.rows()

    def _end_path(self, entry: Entry | None) -> None:
        if entry is None:
            return
        self._digest ^= share(entry)
        if self._path.is_reserved:
            return
        head, conflicts = entry.head, entry.conflicts()
        deletions = sum(_may_be_gone(loser) for loser in conflicts) if conflicts else 0
        self._conflicts += len(conflicts)
        self._deletions += deletions
        if head.kind is Kind.SET:
            self._rows.append(
                (self._text, head.value, head.node, head.tick, head.tock, head.time, head.ttl, len(conflicts),
                 deletions, None, None)
            )  # fmt: skip


def _may_be_gone(loser: Event) -> bool:
    """Whether nodes that forgot a deletion (docs/protocol, PURGE-1) do not show this conflict, of which no event tells.

    It is a deletion, and one without a fence: others nodes keep (FENCE-5).
    """
    return loser.kind is not Kind.SET and loser.fence == NO_FENCE


# -- columns ------------------------------------------------------------------------------------------------------


def _listed(column: pa.Array) -> Sequence[Any]:
    """A column that has no numbers that are null, as Python's own objects: a fifth of the time of `to_pylist`."""
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def _ttls(column: pa.Array) -> Iterable[float | None]:
    """Few events have one."""
    found: list[float | None] = column.to_pylist()
    return repeat(None, len(column)) if column.null_count == len(column) else found


def _fences(batch: pa.RecordBatch) -> Iterable[Fence]:
    """Few events have one."""
    columns = [batch.column(name) for name in FENCE_COLUMNS.names]
    if all(column.null_count == len(column) for column in columns):
        return repeat(NO_FENCE, batch.num_rows)
    found = []
    for parts in zip(*(column.to_pylist() for column in columns), strict=True):
        if None in parts and parts != (None,) * len(parts):
            raise DecodeError("the fence of an event is not whole", "bad_fence")
        found.append(NO_FENCE if None in parts else Fence(*parts))
    return found


def chains_of(batch: pa.RecordBatch) -> list[Chain]:
    """The chain of each row. All links of a batch lie one after another in the column."""
    column = batch.column("chain")
    links, lengths = column.flatten(), pc.list_value_length(column)
    pairs = list(zip(_listed(links.field(0)), _listed(links.field(1)), strict=True))
    if len(pairs) == len(column) and pc.all(pc.equal(lengths, 1)).as_py():
        found: list[Chain] = [(pair,) for pair in pairs]
    else:
        found, at = [], 0
        for length in lengths.to_pylist():
            found.append(tuple(pairs[at : at + (length or 0)]))
            at += length or 0
    own = list(zip(_listed(batch.column("node")), _listed(batch.column("tick")), strict=True))
    if [chain[:1] for chain in found] != [(link,) for link in own]:
        raise DecodeError("the chain of an event does not begin with its own tick", "bad_chain")
    return found


def _read_path(text: str) -> Path:
    """As `Path.parse`, in a third of the time for a path that nothing in is escaped."""
    names = text.split(".")
    return Path.parse(text) if ":" in text or "" in names else Path(names)
