"""What a watcher believes of its part of a tree, as a user does who keeps a copy.

Knows: the events of a watch, and what a tree shows.  Does not know how the one comes from the other.

Invariant: whoever was told of a change at a path is told of no earlier one there, but after a `Resync`; and it is told
how many changes its node missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

from distkv.client.outages import Begun
from distkv.client.watch import Change, Contested, Lost, Missed, Resync, UpToDate, WatchEvent
from distkv.model.event import Link, tick_text
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.rule import BrokenRuleError
from distkv.wire.values import pack_value
from distkv.wire.watch import Token, decode_token

RULE: Final = "watchers know the tree"

_Order: TypeAlias = tuple[Fence, int, bool, int]


class WatchedCopy:
    """What one watcher believes. All methods may raise BrokenRuleError."""

    def __init__(self, who: str, path: Path) -> None:
        self.went_on = 0
        """How often it was told what it had missed, instead of everything anew."""
        self.missed: Final = Counter[str]()
        """How many changes it was told that the node missed, of which node, since it first knew all."""
        self._begin: Token | None = None
        """Where that was."""
        self._who: Final = f"{who} of {path}"
        self._path: Final = path
        self._values: Final[dict[Path, tuple[Link, object]]] = {}
        self._conflicts: Final[dict[Path, frozenset[Link]]] = {}
        self._told: Final[dict[Path, _Order]] = {}
        self._is_up_to_date = False
        self._knew_all = False

    def take(self, event: WatchEvent | Begun) -> None:
        """Believe what it is told."""
        match event:
            case Begun():
                self._conflicts.clear()  # all that are open follow
                self._is_up_to_date = False
            case Resync():
                self._values.clear()
                self._conflicts.clear()
                self._told.clear()
                self.missed.clear()
                self._begin = None
                self._is_up_to_date = self._knew_all = False
            case UpToDate(token=token):
                self.went_on += self._knew_all and token is not None
                self._is_up_to_date = self._knew_all = True
                if self._begin is None and token is not None:
                    self._begin = decode_token(token)
            case Missed(counts=counts):
                self.missed.update(counts)
            case Contested(path=path, losers=losers):
                self._conflicts.pop(path, None)
                if losers:
                    self._conflicts[path] = frozenset(losers)
            case Lost():
                pass
            case Change():
                self._change(event)
            case _:
                assert_never(event)

    def compare(self, host: str, tree: Tree, missed_since: Callable[[int], Counter[str]]) -> None:
        """With what its node holds, and what that missed from a place in its log on, when it was told all of it."""
        if not self._is_up_to_date:
            raise BrokenRuleError(RULE, f"{self._who} is not told by {host} all that there is")
        path = self._path
        shown = {entry.head.path: (entry.head.link, entry.head.value) for entry in tree.walk(path) if entry.is_live}
        known = {path: (link, pack_value(value)) for path, (link, value) in self._values.items()}
        self._check_equal(known, shown, host)
        open_now = {
            entry.head.path: frozenset(loser.link for loser in entry.conflicts())
            for entry in tree.conflicted_below(path)
            if entry.conflicts() and (path.is_reserved or not entry.head.path.is_reserved)
        }
        self._check_equal(self._conflicts, open_now, f"of the conflicts {host}")
        if self._begin is not None and self.missed != (missed := missed_since(self._begin.lsn)):
            raise BrokenRuleError(RULE, f"{self._who} is told that {dict(self.missed)} were missed, not {dict(missed)}")

    def _change(self, change: Change) -> None:
        path, fence = change.path, change.fence or NO_FENCE
        order = fence, change.tock, not change.is_expired, change.link[1]
        # Nothing is above a deletion: it may be purged, and then what is older and beside it comes from a retired node.
        if path in self._values and self._told[path] > order:
            raise BrokenRuleError(RULE, f"{self._who} is told of {tick_text(*change.link)} at {path} after a later one")
        self._told[path] = order
        self._values.pop(path, None)
        if not change.is_deleted:
            self._values[path] = change.link, change.value

    def _check_equal(self, known: Mapping[Path, object], shown: Mapping[Path, object], who: str) -> None:
        for path in sorted(known.keys() | shown.keys(), key=str):
            if known.get(path) != shown.get(path):
                what = f"at {path} {self._who} knows {known.get(path)}, {who} has {shown.get(path)}"
                raise BrokenRuleError(RULE, what)
