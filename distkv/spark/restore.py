"""The job `restore`: the live tree becomes again what it was.

Knows: which trees are compared.  Does not know how the tree then is found (`spark.asof`), nor how what differs is
written (`spark.nodes.differences`).

Invariant: a path that changed since it was compared is left alone, and counted; the system's own paths are not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from distkv.client.addresses import Address
from distkv.client.blocking import Client
from distkv.client.questions import Entry
from distkv.errors import SettingsError
from distkv.model.path import ROOT, Path
from distkv.spark.asof import Cut, asof
from distkv.spark.nodes.differences import Restored, carry_out, differences
from distkv.spark.nodes.hosts import Hosts, check_whole
from distkv.spark.table.snapshot import read_table
from distkv.spark.unarchived import check_archived

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
