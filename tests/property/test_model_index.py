"""The index of entries agrees with a plain dict of paths, however paths come, turn and are walked."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.index import Index, name_order
from distkv.model.path import NAMES_MAX, Name, Path

pytestmark = pytest.mark.slow

names = st.sampled_from(["", "a", "b", "c", "ä", None, False, True, 0, 1, -1, 1.0, 0.5, b"a", b"\xff"])
paths = st.lists(names, max_size=4).map(Path)
turns = st.lists(st.tuples(paths, st.sampled_from([True, True, False, False, None])), max_size=40)
"""Which path has a value from now on, or has none; None: it had none, and is forgotten."""

Turns = list[tuple[Path, bool | None]]
Plain = dict[Path, bool]


@attrs.define
class Both:
    """An index, and what it must agree with."""

    index: Index = attrs.field(factory=Index)
    plain: Plain = attrs.field(factory=dict)

    def turn(self, path: Path, is_live: bool | None) -> None:
        if is_live is None:
            self.forget(path)
            return
        event = Event(path, Kind.SET if is_live else Kind.DELETE, b"", ((NodeName("a"), Tick(1)),), Tock(1), 0.0)
        if path not in self.plain and len(self.plain) % 2:  # both ways to keep the first entry of a path
            self.index.add(path.key, Entry(event))
        else:
            self.index.put(path.key, Entry(event))
            if self.plain.get(path, False) != is_live:
                self.index.turned(path.key, is_live)
        assert self.index.is_only(event)
        self.plain[path] = is_live

    def forget(self, path: Path) -> None:
        if self.plain.get(path) is False:
            self.index.remove(path.key)
            del self.plain[path]

    def below(self, path: Path) -> Iterator[Path]:
        """The paths with a value that a look around from `path` shows, in order."""
        for found in sorted((path for path, is_live in self.plain.items() if is_live), key=_order):
            if found.key[: len(path)] == path.key and (found.is_reserved <= path.is_reserved):
                yield found


def _order(path: Path) -> list[tuple[int, object]]:
    return [name_order(name) for name in path.key]


def both_of(history: Turns) -> Both:
    both = Both()
    for path, is_live in history:
        both.turn(path, is_live)
    return both


@given(turns, paths)
def test_path_has_the_entry_that_was_put_there(history: Turns, path: Path) -> None:
    both = both_of(history)
    for wanted in (path, *both.plain):
        entry = both.index.get(wanted.key)
        assert (entry is not None) == (wanted in both.plain)
        assert entry is None or (entry.head.path == wanted and entry.is_live == both.plain[wanted])


@given(turns)
def test_all_entries_are_there_once_and_each_before_what_lies_below_it(history: Turns) -> None:
    both = both_of(history)
    found = [entry.head.path for entry in both.index.entries()]
    assert len(found) == len(set(found)) == len(both.index)
    assert set(found) == set(both.plain)
    for at, path in enumerate(found):
        assert not [later for later in found[at:] if len(later) < len(path) and path.key[: len(later)] == later.key]


@given(turns, turns, paths, st.integers(0, 3), st.integers(0, 4))
def test_walk_shows_every_value_in_order(
    history: Turns, more: Turns, path: Path, low: int, high: int
) -> None:
    both = both_of(history)
    for part in ([], more):  # names that come after a walk find their place, too
        for turn in part:
            both.turn(*turn)
        found = [entry.head.path for entry in both.index.walk(path, None, low, high) if entry.is_live]
        assert found == [other for other in both.below(path) if low <= len(other) - len(path) <= high]


@given(turns, paths, st.integers(1, 3), st.data())
def test_walk_in_parts_shows_what_stays_exactly_once(
    history: Turns, path: Path, size: int, data: st.DataObject
) -> None:
    both = both_of(history)
    before = list(both.below(path))
    changed: set[Path] = set()
    found: list[Path] = []
    after: Path | None = None
    while True:
        part = [e for e, _ in zip(both.index.walk(path, after, 0, NAMES_MAX), range(size), strict=False)]
        if not part:
            break
        found += [entry.head.path for entry in part if entry.is_live]
        after = part[-1].head.path
        turn = data.draw(st.none() | st.tuples(paths, st.sampled_from([True, False, None])))
        if turn is not None and len(changed) < 20:
            both.turn(*turn)
            changed.add(turn[0])
    assert len(found) == len(set(found))
    assert [one for one in found if one not in changed] == [one for one in before if one not in changed]
    assert found == sorted(found, key=_order)


@given(turns, turns, paths)
def test_names_are_those_that_lead_to_a_value(
    history: Turns, more: Turns, path: Path
) -> None:
    both = both_of(history)
    for part in ([], more):
        for turn in part:
            both.turn(*turn)
        below = [other.names[len(path) :] for other in both.below(path) if len(other) > len(path)]
        wanted: list[tuple[Name, bool, int]] = []
        for key in dict.fromkeys(Path(names[:1]) for names in below):
            mine = [Path(names) for names in below if Path(names[:1]) == key]
            children = {Path(other.names[:2]) for other in mine if len(other) > 1}
            wanted.append((key.names[0], key in mine, len(children)))
        found = [one for one in both.index.names(path) if one[1] or one[2]]
        assert repr(found) == repr(wanted)
        for at, one in enumerate(wanted):
            rest = [other for other in both.index.names(path, Path([one[0]])) if other[1] or other[2]]
            assert repr(rest) == repr(wanted[at + 1 :])


@given(st.lists(st.integers(0, 400), max_size=300), st.integers(0, 300))
def test_many_names_are_in_order_whenever_they_are_walked(numbers: list[int], at: int) -> None:
    both = Both()
    for count, number in enumerate(numbers):
        both.turn(Path(["p", f"{number}"]), True)
        if count == at:
            list(both.index.walk(Path()))
    found = [entry.head.path.names[1] for entry in both.index.walk(Path())]
    assert found == sorted({f"{number}" for number in numbers})


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=300), st.integers(0, 300))
def test_many_names_stay_in_order_when_some_are_forgotten(numbers: list[tuple[int, bool]], at: int) -> None:
    both = Both()
    for count, (number, is_live) in enumerate(numbers):
        path = Path(["p", f"{number}", "q"])
        both.turn(path, is_live)
        if count % 3 == 0:
            both.forget(path)
        if count == at:
            list(both.index.walk(Path(), tombstones=True))
    found = [entry.head.path for entry in both.index.walk(Path(), tombstones=True)]
    assert found == sorted(both.plain)


def test_index_of_which_all_is_forgotten_is_as_it_was() -> None:
    both = both_of([(Path(["a", "b", "c"]), False), (Path(["a"]), False), (Path(), False)])
    for path in list(both.plain):
        both.forget(path)
    assert len(both.index) == 0
    assert list(both.index.entries()) == []
