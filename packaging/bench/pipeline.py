"""The data pipeline: how fast events of a live node become rows in Spark, a table, and a tree as of a moment.

Knows: which reads are compared with which.  Does not know how any of them works.

Each round reads the same events in every way, one after another, in one warm session with two workers beside the node.
A ratio is taken within one round: the live node by the table, the table by the same rows as one plain Parquet file.

Invariant: a read that does not give as many rows as were written has no figure: the run fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

from bench.figures import table
from bench.load import LoadError
from bench.servers import Server
from distkv.client.blocking import Client
from distkv.client.questions import Set

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = 1000
VALUE: Final = {"unit": "C", "place": "kitchen-12"}
"""With a number beside it some 40 bytes as msgpack."""
SET_PAUSE_S: Final = 0.01

IMPORT_ROWS: Final = 50_000
"""Of new paths, in each round."""

COMMITS: Final = 720
"""An hour of commits every five seconds."""

AIMS: Final = {
    "events, json": 80_000.0,
    "events, msgpack": 150_000.0,
    "table": 500_000.0,
    "table, compacted": 500_000.0,
    "archive --once": 60_000.0,
}
"""Rows in a second, at the least."""
RATIO_AIMS: Final = {
    ("events, json", "table"): 0.2,
    ("events, msgpack", "table"): 0.3,
    ("table", "plain Parquet"): 0.8,
    ("table, compacted", "plain Parquet"): 0.8,
    ("view state", "client dump"): 3.0,
    ("import", "client load"): 0.9,
}


@attrs.frozen
class Found:
    """All rounds: rows in a second by what was read, in the order of the rounds; and what the node felt of it."""

    events: int
    rates: dict[str, list[float]]
    asof_s: list[float]
    set_p99_ms: list[float]
    """Of a client that sets a value every hundredth of a second while events are read."""
    resident_before: int
    resident_after: int


def measure(server: Server, directory: Path, events: int, rounds: int) -> Found:
    """Fill a node, and read it in every way, in rounds.

    Raises:
        LoadError: a read gave another number of rows.
    """
    with session() as spark:
        _fill(server, events)
        found = _Rounds(server, directory, events, spark)
        before = server.resident_bytes()
        found.read(nodes="nobody")  # starts workers
        for number in range(rounds):
            found.run(number)
        after = server.resident_bytes()
        for number in range(rounds):  # they make the node grow
            found.run_import(number)
        return Found(events, found.rates, found.asof_s, found.set_p99_ms, before, after)


def pipeline_table(found: Found) -> str:
    """One line for each way to read, medians of the rounds, and what was aimed at."""
    rows = []
    for what, rates in found.rates.items():
        aim = AIMS.get(what)
        told = "" if aim is None else f"{_verdict(median(rates) >= aim)} {aim:,.0f}"
        rows.append([what, f"{median(rates):,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", told])
    lines = [table(["what", "rows/s", "least", "most", "aim"], rows)]
    for (ours, theirs), aim in RATIO_AIMS.items():
        ratios = [a / b for a, b in zip(found.rates[ours], found.rates[theirs], strict=True)]
        lines.append(f"{ours} is {median(ratios):.2f} x {theirs}: {_verdict(median(ratios) >= aim)} {aim:g}")
    lines.append(f"as of now, with digest: {median(found.asof_s):.1f} s for {found.events:,} events")
    p99 = median(found.set_p99_ms)
    lines.append(f"a set on another connection meanwhile, p99: {p99:.1f} ms: {_verdict(p99 <= 20)} 20")
    grown = (found.resident_after - found.resident_before) / 1e6
    lines.append(f"the node's memory grew by {grown:.0f} MB: {_verdict(grown <= 32)} 32")
    return "\n".join(lines)


# -- inside -------------------------------------------------------------------------------------------------------


def _verdict(is_met: bool) -> str:
    return "ok, aim" if is_met else "MISSED, aim"


@attrs.define
class _Rounds:
    """All ways to read, again and again."""

    server: Server
    directory: Path
    events: int
    spark: SparkSession
    rates: dict[str, list[float]] = attrs.field(factory=dict)
    asof_s: list[float] = attrs.field(factory=list)
    set_p99_ms: list[float] = attrs.field(factory=list)

    def run(self, number: int) -> None:
        """One round."""
        from distkv.spark.archive import Wishes, archive_once
        from distkv.spark.asof import Cut, asof

        place, plain = self.directory / f"table-{number}", self.directory / f"plain-{number}.parquet"
        with _setting(self.server) as latencies_ms:
            for value in ("json", "msgpack"):
                self._keep(f"events, {value}", self.events, partial(self.read, value=value))
        self.set_p99_ms.append(sorted(latencies_ms)[int(len(latencies_ms) * 0.99)])
        begun = time.perf_counter()
        done = archive_once(self.spark, str(place), Wishes((("127.0.0.1", self.server.port),)))
        self.rates.setdefault("archive --once", []).append(done.events / (time.perf_counter() - begun))
        files = str(place / "events" / "*.parquet")
        found = self.spark.read.parquet(files).count()
        if found < self.events or done.events != found or done.gaps:
            raise LoadError(f"{self.events} events were written, the table has {found} rows and {done.gaps} gaps")
        _plain(place, plain)
        self._keep("table", found, lambda: _written(self.spark.read.parquet(files)))
        self._keep("plain Parquet", found, lambda: _written(self.spark.read.parquet(str(plain))))
        self._run_compacted(self.directory / f"small-{number}", plain, found)
        self.asof_s.append(_timed(lambda: asof(self.spark, str(place), Cut())))
        self._keep("view state", self.events // 2, partial(self.read, view="state"))
        self._keep("client dump", self.events // 2, partial(_dump, self.server))

    def _run_compacted(self, place: Path, plain: Path, rows: int) -> None:
        """The same rows in very many commits, read; then in few files, read again."""
        from distkv.spark.compact import compact

        _in_commits(place, plain, -(-rows // COMMITS))
        files = str(place / "events" / "*.parquet")
        self._keep(f"table, {COMMITS} commits", rows, lambda: _written(self.spark.read.parquet(files)))
        begun = time.perf_counter()
        if compact(self.spark, str(place)).rows != rows:
            raise LoadError("a compaction lost rows")
        self.rates.setdefault("compact", []).append(rows / (time.perf_counter() - begun))
        self._keep("table, compacted", rows, lambda: _written(self.spark.read.parquet(files)))

    def run_import(self, number: int) -> None:
        """The same rows from CSV and, beside it, from what a dump has, each below a root of its own."""
        from distkv.spark.importing.records import ImportForm
        from distkv.spark.imports import import_files

        rows, lines = self.directory / f"rows-{number}.csv", self.directory / f"rows-{number}.json"
        rows.write_text("name,v\n" + "".join(f"k{row},{row}\n" for row in range(IMPORT_ROWS)))
        lines.write_text("".join(f'{{"path": "k{row}", "value": {row}}}\n' for row in range(IMPORT_ROWS)))

        def run() -> None:
            hosts = (("127.0.0.1", self.server.port),)
            to = f"imported{number}.{{name}}"
            done = import_files(self.spark, [str(rows)], ImportForm.CSV, to, hosts, value="v")
            if done.written != IMPORT_ROWS:
                raise LoadError(f"of {IMPORT_ROWS} rows {done.written} were written")

        self._keep("client load", IMPORT_ROWS, partial(_load, self.server, lines, f"loaded{number}"))
        self._keep("import", IMPORT_ROWS, run)

    def read(self, **options: str) -> None:
        """All columns of all rows of the live node, to nowhere."""
        source = self.spark.read.format("distkv").option("hosts", f"127.0.0.1:{self.server.port}")
        _written(source.options(**options).load())

    def _keep(self, what: str, rows: int, work: Callable[[], None]) -> None:
        self.rates.setdefault(what, []).append(rows / _timed(work))


@contextmanager
def session() -> Iterator[SparkSession]:
    """Spark as the jobs have it, with two workers."""
    from distkv.spark.session import session as spark_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with spark_session("local[2]") as spark:
        yield spark


def _fill(server: Server, events: int) -> None:
    """Each path twice."""
    with Client([("127.0.0.1", server.port)]) as client:
        for at in range(0, events, BATCH):
            numbers = range(at, at + BATCH)
            client.batch([Set(f"bench.k{number % (events // 2)}", {"v": number, **VALUE}) for number in numbers])
        while client.state()["storage"]["unsettled"]:  # type: ignore[index]
            time.sleep(0.1)


def _written(rows: DataFrame) -> None:
    """All columns of all rows, to nowhere."""
    rows.write.format("noop").mode("overwrite").save()


def _plain(place: Path, file: Path) -> None:
    """The same rows as one file, as Arrow writes it by default."""
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(place / "events"), file)


def _in_commits(place: Path, plain: Path, size: int) -> None:
    """A table of the rows of a file, so many in each commit."""
    import pyarrow.parquet as pq

    from distkv.model.tick_ranges import joined
    from distkv.spark.table.columns import TABLE_FORM
    from distkv.spark.table.contents import ticks_of
    from distkv.spark.table.parts import PartWriter, newest_form, parts_folder, taken_in
    from distkv.spark.table.store import open_table

    with open_table(place, network=bytes(8), create=True) as table, parts_folder(table) as folder:
        for batch in pq.read_table(plain).combine_chunks().to_batches(size):
            writer = PartWriter(folder)
            writer.add(TABLE_FORM.fit(batch), ticks_of(batch))
            parts = writer.finish()
            ticks = joined(table.manifest.ticks, parts[0].ticks)
            table.commit(taken_in(table, parts), ticks=ticks, gaps={}, form=newest_form(parts))


def _dump(server: Server) -> None:
    command = [sys.executable, "-m", "distkv", "client", "-p", str(server.port), "dump"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _load(server: Server, lines: Path, below: str) -> None:
    command = [sys.executable, "-m", "distkv", "client", "-p", str(server.port), "load", "-f", str(lines), below]
    subprocess.run(command, check=True)


@contextmanager
def _setting(server: Server) -> Iterator[list[float]]:
    """How long each set takes, in milliseconds, of a client that goes on setting one value meanwhile."""
    latencies_ms: list[float] = []
    is_over = threading.Event()

    def run() -> None:
        with Client([("127.0.0.1", server.port)]) as client:
            while not is_over.wait(SET_PAUSE_S):
                latencies_ms.append(1000 * _timed(lambda: client.set("probe", len(latencies_ms))))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield latencies_ms
    finally:
        is_over.set()
        thread.join()


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
