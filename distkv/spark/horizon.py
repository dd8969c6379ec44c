"""Up to when an event table knows all that happened, by what nodes say of themselves.

Knows: when a node's word stands for all that it wrote, and which moments a table can therefore show whole.  Does not
know how nodes are asked (`spark.nodes`), nor what becomes of a moment (`spark.asof`).

A node alone knows what it wrote. So its word counts, and nobody else's: of a node that is away the table is whole up to
the time when it was last asked, by its own clock, as the times of its changes are. The latest word counts, since a
clock may be set back. A retired node writes no more.

Invariant: a moment is refused as long as a change may have been made up to it that is neither in the table nor a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined
from distkv.spark.nodes.planning import RETIRED, View
from distkv.spark.table.manifest import Manifest
from distkv.text.moment import utc

NAMED_MAX: Final = 5
"""So many nodes are named in a message."""


def known_until(views: Sequence[View], manifest: Manifest) -> dict[NodeName, float]:
    """Up to when the table has all of each node of which these views say so; nothing of the others."""
    taken = joined(manifest.ticks, manifest.gaps)
    found: dict[NodeName, float] = {}
    for view in views:
        if view.time_s is None:
            continue
        lacks_none = not _made_by(view.node, view) - taken.get(view.node, Ranges())
        was_set_back = view.time_s < manifest.until.get(view.node, float("-inf"))
        if lacks_none or was_set_back:
            found[view.node] = view.time_s
    times = [view.time_s for view in views if view.time_s is not None]
    asked = {view.node for view in views}
    for node in sorted({member.node for view in views for member in view.members if member.state == RETIRED} - asked):
        if times and not any(_made_by(node, view) - taken.get(node, Ranges()) for view in views):
            found[node] = max(times)
    return found


def _made_by(node: NodeName, view: View) -> Ranges:
    """The ticks of a node that somebody knows of; the node itself may have lost some (docs/protocol, LIFE-12)."""
    return view.held.get(node, Ranges()) | view.missing.get(node, Ranges())


def unknown_before(at: float, manifest: Manifest, until: Mapping[NodeName, float]) -> dict[NodeName, float | None]:
    """The nodes of which changes up to `at` may be neither in the table nor gaps, and up to when all of theirs are."""
    names = sorted({*manifest.ticks, *manifest.gaps, *until})
    return {node: until.get(node) for node in names if until.get(node, float("-inf")) < at}


def words_of(unknown: Mapping[NodeName, float | None]) -> str:
    """As it stands behind 'the table has'."""
    parts = [
        f"an unknown part of {node}" if time is None else f"all of {node} up to {utc(time)}"
        for node, time in list(unknown.items())[:NAMED_MAX]
    ]
    more = len(unknown) - NAMED_MAX
    return ", ".join(parts) + (f", and {more} more nodes" if more > 0 else "")


def check_known(at: float, manifest: Manifest, until: Mapping[NodeName, float]) -> None:
    """Whether a moment can be shown whole.

    Raises:
        RequestError: changes up to then may not be in the table.
    """
    unknown = unknown_before(at, manifest, until)
    if not unknown:
        return
    known = [time for time in unknown.values() if time is not None]
    earlier = f"choose a moment up to {utc(min(known))}, " if len(known) == len(unknown) else ""
    raise RequestError(
        f"the table may lack changes up to {utc(at)}: it has {words_of(unknown)}. Archive them, {earlier}retire nodes "
        "that are gone, or take what there is (--allow-gaps)"
    )
