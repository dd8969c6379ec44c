"""The job `audit`: do the nodes show the same, is anything missing, and is an event table what it says it is?

Knows: what is looked at, and what all of it comes to.  Does not know how nodes are asked (`fleet`) and compared
(`comparing`), when a file is whole (`checking`), nor how a result is printed.

Invariant: nothing is changed, neither on nodes nor in a table, which others may use meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from distkv.client.addresses import Address
from distkv.errors import FormatVersionError, WrongDirectoryError
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges, count, without
from distkv.spark.checking import Checked, check
from distkv.spark.fleet import SUSPECTS_MAX, TOLD_MAX, ContentPlaces, NamedNodes
from distkv.spark.table.contents import TASKS_EACH, few, read_files, settled_line
from distkv.spark.table.manifest import DataFile, Manifest
from distkv.spark.table.snapshot import Snapshot, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S: Final = 15.0
"""So long it may take until a change is everywhere: a node that did not hear of it is told with the next ping but one,
and a clock is 5 s."""


@attrs.frozen
class Audited:
    """What an audit found. None is what was not looked at, without a table."""

    nodes: int
    """How many nodes answered."""
    differs: int
    """Paths at which nodes show other things: another value, another change, a value only here or there, or only
    other open conflicts. `fleet.SUSPECTS_MAX` stands for that many or more."""
    missing: int
    """Ticks of which a node has heard, and that none of them holds."""
    lost: int
    """Of these what nobody alive has."""
    gaps: int
    """Ticks that are held, or gaps of the table, and whose content nobody has: no node that can be reached, nor the
    table."""
    doubles: int | None
    """Events that are in the table more than once."""
    damaged: int | None
    """Files of the table that are not as they were written."""
    only_table: int | None
    """Ticks that the table has, and that no node holds."""
    behind: int | None
    """Ticks whose content a node has and the table has not: the next `archive` brings them."""
    silent: tuple[str, ...] = ()
    """Hosts that did not answer, in lines."""
    told: tuple[str, ...] = ()
    """What is wrong, in lines; and which gaps somebody settled, which is no fault."""

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to see to. Gaps are no fault: nodes forget what was overwritten. Nor is it one that
        a table is behind."""
        return not (
            self.silent
            or any((self.differs, self.missing, self.lost, self.doubles, self.damaged, self.only_table))
        )


def audit(
    spark: SparkSession,
    addresses: Sequence[Address],
    directory: str | None = None,
    *,
    patience_s: float = PATIENCE_S,
) -> Audited:
    """Compare nodes with each other, and with the event table in a folder, if one is named.

    Args:
        spark: the session.
        addresses: the nodes. Other members of the network are asked only for what these lack.
        directory: the event table; None: only the nodes are looked at.
        patience_s: what differs or is missing for no longer than so many seconds is on its way, and does not count.

    Raises:
        UnreachableError: no node answers.
        PeerError: the nodes belong to several networks.
        WrongDirectoryError: the folder is no event table, or one of another network.
        FormatVersionError: a newer release wrote the table.
        LogDamagedError: its manifest is damaged.
    """
    if directory is None:
        return _result(_look_at_nodes(NamedNodes(addresses, patience_s), None), None)
    with read_table(directory, takes_damaged=True) as table:
        fleet, manifest = NamedNodes(addresses, patience_s), table.manifest
        if manifest.network != fleet.network:
            raise WrongDirectoryError(
                f"{table.directory} is the event table of network {manifest.network.hex()}, and the hosts are of "
                f"{fleet.network.hex()}: name another folder, or hosts of that network"
            )
        found = _result(_look_at_nodes(fleet, manifest), _look_at_files(spark, table))
    if not (settled := manifest.settled_gaps):
        return found
    return attrs.evolve(found, told=(*found.told, settled_line(settled)))


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Nodes:
    """What was found of the nodes."""

    fleet: NamedNodes
    differs: int
    differing: list[str]
    """The first paths that differ, in lines."""
    content: ContentPlaces


@attrs.frozen
class _Files:
    """What was found of the files of a table."""

    damage: tuple[str, ...]
    doubles: int


def _look_at_nodes(fleet: NamedNodes, manifest: Manifest | None) -> _Nodes:
    nothing: TickRanges = {}
    ticks, gaps, path = nothing, nothing, ROOT
    if manifest is not None:
        ticks, gaps = manifest.ticks, manifest.gaps
        path = ROOT if manifest.path is None else Path.parse(manifest.path)
    fleet.look(ticks)
    return _Nodes(fleet, *fleet.differences(), fleet.content(ticks, gaps, path))


def _look_at_files(spark: SparkSession, table: Snapshot) -> _Files:
    """Read all files, and count events that are there twice, if the files say that there can be any."""
    files = [(table.place_of(file), file) for file in table.manifest.files if file.name not in table.damage]
    checked = _checked(spark, files)
    doubles = 0
    if not all(one.has_own_ticks for one in checked):
        doubles = _doubles(spark, [one.place for one in checked if one.is_readable])
    damage = (table.shown(one.damage) for one in checked if one.damage is not None)
    return _Files((*table.damage.values(), *damage), doubles)


def _checked(spark: SparkSession, files: Sequence[tuple[str, DataFile]]) -> list[Checked]:
    if not files:
        return []
    tasks = min(len(files), TASKS_EACH * spark.sparkContext.defaultParallelism)
    found = spark.sparkContext.parallelize(files, tasks).map(lambda one: check(*one)).collect()
    for one in found:
        if isinstance(one, FormatVersionError):
            raise one
    return [one for one in found if isinstance(one, Checked)]


def _doubles(spark: SparkSession, places: list[str]) -> int:
    from pyspark.sql import functions as sql

    return read_files(spark, places).groupBy("node", "tick").count().where(sql.col("count") > 1).count()


def _result(nodes: _Nodes, files: _Files | None) -> Audited:
    fleet, content, standing = nodes.fleet, nodes.content, nodes.fleet.standing
    return Audited(
        nodes=len(fleet.views),
        differs=nodes.differs,
        missing=count(standing.missing),
        lost=count(standing.lost),
        gaps=count(content.nowhere),
        doubles=None if files is None else files.doubles,
        damaged=None if files is None else len(files.damage),
        only_table=None if files is None else count(standing.unheld),
        behind=None if files is None else count(content.somewhere),
        silent=tuple(f"{addr} is not compared: {why}" for addr, why in fleet.silent.items()),
        told=tuple(_told(nodes, files)),
    )


def _told(nodes: _Nodes, files: _Files | None) -> Iterator[str]:
    """What is wrong, in lines."""
    yield from nodes.differing
    if more := nodes.differs - len(nodes.differing):
        yield f"{'at least ' if nodes.differs == SUSPECTS_MAX else ''}{more} more paths differ"
    standing = nodes.fleet.standing
    for ticks, what in (
        (without(standing.missing, standing.lost), "missing: a node has heard of them, and none of these holds them"),
        (standing.lost, "lost: no node that is alive holds them"),
        (standing.unheld, "only in the table: no node holds them any more"),
    ):
        if ticks:
            yield f"{few(ticks)} {what}"
    damage = () if files is None else files.damage
    yield from damage[:TOLD_MAX]
    if len(damage) > TOLD_MAX:
        yield f"{len(damage) - TOLD_MAX} more files are damaged"
