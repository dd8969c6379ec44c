"""What one task of Spark gives: the rows of a stretch of ticks.

Knows: how a partition is read, and what is said when its content is nowhere any more.  Does not know how it came about
(`source`, `stream`).

Invariant: a partition is told by its ticks, so one that is tried again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from distkv.errors import UnreachableError
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes.hosts import Hosts
from distkv.spark.nodes.planning import Read
from distkv.spark.nodes.reading import Reading
from distkv.spark.nodes.rows import gap_rows, small
from distkv.spark.source.options import ReadOptions


@attrs.frozen
class Partition(InputPartition):
    """A stretch of a writer's ticks, or rows for gaps."""

    read: Read | None = None
    gaps: TickRanges = attrs.field(factory=dict)


def read_partition(
    partition: Partition, options: ReadOptions, *, is_stream: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition.

    Raises:
        UnreachableError: content went between plan and read, and `failOnDataLoss` is true, or was not given: then in a
            stream only if a host that may have it is away.
    """
    if partition.read is None:
        if partition.gaps:
            yield gap_rows(partition.gaps)
        return
    hosts, read = Hosts(options.hosts), partition.read
    reading = Reading(read, options.value, options.gap_wait_s)
    for page in reading.pages(lambda addr, ticks: hosts.pages(addr, ticks, options.path)):
        batch = page.batch
        if not options.system:
            batch = batch.filter(pc.invert(batch.column("system")))
        yield from small(batch)
    if reading.left:
        gone = {read.node: reading.left}
        fails = options.fail_on_data_loss
        if fails or (fails is None and (reading.failures or not is_stream)):
            raise _lost(reading)
        yield gap_rows(gone)


def _lost(reading: Reading) -> UnreachableError:
    ticks = str(reading.left.to_list())
    why = "; ".join(f"{addr}: {error}" for addr, error in reading.failures.items()) or "every host lacks it"
    return UnreachableError(
        f"the content of {reading.read.node} {ticks if len(ticks) < 200 else ticks[:200] + ' ...'} was here when the "
        f"read was planned, and is nowhere now ({why}): read again, or set failOnDataLoss=false to get gap rows"
    )
