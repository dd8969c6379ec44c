"""Which events of a path may be dropped, so that the tree of every later cut stays what it is.

Knows: the order of events, containment (docs/protocol, CONTAIN-1), and which ticks can still come.  Does not know
Spark, nor where the events lie.

The cuts that must stay exact are those that have all events up to a time, and any others: written later, or earlier
and not in the table yet. Let P be the events of a path up to that time. An event says of each writer that its chain
names: what you wrote up to this tick, and what is below me, I contain. What it says of a writer is *covered* when a
higher event of P names that writer at the same tick or a later one: then that one contains the same, and more. So:

* The winner of P is kept, and so is each open loser: nobody above it names it.
* An event that says something uncovered of a writer is kept, as a change of that writer may come that is below it and
  would else be open. Not so when all that this writer wrote up to that tick is in the table, and of that time: then no
  such change can come.
* An event that is kept, is not open and is no expiry (those are never open) needs another one that is kept and contains
  it: what covers its own tick does.
* All others are dropped. Whatever one of them contains is contained by something that is kept, and it is itself below
  the winner and not open. So winner and open losers are the same with and without it, in any cut that has P.

A fence is a part of the order, and of nothing else here. So a deletion under the fence of a token, which nodes keep as
the floor for late writes (FENCE-5), stays until a higher event of P contains it, which then is the floor.

Nothing of this goes by clocks but which events P has; what a clock says wrongly makes P another set, of which the same
is true.

A path has at most 16 open losers at any moment of a fold (OPEN-3), and one whose cover was dropped is open until the
cover of that comes. So of each path no more are kept than can be open at once, or nothing more is dropped: up to there
both folds have the same winner and open losers, and from there the same events.

Invariant: what is dropped is never the winner or an open loser of any cut that has P.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa

from distkv.model.entry import LOSERS_MAX
from distkv.model.event import COUNT_BITS, Chain, Link, Tick, Writer, first_tick
from distkv.model.tick_ranges import TickRanges, lives
from distkv.spark.folding import IS_EXPIRY, chains_of
from distkv.spark.nodes.rows import without_collector
from distkv.spark.table.columns import FENCE_COLUMNS

KEPT_MAX: Final = LOSERS_MAX + 1
"""So many events of a path are the winner and losers that are all open, at the most."""
FILE: Final = "file"
"""A column: the name of the data file where the event is."""
ROW_COLUMNS: Final = (FILE, "path_str", "system", "node", "tick", *FENCE_COLUMNS.names, "tock", "chain", IS_EXPIRY)
"""What is needed of each event."""
DROPPED: Final = pa.schema([(FILE, pa.string()), ("node", pa.string()), ("tick", pa.int64())])
"""What is said of each event that may be dropped."""

Settled = Mapping[Writer, Tick]
"""Up to which tick all that a writer wrote is in the table, and was written up to the time."""


def settled(ticks: TickRanges, later: Settled) -> dict[Writer, Tick]:
    """Of the ticks that a table has; `later` is the first tick of each writer that was written after the time."""
    found: dict[Writer, Tick] = {}
    for node, ranges in ticks.items():
        for begin, end in lives(ranges):
            writer = (node, begin >> COUNT_BITS)
            if begin <= first_tick(writer[1]):
                found[writer] = Tick(min(end, later.get(writer, end)) - 1)
    return found


def forgetter(known: Settled) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does with events of `ROW_COLUMNS` up to a time, path by path in rising order: it says which may be
    dropped, as `DROPPED`. It raises DecodeError when a row is no event."""

    def forget(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text, past = None, PathHistory(known, is_bounded=True)
        dropped: list[tuple[str, Link]] = []
        for batch in batches:
            with without_collector():
                columns = (batch.column(name).to_pylist() for name in (FILE, "path_str", "system", IS_EXPIRY))
                for file, path, is_system, is_expiry, chain in zip(*columns, chains_of(batch), strict=True):
                    if path != text:
                        dropped += past.end()
                        text, past = path, PathHistory(known, is_bounded=not is_system)
                    dropped += past.take(file, chain, is_expiry=is_expiry)
                found, dropped = _batch(dropped), []
            yield found
        yield _batch(past.end())

    return forget


@attrs.define(eq=False)
class _KeptEvent:
    """An event that is not dropped, so far."""

    file: str
    number: int
    """In the order of the path's events."""
    link: Link
    is_expiry: bool
    is_open: bool
    """Whether no event above names its own tick, or a later one of its writer."""
    uncovered: int
    """Of how many writers it says something that no event above says."""

    @property
    def writer(self) -> Writer:
        return self.link[0], self.link[1] >> COUNT_BITS


class PathHistory:
    """The events of one path up to a time, taken in rising order."""

    def __init__(self, known: Settled, *, is_bounded: bool) -> None:
        """`is_bounded`: the path keeps 16 open losers at the most, as all do but the system's own (OPEN-3)."""
        self._known = known
        self._is_bounded = is_bounded
        self._is_over = False
        """More is kept than may be open at once, so nothing more is dropped."""
        self._look_at = KEPT_MAX
        self._count = 0
        self._kept: dict[_KeptEvent, None] = {}
        """In rising order."""
        self._said: dict[Writer, list[tuple[int, _KeptEvent]]] = {}
        """By the writer that is named, what is uncovered: events rise, and ticks fall."""

    def take(self, file: str, chain: Chain, *, is_expiry: bool) -> list[tuple[str, Link]]:
        """One more event, above all that came; which may be dropped now, each with its file."""
        if self._is_over:
            return []
        self._count += 1
        new = _KeptEvent(file, self._count, chain[0], is_expiry, True, len(chain))
        self._kept[new] = None
        dropped: list[_KeptEvent] = []
        for node, tick in chain:
            said = self._said.setdefault((node, tick >> COUNT_BITS), [])
            while said and said[-1][0] <= tick:
                self._cover(said.pop(), dropped, node)
            said.append((tick, new))
        if len(self._kept) > self._look_at:
            dropped += self._drop_needless(new)
            if self._is_bounded:
                self._is_over = len(self._kept) > KEPT_MAX
            else:
                self._look_at = max(KEPT_MAX, 2 * len(self._kept))
        return [(event.file, event.link) for event in dropped]

    def end(self) -> list[tuple[str, Link]]:
        """No more events; which more may be dropped."""
        if self._is_over or not self._kept:
            return []
        return [(event.file, event.link) for event in self._drop_needless(next(reversed(self._kept)))]

    def _cover(self, said: tuple[int, _KeptEvent], dropped: list[_KeptEvent], node: str) -> None:
        """What an event says of a writer is said by one above it, too."""
        tick, event = said
        event.uncovered -= 1
        if event.link == (node, tick):
            event.is_open = False
        if not event.uncovered:
            del self._kept[event]
            dropped.append(event)

    def _drop_needless(self, winner: _KeptEvent) -> list[_KeptEvent]:
        """Drop what says only of settled writers something uncovered, and contains nothing that is kept otherwise."""
        needed = {winner: None} | {event: None for event in self._kept if event.is_open and not event.is_expiry}
        for writer, said in self._said.items():
            needed |= {event: None for tick, event in said if tick > self._known.get(writer, -1)}
        waiting = list(needed)
        while waiting:
            event = waiting.pop()
            if not (event.is_open or event.is_expiry):
                above = self._container(event, needed)
                if above not in needed:
                    needed[above] = None
                    waiting.append(above)
        dropped = [event for event in self._kept if event not in needed]
        self._kept = {event: None for event in self._kept if event in needed}
        for writer, said in self._said.items():
            self._said[writer] = [(tick, event) for tick, event in said if event in needed]
        return dropped

    def _container(self, event: _KeptEvent, needed: Mapping[_KeptEvent, None]) -> _KeptEvent:
        """One that contains an event that is not open, if possible one that is needed anyhow."""
        said, own = self._said[event.writer], event.link[1]
        above = [other for tick, other in said if tick >= own and other.number > event.number]
        return next((other for other in above if other in needed), above[-1])


def _batch(dropped: list[tuple[str, Link]]) -> pa.RecordBatch:
    columns = [[file for file, _ in dropped], [link[0] for _, link in dropped], [link[1] for _, link in dropped]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, DROPPED, strict=True)], schema=DROPPED
    )
