"""`spark.readStream.format("distkv")` on real nodes: what a stream delivers, and when.

Knows: Spark, checkpoints and servers.  Does not know how a batch is chosen (tests/property/test_spark_progress).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from distkv.client.questions import Set
from distkv.errors import UnreachableError
from distkv.spark.source.options import read_options
from distkv.spark.source.stream import EventsStreamReader
from tests.process.servers import Server, Servers, wait_until

NUMBERS = count()


def stream(spark: SparkSession, server: Server, **options: str) -> DataFrame:
    """Of what is written here, at and below `x` or another path; the network's own first value is elsewhere."""
    found = spark.readStream.format("distkv").option("hosts", server.address).option("path", "x")
    return found.options(**options).load()


class Sink:
    """Takes the rows of each batch, and has a checkpoint: a query that is started again goes on."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._batches: dict[int, list[Row]] = {}
        self.is_broken = False
        """Whether it fails when it has taken a batch, before Spark knows that it did."""

    @contextmanager
    def running(self, found: DataFrame) -> Iterator[StreamingQuery]:
        """A query into it that goes on until the end of the block."""
        query = self._writer(found).start()
        try:
            yield query
        finally:
            query.stop()

    def take_all(self, found: DataFrame) -> StreamingQuery:
        """A query into it that takes what is there, and has ended."""
        query = self._writer(found).trigger(availableNow=True).start()
        assert query.awaitTermination(600)
        return query

    def rows(self) -> list[Row]:
        return [row for number in sorted(self._batches) for row in self._batches[number]]

    def values(self) -> list[str]:
        return [row.value for row in self.rows()]

    def _writer(self, found: DataFrame) -> DataStreamWriter:
        return found.writeStream.option("checkpointLocation", str(self._checkpoint)).foreachBatch(self._take)

    def _take(self, batch: DataFrame, number: int) -> None:
        self._batches[number] = sorted(batch.collect(), key=lambda row: (row.node, row.tick))
        if self.is_broken:
            raise RuntimeError("the sink is broken")


def trim(server: Server) -> None:
    """Have a node let go of its history."""
    server.terminate()
    file = server.directory / "keep.yaml"
    file.write_text("history: {keep: 0}\n")
    server.environment = {**server.environment, "DISTKV_CONFIG": str(file)}
    server.start("--transport", "solo").wait_ready()
    wait_until(lambda: server.storage()["history_rows"] == 0, "history is let go")


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "checkpoint")


@pytest.fixture
def path() -> str:
    """One that no other test of this file writes to."""
    return f"x{next(NUMBERS)}"


def write(server: Server, *values: int, path: str = "x") -> None:
    with server.client() as client:
        for value in values:
            client.set(path, value)


def test_stream_of_what_is_there_delivers_all_once_and_goes_on_behind_it(
    spark: SparkSession, node: Server, sink: Sink, path: str
) -> None:
    write(node, 1, 2, 3, path=path)
    sink.take_all(stream(spark, node, path=path))
    assert sink.values() == ["1", "2", "3"]
    sink.take_all(stream(spark, node, path=path))
    assert sink.values() == ["1", "2", "3"]
    write(node, 4, path=path)
    sink.take_all(stream(spark, node, path=path))
    assert sink.values() == ["1", "2", "3", "4"]


def test_running_stream_delivers_what_is_written_and_repeats_nothing_after_a_restart(
    spark: SparkSession, node: Server, sink: Sink, path: str
) -> None:
    write(node, 1, path=path)
    with sink.running(stream(spark, node, path=path)):
        wait_until(lambda: sink.values() == ["1"], "the stream delivers what was there")
        write(node, 2, path=path)
        wait_until(lambda: sink.values() == ["1", "2"], "the stream delivers what is new")
    write(node, 3, path=path)
    with sink.running(stream(spark, node, path=path)):
        wait_until(lambda: "3" in sink.values(), "the stream goes on")
    assert sink.values() == ["1", "2", "3"]


def test_batch_that_failed_is_repeated_as_it_was(spark: SparkSession, node: Server, sink: Sink, path: str) -> None:
    write(node, 1, 2, path=path)
    sink.is_broken = True
    with pytest.raises(PySparkException, match="the sink is broken"):
        sink.take_all(stream(spark, node, path=path))
    first = sink.rows()
    write(node, 3, path=path)
    sink.is_broken = False
    query = sink.take_all(stream(spark, node, path=path))
    assert sink.rows()[: len(first)] == first
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [2, 1]
    assert sink.values() == ["1", "2", "3"]


def test_batches_are_no_larger_than_they_may_be(spark: SparkSession, node: Server, sink: Sink, path: str) -> None:
    with node.client() as client:
        client.batch([Set(f"{path}.k{number}", number) for number in range(50)])
    query = sink.take_all(stream(spark, node, path=path, maxRowsPerTrigger="20"))
    counts = [progress.numInputRows for progress in query.recentProgress]
    assert max(counts) <= 20
    assert sum(counts) == len(sink.rows()) == 50


def test_stream_begins_where_it_is_told_to(spark: SparkSession, node: Server, sink: Sink, path: str) -> None:
    write(node, 1, path=path)
    sink.take_all(stream(spark, node, path=path, startingTicks="latest"))
    write(node, 2, path=path)
    sink.take_all(stream(spark, node, path=path, startingTicks="latest"))
    assert sink.values() == ["2"]


def test_stream_goes_on_over_another_host_and_takes_what_only_that_has(
    spark: SparkSession, solo: Server, servers: Servers, sink: Sink
) -> None:
    """The second host is one of its own here, with the first one's disk: so it holds what that wrote until then."""
    write(solo, 1)
    sink.take_all(stream(spark, solo))
    write(solo, 2)
    address = servers.add("b").address
    solo.terminate()
    solo.port = int(address.rpartition(":")[2])
    solo.start("--transport", "solo").wait_ready()
    write(solo, 3)
    sink.take_all(stream(spark, solo))
    assert sink.values() == ["1", "2", "3"]


def test_what_has_no_content_is_a_gap_once(spark: SparkSession, solo: Server, sink: Sink) -> None:
    write(solo, 1, 2, 3)
    trim(solo)
    sink.take_all(stream(spark, solo))
    sink.take_all(stream(spark, solo))
    rows = sink.rows()
    assert [row.kind for row in rows].count("gap") == 1
    assert [row.value for row in rows if row.kind == "set"] == ["3"]


@pytest.mark.parametrize("loss", [None, "false", "true"])
def test_batch_whose_content_is_trimmed_before_it_is_read_has_gaps_instead_unless_that_is_a_failure(
    solo: Server, loss: str | None
) -> None:
    """Its offsets stay the same at each restart: would it fail, it would fail for ever."""
    write(solo, 1, 2, 3)
    options = read_options({"hosts": solo.address, "path": "x", **({} if loss is None else {"failOnDataLoss": loss})})
    reader = EventsStreamReader(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    trim(solo)
    again = EventsStreamReader(options)
    parts = again.partitions(start, end)
    if loss == "true":
        with pytest.raises(UnreachableError, match="set failOnDataLoss=false to get gap rows"):
            [list(again.read(part)) for part in parts]
        return
    rows = [row for part in parts for batch in again.read(part) for row in batch.to_pylist()]
    assert [row["value"] for row in rows if row["kind"] == "set"] == ["3"]
    assert [row["tick_end"] - row["tick"] for row in rows if row["kind"] == "gap"] == [2]


def test_checkpoint_of_another_network_is_refused(
    spark: SparkSession, solo: Server, servers: Servers, sink: Sink
) -> None:
    write(solo, 1)
    sink.take_all(stream(spark, solo))
    other = servers.add("z").start("--transport", "solo", "--init", "hello")
    other.wait_ready()
    with pytest.raises(PySparkException, match="the checkpoint belongs to the network"):
        sink.take_all(stream(spark, other))


@pytest.mark.parametrize("view", ["state", "conflicts", "gaps"])
def test_other_views_are_not_streamed(spark: SparkSession, node: Server, sink: Sink, view: str) -> None:
    with pytest.raises(PySparkException, match="state, conflicts and gaps can be read, not streamed"):
        sink.take_all(stream(spark, node, view=view))


def test_host_that_is_away_at_the_start_ends_the_stream_in_a_line(spark: SparkSession, sink: Sink) -> None:
    found = spark.readStream.format("distkv").option("hosts", "127.0.0.1:1").load()
    with pytest.raises(PySparkException, match="UnreachableError: no host answers"):
        sink.take_all(found)


def test_stream_outlives_a_host_that_is_away_for_a_while(spark: SparkSession, solo: Server, sink: Sink) -> None:
    write(solo, 1)
    with sink.running(stream(spark, solo)) as query:
        wait_until(lambda: sink.values() == ["1"], "the stream delivers what was there")
        solo.kill()
        solo.start("--transport", "solo").wait_ready()
        write(solo, 2)
        wait_until(lambda: sink.values() == ["1", "2"], "the stream delivers what is new")
        assert query.exception() is None


def test_stream_whose_hosts_stay_away_ends_in_a_line(spark: SparkSession, solo: Server, sink: Sink) -> None:
    write(solo, 1)
    with sink.running(stream(spark, solo, gapWait="2")) as query:
        wait_until(lambda: sink.values() == ["1"], "the stream delivers what was there")
        solo.kill()
        wait_until(lambda: not query.isActive, "the stream ends")
        assert "none has for 2 s (gapWait)" in str(query.exception())


def test_idle_stream_asks_every_ten_seconds(spark: SparkSession, node: Server, sink: Sink, path: str) -> None:
    """The node counts no requests; Spark tells how long each call took, in which the node is asked once."""
    write(node, 1, path=path)
    with sink.running(stream(spark, node, path=path)) as query:
        wait_until(lambda: sink.values() == ["1"], "the stream delivers what was there")
        idle = wait_until(
            lambda: [each.durationMs["latestOffset"] for each in query.recentProgress[1:] if not each.numInputRows],
            "the stream tells that it is idle",
        )
    assert min(idle) > 9000


def test_what_is_written_to_an_idle_stream_is_a_row_at_once(
    spark: SparkSession, node: Server, sink: Sink, path: str
) -> None:
    """Long before the ten seconds are over for which it waits."""
    delays: list[float] = []
    write(node, 0, path=path)
    with sink.running(stream(spark, node, path=path)):
        wait_until(lambda: sink.values() == ["0"], "the stream delivers what was there")
        for number in range(1, 6):
            write(node, number, path=path)
            begun = time.monotonic()
            wait_until(lambda number=number: str(number) in sink.values(), "the stream delivers what is new")  # type: ignore[misc]
            delays.append(time.monotonic() - begun)
    assert min(delays) < 5
