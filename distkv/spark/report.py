"""The job `report`: a page about an event table, and about how fast events get around.

Knows: what is looked at in which order, and how the page gets its name.  Does not know what is counted
(`spark.reporting.counting`), what nodes are asked (`spark.reporting.lag`), nor what the page says
(`spark.reporting.page`).

Invariant: the file is the whole page, or what it was before; nothing else is left in its folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from distkv import __version__
from distkv.client.addresses import Address
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import count
from distkv.spark.places import replace_file, writable_file
from distkv.spark.reporting.counting import figures_of
from distkv.spark.reporting.figures import Figures, Report, TableFacts
from distkv.spark.reporting.lag import lags
from distkv.spark.reporting.page import page
from distkv.spark.table.contents import read_events
from distkv.spark.table.snapshot import Snapshot, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class Reported:
    """What a report came to."""

    events: int
    """Of all paths but the system's own."""
    gaps: int
    """Ticks without content."""
    writers: int
    paths: int
    conflicts: int
    """Changes that did not know the change before them (`figures.Conflicts`)."""
    open: int
    """Conflicts that are open after all events of the table."""
    lag: float | None
    """The longest that one in a hundred events of a writer took to another node, in seconds; None when no node told."""
    bytes: int
    """Of all values."""
    file: str
    """The absolute name of the page."""


def report(
    spark: SparkSession,
    directory: str,
    file: str,
    *,
    addresses: Sequence[Address] = (),
    made_s: float | None = None,
) -> Reported:
    """Write a page about the event table in `directory` to `file`, in the place of what was there.

    It is read as of its last commit; others may use it meanwhile.

    Args:
        spark: the session.
        directory: the event table.
        file: the page; its folder must be there.
        addresses: nodes that are asked when events of others came to them; none need answer.
        made_s: what the page calls now, in seconds since 1970; None: now.

    Raises:
        RequestError: there can be no such file.
        WrongDirectoryError, FormatVersionError, LogDamagedError: the table is none that can be used now.
        NoSpaceError, StorageFailedError: the disk did not take the page.
    """
    place = writable_file(file)
    now_s = time.time() if made_s is None else made_s
    with read_table(directory) as table:
        facts, manifest = _facts(table), table.manifest
        figures = figures_of(spark, read_events(spark, table), now_s)
    path = ROOT if manifest.path is None else Path.parse(manifest.path)
    found = Report(facts, figures, lags(addresses, manifest.network, path), now_s, __version__)
    replace_file(place, [page(found).encode()])
    return _summary(found, place)


# -- inside -------------------------------------------------------------------------------------------------------


def _facts(table: Snapshot) -> TableFacts:
    manifest = table.manifest
    return TableFacts(
        os.path.basename(table.directory) or table.directory,
        manifest.network.hex(),
        manifest.commit,
        len(manifest.files),
        sum(file.size_bytes for file in manifest.files),
        manifest.path,
        manifest.forgotten,
        manifest.gaps,
        manifest.settled,
    )


def _summary(found: Report, place: str) -> Reported:
    figures: Figures = found.figures
    return Reported(
        figures.events,
        count(found.table.gaps),
        figures.writer_count,
        figures.path_count,
        figures.conflicts.count,
        figures.conflicts.open,
        found.lags.worst_s,
        figures.bytes,
        place,
    )
