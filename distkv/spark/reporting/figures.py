"""What a report shows: figures of an event table, and of its fleet, as plain values.

Knows: which figures there are, and what each of them means.  Does not know how they are found
(`spark.reporting.counting`, `spark.reporting.lag`), nor how they are shown (`spark.reporting.page`).

Unless it is said otherwise, events of the system's own paths are not in them. Times are by the clocks of the writers,
in seconds since 1970.

Invariant: none is larger than a page can show: what could be many is the first few, and how many there are of all.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.model.tick_ranges import TickRanges
from distkv.spark.reporting.scale import Buckets
from distkv.spark.table.manifest import GapDecision

WRITERS_MAX: Final = 100
PATHS_MAX: Final = 20
ROOTS_MAX: Final = 20
LARGEST_MAX: Final = 10

_KIB, _MIB = 1 << 10, 1 << 20
SIZE_LIMITS: Final = (16, 64, 256, _KIB, 4 * _KIB, 16 * _KIB, 64 * _KIB, 256 * _KIB, _MIB)
"""Classes of sizes of values, in bytes: up to each, and above the last."""
LIFE_LIMITS_S: Final = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0)
"""Classes of lengths of time, in seconds: up to each, and above the last."""


@attrs.frozen
class TableFacts:
    """What the manifest says."""

    name: str
    """Of the folder."""
    network: str
    commit: int
    files: int
    size_bytes: int
    """Of the files."""
    path: str | None = None
    """The one path that the table is of; None: all."""
    forgotten: float | None = None
    """Changes that were overwritten before this time were dropped; None: none were."""
    gaps: TickRanges = attrs.field(factory=dict)
    settled: tuple[GapDecision, ...] = ()
    """Who accepted gaps, when and why."""


@attrs.frozen
class WriterFigures:
    """Of one node."""

    node: str
    events: int
    first_s: float | None
    last_s: float | None
    odd_times: int
    """Events with a time that cannot be: before 2000, or in the future."""
    series: tuple[int, ...] = ()
    """Events in each stretch of time."""


@attrs.frozen
class TimeBucket:
    """What happened in one stretch of time."""

    sets: int = 0
    deletes: int = 0
    expiries: int = 0
    conflicts: int = 0

    @property
    def events(self) -> int:
        return self.sets + self.deletes + self.expiries


@attrs.frozen
class PathFigures:
    """Of one path."""

    path: str
    events: int
    bytes: int
    """Of all its values, as nodes keep them."""
    conflicts: int


@attrs.frozen
class RootFigures:
    """Of all paths with one first name; None: the root itself."""

    root: str | None
    paths: int
    events: int
    bytes: int
    conflicts: int


@attrs.frozen
class LargeValue:
    """One value."""

    path: str
    bytes: int
    node: str
    tick: int
    time_s: float | None


@attrs.frozen
class Conflicts:
    """Changes that did not know the change before them.

    A change is one when the chain of the event does not name the event that is next below it, on its path, in the order
    of events (CONTAIN-1), and people would be told of that one as a conflict: it is no expiry, and not a deletion below
    another deletion.
    """

    count: int = 0
    over_deletions: int = 0
    """Of them those whose event below is a deletion: a node that has forgotten it does not know it either (PURGE-1)."""
    paths: int = 0
    open: int = 0
    """Open losers, after all events of the table."""
    open_deletions: int = 0
    """Of them deletions."""
    top: tuple[PathFigures, ...] = ()
    """The paths with most of them."""


@attrs.frozen
class Figures:
    """Of the events of a table."""

    system: int = 0
    """Events of the system's own paths."""
    events: int = 0
    """All others."""
    values: int = 0
    """Of them sets."""
    bytes: int = 0
    """Of all values."""
    odd_times: int = 0
    first_s: float | None = None
    last_s: float | None = None
    buckets: Buckets | None = None
    """None: no event has a time that can be."""
    stretches: tuple[TimeBucket, ...] = ()
    """One for each of `buckets`."""
    writer_count: int = 0
    writers: tuple[WriterFigures, ...] = ()
    """Those with most events first."""
    path_count: int = 0
    hot_paths: tuple[PathFigures, ...] = ()
    root_count: int = 0
    roots: tuple[RootFigures, ...] = ()
    sizes: tuple[int, ...] = (0,) * (len(SIZE_LIMITS) + 1)
    """Values by class of size."""
    largest: tuple[LargeValue, ...] = ()
    lives: tuple[int, ...] = (0,) * (len(LIFE_LIMITS_S) + 1)
    """Values by class of the time until the next change of their path."""
    backward: int = 0
    """Of the changes those whose time is before that of the value they took the place of: clocks differ."""
    conflicts: Conflicts = Conflicts()


@attrs.frozen
class Lag:
    """How long events of a writer took to arrive at a node: by the clock of the node, less that of the writer."""

    node: str
    writer: str
    events: int
    """Of which it is known when they came."""
    median_s: float
    p90_s: float
    p99_s: float
    max_s: float


@attrs.frozen
class Lags:
    """What nodes say of events that others wrote."""

    rows: tuple[Lag, ...] = ()
    nodes: tuple[str, ...] = ()
    """Those that were asked, and answered."""
    unknown: int = 0
    """Events of which a node does not know when they came, or whose time cannot be."""
    failures: tuple[str, ...] = ()
    """Why others did not answer, each a line."""

    @property
    def worst_s(self) -> float | None:
        """The longest that one in a hundred events of a writer took; None when nothing is known."""
        return max((row.p99_s for row in self.rows), default=None)


@attrs.frozen
class Report:
    """All that a page shows."""

    table: TableFacts
    figures: Figures
    lags: Lags
    made_s: float
    """When it was made, in seconds since 1970."""
    version: str
    """Of the program that made it."""
