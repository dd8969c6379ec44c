"""Where the listeners of all nodes are, and how many clients each has.

Knows: what nodes announce.  Does not know the clients themselves.
"""

from __future__ import annotations

from distkv.core.activity.other_listeners import AnnouncedPlace, read_place
from distkv.core.ground.frames import AnnouncedFields
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityNodeItem


def all_items(announced: AnnouncedFields, own: ActivityNodeItem | None) -> tuple[ActivityNodeItem, ...]:
    """Of all nodes that have a listener, this one included, by name."""
    places = {node: read_place(announced.of(node)) for node in announced.nodes()}
    found = {node: _item(node, place) for node, place in places.items() if place is not None}
    if own is not None:
        found[NodeName(own.node)] = own
    return tuple([found[node] for node in sorted(found)])


def _item(node: NodeName, place: AnnouncedPlace) -> ActivityNodeItem:
    return ActivityNodeItem(node, place.load, f"{place.host}:{place.port}")
