"""What a network holds now, in Spark: its values, its open conflicts, and the ticks without content.

Knows: the columns of the views, and where each comes from.  Does not know how values travel (`client.bulk`), nor how
content is looked for (`planning`).

Values and conflicts come from one host, the first that answers and serves: what they show is that host's, of the moment
of the read. So one task reads them. Nodes that hold the same ticks show the same.

Invariant: a read gives all of one host, or fails; it never goes on at another one behind its first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from distkv.client.addresses import Address, address_text
from distkv.client.blocking import Client
from distkv.client.bulk import TreePage, tree_pages
from distkv.client.conflicts import Loser
from distkv.client.questions import read_fence
from distkv.errors import BadPathError, DamagedError, DecodeError, DistkvError, UnreachableError
from distkv.model.path import RESERVED, ROOT, Path
from distkv.model.tick_ranges import TickRanges, joined, without
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts, Patience, check_whole
from distkv.spark.nodes.planning import held_by, missing_at, plan
from distkv.spark.nodes.rows import ValueForm, fence_columns, shown_paths, small, timestamps, without_collector
from distkv.spark.source.options import ReadOptions
from distkv.spark.table.columns import EVENT_COLUMNS, FENCE_COLUMNS
from distkv.wire.json_form import strict_to_json, to_json
from distkv.wire.packing import pack

_SHOWN: Final = [
    EVENT_COLUMNS.field(name)
    for name in ("path", "path_str", "value", "value_msgpack", "node", "tick", "tock", "time", "time_s", "ttl")
]
STATE_COLUMNS: Final = pa.schema([*_SHOWN, *FENCE_COLUMNS])
CONFLICT_COLUMNS: Final = pa.schema(
    [*_SHOWN, ("winner_node", pa.string()), ("winner_tick", pa.int64()), *FENCE_COLUMNS]
)
"""A row without value is a deletion that lost."""
GAP_COLUMNS: Final = pa.schema(
    [("node", pa.string()), ("tick", pa.int64()), ("tick_end", pa.int64()), ("why", pa.string())]
)
"""Each row a range of ticks, up to `tick_end`, which is not one of them."""
COLUMNS: Final = {
    "events": EVENT_COLUMNS,
    "state": STATE_COLUMNS,
    "conflicts": CONFLICT_COLUMNS,
    "gaps": GAP_COLUMNS,
}
PATIENCE: Final = Patience()
CONFLICT_ROWS: Final = 10_000

Batches: TypeAlias = Iterator[pa.RecordBatch]


@attrs.frozen
class ViewPartition(InputPartition):
    """The one task of a view; for gaps with what it shows."""

    gaps: dict[str, TickRanges] = attrs.field(factory=dict)
    """By why there is no content."""


class ViewReader(DataSourceReader):
    """One of the views but events, as of now."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [ViewPartition(find_gaps(self._options) if self._options.view == "gaps" else {})]

    def read(self, partition: InputPartition) -> Batches:
        assert isinstance(partition, ViewPartition)
        match self._options.view:
            case "gaps":
                yield _gap_rows(partition.gaps)
            case "conflicts":
                yield from _first_host(self._options, conflict_rows)
            case _:
                yield from _first_host(self._options, state_rows)


def find_gaps(options: ReadOptions) -> dict[str, TickRanges]:
    """The ticks that cannot be read now, by the reason.

    Raises:
        UnreachableError: no host answers.
        PeerError: they belong to several networks.
    """
    hosts = Hosts(options.hosts)
    views = hosts.views()
    missing, lost = missing_at(views)
    held = held_by(views)
    new = without(options.wanted(held), held if options.starting is None else options.starting)
    found = hosts.carry_out(plan(views, new, discover=options.discover), options.path)
    return {
        "missing": options.wanted(without(missing, lost)),
        "lost": options.wanted(lost),
        "no content": joined(found.gaps, found.waiting),
    }


def state_rows(address: Address, path: Path, form: ValueForm) -> Batches:
    """The values at and below a path on one host, in the order of `get_tree`.

    Raises:
        DamagedError: some are lost there, and so none are given.
        DistkvError: one of `HOST_FAILURES`, also in the middle.
    """
    with Client((address,), connect_s=PATIENCE.connect_s, reply_s=PATIENCE.reply_s) as client:
        check_whole(client, path)
    pages = tree_pages(address, path, connect_s=PATIENCE.connect_s, reply_s=PATIENCE.reply_s)
    with closing(pages):
        while True:
            with without_collector():  # it would look at each of a million small maps
                page = next(pages, None)
                if page is None:
                    return
                batch = _values(page, form)
            yield from small(batch)


def conflict_rows(address: Address, path: Path, form: ValueForm) -> Batches:
    """The open losers at and below a path on one host.

    Raises:
        DistkvError: one of `HOST_FAILURES`.
    """
    with Client((address,), connect_s=PATIENCE.connect_s, reply_s=PATIENCE.reply_s) as client:
        found = client.conflicts(path)
    for at in range(0, len(found), CONFLICT_ROWS):
        yield from small(_losers(found[at : at + CONFLICT_ROWS], form))


# -- inside -------------------------------------------------------------------------------------------------------


def _first_host(options: ReadOptions, rows: Callable[[Address, Path, ValueForm], Batches]) -> Batches:
    """The rows of the first host that gives any; a host that fails later ends the read."""
    # The system's own paths are shown only where they are asked for by name.
    paths = [options.path, RESERVED] if options.system and options.path == ROOT else [options.path]
    failures: list[DistkvError] = []
    for address in options.hosts:
        has_begun = False
        try:
            for path in paths:
                for batch in rows(address, path, options.value):
                    has_begun = True
                    yield batch
            return
        except HOST_FAILURES as error:
            if has_begun:
                raise UnreachableError(
                    f"{address_text(address)} failed in the middle of the {options.view} ({error}): read again"
                ) from None
            failures.append(error)
    for failure in failures:
        if isinstance(failure, DamagedError):
            raise failure
    raise UnreachableError(f"no host answers: {'; '.join(map(str, failures))}")


def _values(page: TreePage, form: ValueForm) -> pa.RecordBatch:
    try:
        return _batch(_value_columns(page, form), STATE_COLUMNS, len(page.items))
    except (KeyError, TypeError, ValueError, AttributeError, BadPathError, pa.ArrowException) as error:
        raise DecodeError(f"the values of {page.node} cannot be read: {error!r}", "bad_values") from error


def _value_columns(page: TreePage, form: ValueForm) -> dict[str, Any]:
    items = page.items
    values = [item["value"] for item in items]
    shown = shown_paths(item["path"] for item in items)
    links: list[Any] = [item["chain"] for item in items]
    time_s = pa.array([item["time"] for item in items], pa.float64())
    as_json = strict_to_json if page.is_strict else to_json
    return {
        "path": shown.names,
        "path_str": shown.whole,
        "value": [as_json(value) for value in values] if form is not ValueForm.MSGPACK else None,
        "value_msgpack": [pack(value) for value in values] if form is not ValueForm.JSON else None,
        "node": [link["node"] for link in links],
        "tick": [link["tick"] for link in links],
        "tock": [item["tock"] for item in items],
        "time": timestamps(time_s),
        "time_s": time_s,
        "ttl": [item.get("ttl") for item in items],
        **fence_columns([read_fence(item) for item in items]),
    }


def _losers(losers: Sequence[Loser], form: ValueForm) -> pa.RecordBatch:
    shown = shown_paths(loser.path.names for loser in losers)
    live = [None if loser.is_deleted else loser for loser in losers]
    time_s = pa.array([loser.time for loser in losers], pa.float64())
    columns = {
        "path": shown.names,
        "path_str": shown.whole,
        "value": [one and to_json(one.value) for one in live] if form is not ValueForm.MSGPACK else None,
        "value_msgpack": [one and pack(one.value) for one in live] if form is not ValueForm.JSON else None,
        "node": [loser.link[0] for loser in losers],
        "tick": [loser.link[1] for loser in losers],
        "tock": [loser.tock for loser in losers],
        "time": timestamps(time_s),
        "time_s": time_s,
        "winner_node": [loser.winner and loser.winner[0] for loser in losers],
        "winner_tick": [loser.winner and loser.winner[1] for loser in losers],
        **fence_columns([loser.fence for loser in losers]),
    }
    return _batch(columns, CONFLICT_COLUMNS, len(losers))


def _gap_rows(gaps: dict[str, TickRanges]) -> pa.RecordBatch:
    rows = sorted(
        (node, begin, end, why)
        for why, ticks in gaps.items()
        for node, ranges in ticks.items()
        for begin, end in ranges.pairs()
    )
    columns: dict[str, Any] = {name: [row[at] for row in rows] for at, name in enumerate(GAP_COLUMNS.names)}
    return _batch(columns, GAP_COLUMNS, len(rows))


def _batch(columns: dict[str, Any], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Of lists, arrays, and None or nothing where all are null."""
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(count, field.type)
        arrays.append(column if isinstance(column, pa.Array) else pa.array(column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
