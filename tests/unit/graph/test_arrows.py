"""Which arrows a trace has."""

from __future__ import annotations

import pytest

from distkv.graph.arrows import UNDER_WAY_MS, Arrow, arrows, single_ticks
from distkv.graph.trace import Moment, Said
from tests.unit.graph.traces import ended, heard, split_and_heal, there, write

LATER = 10 * UNDER_WAY_MS


def _found(*moments: Moment) -> list[tuple[str, str, int | None, int | None, bool]]:
    return [(a.source, a.target, a.start, a.end, a.is_lost) for a in arrows([*moments, there("a", LATER)])]


@pytest.fixture(scope="module")
def real() -> tuple[list[Moment], list[Arrow]]:
    moments = split_and_heal()
    return moments, arrows(moments)


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("", []),
        ("a:1", ["a:1"]),
        ("a:1-3,7 b:350.1", ["a:1", "a:2", "a:3", "a:7", "b:350.1"]),
        ("n.1-x:12.8-9 …", ["n.1-x:12.8", "n.1-x:12.9"]),
    ],
)
def test_ticks_of_ranges_are_told_one_by_one(text: str, ticks: list[str]) -> None:
    assert list(single_ticks(text)) == ticks


def test_gossip_that_arrives_is_an_arrow_from_step_to_step() -> None:
    sent = write("a", 1)
    assert _found(there("a"), there("b"), sent, heard("b", sent)) == [("a", "b", 2, 3, False)]


def test_gossip_that_comes_twice_is_two_arrows() -> None:
    sent = write("a", 1)
    found = _found(there("a"), there("b"), sent, heard("b", sent), heard("b", sent))
    assert found == [("a", "b", 2, 3, False), ("a", "b", 2, 4, False)]


def test_gossip_that_reaches_some_is_lost_on_the_way_to_the_others() -> None:
    sent = write("a", 1)
    found = _found(there("a"), there("b"), there("c"), sent, heard("b", sent))
    assert found == [("a", "b", 3, 4, False), ("a", "c", 3, None, True)]


def test_gossip_that_reaches_none_of_several_is_one_arrow_to_nobody() -> None:
    assert _found(there("a"), there("b"), there("c"), write("a", 1)) == [("a", "", 3, None, True)]


def test_node_that_has_ended_misses_nothing() -> None:
    assert _found(there("a"), there("b"), ended("b", 5), write("a", 1)) == []


def test_node_that_ran_before_the_trace_began_misses_what_is_said_to_all() -> None:
    assert _found(write("a", 1), there("b", 50, kind="wake")) == [("a", "b", 0, None, True)]


def test_node_that_starts_later_misses_nothing() -> None:
    assert _found(there("a"), write("a", 1), there("b", 50)) == []


def test_what_is_under_way_at_the_end_is_not_called_lost() -> None:
    moments = [there("a"), there("b"), write("a", 1, at_ms=LATER)]
    assert arrows([*moments, there("a", LATER + UNDER_WAY_MS - 1)]) == []
    assert len(arrows([*moments, there("a", LATER + UNDER_WAY_MS)])) == 1


def test_own_echo_is_no_arrow() -> None:
    sent = write("a", 1)
    assert _found(there("a"), sent, heard("a", sent)) == []


def test_messages_that_were_packed_into_one_come_from_where_each_was_sent() -> None:
    first, second = write("a", 1), write("a", 2)
    packed = heard("b", second, ticks="a:1-2", heard=Said("update", "a@2", "a", ticks="a:1-2"))
    found = _found(there("a"), there("b"), first, second, packed)
    assert found == [("a", "b", 2, 4, False), ("a", "b", 3, 4, False)]


def test_message_of_a_node_that_nobody_watches_has_no_beginning() -> None:
    assert _found(there("a"), heard("a", write("z", 1))) == [("z", "a", None, 1, False)]


def test_request_goes_to_the_step_that_takes_it_and_its_answer_back() -> None:
    ask = Said("ask maps", "a#1@5", "a", "b", "a#1@5")
    offer, answer = Said("maps", "a@6", "a", "b"), Said("maps", "b@7", "b", "a")
    taken = Moment(20, "b", "offered", offer, sent=(answer,), state="ready")
    back = Moment(30, "a", "maps", Said("maps", "b@7", "b", "a", "a#1@5"), state="ready")
    found = _found(there("a"), there("b"), there("a", 10, sent=(ask,)), taken, back)
    assert found == [("a", "b", 2, 3, False), ("b", "a", 3, 4, False)]


def test_pull_that_no_step_of_the_peer_shows_is_not_lost() -> None:
    ask = Said("ask events", "a#1@5", "a", "b", "a#1@5", "b:1")
    answer = Moment(30, "a", "events", Said("events", "a#1@5", "b", "a", "a#1@5", "b:1"), state="ready")
    found = _found(there("a"), there("a", 10, sent=(ask,)), answer)
    assert found == [("a", "b", 1, None, False), ("b", "a", None, 2, False)]


def test_request_that_fails_is_lost() -> None:
    ask = Said("ask maps", "a#1@5", "a", "b", "a#1@5")
    failed = Moment(30, "a", "done", Said("done", "a#1@5", "b", "a", "a#1@5", about="no answer"), state="ready")
    assert ("a", "b", 1, None, True) in _found(there("a"), there("a", 10, sent=(ask,)), failed)


def test_whatever_a_real_fleet_hears_has_its_step_on_the_other_side(real: tuple[list[Moment], list[Arrow]]) -> None:
    moments, found = real
    heard_gossip = [arrow for arrow in found if arrow.is_gossip and arrow.end is not None]
    assert len(heard_gossip) > 5
    for arrow in heard_gossip:
        assert arrow.start is not None
        assert arrow.said.key in {said.key for said in moments[arrow.start].sent}


def test_split_of_a_real_fleet_loses_messages_both_ways(real: tuple[list[Moment], list[Arrow]]) -> None:
    lost = {(arrow.source, arrow.target, arrow.said.kind) for arrow in real[1] if arrow.is_lost}
    assert {("a", "b", "update"), ("b", "a", "update")} <= lost


def test_conversations_of_a_real_fleet_go_both_ways(real: tuple[list[Moment], list[Arrow]]) -> None:
    told = {arrow.said.kind for arrow in real[1] if not arrow.is_gossip and None not in (arrow.start, arrow.end)}
    assert {"ask maps", "maps"} <= told
