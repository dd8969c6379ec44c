"""Trees beside one another, looks that follow one another: pure decisions of an audit.

Knows: items as `get_tree` sends them.  Does not know nodes (tests/spark/test_audit.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distkv.client.conflicts import Loser
from distkv.client.questions import Entry
from distkv.errors import DecodeError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.comparing import (
    ShownEntry,
    Sight,
    Standing,
    contested,
    differing,
    is_settled,
    shown,
    told,
    told_losers,
)
from distkv.spark.nodes.planning import View
from distkv.wire.fields import Fields

A, B = NodeName("a"), NodeName("b")
X = Path(["x"])


def item(
    path: Sequence[object], value: object, tick: int, *, tock: int = 0, node: str = "a", **fence: object
) -> Fields:
    link = {"node": node, "tick": tick}
    return {"path": [*path], "value": value, "tock": tock or tick, "time": 1.5, "chain": link, **fence}


def seen(value: object, tick: int, *, tock: int = 0, node: str = "a", fence: Fence | None = None) -> ShownEntry:
    entry = Entry(value, ((NodeName(node), Tick(tick)),), Tock(tock or tick), 1.5, fence=fence)
    found = shown(X, entry)
    assert found is not None
    return found


def lines(*trees: Sequence[Fields]) -> list[str]:
    names = [NodeName(name) for name in "abc"[: len(trees)]]
    return [told(path, names, sight) for path, sight in differing([iter(tree) for tree in trees])]


# -- trees --------------------------------------------------------------------------------------------------------


def test_equal_trees_do_not_differ() -> None:
    tree = [item([], 0, 1), item(["x"], {"v": [1]}, 2), item(["x", 7], b"\xff", 3)]
    assert lines(tree, tree, tree) == []


def test_trees_of_nothing_do_not_differ() -> None:
    assert lines([], []) == []


def test_value_that_is_only_here_or_only_there_differs() -> None:
    first, second, third = item(["x"], 1, 1), item(["y"], 2, 2), item(["z"], 3, 3)
    assert lines([first, third], [second, third]) == [
        "x: a has 1 (a:1), b has nothing",
        "y: a has nothing, b has 2 (a:2)",
    ]


def test_tree_that_ends_earlier_lacks_the_rest() -> None:
    tree = [item(["x"], 1, 1), item(["y"], 2, 2), item(["z"], 3, 3)]
    assert lines(tree[:1], tree, tree) == [
        "y: a has nothing, b has 2 (a:2), c has 2 (a:2)",
        "z: a has nothing, b has 3 (a:3), c has 3 (a:3)",
    ]


def test_path_comes_before_those_below_it_and_integers_before_text() -> None:
    left = [item([7], 1, 1), item(["x"], 2, 2)]
    right = [item(["x"], 2, 2), item(["x", "y"], 3, 3)]
    assert lines(left, right) == [":7: a has 1 (a:1), b has nothing", "x.y: a has nothing, b has 3 (a:3)"]


def test_another_change_with_the_same_value_differs() -> None:
    assert lines([item(["x"], 1, 1)], [item(["x"], 1, 2)]) == ["x: a has 1 (a:1), b has 1 (a:2)"]


@pytest.mark.parametrize(("left", "right"), [(1, True), (1, 1.0), ("x", b"x"), (0.0, -0.0)])
def test_one_change_with_two_values_differs_also_where_python_calls_them_equal(left: object, right: object) -> None:
    assert len(lines([item(["x"], left, 1)], [item(["x"], right, 1)])) == 1


def test_value_that_is_no_number_equals_itself() -> None:
    assert lines([item(["x"], float("nan"), 1)], [item(["x"], float("nan"), 1)]) == []


def test_fields_in_another_order_are_the_same() -> None:
    one = item(["x"], 1, 1)
    assert lines([one], [dict(reversed(one.items()))]) == []


def test_long_value_is_cut() -> None:
    assert lines([item(["x"], "v" * 1000, 1)], []) == [f'x: a has "{"v" * 39}... (a:1), b has nothing']


@pytest.mark.parametrize(
    "broken",
    [{"path": "x"}, {"path": [[]]}, {"fence": ["t", 1]}, {"chain": None}, {"chain": {"node": "a"}}, {"tock": "1"}],
    ids=lambda broken: str(broken),
)
def test_item_that_is_none_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        lines([{**item(["x"], 1, 1), **broken}], [item(["x"], 1, 2)])


def test_value_under_a_fence_is_the_same_as_one_that_was_asked_for_alone() -> None:
    tree = item(["x"], "fenced", 4, fence=["t", 1, 2])
    ((_, (listed, _)),) = differing([iter([tree]), iter([])])
    assert listed == FENCED


def test_one_change_under_two_fences_differs() -> None:
    assert len(lines([item(["x"], 1, 1, base=1)], [item(["x"], 1, 1)])) == 1


# -- looks --------------------------------------------------------------------------------------------------------

OLD, NEW, NEWER = seen("old", 1), seen("new", 2), seen("newer", 3)
LATE = seen("late", 9, node="b", fence=Fence(0, 1, 1, "t"))
"""A write of a former holder, with the highest tock."""
FENCED = seen("fenced", 4, fence=Fence(0, 1, 2, "t"))
FENCED_NEXT = seen("next", 5, fence=Fence(0, 1, 2, "t"))


@pytest.mark.parametrize(
    ("first", "now", "expected"),
    [
        ((OLD, NEW), (NEW, NEW), True),
        ((OLD, NEW), (None, None), True),
        ((OLD, NEW), (NEW, NEWER), True),
        ((OLD, NEW), (OLD, NEW), False),
        ((OLD, NEW), (OLD, NEWER), False),
        ((None, NEW), (None, NEW), False),
        ((None, NEW), (NEWER, NEW), True),
        ((OLD, NEW), (NEW, None), False),
        ((LATE, FENCED), (FENCED, FENCED_NEXT), True),
        ((LATE, FENCED), (LATE, FENCED), False),
        ((LATE, FENCED), (LATE, FENCED_NEXT), False),
        ((seen(1, 1), seen(2, 1)), (seen(1, 1), seen(2, 1)), False),
        ((seen(1, 5, tock=9), seen(1, 5, tock=9, node="b")), (seen(1, 5, tock=9),) * 2, True),
    ],
    ids=[
        "came", "deleted", "came and was written again", "stays", "stays while others go on", "lacking", "written anew",
        "being deleted", "fenced off", "late write stays", "late write stays while others go on", "two contents",
        "of equal clocks",
    ],
)  # fmt: skip
def test_path_is_settled_when_all_show_at_least_what_one_showed_first(first: Sight, now: Sight, expected: bool) -> None:
    assert is_settled(first, now) is expected


def test_of_equal_clocks_the_lower_name_is_higher() -> None:
    mine, other = seen(1, 5, tock=9), seen(1, 5, tock=9, node="b")
    assert not is_settled((mine, other), (other, seen(1, 4, tock=9)))
    assert is_settled((other, seen(1, 4, tock=9)), (mine, other))


# -- conflicts ----------------------------------------------------------------------------------------------------


def loser(path: str, node: str, tick: int) -> Loser:
    return Loser(Path.parse(path), 1, False, (NodeName(node), Tick(tick)), Tock(1), 1.5)


def test_open_conflicts_that_are_here_only_are_named() -> None:
    here, both = loser("x", "a", 5), loser("y", "a", 6)
    found = contested([[here, both], [both]])
    assert [told_losers(path, (A, B), sight) for path, sight in found.items()] == [
        "x: open conflicts: a has a:5, b has none"
    ]


def test_open_conflicts_in_another_order_are_the_same() -> None:
    one, other = loser("x", "a", 5), loser("x", "b", 6)
    assert contested([[one, other], [other, one]]) == {}


# -- ticks --------------------------------------------------------------------------------------------------------


def ticks(**nodes: list[tuple[int, int]]) -> TickRanges:
    return {NodeName(node): Ranges(pairs) for node, pairs in nodes.items()}


def view(node: str, held: TickRanges, missing: TickRanges, lost: TickRanges, digest: str = "0") -> View:
    return View(f"{node}:1", NodeName(node), bytes(8), held, missing, lost, (), digest)


def test_what_all_looks_show_stands() -> None:
    standing = Standing(ticks(a=[(1, 10)]))
    first = view("a", ticks(a=[(1, 5)]), ticks(a=[(5, 8)]), ticks(a=[(6, 8)]))
    standing.take([first], {})
    assert (standing.missing, standing.lost, standing.unheld) == (
        ticks(a=[(5, 8)]), ticks(a=[(6, 8)]), ticks(a=[(5, 10)])
    )  # fmt: skip
    standing.take([view("a", ticks(a=[(1, 7)]), ticks(a=[(7, 12)]), ticks(a=[(7, 12)]))], ticks(a=[(9, 10)]))
    assert (standing.missing, standing.lost, standing.unheld) == (
        ticks(a=[(7, 8)]), ticks(a=[(7, 8)]), ticks(a=[(7, 9)])
    )  # fmt: skip
    assert not standing.is_calm
    standing.take([view("a", ticks(a=[(1, 12)]), {}, {})], {})
    assert (standing.missing, standing.lost, standing.unheld, standing.is_calm) == ({}, {}, {}, True)


def test_what_another_node_holds_is_not_missing() -> None:
    standing = Standing({})
    held = ticks(a=[(1, 3)])
    standing.take([view("a", {}, held, held), view("b", held, {}, {})], {})
    assert (standing.missing, standing.lost, standing.is_calm) == ({}, {}, True)


def test_nodes_that_once_showed_the_same_need_not_be_read() -> None:
    standing = Standing({})
    for digests in (("1", "2"), ("3", "3"), ("4", "5")):
        standing.take([view(node, {}, {}, {}, digest) for node, digest in zip("ab", digests, strict=True)], {})
        assert standing.show_the_same is (digests != ("1", "2"))
