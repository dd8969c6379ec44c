"""How long events take from node to node: what each named node itself has of events that others wrote.

Knows: which events are looked at, and what of their times.  Does not know how a node is asked (`spark.nodes.hosts`),
nor who is told.

A node keeps with each event when it came there, by its own clock; the event has the time at which it was made, by its
writer's. The clocks differ, and an event that was made while the node was away counts until it was back.

Invariant: of each node no more than `EVENTS_MAX` events are read, the latest ones of each writer; a node that does not
answer is told by name, and is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from distkv.client.addresses import Address
from distkv.errors import DistkvError, PeerError, UnreachableError
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts, Patience
from distkv.spark.nodes.planning import View
from distkv.spark.nodes.rows import ValueForm, rows_of
from distkv.spark.reporting.figures import Lag, Lags
from distkv.spark.reporting.scale import PLAUSIBLE_FROM_S

EVENTS_MAX: Final = 100_000
"""Of one node."""
PATIENCE: Final = Patience(connect_s=3.0, reply_s=30.0)


def lags(addresses: Sequence[Address], network: bytes, path: Path = ROOT, events_max: int = EVENTS_MAX) -> Lags:
    """The lags at each of these nodes that answers and is of this network. Blocks while it asks, one after another."""
    hosts = Hosts(addresses, PATIENCE)
    try:
        views = hosts.views()
    except UnreachableError:
        return Lags(failures=_told(hosts))
    except PeerError as error:
        return Lags(failures=(str(error),))
    if views[0].network != network:
        return Lags(failures=(f"{views[0].addr} is of the network {views[0].network.hex()}, not of the table's",))
    rows: list[Lag] = []
    nodes: list[str] = []
    unknown = 0
    for view in sorted(views, key=lambda view: view.node):
        try:
            seen = _lags_at(hosts, view, path, events_max)
        except HOST_FAILURES as error:
            hosts.failures[view.addr] = error
            continue
        nodes.append(view.node)
        unknown += sum(some.null_count for some in seen.values())
        rows += [summed for writer, some in sorted(seen.items()) if (summed := _summed(view.node, writer, some))]
    return Lags(tuple(rows), tuple(nodes), unknown, _told(hosts))


def newest(ticks: TickRanges, count_max: int) -> TickRanges:
    """So many of the ticks at the most, of each node the highest, and of all nodes about as many."""
    left = count_max
    found: TickRanges = {}
    by_size = sorted(ticks, key=lambda node: (len(ticks[node]), node))
    for at, node in enumerate(by_size):
        some = _last(ticks[node], -(-left // (len(by_size) - at)))
        left -= len(some)
        if some:
            found[node] = some
    return found


def spent(made_s: pa.Array, arrived: pa.Array) -> pa.Array:
    """From when events were made, in seconds, until they came, a timestamp in microseconds; null where one of them is
    not known, or cannot be."""
    came_s = pc.divide(pc.cast(pc.cast(arrived, pa.int64()), pa.float64()), 1e6)
    return pc.if_else(pc.greater_equal(made_s, PLAUSIBLE_FROM_S), pc.subtract(came_s, made_s), None)


# -- inside -------------------------------------------------------------------------------------------------------


def _told(hosts: Hosts) -> tuple[str, ...]:
    return tuple(_line(addr, error) for addr, error in hosts.failures.items())


def _line(addr: str, error: DistkvError) -> str:
    words = str(error)
    return words if addr in words else f"{addr}: {words}"


def _lags_at(hosts: Hosts, view: View, path: Path, events_max: int) -> dict[str, pa.ChunkedArray]:
    """By writer, in seconds; null where a time is not known."""
    wanted = newest({node: ticks for node, ticks in view.held.items() if node != view.node}, events_max)
    parts: dict[str, list[pa.Array]] = {}
    if wanted:
        for _, page in hosts.pages(view.addr, wanted, path):
            batch = rows_of(page, wanted.get(page.node, Ranges()), ValueForm.MSGPACK, view.node).batch
            parts.setdefault(page.node, []).append(spent(batch.column("time_s"), batch.column("arrived")))
    return {writer: pa.chunked_array(some) for writer, some in parts.items()}


def _summed(node: str, writer: str, some: pa.ChunkedArray) -> Lag | None:
    known = len(some) - some.null_count
    if not known:
        return None
    # Each is the time of an event that there was, and not one between two.
    quantiles = pc.quantile(some, [0.5, 0.9, 0.99, 1.0], interpolation="higher")
    return Lag(node, writer, known, *quantiles.to_pylist())


def _last(ticks: Ranges, count_max: int) -> Ranges:
    found: list[tuple[int, int]] = []
    for begin, end in reversed(list(ticks.pairs())):
        if count_max <= 0:
            break
        taken = max(begin, end - count_max)
        found.append((taken, end))
        count_max -= end - taken
    return Ranges.from_sorted(reversed(found))
