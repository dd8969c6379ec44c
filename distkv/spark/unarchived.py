"""What nodes hold and an event table does not, by the times at which it was made.

Knows: which changes are new, and that only their content tells when they were made.  Does not know what becomes of a
moment (`spark.asof`), nor how nodes are asked (`spark.nodes`).

The table keeps up to when it has all changes of a node, by the clock of that node (`spark.horizon`). When the clock was
set back since, new changes may be of moments that the table takes for whole.

Invariant: a change that a node which answers can show is not overlooked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.errors import RequestError
from distkv.model.event import Link, tick_text
from distkv.model.path import Path
from distkv.model.tick_ranges import count, joined, without
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts
from distkv.spark.nodes.planning import View, held_by
from distkv.spark.table.manifest import Manifest
from distkv.text.moment import utc

LOOKED_AT_MAX: Final = 1_000_000
"""So many changes are read; above it they have to be archived."""


def check_archived(at: float, path: Path, hosts: Hosts, views: Sequence[View], manifest: Manifest) -> None:
    """Whether nothing at or below `path` that was made up to a moment is at these nodes and not in the table.

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
