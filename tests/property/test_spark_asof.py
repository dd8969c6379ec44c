"""Events of random histories, as rows of a table in rising order, fold to what a node holds to which they came in any
order.

Knows: records, rows, the fold.  Does not know Spark, which does the sorting in the job (tests/spark/test_asof.py).
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError, SettingsError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.spark.asof import Cut
from tests.profiles import examples
from tests.property.folds import Folded, fold_events, folded, rising
from tests.property.histories import PATHS, History, histories, tree_of

pytestmark = pytest.mark.slow

few = examples(25)

A, B = NodeName("a"), NodeName("b")
X, Y = Path(["x"]), Path(["y", 1.5, "a.b"])


def with_values(history: History, chance: random.Random) -> list[Event]:
    """The events, some of which are values that go by themselves."""
    found = []
    for event in history.events:
        if event.kind is Kind.SET and chance.random() < 0.3:
            parts = (event.path, event.kind, event.value, event.chain, event.tock, event.time, event.truncated)
            event = new_event(*parts, chance.choice([0.5, 60.0]), event.fence)
        found.append(event)
    return found


def held(tree: Tree, rows: int) -> Folded:
    """The same of a node's tree."""
    entries = [entry for entry in tree.entries() if not entry.head.path.is_reserved]
    values = {
        entry.head.path: (
            entry.head.value, entry.head.node, entry.head.tick, entry.head.tock, entry.head.time, entry.head.ttl,
            len(entry.conflicts()),
        )
        for entry in entries if entry.is_live
    }  # fmt: skip
    doubtful = sum(is_doubtful(loser) for entry in entries for loser in entry.conflicts())
    return Folded(values, tree.conflict_count, doubtful, rows, tree.digest)


def is_doubtful(loser: Event) -> bool:
    """Whether it is a conflict with a deletion that nodes may have forgotten before the other change was made."""
    return loser.kind is not Kind.SET and loser.fence == NO_FENCE


def set_event(
    node: NodeName, tick: int, path: Path = X, *, tock: int = 1, value: bytes = b"\x01", fence: Fence = NO_FENCE
) -> Event:
    return new_event(path, Kind.SET, value, ((node, Tick(tick)),), Tock(tock), 1.0, fence=fence)


def deletion(node: NodeName, tick: int, *, tock: int, fence: Fence = NO_FENCE) -> Event:
    return new_event(X, Kind.DELETE, b"", ((node, Tick(tick)),), Tock(tock), 1.0, fence=fence)


@few
@given(histories(), st.integers(1, 30), st.randoms(use_true_random=False))
def test_rows_in_rising_order_fold_to_the_tree_of_any_order(
    history: History, rows_max: int, chance: random.Random
) -> None:
    events = with_values(history, chance)
    if events:
        tree = tree_of(chance.sample(events, len(events)))
        assert fold_events(events, rows_max) == held(tree, len(events))


@few
@given(histories(), st.randoms(use_true_random=False))
def test_some_of_the_events_fold_to_the_tree_that_has_just_these(history: History, chance: random.Random) -> None:
    """A cut need not be closed under causes: a node may hold any ticks."""
    events = [event for event in with_values(history, chance) if chance.random() < 0.6]
    if events:
        tree = tree_of(chance.sample(events, len(events)))
        assert fold_events(events) == held(tree, len(events))


@few
@given(histories(), st.randoms(use_true_random=False))
def test_paths_spread_over_workers_come_to_the_same_sums(history: History, chance: random.Random) -> None:
    events = with_values(history, chance)
    parts = [some for path in PATHS if (some := [event for event in events if event.path == path])]
    found = [fold_events(some) for some in parts]
    tree = tree_of(events)
    digest = 0
    for part in found:
        digest ^= part.digest
    assert (digest, sum(part.conflicts for part in found)) == (tree.digest, tree.conflict_count)


def test_fold_of_no_events_is_an_empty_tree() -> None:
    assert folded([]) == Folded({}, 0, 0, 0, 0)


def test_paths_with_escapes_keep_their_names() -> None:
    assert list(fold_events([set_event(A, 1, Y), set_event(A, 2, Path())]).values) == [Path(), Y]


def test_deletion_that_nodes_forgot_is_an_open_loser_and_counted_as_deletion() -> None:
    """The one difference to nodes that purge: no event says that they did. The value is the same."""
    deleted = Event(X, Kind.DELETE, b"", ((A, Tick(2)),), Tock(2), 1.0)
    node = tree_of([set_event(A, 1), deleted])
    node.purge(X)
    anew = set_event(B, 1, tock=3, value=b"\x02")
    node.apply(anew)
    found = fold_events([set_event(A, 1), deleted, anew])
    assert (found.conflicts, found.deletions, node.conflict_count) == (1, 1, 0)
    assert {path: row[:6] for path, row in found.values.items()} == {
        path: row[:6] for path, row in held(node, 3).values.items()
    }


def test_deletion_that_nodes_forgot_leaves_the_digest_as_it_is_until_the_path_is_written_anew() -> None:
    deleted = Event(X, Kind.DELETE, b"", ((A, Tick(2)),), Tock(2), 1.0)
    node = tree_of([set_event(A, 1), deleted, set_event(A, 3, Y)])
    node.purge(X)
    assert fold_events([set_event(A, 1), deleted, set_event(A, 3, Y)]).digest == node.digest


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (NO_FENCE, Fence(0, 1, 1, "t")),
        (NO_FENCE, Fence(1, 0, 0, "")),
        (Fence(0, 1, 1, "t"), Fence(0, 1, 2, "t")),
        (Fence(0, 1, 9, "t"), Fence(0, 2, 1, "t")),
        (Fence(0, 9, 9, "t"), Fence(1, 0, 0, "")),
        (Fence(0, 1, 1, "t\uffff"), Fence(0, 1, 1, "t\U00010000")),
    ],
    ids=["token", "lifted", "counter", "epoch", "base", "name"],
)
def test_higher_fence_wins_although_its_tock_is_lower(low: Fence, high: Fence) -> None:
    late = set_event(A, 1, tock=9, fence=low)
    found = fold_events([late, set_event(B, 1, tock=5, value=b"\x02", fence=high)])
    assert (found.values[X][0], found.conflicts) == (b"\x02", 1)


def test_fences_order_events_of_several_tokens_and_of_none_in_one_line() -> None:
    """Fences among events of one token alone would be a circle here: F5 tock 10, none tock 7, F6 tock 5."""
    events = [
        set_event(A, 1, tock=10, fence=Fence(0, 5, 0, "t")),
        set_event(A, 2, tock=7),
        set_event(A, 3, tock=5, fence=Fence(0, 6, 0, "t")),
    ]
    assert rising(events)["tick"].to_pylist() == [2, 1, 3]


def test_deletion_of_a_token_is_an_open_loser_that_nodes_have_too() -> None:
    """They never forget it, so nothing is in doubt."""
    under = Fence(0, 1, 1, "t")
    found = fold_events([deletion(A, 1, tock=9, fence=under), set_event(B, 1, tock=5, fence=under._replace(counter=2))])
    assert (found.conflicts, found.deletions) == (1, 0)


def test_value_below_a_deletion_that_lifted_a_fence_is_not_in_doubt() -> None:
    """Nodes never forget that deletion either."""
    lifted = deletion(A, 1, tock=2, fence=Fence(1, 0, 0, ""))
    found = fold_events([lifted, set_event(B, 1, tock=3)])
    assert (found.values, found.conflicts, found.deletions) == ({}, 1, 0)


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("tick", [1, 3], "its own tick"),
        ("node", ["a", "b"], "its own tick"),
        ("kind", ["set", "gap"], "kind 'gap'"),
        ("fence_epoch", [None, 7], "the fence of an event is not whole"),
        ("chain", [None, [{"node": "a", "tick": 2}]], "its own tick"),
        ("chain", [[], [{"node": "a", "tick": 1}, {"node": "a", "tick": 2}]], "its own tick"),
    ],
    ids=["tick", "node", "kind", "fence", "no-chain", "shifted"],
)
def test_row_that_is_no_event_is_refused(column: str, values: list[Any], complaint: str) -> None:
    table = rising([set_event(A, 1), set_event(A, 2)])
    at = table.schema.get_field_index(column)
    table = table.set_column(at, column, pa.array(values, table.schema.field(at).type))
    with pytest.raises(DecodeError, match=complaint):
        folded(table.to_batches())


def test_cut_of_ticks_and_of_a_time_is_refused() -> None:
    with pytest.raises(SettingsError, match="of ticks or of a time"):
        Cut({}, 1.0)
