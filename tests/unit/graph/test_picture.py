"""Which part of a trace a picture shows."""

from __future__ import annotations

import pytest

from distkv.errors import SettingsError
from distkv.graph.picture import Choice, compose
from distkv.graph.trace import Moment, Said
from tests.unit.graph.traces import OTHER, SAME, ended, heard, there, write

SENT = write("n2", 1)
TRACE = [there("n2"), there("n10", 1), SENT, heard("n10", SENT), ended("n10")]
LATER = there("n2", 60_000)


def test_lanes_are_in_natural_order_with_all_who_were_heard() -> None:
    assert compose([*TRACE, heard("n2", write("z", 1))], "t").lanes == ("n2", "n10", "z")


def test_only_the_last_moments_are_drawn_and_the_rest_is_said() -> None:
    picture = compose(TRACE, "t", moments_max=2)
    assert picture.moments == tuple(TRACE[-2:])
    assert picture.left_out == "3 moments before these are left out."


def test_what_was_forgotten_before_is_said_too() -> None:
    assert compose(TRACE, "t", forgotten=7).left_out == "7 moments before these are left out."


def test_nothing_is_said_when_nothing_is_left_out() -> None:
    assert compose(TRACE, "t").left_out == ""


def test_arrow_whose_beginning_is_left_out_stays() -> None:
    (arrow,) = compose(TRACE, "t", moments_max=2).arrows
    assert (arrow.source, arrow.start, arrow.end) == ("n2", None, 0)


def test_arrow_of_a_node_that_is_not_wanted_goes() -> None:
    picture = compose(TRACE, "t", Choice(nodes=frozenset({"n2"})))
    assert (picture.lanes, picture.arrows) == (("n2",), ())


def test_receiver_that_is_filtered_away_makes_nothing_look_lost() -> None:
    picture = compose([*TRACE, LATER], "t", Choice(kinds=frozenset({"set"})))
    assert [moment.kind for moment in picture.moments] == ["set"]
    assert [arrow for arrow in picture.arrows if arrow.is_lost] == []


def test_kind_is_also_that_of_what_a_moment_sent() -> None:
    picture = compose(TRACE, "t", Choice(kinds=frozenset({"update"})))
    assert [moment.kind for moment in picture.moments] == ["set", "update"]
    assert len(picture.arrows) == 1


def test_time_is_cut_at_both_ends() -> None:
    picture = compose(TRACE, "t", Choice(since_ms=1, until_ms=20))
    assert picture.moments == tuple(TRACE[1:4])


def test_view_shows_what_every_node_was_whether_its_moment_is_shown_or_not() -> None:
    picture = compose(TRACE, "t", Choice(since_ms=20))
    first, last = picture.views
    assert [view and view.digest for view in first] == [OTHER, OTHER]
    assert last[1] is None


def test_view_of_a_node_that_has_not_started_is_empty() -> None:
    assert [view and view.digest for view in compose(TRACE, "t").views[0]] == [SAME, None]


def test_view_of_a_node_that_ran_before_is_unknown_until_it_is_seen() -> None:
    picture = compose([there("a"), there("b", kind="wake")], "t")
    assert [view and view.state for view in picture.views[0]] == ["ready", "unknown"]
    assert [view and view.state for view in picture.views[1]] == ["ready", "ready"]


def test_what_happened_to_all_is_shown_for_any_node() -> None:
    split = Moment(5, "", "splits")
    assert split in compose([*TRACE, split], "t", Choice(nodes=frozenset({"n2"}))).moments


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (Choice(nodes=frozenset({"n3"})), "there is no node 'n3' in the trace: there are n2, n10"),
        (Choice(kinds=frozenset({"rain"})), "there is no kind 'rain' in the trace: there are ends, set,"),
    ],
)
def test_choice_of_what_is_not_there_says_what_is(choice: Choice, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        compose(TRACE, "t", choice)


def test_words_say_the_state_of_each_node_where_the_picture_begins() -> None:
    said = Said("ping", "n2@3", "n2", chain="n2:1")
    late = [there("n2"), there("n2", 9, kind="wake", sent=(said,), missing="x:1")]
    assert compose(late, "t", moments_max=1).words == ("sends ping [n2:1]; is ready; misses x:1",)
