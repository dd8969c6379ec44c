"""Entries by path: finding one, walking what lies below a path in a fixed order, and listing the names below it.

Knows: which paths have an entry, and which lead to a value.  Does not know ticks, nor why an entry changed.

An entry is a leaf by itself; only a name with something below it costs a branch. So a name costs its place in one dict,
as it would in a flat one. Of an entry that is nothing but its winner, as nearly all are, only the winner is kept, and
whoever asks gets a new entry around it: 64 bytes less for each. The names of a branch are put in order when they are
first walked, and kept so from then on.

Invariant: what was changed in an entry holds as soon as it is put here again. `shown` of a branch is the number of its
children that lead to a value, which are those that have one and those with such a child below them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

import attrs

from distkv.model.entry import Entry
from distkv.model.event import Event, Kind
from distkv.model.path import NAMES_MAX, Name, NameKey, Path, PathKey, name_of

Kept: TypeAlias = Event | Entry
"""What is kept of an entry."""

FEW: Final = 64
"""Up to so many new names are put into an ordered list one by one; more are sorted with it."""

_NULL: Final[NameKey] = ("NoneType", None)
_TYPES: Final = {"NoneType": 0, "bool": 1, "int": 2, "float": 3}
_BYTES: Final = 4
_TEXT: Final = 5


def name_order(name: NameKey) -> tuple[int, object]:
    """The sort key of names: null, false, true, integers, floats, bytes, text; each kind by value."""
    if isinstance(name, str):
        return _TEXT, name
    if isinstance(name, bytes):
        return _BYTES, name
    return _TYPES[name[0]], 0 if name[1] is None else name[1]


Place: TypeAlias = tuple[tuple[int, object], ...]
"""Where a path comes in a walk: the sort key of paths."""


def place_of(path: PathKey) -> Place:
    return tuple(map(name_order, path))


@attrs.define(slots=True, eq=False, weakref_slot=False)
class _Branch:
    """A name with something below it."""

    children: dict[NameKey, Kept | _Branch]
    kept: Kept | None = None
    shown: int = 0
    _names: list[NameKey] | None = None
    """The names of the children in order, all but those that came last."""

    @property
    def is_shown(self) -> bool:
        """Whether it leads to a value."""
        return self.shown > 0 or _is_live(self.kept)

    def names(self) -> list[NameKey]:
        """The names of the children in order; not to be changed, nor kept while the tree changes."""
        names = self._names
        if names is None:
            names = self._names = []
        new = list(islice(reversed(self.children), len(self.children) - len(names)))
        if not new:
            return names
        # Text comes last, so where the first name is text all are.
        if set(map(type, new)) == {str} and (not names or type(names[0]) is str):
            _merge_text(names, new)
        elif len(new) <= FEW:
            for name in new:
                insort(names, name, key=name_order)
        else:
            names += new
            names.sort(key=name_order)
        return names

    def drop(self, name: NameKey) -> None:
        """Forget a child. Of the names in order the first are those of the oldest children, before it and after."""
        del self.children[name]
        names = self._names
        if names:
            at = bisect_left(names, name_order(name), key=name_order)
            if at < len(names) and names[at] == name:
                del names[at]

    def names_after(self, name: NameKey) -> Iterator[NameKey]:
        """The names above `name`, which need not be one of them."""
        names = self.names()
        at = bisect_right(names, name_order(name), key=name_order)
        return map(names.__getitem__, range(at, len(names)))


def _merge_text(names: list[NameKey], new: list[NameKey]) -> None:
    """The same as with a key, faster."""
    if len(new) <= FEW:
        for name in new:
            insort(names, name)
    else:
        names += new
        names.sort()


def _entry(kept: Kept) -> Entry:
    return kept if isinstance(kept, Entry) else Entry(kept)


def _is_live(kept: Kept | None) -> bool:
    head = kept.head if isinstance(kept, Entry) else kept
    return head is not None and head.kind is Kind.SET


class Index:
    """All entries of a tree."""

    def __init__(self) -> None:
        self._root = _Branch({})
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, key: PathKey) -> Entry | None:
        """The entry of a path; to be put again when it is changed."""
        kept = self._kept(key)
        return None if kept is None else _entry(kept)

    def head(self, key: PathKey) -> Event | None:
        """The winner of a path."""
        kept = self._kept(key)
        return kept.head if isinstance(kept, Entry) else kept

    def is_only(self, event: Event) -> bool:
        """Whether its path holds this event and nothing else is kept about it: so after nearly every write."""
        return self._kept(event.path.key) is event

    def entries(self, key: PathKey = ()) -> Iterator[Entry]:
        """All entries at and below a path, each before what lies below it; not while the tree changes."""
        todo = [self._find(key)]
        while todo:
            found = todo.pop()
            if isinstance(found, _Branch):
                todo += reversed(found.children.values())
                found = found.kept
            if found is not None:
                yield _entry(found)

    # -- changing

    def put(self, key: PathKey, entry: Entry) -> None:
        """Keep the entry of a path; `turned` is to follow if it has a value now, or has none any more."""
        kept = entry if entry.losers or entry.memory else entry.head
        branch = self._branch_above(key)
        last = branch.children.get(key[-1]) if key else branch
        if isinstance(last, _Branch):
            self._count += last.kept is None
            last.kept = kept
        else:
            self._count += last is None
            branch.children[key[-1]] = kept

    def add(self, key: PathKey, entry: Entry) -> None:
        """Keep the entry of a path that had none: `put` and `turned` in one, for a hundred thousand at a start."""
        branch = self._branch_above(key)
        if key and branch.shown and entry.is_live and key[-1] not in branch.children:
            branch.children[key[-1]] = entry if entry.losers or entry.memory else entry.head
            branch.shown += 1
            self._count += 1
            return
        self.put(key, entry)
        if entry.is_live:
            self.turned(key, True)

    def remove(self, key: PathKey) -> None:
        """Forget the entry of a path, which has one and had no value any more."""
        way = [self._root]
        for name in key[:-1]:
            below = way[-1].children[name]
            assert isinstance(below, _Branch)
            way.append(below)
        self._count -= 1
        last = way[-1].children[key[-1]] if key else self._root
        if isinstance(last, _Branch):
            last.kept = None
            return
        way[-1].drop(key[-1])
        while len(way) > 1 and not way[-1].children:  # a branch with nothing below it is a leaf, or nothing
            kept, name = way.pop().kept, key[len(way) - 1]
            if kept is not None:
                way[-1].children[name] = kept
                return
            way[-1].drop(name)

    def turned(self, key: PathKey, is_live: bool) -> None:
        """The entry of a path has a value now and had none before, or the other way round."""
        way = [self._root]
        found: Kept | _Branch = self._root
        for name in key:
            found = way[-1].children[name]
            if isinstance(found, _Branch):
                way.append(found)
        if isinstance(found, _Branch) and way.pop().shown:
            return
        while way:
            branch = way.pop()
            branch.shown += 1 if is_live else -1
            if branch.shown != is_live or _is_live(branch.kept):
                return

    # -- looking around

    def names(self, path: Path, after: Path | None = None) -> Iterator[tuple[Name, bool, int]]:
        """The names directly below a path, in order, or those of them that come after another name.

        Each with whether it has a value itself, and how many names directly below it lead to one. One that leads to no
        value any more is among them: so whoever takes so many at a time knows how far he came.
        """
        branch = self._find(path.key)
        if not isinstance(branch, _Branch):
            return
        begin = after.key[0] if after else None if path.key else _NULL  # the system's own are shown only to who asks
        for name in branch.names() if begin is None else branch.names_after(begin):
            found = branch.children[name]
            if isinstance(found, _Branch):
                yield name_of(name), _is_live(found.kept), found.shown
            else:
                yield name_of(name), _is_live(found), 0

    def walk(
        self,
        path: Path,
        after: Path | None = None,
        min_depth: int = 0,
        max_depth: int = NAMES_MAX,
        *,
        tombstones: bool = False,
    ) -> Iterator[Entry]:
        """The entries at and below a path, in order: a path before what lies below it, names as `name_order` says.

        Tombstones are among them, but not where nothing lives below them: so whoever takes so many at a time knows how
        far he came. To go on after a pause, in which the tree may have changed, walk again from the last one.

        Args:
            path: the system's own paths are walked only when it is one of them.
            after: only what comes after this path, which lies at or below `path`.
            min_depth: how many names below `path` they have at the least.
            max_depth: and at the most.
            tombstones: also where nothing lives below them, so that none is left out.
        """
        place = self._find(path.key)
        if place is None:
            return
        if not isinstance(place, _Branch):
            place = _Branch({}, place)
        if after is None and min_depth == 0 and place.kept is not None:
            yield _entry(place.kept)
        stack = self._resumed(place, () if after is None else after.key[len(path.key) :], is_root=not path.key)
        del stack[max_depth:]
        while stack:
            branch, names = stack[-1]
            for name in names:
                found = branch.children[name]
                kept = found.kept if isinstance(found, _Branch) else found
                if kept is not None and len(stack) >= min_depth:
                    yield _entry(kept)
                if isinstance(found, _Branch) and (found.shown or tombstones) and len(stack) < max_depth:
                    stack.append((found, iter(found.names())))
                    break
            else:
                stack.pop()

    # -- inside

    def _kept(self, key: PathKey) -> Kept | None:
        found: Kept | _Branch = self._root
        try:  # every read comes here, and nearly every one finds something: no check on the way
            for name in key:
                found = found.children[name]  # type: ignore[union-attr]  # only a branch has any; others raise
        except (KeyError, AttributeError):
            return None
        return found.kept if isinstance(found, _Branch) else found

    def _branch_above(self, key: PathKey) -> _Branch:
        """The branch that the last name of a path belongs into, made if there is none; of the root the root's."""
        branch = self._root
        for name in key[:-1]:
            found = branch.children.get(name)
            if not isinstance(found, _Branch):
                found = branch.children[name] = _Branch({}, found)
            branch = found
        return branch

    def _find(self, key: PathKey) -> Kept | _Branch | None:
        found: Kept | _Branch | None = self._root
        for name in key:
            if not isinstance(found, _Branch):
                return None
            found = found.children.get(name)
        return found

    def _resumed(
        self, branch: _Branch, after: PathKey, *, is_root: bool
    ) -> list[tuple[_Branch, Iterator[NameKey]]]:
        """The branches that a walk stands in when it has come to `after`, and what is left of each."""
        stack: list[tuple[_Branch, Iterator[NameKey]]] = []
        for name in after:
            stack.append((branch, branch.names_after(name)))
            found = branch.children.get(name)
            if not isinstance(found, _Branch):
                return stack
            branch = found
        is_top = is_root and not stack
        stack.append((branch, branch.names_after(_NULL) if is_top else iter(branch.names())))
        return stack
