"""Who may be asked to be the parent in the server tree, the best first, and which offer is worth a change.

Knows: what others announced of their places, and who can be connected to.  Does not know edges, nor who was asked.

Invariant: the order depends on nothing but what is handed in; of nodes that announced nothing it makes a tree of its
own, so that a fleet that starts at once does not ask one node (docs/protocol, TREE-5, TREE-14).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.model.event import NodeName
from distkv.wire.announcing import Announcement
from distkv.wire.edges import ParentOffer

DEPTH_MAX: Final = 6
"""No node has a higher level."""
RISE_LEVELS: Final = 2
"""A node changes its parent for a place that is so many levels above its own."""


@attrs.frozen
class TreePeer:
    """Another registered node that seems alive."""

    addr: str
    rtt_ms: float | None = None
    """On the connection to it; None: there is none."""


def candidates(
    me: NodeName,
    height: int,
    fanout: int,
    peers: Mapping[NodeName, TreePeer],
    announced: Mapping[NodeName, Announcement],
    lost_root: NodeName | None,
) -> list[NodeName]:
    """Whom to ask, of `peers`. `height`: how many levels there are below us. `lost_root`: the root, if it was our
    parent until now: then all in its tree lose it, and the smallest of its children becomes the next root."""
    known = {name: announced[name] for name in peers if name in announced}
    if lost_root is not None:
        known = {name: one for name, one in known.items() if _is_before(me, name, one, lost_root)}
    fit = {name: one for name, one in known.items() if one.children < fanout and one.level + 1 + height <= DEPTH_MAX}

    def by_worth(name: NodeName) -> tuple[int, float, NodeName]:
        return fit[name].level, peers[name].rtt_ms or 0.0, name

    is_known = lost_root is not None and me in announced  # so are its other children, and they are enough
    strangers = [] if is_known else sorted(name for name in peers if name not in announced)
    found = [*sorted(fit, key=by_worth), *_by_place(me, strangers, fanout)]
    if any(peer.rtt_ms is not None for peer in peers.values()):
        return [name for name in found if peers[name].rtt_ms is not None]
    return found


def refusal(name: NodeName, path: Sequence[NodeName], *, is_full: bool) -> str | None:
    """Why a node with this way to its root cannot be the parent of a node that asks; None: it can."""
    if not path:
        return "detached"
    if name in path:
        return "circle"
    return "full" if is_full else None


def is_better(offer: ParentOffer, path: Sequence[NodeName], tree_height: int) -> bool:
    """Whether a node with this way to its root changes its parent. Of two trees, the one with fewer levels attaches to
    the other; of equal ones, that of the larger root. In the own tree only a place well above is better."""
    if not path:
        return False
    if offer.path[-1] == path[-1]:
        return is_well_above(len(offer.path) - 1, path)
    return (-offer.height, offer.path[-1]) < (-tree_height, path[-1])


def is_well_above(level: int, path: Sequence[NodeName]) -> bool:
    """Whether a child of a node of this level would stand well above a node with this way to the root."""
    return level + 1 + RISE_LEVELS <= len(path) - 1


def _is_before(me: NodeName, name: NodeName, one: Announcement, lost_root: NodeName) -> bool:
    return name == lost_root or (one.parent == lost_root and name < me)


def _by_place(me: NodeName, names: Sequence[NodeName], fanout: int) -> Iterator[NodeName]:
    """The parent of our place if all these and we, by name, were a tree of `fanout`, its parent, and so on to the
    first; then the others in turn from our place on."""
    here = place = bisect_left(names, me)
    above = list[int]()
    while place:
        place = (place - 1) // fanout
        above.append(place)
    yield from (names[at] for at in above)
    count = len(names)
    for step in range(count):
        at = (here + step) % count
        if at not in above:
            yield names[at]
