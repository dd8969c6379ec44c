"""The events as a stream, as Spark drives it.

Knows: which methods of a stream reader Spark calls, in which order, and that all but `read` are called in one process.
Does not know how a batch is chosen (`progress`), which host is asked (`lookout`), nor how rows are made (`partitions`).

While nothing is new, `latestOffset` waits: Spark asks again at once when it returns, and each time would cost a node a
request. So an idle stream asks a node every ten seconds, and something new is told as soon as it is there.

Invariant: an offset that nothing was added to is given back as it came, byte by byte.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from distkv.client.addresses import address_text
from distkv.model.tick_ranges import TickRanges, common, joined, without
from distkv.spark.nodes.hosts import Hosts
from distkv.spark.nodes.planning import Plan, View, chase, cut, held_by, network_of, plan
from distkv.spark.source.lookout import Lookout
from distkv.spark.source.offsets import Offset, read_offset
from distkv.spark.source.options import ReadOptions
from distkv.spark.source.partitions import Partition, read_partition
from distkv.spark.source.progress import StreamState, batch_of

WAIT_S: Final = 10.0
"""So long `latestOffset` waits for news at the most. A stream that is stopped ends when it returns."""


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The events from an offset on."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._progress = StreamState(options.gap_wait_s)
        self._lookout = Lookout(options.hosts, options.gap_wait_s)
        self._target: TickRanges | None = None
        """Where a stream ends that takes only what is there."""
        self._known: TickRanges = {}
        """What the hosts held, and the offset has, when they were looked at the last time."""
        self._idle: Mapping[str, Any] | None = None
        """The offset behind which nothing was to be delivered then."""
        self._planned: tuple[Mapping[str, Any], Mapping[str, Any], Plan] | None = None
        """The offsets of the batch that was planned last."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        views = Hosts(self._options.hosts).views()
        starting = self._options.starting
        return Offset(network_of(views), held_by(views) if starting is None else starting).to_plain()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = held_by(Hosts(self._options.hosts).views())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._wait_news(start, count_max) if self._target is None else self._reach(start, count_max)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned, self._planned = self._planned, None
        views = self._wait_views()
        network = network_of(views)
        batch = batch_of(read_offset(start, network), read_offset(end, network))
        if planned is not None and (start, end) == planned[:2]:
            found = planned[2]
        else:  # a batch that is repeated after a crash
            found = self._carry_out(views, batch.ticks)
        # What had content at the end of the batch, and has none now, is read, too: who reads it waits for it.
        lost = without(batch.ticks, joined(found.ticks, found.elsewhere))
        named = [address_text(address) for address in self._options.hosts]
        reads = [*found.reads, *chase(views, lost, named, discover=self._options.discover)]
        parts: list[InputPartition] = [Partition(read) for read in cut(reads, self._options.rows_per_partition)]
        return [*parts, Partition(None, batch.gaps)] if batch.gaps else parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Partition)
        yield from read_partition(partition, self._options, is_stream=True)

    # -- inside

    def _wait_news(self, start: dict[str, Any], count_max: int | None) -> dict[str, Any]:
        """The end of the next batch; `start` when there is none after a while."""
        deadline_s = time.monotonic() + WAIT_S
        is_news = self._idle != start or self._lookout.is_due or self._progress.due_s(time.monotonic()) == 0
        while True:
            if is_news:
                end = self._look(start, count_max)
                if end is not start:
                    return end
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return start
            if self._lookout.is_silent:
                self._lookout.pause()
                is_news = True
                continue
            due_s = self._progress.due_s(now_s)
            left_s = deadline_s - now_s if due_s is None else min(deadline_s - now_s, due_s)
            is_news = self._lookout.wait(self._known, self._options.nodes, left_s) or due_s is not None

    def _reach(self, start: dict[str, Any], count_max: int | None) -> dict[str, Any]:
        """The end of the next batch; `start` when all is done that was there at the beginning. What waits is waited
        for, since Spark does not ask again."""
        while True:
            end = self._look(start, count_max)
            if end is not start:
                return end
            due_s = self._progress.due_s(time.monotonic())
            if self._lookout.is_silent:
                self._lookout.pause()
            elif due_s is None:
                return start
            else:
                time.sleep(due_s)

    def _look(self, start: dict[str, Any], count_max: int | None) -> dict[str, Any]:
        """The end of the next batch as far as the hosts know it; `start` when there is none."""
        views = self._lookout.views()
        if not views:
            self._idle = None
            return start
        offset = read_offset(start, network_of(views))
        held = held_by(views)
        self._known = joined(offset.ticks, held)
        new = without(self._options.wanted(held), offset.ticks)
        if self._target is not None:
            new = common(new, self._target)
        end, found = self._progress.next_offset(
            offset, new, count_max, lambda ticks: self._carry_out(views, ticks), time.monotonic()
        )
        if found is None:
            self._idle = start
            return start
        plain = end.to_plain()
        self._planned = (start, plain, found)
        return plain

    def _carry_out(self, views: Sequence[View], ticks: TickRanges) -> Plan:
        planning = plan(views, ticks, discover=self._options.discover)
        return Hosts(self._options.hosts).carry_out(planning, self._options.path)

    def _wait_views(self) -> list[View]:
        while not (views := self._lookout.views()):
            self._lookout.pause()
        return views
