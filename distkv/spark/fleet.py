"""The nodes that an audit looks at: asked again until they show the same, or for a while.

Knows: sockets, how often nodes are asked, and which of them failed.  Does not know when they differ (`comparing`), nor
event tables.

Nodes that show one digest at one moment show the same values and conflicts, so nothing of them is read. Else their
trees are read beside one another, and the paths that differ are asked for again.

Invariant: a node that fails in the middle is told as silent, and the others are compared without it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, islice
from typing import Final

import attrs

from distkv.client.addresses import Address, read_address
from distkv.client.bulk import tree_pages
from distkv.client.conflicts import Loser
from distkv.errors import DistkvError, PeerError, UnreachableError
from distkv.model.path import RESERVED, ROOT, Path
from distkv.model.tick_ranges import TickRanges, joined, without
from distkv.spark.comparing import (
    OpenLosers,
    Sight,
    Standing,
    contested,
    differing,
    is_settled,
    shown,
    told,
    told_losers,
)
from distkv.spark.nodes.hosts import HOST_FAILURES, Hosts, Patience
from distkv.spark.nodes.planning import ALIVE, View, held_by, plan
from distkv.wire.fields import Fields

PAUSE_S: Final = 0.5
"""Between two looks."""
SUSPECTS_MAX: Final = 100_000
"""Behind so many paths that differ the comparison ends: what is wrong is clear by then."""
TOLD_MAX: Final = 20
"""So many of them are named."""
_PATIENCE: Final = Patience()


@attrs.frozen
class ContentPlaces:
    """Of ticks that are held, and not in a table."""

    somewhere: TickRanges
    """A node that can be reached has it."""
    nowhere: TickRanges


class NamedNodes:
    """The nodes that were named and answer."""

    def __init__(self, addresses: Sequence[Address], patience_s: float) -> None:
        """Ask them for the first time.

        Raises:
            UnreachableError: none answers.
            PeerError: they belong to several networks.
        """
        self._hosts = Hosts(addresses)
        self._patience_s = patience_s
        self.views = self._hosts.views()
        """As of the last look."""
        self.silent: dict[str, DistkvError] = dict(self._hosts.failures)
        """Why hosts did not answer, by address."""
        self.standing = Standing({})

    @property
    def network(self) -> bytes:
        return self.views[0].network

    def look(self, table: TickRanges) -> None:
        """See what they hold, of these ticks too, until nothing is missing and they show the same, or patience ends.

        Raises:
            UnreachableError, PeerError: as at the first time.
        """
        self.standing = Standing(table)
        for _ in self._looks():
            self.views = self._hosts.views()
            self.silent = dict(self._hosts.failures)
            self.standing.take(self.views, self._held_by_others(without(table, held_by(self.views))))
            if self.standing.is_calm:
                return

    def differences(self) -> tuple[int, list[str]]:
        """At how many paths they differ, at the most `SUSPECTS_MAX`, and the first of them in lines.

        Raises:
            DecodeError: a node sends what cannot be read.
        """
        while not self.standing.show_the_same and len(self.views) > 1:
            nodes = [view.node for view in self.views]
            try:
                values = self._differing()
                losers = {path: sight for path, sight in self._contested().items() if path not in values}
                lines = chain(
                    (told(path, nodes, sight) for path, sight in values.items()),
                    (told_losers(path, nodes, sight) for path, sight in losers.items()),
                )
                return min(len(values) + len(losers), SUSPECTS_MAX), list(islice(lines, TOLD_MAX))
            except _HostFailedError as failed:
                self._leave_out(failed)
        return 0, []

    def content(self, ticks: TickRanges, gaps: TickRanges, path: Path) -> ContentPlaces:
        """Where the content is that a table of these ticks and gaps lacks; `path` is that of the table."""
        unknown = without(joined(held_by(self.views), gaps), ticks)
        nowhere = self._nowhere(unknown, path)
        if nowhere:  # what is not durable yet has no content for a moment
            time.sleep(PAUSE_S)
            nowhere = self._nowhere(nowhere, path)
        return ContentPlaces(without(unknown, nowhere), nowhere)

    # -- inside

    def _looks(self) -> Iterator[None]:
        """Once, and again until patience ends."""
        deadline = time.monotonic() + self._patience_s
        yield
        while time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            yield

    def _leave_out(self, failed: _HostFailedError) -> None:
        self.silent[failed.addr] = failed.reason
        self.views = [view for view in self.views if view.addr != failed.addr]

    def _held_by_others(self, wanted: TickRanges) -> TickRanges:
        """What members hold that were not named; they are asked only when something is wanted."""
        named = {view.node for view in self.views}
        members = {member.node: member for view in self.views for member in view.members if member.state == ALIVE}
        addresses = [read_address(one.addr) for node, one in members.items() if node not in named and one.addr]
        if not wanted or not addresses:
            return {}
        try:
            return held_by(Hosts(addresses).views())
        except (UnreachableError, PeerError):
            return {}

    def _nowhere(self, wanted: TickRanges, path: Path) -> TickRanges:
        if not wanted:
            return {}
        found = self._hosts.carry_out(plan(self.views, wanted), path)
        named = {view.addr for view in self.views}
        self.silent |= {addr: why for addr, why in self._hosts.failures.items() if addr in named}
        return joined(found.gaps, found.waiting)

    # -- values

    def _differing(self) -> dict[Path, Sight]:
        """The paths at which they show different things for as long as patience lasts, as at the last look."""
        tops = (ROOT, RESERVED)
        first = dict(islice(chain.from_iterable(self._differing_below(top) for top in tops), SUSPECTS_MAX))
        now = first
        for _ in self._looks():
            if not now:
                break
            sights = self._sights(list(now))
            now = {path: sight for path, sight in sights.items() if not is_settled(first[path], sight)}
        return now

    def _differing_below(self, top: Path) -> Iterator[tuple[Path, Sight]]:
        with ExitStack() as stack:
            yield from differing([stack.enter_context(closing(_items(view, top))) for view in self.views])

    def _sights(self, paths: Sequence[Path]) -> dict[Path, Sight]:
        by_node = []
        for view in self.views:
            with _blamed(view), self._hosts.client(view.addr) as client:
                by_node.append([shown(path, client.get(path)) for path in paths])
        return dict(zip(paths, zip(*by_node, strict=True), strict=True))

    def _contested(self) -> dict[Path, OpenLosers]:
        """The same of their open conflicts."""
        found: dict[Path, OpenLosers] | None = None
        for _ in self._looks():
            now = contested([self._losers(view) for view in self.views])
            found = now if found is None else {path: sight for path, sight in now.items() if path in found}
            if not found:
                break
        return found or {}

    def _losers(self, view: View) -> Sequence[Loser]:
        with _blamed(view), self._hosts.client(view.addr) as client:
            return client.conflicts(ROOT) + client.conflicts(RESERVED)


class _HostFailedError(Exception):
    """A host that answered does so no more."""

    def __init__(self, addr: str, reason: DistkvError) -> None:
        super().__init__(addr)
        self.addr = addr
        self.reason = reason


@contextmanager
def _blamed(view: View) -> Iterator[None]:
    try:
        yield
    except HOST_FAILURES as error:
        raise _HostFailedError(view.addr, error) from error


def _items(view: View, top: Path) -> Generator[Fields, None, None]:
    """The values of a tree as the node sent them."""
    pages = tree_pages(read_address(view.addr), top, connect_s=_PATIENCE.connect_s, reply_s=_PATIENCE.reply_s)
    with closing(pages), _blamed(view):
        for page in pages:
            yield from page.items
