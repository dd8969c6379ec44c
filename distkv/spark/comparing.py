"""What nodes show, beside one another: at which paths they differ, and what of that is only on its way.

Knows: how trees are compared while they arrive, which ticks are missing, and when a difference counts.  Does not know
sockets, Spark, nor event tables.

Nodes that are written to never show the same at one moment. So what differs is looked at again, and counts when it
differs at every look. A path is settled, too, as soon as all nodes show at least what the highest of them showed at the
first look: what they show beyond that is younger than the comparison.

Invariant: trees may be as large as they like: of each, one value is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.client.conflicts import Loser
from distkv.client.questions import Entry
from distkv.errors import BadPathError, DecodeError
from distkv.model.event import Kind, Link, NodeName, Order, Tock, new_event, order, tick_text
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.index import place_of
from distkv.model.path import Path
from distkv.model.tick_ranges import TickRanges, common, without
from distkv.spark.nodes.planning import View, held_by, missing_at
from distkv.wire.events import read_shown_fence
from distkv.wire.fields import Fields, read_int, read_link, read_map, read_path
from distkv.wire.json_form import to_json
from distkv.wire.packing import pack
from distkv.wire.values import pack_value

SHOWN_CHARS: Final = 40
"""So much of a value is told."""


@attrs.frozen
class ShownEntry:
    """What a node shows at a path. Equal are those of one change with one value."""

    order: Order
    text: str = attrs.field(eq=False)
    """For people."""


Sight: TypeAlias = tuple[ShownEntry | None, ...]
"""What each node shows at a path, at one look; None: it has no value there."""


# -- values -------------------------------------------------------------------------------------------------------


def differing(trees: Sequence[Iterator[Fields]]) -> Iterator[tuple[Path, Sight]]:
    """The paths at which trees differ. Each tree comes as the items of `get_tree` with a chain of one link, in order.

    Raises:
        DecodeError: an item cannot be read.
    """
    heads = [next(tree, None) for tree in trees]
    while any(head is not None for head in heads):
        if _are_same(heads):
            heads = [next(tree, None) for tree in trees]
            continue
        paths = [None if head is None else _path(head) for head in heads]
        first = min((path for path in paths if path is not None), key=lambda path: place_of(path.key))
        has_it = [path == first for path in paths]
        sight = tuple(
            _shown_item(first, head) if here and head is not None else None
            for here, head in zip(has_it, heads, strict=True)
        )
        if len(set(sight)) > 1:
            yield first, sight
        heads = [next(tree, None) if here else head for tree, here, head in zip(trees, has_it, heads, strict=True)]


def shown(path: Path, entry: Entry | None) -> ShownEntry | None:
    """What a node shows that was asked for one path."""
    return None if entry is None else _shown(path, entry.chain[0], entry.tock, entry.value, entry.fence or NO_FENCE)


def is_settled(first: Sight, now: Sight) -> bool:
    """Whether nodes that showed different things at the first look differ no more, or for other reasons."""
    if len(set(now)) == 1:
        return True
    highest = max(one.order for one in first if one is not None)
    return all(one is not None and one.order >= highest for one in now)


def told(path: Path, nodes: Sequence[NodeName], sight: Sight) -> str:
    """A path at which nodes differ, in one line."""
    return f"{path}: " + ", ".join(
        f"{node} has {'nothing' if one is None else one.text}" for node, one in zip(nodes, sight, strict=True)
    )


# -- open conflicts -----------------------------------------------------------------------------------------------

OpenLosers: TypeAlias = tuple[frozenset[Link], ...]
"""The open losers of a path, of each node."""


def contested(lists: Sequence[Sequence[Loser]]) -> dict[Path, OpenLosers]:
    """The paths of which nodes have other open losers."""
    by_node: list[dict[Path, set[Link]]] = []
    for losers in lists:
        found: dict[Path, set[Link]] = {}
        for loser in losers:
            found.setdefault(loser.path, set()).add(loser.link)
        by_node.append(found)
    paths = dict.fromkeys(path for found in by_node for path in found)
    sights = {path: tuple(frozenset(found.get(path, ())) for found in by_node) for path in paths}
    return {path: sight for path, sight in sights.items() if len(set(sight)) > 1}


def told_losers(path: Path, nodes: Sequence[NodeName], sight: OpenLosers) -> str:
    """A path whose open losers differ, in one line."""
    texts = [" ".join(tick_text(*link) for link in sorted(links)) or "none" for links in sight]
    return f"{path}: open conflicts: " + ", ".join(
        f"{node} has {text}" for node, text in zip(nodes, texts, strict=True)
    )


# -- ticks --------------------------------------------------------------------------------------------------------


@attrs.define
class Standing:
    """What several looks at the nodes agree on. What one of them does not show is on its way."""

    table: TickRanges
    """Ticks that nodes should hold."""
    missing: TickRanges = attrs.field(init=False, factory=dict)
    """Heard of, and held by none of the nodes."""
    lost: TickRanges = attrs.field(init=False, factory=dict)
    """Of these what nobody alive has."""
    unheld: TickRanges = attrs.field(init=False, factory=dict)
    """Of `table` what no node holds."""
    show_the_same: bool = attrs.field(init=False, default=False)
    """Whether at one of the looks all nodes showed the same values and conflicts."""
    _has_begun: bool = attrs.field(init=False, default=False)

    def take(self, views: Sequence[View], elsewhere: TickRanges) -> None:
        """One more look; `elsewhere` is what nodes hold that were not named."""
        missing, lost = missing_at(views)
        unheld = without(without(self.table, held_by(views)), elsewhere)
        if self._has_begun:
            missing, lost, unheld = common(missing, self.missing), common(lost, self.lost), common(unheld, self.unheld)
        self.missing, self.lost, self.unheld, self._has_begun = missing, lost, unheld, True
        self.show_the_same |= len({view.digest for view in views}) == 1

    @property
    def is_calm(self) -> bool:
        """Whether a further look would tell nothing."""
        return self.show_the_same and not self.missing and not self.unheld


# -- inside -------------------------------------------------------------------------------------------------------


def _are_same(heads: Sequence[Fields | None]) -> bool:
    """As bytes: in Python 1, 1.0 and true are equal."""
    first = pack(heads[0])
    return all(pack(head) == first for head in heads[1:])


def _path(item: Fields) -> Path:
    try:
        return read_path(item.get("path"))
    except BadPathError as error:
        raise DecodeError(f"a node sends a path that is none: {error}", "bad_path") from None


def _shown_item(path: Path, item: Fields) -> ShownEntry:
    newest = read_map(item.get("chain"), "chain")
    link = read_link(newest.get("node"), newest.get("tick"), "chain")
    return _shown(path, link, Tock(read_int(item, "tock")), item.get("value"), read_shown_fence(item))


def _shown(path: Path, link: Link, tock: Tock, value: object, fence: Fence) -> ShownEntry:
    text = to_json(value)
    short = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
    event = new_event(path, Kind.SET, pack_value(value), (link,), tock, 0.0, fence=fence)
    return ShownEntry(order(event), f"{short} ({tick_text(*link)})")
