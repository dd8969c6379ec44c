"""Records as rows: what nodes send becomes Arrow batches.

Knows: the columns of an event, and how a page of records is checked and turned into them, column by column.  Does not
know hosts, sockets or Spark.

A million events are a million times each step here, so a page is turned as a whole. What the records hold was checked
by the node that logged them; here it is checked that they are what was asked for, and each value has the type of its
column, so a host that sends something else is found out.

Invariant: a page gives each of its ticks one row, in order, or is refused; nothing of a refused page is given.
"""

from __future__ import annotations

import enum
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from itertools import chain as chained
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from distkv.client.changes import ChangePage
from distkv.errors import BadPathError, DecodeError
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path, split_text
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.table.columns import EVENT_COLUMNS, FENCE_COLUMNS
from distkv.wire.json_form import packed_to_json
from distkv.wire.records import unpack_events

BATCH_BYTES: Final = 8 << 20
"""A larger batch is split, down to single rows."""
PATHS_KEPT: Final = 1 << 15
"""So many paths that need escapes are kept as they are shown: most events are of paths that others are of, too."""
TIME_S_MAX: Final = 9e12
"""What a timestamp in microseconds can hold; a clock that shows more is told by `time_s` alone."""

_KINDS: Final = ("set", "delete", "expire")


class ValueForm(enum.Enum):
    """In which columns values are shown."""

    JSON = "json"
    MSGPACK = "msgpack"
    BOTH = "both"


@attrs.frozen
class RowPage:
    """Rows of one node, in order of tick."""

    ticks: Ranges
    batch: pa.RecordBatch


def rows_of(page: ChangePage, wanted: Ranges, form: ValueForm, read_from: str) -> RowPage:
    """The rows of a page that was asked for these ticks.

    Raises:
        DecodeError: it holds something else.
    """
    with without_collector():
        try:
            columns = _columns(page, form, read_from)
            ticks = _ticks(columns["tick"], wanted)
            arrays = [pa.array(columns[field.name], field.type) if not isinstance(columns[field.name], pa.Array)
                      else columns[field.name] for field in EVENT_COLUMNS]  # fmt: skip
        except (ValueError, TypeError, IndexError, BadPathError, pa.ArrowException) as error:
            raise DecodeError(f"the changes of {page.node} cannot be read: {error}", "bad_records") from error
    return RowPage(ticks, pa.RecordBatch.from_arrays(arrays, schema=EVENT_COLUMNS))


def gap_rows(gaps: TickRanges) -> pa.RecordBatch:
    """A row for each range of ticks whose content nobody has; `tick_end` is the first one behind it."""
    pairs = [(node, begin, end) for node in sorted(gaps) for begin, end in gaps[node].pairs()]
    told: dict[str, list[Any]] = {
        "kind": ["gap"] * len(pairs),
        "node": [node for node, _, _ in pairs],
        "tick": [begin for _, begin, _ in pairs],
        "tick_end": [end for _, _, end in pairs],
    }
    arrays = [pa.array(told.get(field.name, [None] * len(pairs)), field.type) for field in EVENT_COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_COLUMNS)


def small(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most `BATCH_BYTES`, or of one row."""
    if batch.nbytes <= BATCH_BYTES or batch.num_rows <= 1:
        yield batch
        return
    middle = batch.num_rows // 2
    for part in (batch.slice(0, middle), batch.slice(middle)):
        # A slice counts only what it shows.
        yield from small(part)


@contextmanager
def without_collector() -> Iterator[None]:
    """A page makes ten thousand small lists and none that refers to itself: to look for such ones doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@attrs.frozen
class PathColumns:
    """Paths as text, a list for each column."""

    names: list[list[str]]
    """Each name of a path in its text form."""
    whole: list[str]
    roots: list[str | None]
    """The first name; None of the root."""
    system: list[bool]


def shown_paths(paths: Iterable[Any]) -> PathColumns:
    """Paths that are given by their names, as text.

    Nearly always all names are text that needs no escape, and are their own text: see `Path.__str__`.

    Raises:
        BadPathError: one is no path.
    """
    names, wholes, roots, system = list[list[str]](), list[str](), list[str | None](), list[bool]()
    join = ".".join
    for path in paths:
        try:
            whole = join(path)
        except TypeError:
            whole = ":"
        if not path or ":" in whole or " " in whole or whole.count(".") >= len(path) or "" in path:
            texts, whole, root, is_system = _shown(*path)
        else:
            texts, root, is_system = [*path], path[0], False
        names.append(texts)
        wholes.append(whole)
        roots.append(root)
        system.append(is_system)
    return PathColumns(names, wholes, roots, system)


def fence_columns(fences: Sequence[Fence | None]) -> dict[str, pa.Array]:
    """Fences as the four columns that rows have for them; null where there is none, as nearly everywhere."""
    if fences.count(NO_FENCE) + fences.count(None) == len(fences):
        return {field.name: pa.nulls(len(fences), field.type) for field in FENCE_COLUMNS}
    nothing = (None,) * len(FENCE_COLUMNS)
    parts = zip(*(nothing if fence in (None, NO_FENCE) else fence for fence in fences), strict=True)
    return {field.name: pa.array(part, field.type) for field, part in zip(FENCE_COLUMNS, parts, strict=True)}


# -- inside -------------------------------------------------------------------------------------------------------


def _columns(page: ChangePage, form: ValueForm, read_from: str) -> dict[str, Any]:
    rows, ttls, fences = unpack_events(page.records)
    if not rows:
        raise ValueError("a page without any")
    _, arrived, kinds, names, values, chains, tocks, times, truncated = zip(*rows, strict=True)
    count = len(rows)
    ticks = [chain[1] for chain in chains]
    if {chain[0] for chain in chains} != {page.node}:
        raise ValueError("some are of another node")
    shown = shown_paths(names)
    time_s = pa.array(times, pa.float64())
    is_json, is_packed = form is not ValueForm.MSGPACK, form is not ValueForm.JSON
    return {
        "path": shown.names,
        "path_str": shown.whole,
        "root": shown.roots,
        "system": shown.system,
        "kind": [_KINDS[kind] for kind in kinds],
        "value": [v and packed_to_json(v) for v in values] if is_json else pa.nulls(count, pa.string()),
        "value_msgpack": values if is_packed else pa.nulls(count, pa.binary()),
        "node": pa.repeat(page.node, count),
        "tick": ticks,
        "tick_end": pa.nulls(count, pa.int64()),
        "tock": tocks,
        "chain": _chains(chains, page.node, ticks),
        "truncated": truncated,
        "ttl": ttls,
        "time": timestamps(time_s),
        "time_s": time_s,
        "arrived": timestamps(pa.array([one or None for one in arrived], pa.float64())),
        "read_from": pa.repeat(read_from, count),
        **fence_columns(fences),
    }


def _ticks(ticks: Sequence[int], wanted: Ranges) -> Ranges:
    first, last = ticks[0], ticks[-1]
    if last - first + 1 == len(ticks) and all(map(int.__eq__, ticks, range(first, last + 1))):
        found = Ranges([(first, last + 1)])
    else:
        found = Ranges.from_ticks(ticks)
        if len(found) != len(ticks) or sorted(ticks) != list(ticks):
            raise ValueError("their ticks do not rise")
    if found - wanted:
        raise ValueError("some were not asked for")
    return found


def _chains(chains: Sequence[list[Any]], node: str, ticks: Sequence[int]) -> pa.Array:
    """Nodes and ticks stand in turn; nearly always there is one of each."""
    if max(map(len, chains)) == 2:
        offsets: Sequence[int] = range(len(chains) + 1)
        nodes, known = pa.repeat(node, len(chains)), ticks
    else:
        flat = list(chained.from_iterable(chains))
        offsets = [0, *accumulate(len(chain) // 2 for chain in chains)]
        nodes, known = pa.array(flat[::2], pa.string()), flat[1::2]
    kind = EVENT_COLUMNS.field("chain").type
    links = pa.StructArray.from_arrays([nodes, pa.array(known, pa.int64())], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), links, type=kind)


def timestamps(seconds: pa.Array) -> pa.Array:
    """Rounded to microseconds; null where there is none, or where a clock shows an impossible time."""
    possible = pc.if_else(pc.less(pc.abs(seconds), TIME_S_MAX), seconds, None)
    micros = pc.cast(pc.round(pc.multiply(possible, 1e6)), pa.int64())
    return micros.view(pa.timestamp("us", "UTC"))


@lru_cache(PATHS_KEPT, typed=True)
def _shown(*names: Any) -> tuple[list[str], str, str | None, bool]:
    """A path as text, name by name; whole; its first name; and whether it is the system's."""
    path = Path(names)
    whole = str(path)
    texts = split_text(whole) if ":" in whole else whole.split(".")
    if not names:
        return [], whole, None, False
    return texts, whole, texts[0], path.is_reserved
