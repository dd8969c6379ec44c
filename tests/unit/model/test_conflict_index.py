"""The entries with open losers: in order, those below a path, those behind one, and how many losers are told of."""

from __future__ import annotations

import pytest

from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Name, Path
from distkv.model.tree import Tree
from distkv.wire.values import pack_value

IN_ORDER: list[tuple[Name, ...]] = [
    (), (None, "z"), (2,), (b"a",), ("a",), ("a", "x", 1), ("a", "y"), ("ab",), ("b",),
]  # fmt: skip
PATHS = [IN_ORDER[at] for at in (0, 8, 2, 6, 4, 5, 7, 1, 3)]


def event(node: str, tick: int, names: tuple[Name, ...], kind: Kind = Kind.SET) -> Event:
    value = pack_value(node) if kind is Kind.SET else b""
    return Event(Path(names), kind, value, ((NodeName(node), Tick(tick)),), Tock(tick), 0.0)


def contested_tree() -> Tree:
    """Two nodes wrote each of `PATHS`, and one of them many others."""
    tree = Tree()
    for tick, names in enumerate(PATHS, 1):
        for node in ("one", "two"):
            tree.apply(event(node, tick, names))
    for tick in range(100, 120):
        tree.apply(event("one", tick, ("a", f"n{tick}")))
    return tree


def below(tree: Tree, names: tuple[Name, ...], after: tuple[Name, ...] | None = None) -> list[tuple[Name, ...]]:
    found = tree.conflicted_below(Path(names), None if after is None else Path(after))
    return [entry.head.path.names for entry in found]


def test_all_are_in_the_order_of_a_walk() -> None:
    tree = contested_tree()
    assert [tuple(names) for names in below(tree, ())] == IN_ORDER
    walked = [entry.head.path.names for entry in tree.walk(Path()) if entry.losers]
    assert [names for names in below(tree, ()) if names[:1] != (None,)] == walked


@pytest.mark.parametrize(
    ("names", "found"), [(("a",), IN_ORDER[4:7]), (("a", "x"), IN_ORDER[5:6]), (("b",), IN_ORDER[8:]), (("c",), [])]
)
def test_those_below_a_path(names: tuple[Name, ...], found: list[tuple[Name, ...]]) -> None:
    assert [tuple(one) for one in below(contested_tree(), names)] == found


@pytest.mark.parametrize("after", range(len(IN_ORDER)))
def test_those_behind_a_path_whether_it_is_one_of_them_or_not(after: int) -> None:
    tree = contested_tree()
    names = IN_ORDER[after]
    assert [tuple(one) for one in below(tree, (), names)] == IN_ORDER[after + 1 :]
    tree.close({NodeName(node): ranges for node, ranges in tree.ledger.held().items()})  # all losers are closed
    assert below(tree, (), names) == []


def test_those_below_a_path_are_none_behind_what_comes_later() -> None:
    assert below(contested_tree(), ("a",), ("b",)) == []
    assert len(below(contested_tree(), ("a",), (2,))) == 3


def test_number_is_that_of_losers_at_paths_that_are_not_the_systems_own() -> None:
    tree = contested_tree()
    assert tree.conflict_count == len(PATHS) - 1
    tree.apply(event("three", 50, ("b",)))
    assert tree.conflict_count == len(PATHS)


def test_deletion_that_lost_counts_while_a_value_won() -> None:
    tree = Tree()
    tree.apply(event("one", 1, ("x",), Kind.DELETE))
    tree.apply(event("two", 2, ("x",)))
    assert tree.conflict_count == 1
    link = (NodeName("two"), Tick(2))
    tree.apply(Event(Path(("x",)), Kind.DELETE, b"", ((NodeName("three"), Tick(3)), link), Tock(3), 0.0))
    assert (tree.conflict_count, len(tree.conflicted())) == (0, 1)
