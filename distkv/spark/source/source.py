"""The data source `distkv`: what Spark calls, and what it is given.

Knows: PySpark's classes and when each of their methods is called.  Does not know how a plan is made (`planning`), read
(`partitions`) or shown (`rows`), nor how rows are written (`sink`).

Spark makes the source anew in several processes, and wraps what it raises into a worker's traceback, whose last line is
ours. Sockets are opened where they are used, since nothing of a source may be more than can be sent to a worker.

Invariant: a partition is told by its ticks, so one that is tried again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from distkv.errors import SettingsError
from distkv.model.tick_ranges import joined, without
from distkv.spark.nodes.hosts import Hosts
from distkv.spark.nodes.planning import Plan, cut, heard_by, plan
from distkv.spark.source.options import ReadOptions, read_options, write_options
from distkv.spark.source.partitions import Partition, read_partition
from distkv.spark.source.pushdown import Narrowing, is_offered, narrowed
from distkv.spark.source.sink import RowsStreamWriter, RowsWriter
from distkv.spark.source.stream import EventsStreamReader
from distkv.spark.source.views import COLUMNS, ViewReader


class DistkvSource(DataSource):
    """`spark.read.format("distkv")`, and the same with readStream, write and writeStream."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)

    @property
    def _options(self) -> ReadOptions:
        """Of a read: a write has others."""
        return read_options(self._given)

    @classmethod
    def name(cls) -> str:
        return "distkv"

    def schema(self) -> StructType:
        return from_arrow_schema(COLUMNS[self._options.view])

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check_columns(schema)
        if self._options.view != "events":
            return ViewReader(self._options)
        return FilteredEventsReader(self._options) if is_offered() else EventsReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._check_columns(schema)
        if self._options.view != "events":
            raise SettingsError(
                f"view is {self._options.view!r}: state, conflicts and gaps can be read, not streamed: leave view out"
            )
        return EventsStreamReader(self._options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return RowsWriter(schema, write_options(self._given, overwrite=overwrite), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return RowsStreamWriter(schema, write_options(self._given, overwrite=overwrite, is_stream=True))

    def _check_columns(self, schema: StructType) -> None:
        """Whether they are ours; who names others would get the values of ours under those names, or none.

        Raises:
            SettingsError: they are others.
        """
        ours = self.schema()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
            raise SettingsError(
                f"the columns of the view {self._options.view} are given: leave out schema(), or the columns of "
                f"CREATE VIEW, and select some of {', '.join(ours.names)}"
            )


class EventsReader(DataSourceReader):
    """The events that are known when the query begins."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        found = self._plan()
        reads = [attrs.evolve(read, ticks=self._narrowing.ticks(read.node, read.ticks)) for read in found.reads]
        parts = [Partition(read) for read in cut(reads, self._options.rows_per_partition)]
        gaps = joined(found.gaps, found.waiting)
        if gaps or not parts:  # of a list without any Spark makes one partition, of nothing
            parts.append(Partition(None, gaps))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Partition)
        yield from read_partition(partition, self._options)

    def _plan(self) -> Plan:
        options, hosts = self._options, Hosts(self._options.hosts)
        views = hosts.views()
        heard = heard_by(views)
        new = without(heard, heard if options.starting is None else options.starting)
        new = self._narrowing.of_nodes(options.wanted(new))
        return hosts.carry_out(plan(views, new, discover=options.discover), options.path)


class FilteredEventsReader(EventsReader):
    """The same, in a session that pushes filters down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Narrow what is read; Spark filters by all of them again."""
        self._narrowing = narrowed(filters)
        self._options = attrs.evolve(self._options, path=self._narrowing.below(self._options.path))
        return filters
