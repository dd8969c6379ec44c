"""The job `archive`: all events of the fleet into an event table, up to now and on.

Knows: what is new for the table, how it is cut into tasks, when the next commit is due, and what a commit says of ticks
that came, and of those that have no content.  Does not know how a commit becomes whole (`table`), nor what a task does
(`writing`).

What is in the table is what workers wrote, row by row, and not what was planned: content that went in between stays
new, and the next run finds out what became of it.

Invariant: the manifest is the only memory; after a crash anywhere the next run goes on behind the last commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from distkv.client.addresses import Address
from distkv.client.protocol import Backoff
from distkv.errors import UnreachableError
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges, common, count, joined, without
from distkv.spark.horizon import known_until
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts
from distkv.spark.nodes.planning import Plan, Read, View, cut, first_of, held_by, missing_at, plan
from distkv.spark.source.progress import AwaitedTicks
from distkv.spark.table.manifest import Manifest
from distkv.spark.table.parts import FILE_ROWS, Part, newest_form, parts_folder, taken_in, work_out
from distkv.spark.table.store import Table, open_table
from distkv.spark.writing import Task, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S: Final = 5.0
COMMIT_ROWS: Final = 1_000_000
"""So many are committed at once at the most."""
TASK_ROWS: Final = 20_000
"""A task that would read fewer costs more to start than to carry out."""
GAP_WAIT_S: Final = 60.0
"""So long a writer may be away before what only it can have is called a gap."""
GAPS_AGAIN_S: Final = 600.0
"""So often it is seen whether the content of a gap has turned up."""
IDLE_S: Final = 10.0
"""While nothing happens, a node is asked no more often."""

Tell = Callable[[int, int], None]
"""How far a run is: events in the table that were not there, and events that are known to be new."""


@attrs.frozen
class Archived:
    """What a run did."""

    events: int
    """New in the table."""
    gaps: int
    """Ticks found to be without content, and still so."""
    filled: int
    """Of the events those that had been gaps."""
    commit: int
    total: int
    """Events that the table has, also those that a compaction forgot."""
    total_gaps: int
    seconds: float


class Stopping:
    """How a run is told to end, from a signal handler or another thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._wake: Callable[[], None] | None = None

    def stop(self) -> None:
        """End after the commit that is under way."""
        self._event.set()
        if (wake := self._wake) is not None:
            wake()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Until then, or until it is told to end."""
        self._event.wait(max(0.0, seconds))

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """`wake` is called when it is told to end, so that what blocks meanwhile does not."""
        self._wake = wake
        try:
            if self.is_set:
                wake()
            yield
        finally:
            self._wake = None


@attrs.frozen
class Wishes:
    """What is archived, and how."""

    addresses: tuple[Address, ...]
    path: Path = ROOT
    max_rows: int = COMMIT_ROWS
    discover: bool = True
    """Whether members that were not named are asked for what the named ones lack."""


def archive_once(
    spark: SparkSession,
    directory: str,
    wishes: Wishes,
    *,
    stopping: Stopping | None = None,
    tell: Tell = lambda _done, _new: None,
) -> Archived:
    """Bring a table up to what the hosts hold at the start.

    Raises:
        UnreachableError: no host answers.
        PeerError: the hosts belong to several networks.
        WrongDirectoryError, BusyError, FormatVersionError, LogDamagedError: the folder is none that can be used now.
        NoSpaceError, StorageFailedError: the disk; what was committed before stays.
    """
    hosts = Hosts(wishes.addresses)
    views = hosts.views(discover=wishes.discover)
    with _opened(spark, directory, wishes, hosts, views, stopping or Stopping(), tell, AwaitedTicks(0.0)) as run:
        run.catch_up(views)
        return run.result()


def archive(
    spark: SparkSession,
    directory: str,
    wishes: Wishes,
    *,
    stopping: Stopping,
    every_s: float = EVERY_S,
    tell: Tell = lambda _done, _new: None,
    warn: Callable[[str], None] = lambda _why: None,
) -> Archived:
    """The same, and go on: what is new is committed every `every_s` seconds at the latest, until it is told to end.

    A fleet that is away is waited for, and `warn` told why, once. Raises as `archive_once`, but UnreachableError only
    at the start.
    """
    hosts = Hosts(wishes.addresses)
    views = hosts.views(discover=wishes.discover)
    with _opened(spark, directory, wishes, hosts, views, stopping, tell, AwaitedTicks(GAP_WAIT_S)) as run:
        pauses, is_away = Backoff(max_s=IDLE_S), False
        while not stopping.is_set:
            begun = time.monotonic()
            try:
                run.catch_up(views)
                run.wait_news(views)
                stopping.sleep(begun + every_s - time.monotonic())
                if not stopping.is_set:
                    views, is_away = hosts.views(discover=wishes.discover), False
                    pauses.reset()
            except UnreachableError as error:
                if not is_away:
                    warn(f"{error}; it is waited for")
                is_away = True
                stopping.sleep(pauses.next_s(1.0))
        return run.result()


# -- a run --------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(
    spark: SparkSession,
    directory: str,
    wishes: Wishes,
    hosts: Hosts,
    views: Sequence[View],
    stopping: Stopping,
    tell: Tell,
    waits: AwaitedTicks,
) -> Iterator[_Archiving]:
    path = None if wishes.path == ROOT else str(wishes.path)
    with (
        open_table(directory, network=views[0].network, path=path, create=True) as table,
        parts_folder(table) as parts,
    ):
        yield _Archiving(spark, table, wishes, hosts, stopping, tell, parts, waits)


@attrs.define
class _Archiving:
    """From an opened table to its last commit."""

    _spark: SparkSession
    _table: Table
    _wishes: Wishes
    _hosts: Hosts
    _stopping: Stopping
    _tell: Tell
    _parts: str
    _waits: AwaitedTicks
    _first: Manifest = attrs.field(init=False)
    _begun: float = attrs.field(factory=time.monotonic)
    _looked_at_gaps: float = float("-inf")
    _missing: TickRanges = attrs.field(factory=dict)
    """What nobody held when nodes were asked the last time."""

    def __attrs_post_init__(self) -> None:
        self._first = self._table.manifest

    def result(self) -> Archived:
        """What it did until now."""
        first, last = self._first, self._table.manifest
        come = without(last.ticks, first.ticks)
        events = last.rows - first.rows
        return Archived(
            events,
            count(without(last.gaps, first.gaps)),
            min(events, count(common(come, first.gaps))),  # of one path, others may have been filled
            last.commit,
            count(last.ticks) if last.path is None else last.rows,
            count(last.gaps),
            round(time.monotonic() - self._begun, 3),
        )

    def catch_up(self, views: Sequence[View]) -> None:
        """Take in what nodes have heard of and is new, in commits of a bounded size."""
        now, manifest = time.monotonic(), self._table.manifest
        known, held = manifest.ticks, held_by(views)
        if now - self._looked_at_gaps < GAPS_AGAIN_S:
            known = joined(known, without(manifest.gaps, common(self._missing, held)))
        else:
            self._looked_at_gaps = now
        self._missing, _ = missing_at(views)
        left = without(joined(held, self._missing), known)
        while left and not self._stopping.is_set:
            some = first_of(left, self._wishes.max_rows)
            found = self._find(views, some)
            parts = self._written(found)
            found = attrs.evolve(found, gaps=joined(found.gaps, self._gone(views, found, parts)))
            self._commit(parts, found, self._waits.note(some, found.waiting, now))
            left = without(left, some)
            self._tell_progress(left)
        self._table.note(until=known_until(views, self._table.manifest))

    def wait_news(self, views: Sequence[View]) -> None:
        """Until a host holds something that is neither in the table nor known to be without content, or some time."""
        manifest = self._table.manifest
        known = joined(joined(manifest.ticks, manifest.gaps), self._waits.ticks())
        if without(joined(held_by(views), self._missing), known):
            return  # content went between plan and read
        for view in views:
            try:
                with self._hosts.client(view.addr) as client, self._stopping.waking(client.close):
                    client.wait_events(known, others=True, timeout_s=IDLE_S)
                return
            except HOST_FAILURES:
                if self._stopping.is_set:
                    return
        self._stopping.sleep(1.0)

    # -- inside

    def _find(self, views: Sequence[View], ticks: TickRanges) -> Plan:
        return self._hosts.carry_out(plan(views, ticks, discover=self._wishes.discover), self._wishes.path)

    def _gone(self, views: Sequence[View], found: Plan, parts: Sequence[Part]) -> TickRanges:
        """What was to be read, and is nowhere now: a host saw only as it read that its disk has damaged it."""
        unread = found.ticks
        for part in parts:
            unread = without(unread, part.ticks)
        return self._find(views, unread).gaps if unread else {}

    def _written(self, found: Plan) -> list[Part]:
        """Have workers read and write what was planned."""
        return work_out(self._spark, write, list(self._tasks(found)))

    def _tasks(self, found: Plan) -> Iterator[Task]:
        """Reads, put together until a task is worth its start; in order, so that each file is."""
        parallelism = self._spark.sparkContext.defaultParallelism
        size = max(TASK_ROWS, min(FILE_ROWS, -(-count(found.ticks) // parallelism)))
        reads: list[Read] = []
        room = size
        for read in cut(found.reads, size):
            if reads and len(read.ticks) > room:
                yield self._task(reads)
                reads, room = [], size
            reads.append(read)
            room -= len(read.ticks)
        if reads:
            yield self._task(reads)

    def _task(self, reads: list[Read]) -> Task:
        return Task(tuple(reads), self._parts, self._wishes.addresses, self._wishes.path)

    def _commit(self, parts: Sequence[Part], found: Plan, given_up: TickRanges) -> None:
        """Take in what was written, and what is known of the ticks that are no rows."""
        table, come = self._table, found.elsewhere
        files = taken_in(table, parts)
        for part in parts:
            come = joined(come, part.ticks)
        manifest = table.manifest
        ticks = joined(manifest.ticks, come)
        gaps = without(joined(joined(manifest.gaps, found.gaps), given_up), ticks)
        if files or ticks != manifest.ticks or gaps != manifest.gaps:
            table.commit(files, ticks=ticks, gaps=gaps, form=newest_form(parts))

    def _tell_progress(self, left: TickRanges) -> None:
        done = count(self._table.manifest.ticks) - count(self._first.ticks)
        self._tell(done, done + count(left))
