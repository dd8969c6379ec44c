"""Up to when a table knows all that happened, by what nodes say of themselves."""

from __future__ import annotations

import attrs
import pytest

from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.horizon import check_known, known_until, unknown_before, words_of
from distkv.spark.nodes.planning import RETIRED, KnownNode, View
from distkv.spark.table.manifest import Manifest

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
NETWORK = bytes(8)


def ticks(**lasts: int) -> TickRanges:
    """Of each node all up to a tick."""
    return {NodeName(node): Ranges([(1, last + 1)]) for node, last in lasts.items()}


def view(node: str, held: TickRanges, time_s: float | None, *retired: str) -> View:
    members = tuple(KnownNode(NodeName(name), "h:1", RETIRED) for name in retired)
    return View(f"{node}:1", NodeName(node), NETWORK, held, {}, {}, members, time_s=time_s)


def table(gaps: TickRanges | None = None, until: dict[NodeName, float] | None = None, **lasts: int) -> Manifest:
    return Manifest(NETWORK, ticks=ticks(**lasts), path="p", gaps=gaps or {}, until=until or {})


def test_node_whose_changes_are_all_taken_is_known_up_to_its_word() -> None:
    assert known_until([view("a", ticks(a=3, b=9), 50.0)], table(a=3)) == {A: 50.0}


def test_gap_is_known() -> None:
    assert known_until([view("a", ticks(a=3), 50.0)], table({A: Ranges([(3, 4)])}, a=2)) == {A: 50.0}


@pytest.mark.parametrize("time_s", [50.0, None], ids=["behind", "not-ready"])
def test_node_that_has_more_or_is_not_ready_says_nothing(time_s: float | None) -> None:
    held = ticks(a=3) if time_s is None else ticks(a=4)
    assert known_until([view("a", held, time_s)], table(until={A: 40.0}, a=3)) == {}


@pytest.mark.parametrize("gaps", [{}, {A: Ranges([(3, 4)])}], ids=["not-yet-told", "a-gap"])
def test_node_that_lost_a_change_of_its_own_is_known_when_that_is_a_gap(gaps: TickRanges) -> None:
    lossy = attrs.evolve(view("a", ticks(a=2), 50.0), missing={A: Ranges([(3, 4)])})
    assert known_until([lossy], table(gaps, a=2)) == ({A: 50.0} if gaps else {})
    others = attrs.evolve(view("a", ticks(a=2), 50.0, "b"), missing={B: Ranges([(3, 4)])})
    assert known_until([others], table(a=2, b=2)) == {A: 50.0}


def test_others_say_nothing_of_a_node_that_is_away() -> None:
    assert known_until([view("a", ticks(a=3, b=9), 50.0)], table(a=3, b=9)) == {A: 50.0}


@pytest.mark.parametrize("last", [3, 4], ids=["all-taken", "more"])
def test_clock_that_was_set_back_counts(last: int) -> None:
    """It may write changes of times that were said to be known."""
    assert known_until([view("a", ticks(a=last), 30.0)], table(until={A: 40.0}, a=3)) == {A: 30.0}


def test_retired_node_writes_no_more() -> None:
    views = [view("a", ticks(a=3, b=9), 50.0, "b", "c"), view("d", ticks(c=4), 60.0)]
    assert known_until(views, table(a=3, b=9, c=3)) == {A: 50.0, NodeName("d"): 60.0, B: 60.0}


def test_time_is_known_when_it_is_known_of_each_node() -> None:
    manifest = table({C: Ranges([(1, 2)])}, a=1, b=1)
    until = {A: 5.0, B: 7.0}
    assert unknown_before(6.0, manifest, until) == {A: 5.0, C: None}
    assert unknown_before(5.0, manifest, until | {C: 5.0}) == {}


def test_table_that_was_never_told_knows_no_moment() -> None:
    with pytest.raises(RequestError, match="an unknown part of a"):
        check_known(1.0, table(a=1), {})


def test_refusal_names_the_latest_moment_that_is_whole() -> None:
    with pytest.raises(RequestError) as caught:
        check_known(1e9 + 9, table(a=1, b=1), {A: 1e9, B: 1e9 + 1})
    assert str(caught.value) == (
        "the table may lack changes up to 2001-09-09T01:46:49.000+00:00: it has all of a up to "
        "2001-09-09T01:46:40.000+00:00, all of b up to 2001-09-09T01:46:41.000+00:00. Archive them, choose a moment up "
        "to 2001-09-09T01:46:40.000+00:00, retire nodes that are gone, or take what there is (--allow-gaps)"
    )


def test_few_of_many_nodes_are_named() -> None:
    assert words_of({NodeName(f"n{number}"): None for number in range(9)}).endswith("part of n4, and 4 more nodes")
