"""The job `restore`: the live tree becomes again what it was.

Knows: which trees are compared, and which changes the table lacks.  Does not know how the tree then is found
(`spark.asof`), nor how what differs is written (`spark.nodes.differences`).

Invariant: a path that changed since it was compared is left alone, and counted; the system's own paths are not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from distkv.client.addresses import Address
from distkv.client.blocking import Client
from distkv.client.questions import Entry
from distkv.errors import RequestError, SettingsError
from distkv.model.event import Link, tick_text
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import count, joined, without
from distkv.spark.asof import Cut, asof
from distkv.spark.nodes.differences import Restored, carry_out, differences
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts, check_whole
from distkv.spark.nodes.planning import View, held_by
from distkv.spark.table.manifest import Manifest
from distkv.spark.table.snapshot import read_table
from distkv.text.moment import utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def restore(
    spark: SparkSession,
    addresses: Sequence[Address],
    directory: str,
    cut: Cut,
    *,
    path: Path = ROOT,
    apply: bool,
    allow_gaps: bool = False,
) -> Restored:
    """Bring the values at and below `path` back to what they were as of a cut of the event table in `directory`.

    The first of `addresses` that answers is asked and written to; it may be of another network than the table. Values
    come back for good: a `ttl` that one had is not restored. Open conflicts stay open. What was written stays when the
    job fails; run again, it goes on with the rest. The tree then is held in memory, the live one is not.

    Args:
        spark: the session.
        addresses: where nodes answer.
        directory: the event table.
        cut: which moment.
        path: only what is there and below.
        apply: write; False: only count.
        allow_gaps: also when the table lacks events of the cut; what they wrote is deleted then.

    Raises:
        SettingsError: the cut or the path is none that can be restored.
        UnreachableError: no node answers, or the one that did is gone.
        ConnectionLostError: the same, and whether the last writes took place is unknown.
        DamagedError: the node lost values that were there; nothing was written.
        RequestError: the node refuses a value, such as one that is too large for it; the message names the path. Or
            `allow_gaps` is False, and changes up to the moment are not in the table.
        WrongDirectoryError, FormatVersionError, LogDamagedError: the folder is none that can be used now.
    """
    if path.is_reserved:
        raise SettingsError(f"{path} belongs to the system, which restores it itself: name another path")
    hosts = Hosts(addresses)
    views = [] if cut.ticks is not None else hosts.views(discover=True)
    then = asof(spark, directory, cut, path=path, allow_gaps=allow_gaps, views=views)
    if cut.at is not None and not allow_gaps:
        with read_table(directory) as table:
            manifest = table.manifest
        check_archived(cut.at, path, hosts, [view for view in views if view.network == manifest.network], manifest)
    with Client(addresses) as client:
        check_whole(client, path)
        found = carry_out(client if apply else None, differences(then.entries, _live(client, path)))
    return attrs.evolve(found, unknown=then.unknown)


# -- inside -------------------------------------------------------------------------------------------------------


def _live(client: Client, path: Path) -> Iterator[tuple[Path, Entry]]:
    for place, entry in client.get_tree(path):
        if not place.is_reserved:
            yield place, entry


LOOKED_AT_MAX: Final = 1_000_000
"""So many changes are read; above it they have to be archived."""


def check_archived(at: float, path: Path, hosts: Hosts, views: Sequence[View], manifest: Manifest) -> None:
    """Whether nothing at or below `path` that was made up to a moment is at these nodes and not in the table.

    The table keeps up to when it has all changes of a node, by the clock of that node (`spark.horizon`). When the clock
    was set back since, new changes may be of moments that the table takes for whole.

    Raises:
        RequestError: something is, or there is too much to look at.
    """
    new = without(held_by(views), joined(manifest.ticks, manifest.gaps))
    if count(new) > LOOKED_AT_MAX:
        raise RequestError(f"nodes hold {count(new)} changes that the table has not: archive them first")
    here, seen = {view.node for view in views}, set[Link]()
    for view in sorted(views, key=lambda view: view.node):
        # Of its own changes a node has the content longest; of those of nodes that are away, whoever has it.
        asked = {node: ticks for node, ticks in new.items() if node == view.node or node not in here}
        if not asked:
            continue
        try:
            for _, page in hosts.pages(view.addr, asked, path):
                seen.update(event.link for event, _ in page.events() if event.time <= at)
        except HOST_FAILURES as error:
            raise RequestError(f"{view.node} cannot say when it made what is not archived: {error}") from error
    if seen:
        first = tick_text(*min(seen))
        raise RequestError(
            f"{len(seen)} changes that were made up to {utc(at)} are not in the table, such as {first}: a clock was "
            "set back. Archive them, or take what there is (--allow-gaps)"
        )
