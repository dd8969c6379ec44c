"""A running archive: how soon an event is in the table, while three nodes write.

Knows: when each write was answered, and when the manifest has its tick.  Does not know how an archive works.

Invariant: every answered write is in the table in the end; else it raises, and there are no figures.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from bench.figures import quantile, table
from bench.network import NAMES, Network, client_of, wait
from bench.servers import ROOT, Server, ServerError
from distkv.client.questions import Set
from distkv.model.event import Link, Tick
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, is_within, without
from distkv.spark.table.manifest import decode_manifest
from distkv.spark.table.snapshot import MANIFEST

EVERY_S: Final = 5.0
"""The archive commits so often, which is its default."""
PER_SECOND: Final = 2000
"""Of all nodes together."""
BATCH: Final = 50
PATHS: Final = 1000
"""Of each node; so most events are overwritten before they are archived."""
LOOK_S: Final = 0.05
WARM_S: Final = 20.0
"""So long all of it runs before it counts: Spark's first tasks start slowly."""
AIM_S: Final = 2 * EVERY_S
END_S: Final = 120.0


@attrs.frozen
class Commit:
    """What the table had from a moment on."""

    moment: float
    ticks: TickRanges


@attrs.frozen
class Delays:
    """From the answer to a write until the table has it, in seconds."""

    count: int
    per_second: float
    """What the nodes took."""
    p50_s: float
    p99_s: float
    max_s: float


def measure(network: Network, directory: Path, seconds: float) -> Delays:
    """Write for so long beside a running archive.

    Raises:
        ServerError: a write is not in the table in the end.
    """
    place = directory / "table"
    answered: dict[Link, float] = {}
    begun = time.monotonic()
    with _archiving(network, place), _watched(place) as commits:
        with ThreadPoolExecutor(len(NAMES)) as threads:
            tasks = [threads.submit(_write, node, WARM_S + seconds) for node in network.nodes.values()]
            for task in tasks:
                answered |= task.result()
        writing_s = time.monotonic() - begun
        wanted = _ticks_of(answered)
        wait(lambda: bool(commits) and is_within(wanted, commits[-1].ticks), "all is in the table", END_S)
    found = list(delays_of(commits, answered, begun + WARM_S))
    return Delays(len(found), len(answered) / writing_s, median(found), quantile(found, 0.99), max(found))


def delays_of(commits: Sequence[Commit], answered: Mapping[Link, float], since: float) -> Iterator[float]:
    """Of all writes that were answered later; in the order in which the table got them."""
    known: TickRanges = {}
    for commit in commits:
        for node, ranges in without(commit.ticks, known).items():
            for tick in ranges:
                moment = answered.get((node, Tick(tick)), 0.0)
                if moment >= since:
                    yield commit.moment - moment
        known = commit.ticks


def delays_table(delays: Delays) -> str:
    """The measurement, and what was aimed at."""
    verdict = "ok, aim" if delays.max_s <= AIM_S else "MISSED, aim"
    times = table(
        ["events", "written/s", "p50 s", "p99 s", "max s"],
        [[f"{delays.count:,}", f"{delays.per_second:,.0f}", f"{delays.p50_s:.1f}", f"{delays.p99_s:.1f}",
          f"{delays.max_s:.1f}"]],
    )  # fmt: skip
    return f"{times}\nfrom the answer to a write until the table has it, at most: {verdict} {AIM_S:g} s"


# -- inside -------------------------------------------------------------------------------------------------------


@contextmanager
def _archiving(network: Network, place: Path) -> Iterator[None]:
    """The job as a user starts it, until the end of the block."""
    hosts = [word for node in network.nodes.values() for word in ("-h", f"127.0.0.1:{node.port}")]
    words = ["pipeline", *hosts, "--master", "local[2]", "archive", "--to", str(place)]
    command = [sys.executable, "-m", "distkv", *words]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as job:
        try:
            yield
        finally:
            job.terminate()
    if job.returncode:
        raise ServerError(f"the archive ended with {job.returncode}")


@contextmanager
def _watched(place: Path) -> Iterator[list[Commit]]:
    """The commits to a table, each as soon as it is seen."""
    commits: list[Commit] = []
    is_over = threading.Event()

    def look() -> None:
        seen = b""
        while not is_over.wait(LOOK_S):
            with suppress(FileNotFoundError):
                data = (place / MANIFEST).read_bytes()
                if data != seen:
                    commits.append(Commit(time.monotonic(), decode_manifest(data, str(place)).ticks))
                    seen = data

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield commits
    finally:
        is_over.set()
        thread.join()


def _write(node: Server, seconds: float) -> dict[Link, float]:
    """Its part of `PER_SECOND`; when each write was answered."""
    answered: dict[Link, float] = {}
    begun, number = time.monotonic(), 0
    with client_of(node) as client:
        while (now := time.monotonic()) < begun + seconds:
            due = begun + number * len(NAMES) / PER_SECOND
            if now < due:
                time.sleep(due - now)
            numbers = range(number, number + BATCH)
            done = client.batch([Set(f"{node.name}.k{one % PATHS}", one) for one in numbers])
            moment = time.monotonic()
            answered |= {one.link: moment for one in done if one.link is not None}
            number += BATCH
    return answered


def _ticks_of(links: Iterable[Link]) -> TickRanges:
    found: TickRanges = {}
    for node, tick in sorted(links):
        found.setdefault(node, Ranges()).add_range(tick, tick + 1)
    return found
