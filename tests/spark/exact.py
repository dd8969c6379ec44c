"""What was acknowledged, and that an event table has exactly that, as rows and as gaps.

Knows: clients that write, and the table as other readers see it.  Does not know how either came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from distkv.client.changes import Located, as_ticks
from distkv.client.questions import Set
from distkv.model.ranges import Ranges
from tests.process.servers import Server
from tests.spark.tables import check_whole, manifest, ticks_in

Links: TypeAlias = set[tuple[str, int]]
"""(node, tick) of changes."""

BATCH = 50


def written(
    server: Server, count: int, name: str, *, paths: int = 70, filler: Callable[[], object] = lambda: None
) -> Links:
    """Write so many values, some over one another, each with a filler; the changes that were acknowledged. There are at
    least `BATCH` paths."""
    found: Links = set()
    with server.client() as client:
        for at in range(0, count, BATCH):
            numbers = range(at, min(at + BATCH, count))
            batch = [Set(f"{name}{number % paths}", [number, filler()]) for number in numbers]
            found |= {(done.link[0], done.link[1]) for done in client.batch(batch) if done.link is not None}
    assert len(found) == count
    return found


def root_of(server: Server) -> Links:
    """What a founding writes itself that is not the system's: the value of the root."""
    with server.client() as client:
        return {(past.chain[0][0], past.chain[0][1]) for past in client.history(":")}


def content_of(server: Server, links: Links) -> Links:
    """The changes among these whose content a node has."""
    nodes = {node for node, _ in links}
    wanted = {node: Ranges.from_ticks(sorted(tick for other, tick in links if other == node)) for node in nodes}
    with server.client() as client:
        (found,) = client.get_changes(wanted, content=False)
    assert isinstance(found, Located)
    return _links(found.here)


def held_by(servers: Iterable[Server]) -> Links:
    """What one of these nodes holds at least, the system's own included."""
    return {link for server in servers for link in _links(as_ticks("held", server.state()["held"]))}


def rows_in(table: Path) -> Links:
    """The changes that are rows, each of which is one; the system's own left out."""
    check_whole(table)
    return set(ticks_in(table))


def gaps_in(table: Path) -> Links:
    """The ticks of the gaps that the manifest names; none of them is a row."""
    found = _links(as_ticks("gaps", manifest(table)["gaps"]))
    assert not found & set(ticks_in(table, system=True))
    return found


def check_exact(table: Path, acknowledged: Links, held: Links) -> Links:
    """Rows and gaps are together what was acknowledged, and with the system's own what the nodes hold; the gaps."""
    rows, gaps = rows_in(table), gaps_in(table)
    assert rows | (gaps & acknowledged) == acknowledged
    assert set(ticks_in(table, system=True)) | gaps == held
    return gaps


def _links(ticks: Mapping[str, Ranges]) -> Links:
    return {(node, tick) for node, some in ticks.items() for tick in some}
