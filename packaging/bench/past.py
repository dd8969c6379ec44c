"""A fleet's past: three nodes write, part, lose a disk; all of it is archived, and three moments are had back.

Knows: what happens to the fleet, and what must come of it.  Does not know how an archive or a tree of a moment is made.

Invariant: every change that a node acknowledged is a row or a gap of the table in the end, and each moment has the
digest that the nodes showed then; else it raises, and there are no figures.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bench.figures import table
from bench.network import NAMES, Network, client_of, wait
from bench.pipeline import session
from bench.servers import Server, ServerError
from distkv.client.changes import as_ticks
from distkv.client.questions import Delete, Set
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count, joined, without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH: Final = 500
PATHS: Final = 20_000
DELETES: Final = 0.05
EXPIRIES: Final = 0.01
"""Of all writes, so many delete, and so many set a value that goes by itself."""
TTL_S: Final = 2.0
EQUAL_S: Final = 900.0
POLL_S: Final = 0.5
ASOF_AIM_S: Final = 20.0
"""For a million events, with digest."""


@attrs.frozen
class Moment:
    """The fleet at rest, and what became of that in the table."""

    what: str
    held: TickRanges
    digest: str
    ticks: int = 0
    entries: int = 0
    conflicts: int = 0
    seconds: float = 0.0


@attrs.frozen
class Past:
    """What happened, and what it came to."""

    acknowledged: int
    rows: int
    """Events in the table."""
    gaps: int
    written_s: float
    """Until the last moment, with all pauses."""
    archived_s: list[float]
    moments: list[Moment]


def measure(network: Network, directory: Path, events: int) -> Past:
    """So many writes in three parts of equal size, an archive before a disk is lost and one at the end.

    Raises:
        ServerError: something is not as it must be.
    """
    fleet = _Fleet(network)
    place = str(directory / "table")
    with session() as spark:
        begun = time.perf_counter()
        fleet.write(events // 3)
        moments = [fleet.moment("one network")]
        with fleet.parted("c"):
            fleet.write(events // 3)
        moments.append(fleet.moment("after a split"))
        archived_s = [_archived(spark, place, network.nodes)]
        fleet.wipe("b")
        fleet.write(events - 2 * (events // 3))
        moments.append(fleet.moment("after a lost disk"))
        written_s = time.perf_counter() - begun
        archived_s.append(_archived(spark, place, network.nodes))
        rows, gaps = _check(place, fleet.acknowledged)
        moments = [_had_back(spark, place, moment) for moment in moments]
    return Past(count(fleet.acknowledged), rows, gaps, written_s, archived_s, moments)


def past_table(past: Past) -> str:
    """What happened, in lines."""
    lines = [
        f"{past.acknowledged:,} changes acknowledged by three nodes in {past.written_s:.0f} s, pauses included",
        f"archived: {past.rows:,} rows and {past.gaps:,} gaps, in {' + '.join(f'{s:.0f}' for s in past.archived_s)} s",
        table(
            ["moment", "ticks", "values", "open conflicts", "digest", "s"],
            [[m.what, f"{m.ticks:,}", f"{m.entries:,}", f"{m.conflicts:,}", "equal", f"{m.seconds:.1f}"]
             for m in past.moments],
        ),
    ]  # fmt: skip
    last = past.moments[-1]
    per_million = last.seconds * 1e6 / last.ticks
    verdict = "ok, aim" if per_million <= ASOF_AIM_S else "MISSED, aim"
    lines.append(f"as of the last moment, with digest: {per_million:.1f} s for a million: {verdict} {ASOF_AIM_S:g}")
    return "\n".join(lines)


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.define
class _Fleet:
    """Three nodes, and what they acknowledged."""

    network: Network
    acknowledged: TickRanges = attrs.field(factory=dict)

    def write(self, events: int) -> None:
        """So many changes, on all nodes at once; of the same paths."""
        with ThreadPoolExecutor(len(NAMES)) as threads:
            for done in threads.map(lambda name: _written(self.network.nodes[name], events // len(NAMES)), NAMES):
                self.acknowledged = joined(self.acknowledged, done)

    def moment(self, what: str) -> Moment:
        """When nothing goes by itself any more, and all nodes hold the same."""
        time.sleep(TTL_S + 1)
        found: list[Moment] = []

        def are_equal() -> bool:
            states = [_state(node) for node in self.network.nodes.values()]
            shown = {(str(state["digest"]), repr(state["held"]), repr(state["missing"])) for state in states}
            if len(shown) == 1 and states[0]["missing"] == states[0]["lost"]:
                found.append(Moment(what, as_ticks("held", states[0]["held"]), str(states[0]["digest"])))
            return bool(found)

        wait(are_equal, f"all nodes hold the same {what}", EQUAL_S, POLL_S)
        return found[0]

    @contextmanager
    def parted(self, name: str) -> Iterator[None]:
        """A node whose agent hears and says nothing."""
        agent = self.network.agents[name].pid
        os.kill(agent, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(agent, signal.SIGCONT)

    def wipe(self, name: str) -> None:
        """A node is killed, and comes back with an empty disk."""
        node = self.network.nodes[name]
        node.end(signal.SIGKILL)
        shutil.rmtree(node.directory / "data")
        node.start()


def _written(node: Server, events: int) -> TickRanges:
    chance = random.Random(node.name)
    ticks = Ranges()
    with client_of(node) as client:
        for at in range(0, events, BATCH):
            paths = [f"past.k{number}" for number in chance.sample(range(PATHS), min(BATCH, events - at))]
            done = client.batch([_write(chance, path, at) for path in paths])
            links = [one.link for one in done if one.changed and one.link is not None]
            ticks.update(Ranges.from_ticks(sorted(tick for _, tick in links)))
    return {NodeName(node.name): ticks}


def _write(chance: random.Random, path: str, number: int) -> Set | Delete:
    kind = chance.random()
    if kind < DELETES:
        return Delete(path)
    value = {"v": number, "unit": "C", "place": "kitchen-12"}
    return Set(path, value, ttl=TTL_S if kind < DELETES + EXPIRIES else None)


def _archived(spark: SparkSession, place: str, nodes: Mapping[str, Server]) -> float:
    from distkv.spark.archive import Wishes, archive_once

    return archive_once(spark, place, Wishes(tuple(("127.0.0.1", node.port) for node in nodes.values()))).seconds


def _check(place: str, acknowledged: TickRanges) -> tuple[int, int]:
    """Rows and gaps of a table that has all that was acknowledged."""
    from distkv.spark.table.store import open_table

    with open_table(place, network=None) as opened:
        manifest = opened.manifest
    lacking = without(acknowledged, joined(manifest.ticks, manifest.gaps))
    if lacking:
        raise ServerError(f"{count(lacking)} acknowledged changes are neither rows nor gaps")
    if manifest.rows != count(manifest.ticks):
        raise ServerError(f"{manifest.rows} rows of {count(manifest.ticks)} ticks")
    return manifest.rows, count(manifest.gaps)


def _had_back(spark: SparkSession, place: str, moment: Moment) -> Moment:
    from distkv.spark.asof import Cut, asof

    begun = time.perf_counter()
    found = asof(spark, place, Cut(moment.held))
    seconds = time.perf_counter() - begun
    if found.digest != moment.digest:
        raise ServerError(f"{moment.what}: the nodes had the digest {moment.digest}, and the table has {found.digest}")
    return attrs.evolve(
        moment, ticks=found.ticks, entries=len(found.entries), conflicts=found.conflicts, seconds=seconds
    )


def _state(node: Server) -> Mapping[str, object]:
    with client_of(node) as client:
        return client.state()
