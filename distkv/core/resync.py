"""The last resort: two nodes that hold the same ticks and not the same values compare what they hold, path by path.

Knows: when two digests are a reason, and which stretches of the tree differ.  Does not talk: it says what to ask next.

Invariant: one comparison is under way at the most; it moves the events of the paths that differ, and no others, a
bounded number at a time (docs/protocol, SYNC-1 to SYNC-5).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.core.ready import AskEvents, AskPages
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.pages import Page, share_of
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count
from distkv.model.tree import Sums, Tree

PAGE_PATHS: Final = 1000
"""How many paths one page of the first look covers."""
STRETCHES_MAX: Final = 64
"""How many pages that differ are looked into at one time; more are left to the next one."""
EVENTS_MAX: Final = 1000
"""After so many ticks they are fetched."""
AGAIN_CLOCKS: Final = 8
"""A peer with whom it brought nothing is left alone for so long, unless something changes."""
SUSPECTS_MAX: Final = 64

Stretch: TypeAlias = tuple[Path | None, Path | None]
"""The paths behind the first, up to the second; None: the first or the last there is."""


@attrs.define(slots=True)
class DigestResync:
    """The machine. All times are monotonic milliseconds."""

    clock_ms: int
    peer: NodeName | None = None
    """With whom a comparison is under way."""
    merged: int = 0
    """How many events it brought."""
    _mine: Sums | None = None
    _seen: dict[int, int] = attrs.field(factory=dict)
    """Other digests beside the same ticks as ours, and when each was seen first; as long as ours stays."""
    _theirs: int = 0
    _cursor: Path | None = None
    _is_first_look: bool = True
    _todo: list[Stretch] = attrs.field(factory=list)
    _wanted: TickRanges = attrs.field(factory=dict)

    # -- when

    def differed(self, mine: Sums, theirs: int, now_ms: int) -> bool:
        """A node holds our ticks and has the digest `theirs`; `mine` are our digest and tick hash.

        True when it did so before, half a clock ago or longer, and nothing has changed since.
        """
        if mine != self._mine:
            self._mine, self._seen = mine, {}
        if len(self._seen) >= SUSPECTS_MAX and theirs not in self._seen:
            del self._seen[next(iter(self._seen))]
        return now_ms - self._seen.setdefault(theirs, now_ms) >= self.clock_ms // 2

    # -- how

    def begin(self, name: NodeName, theirs: int, now_ms: int) -> AskPages | None:
        """Start with a look at the whole tree; None when a comparison is under way.

        What it brings makes our digest another one. When it brings nothing, the peer has to learn from us.
        """
        if self.peer is not None:
            return None
        self._seen[theirs] = now_ms + AGAIN_CLOCKS * self.clock_ms
        self._theirs = theirs
        self.peer, self.merged = name, 0
        self._cursor, self._is_first_look, self._todo, self._wanted = None, True, [], {}
        return AskPages(None, None, PAGE_PATHS)

    def page_came(self, page: Page, tree: Tree) -> None:
        """The peer's share of the next stretch."""
        stretch = self._cursor, page.until
        self._cursor = page.until
        if share_of(tree, *stretch) == page.digest:
            return
        if self._is_first_look:
            if len(self._todo) < STRETCHES_MAX:
                self._todo.append(stretch)
            return
        for node, ticks in page.ticks.items():
            self._wanted.setdefault(node, Ranges()).update(ticks)

    def next_ask(self) -> AskPages | AskEvents | None:
        """What to ask now that the last answer is complete; None: nothing more."""
        self._is_first_look = False
        if self._wanted and (not self._todo or count(self._wanted) >= EVENTS_MAX):
            wanted, self._wanted = self._wanted, {}
            return AskEvents(wanted)
        if not self._todo:
            return None
        self._cursor, until = self._todo.pop(0)
        return AskPages(self._cursor, until, 1)

    def end(self, *, is_whole: bool) -> None:
        """It is over; what broke off may begin again soon."""
        self.peer = None
        if not is_whole:
            self._seen.pop(self._theirs, None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._seen) <= SUSPECTS_MAX, "few digests are remembered")
        must(len(self._todo) <= STRETCHES_MAX, "few stretches are to be looked at")
