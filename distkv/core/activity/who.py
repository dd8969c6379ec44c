"""Where the listeners of all nodes are, and how many clients each has.

Knows: what nodes announce.  Does not know the clients themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from distkv.core.ground.frames import AnnouncedFields
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityNodeItem

LOAD_MAX: Final = 2**31 - 1


def announced_item(node: NodeName, fields: Mapping[str, object]) -> ActivityNodeItem | None:
    """What a node announces; None: it cannot be meant."""
    addr, load = fields.get("addr"), fields.get("load")
    if not isinstance(addr, str) or type(load) is not int or not 0 <= load <= LOAD_MAX:
        return None
    return ActivityNodeItem(node, load, addr)


def all_items(announced: AnnouncedFields, own: ActivityNodeItem | None) -> tuple[ActivityNodeItem, ...]:
    """Of all nodes that have a listener, this one included, by name."""
    found = [item for node in announced.nodes() if (item := announced_item(node, announced.of(node) or {}))]
    others = [item for item in found if own is None or item.node != own.node]
    return tuple(sorted([*others, *([] if own is None else [own])], key=lambda item: item.node))
