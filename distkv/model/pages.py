"""A whole tree in one fixed order, cut into pages, so that two trees can be compared without sending either.

Knows: the order of all paths, the system's own included, and what an entry adds to the digest.
Does not know who compares.

Invariant: the pages of a tree cover every path once, in order; the XOR of their digests is the tree's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

import attrs

from distkv.model.entry import Entry
from distkv.model.index import name_order
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges, ranges_of
from distkv.model.tree import Tree, share

_SYSTEM = Path((None,))


@attrs.frozen(slots=True)
class Page:
    """A stretch of a tree that begins where the one before ended."""

    until: Path | None
    """The last path; None: there are no more."""
    digest: int
    """The XOR of what its entries add to the digest."""
    ticks: TickRanges = attrs.field(factory=dict)
    """Its winners, deletions included, when it was asked for path by path. Open losers close by exchanges."""


def pages(tree: Tree, after: Path | None, until: Path | None, size: int) -> Iterator[Page]:
    """The paths behind `after`, up to `until`, in pages of `size`; the tree may change between two of them."""
    while True:
        found = list(islice(_between(tree, after, until), size))
        ticks = ranges_of(entry.head.link for entry in found) if size == 1 else {}
        if len(found) < size:
            yield Page(until, _sum(found), ticks)
            return
        after = found[-1].head.path
        yield Page(after, _sum(found), ticks)


def share_of(tree: Tree, after: Path | None, until: Path | None) -> int:
    """What the paths behind `after`, up to `until`, add to the digest."""
    return _sum(_between(tree, after, until))


def _between(tree: Tree, after: Path | None, until: Path | None) -> Iterator[Entry]:
    found = _all(tree, after)
    if until is None:
        return found
    last = _order(until)
    return takewhile(lambda entry: _order(entry.head.path) <= last, found)


def _all(tree: Tree, after: Path | None) -> Iterator[Entry]:
    """All entries behind a path: the root, the system's own, then the others; a path before what lies below it."""
    if after is None:
        root = tree.get(ROOT)
        if root is not None:
            yield root
    if after is None or after == ROOT:
        yield from tree.walk(_SYSTEM, tombstones=True)
    elif after.is_reserved:
        yield from tree.walk(_SYSTEM, after, tombstones=True)
    is_other = after is not None and after != ROOT and not after.is_reserved
    yield from tree.walk(ROOT, after if is_other else ROOT, tombstones=True)


def _order(path: Path) -> list[tuple[int, object]]:
    return [name_order(name) for name in path.key]


def _sum(entries: Iterator[Entry] | list[Entry]) -> int:
    digest = 0
    for entry in entries:
        digest ^= share(entry)
    return digest


