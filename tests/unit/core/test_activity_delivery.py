"""Numbers, echo, holes and epochs of the activity network, at one node."""

from __future__ import annotations

from distkv.core.activity.own_activities import GATHER_MS, SAID_BYTES
from distkv.core.activity.settings import ACTIVITY
from distkv.core.ready import NodeTold
from distkv.wire.activity_bodies import (
    HOLE_ANSWERS,
    WINDOW_PAGES,
    ActivityConfirmed,
    ActivitySaid,
    HoleAsked,
    OriginsKnown,
    SaidActivity,
    SenderMark,
    WindowAsked,
)
from tests.one_activity_node import LATER_START, START, A, B, C, D, OneNode, kept, origin_of, sender
from tests.service_steps import LIFE


def test_activity_that_one_neighbour_has_is_not_echoed() -> None:
    node = OneNode(B, C).ready()
    client = node.login()
    node.send(client, "x")
    node.confirms(B, 1)
    assert node.given == []
    node.confirms(C, 1)
    assert node.given == ["x"]


def test_no_more_confirmations_are_waited_for_than_there_are_other_listeners() -> None:
    node = OneNode(B, C).ready()
    node.sees((B,), (B,))
    client = node.login()
    node.send(client, "x")
    node.confirms(B, 1)
    assert node.given == ["x"]


def test_node_that_is_alive_and_out_of_the_tree_has_to_have_it_too() -> None:
    """ACTIVITY-14."""
    node = OneNode(B, C).ready()
    node.announces(B, None)
    node.announces(C, None)
    node.sees((B, C), ())
    node.pass_ms(60_000)
    node.send(node.login(), "x")
    node.pass_ms(500)
    told = [word for name in (B, C) for word in node.told_by(name) if isinstance(word, ActivitySaid)]
    assert [word.confirm for word in told] == [(B, C), (B, C)]
    node.confirms(B, 1)
    assert node.given == []
    node.confirms(C, 1)
    assert node.given == ["x"]


def test_node_out_of_the_tree_that_does_not_answer_counts_not_for_a_while() -> None:
    node = OneNode(B, C).ready()
    node.announces(C, None)
    client = node.login()
    node.send(client, "x")
    node.confirms(B, 1)
    node.pass_ms(1400)
    assert node.given == []
    node.pass_ms(600)
    assert node.given == ["x"]
    node.send(client, "y")
    node.confirms(B, 2)
    assert node.given == ["x", "y"]


def test_node_that_begins_waits_for_those_that_seem_alive() -> None:
    node = OneNode(B, C)
    node.announces(B, None)
    node.announces(C, None)
    node.ready().send(node.login(), "x")
    assert node.given == []


def test_node_that_never_announced_a_listener_is_not_waited_for() -> None:
    node = OneNode(B, listening=False).ready()
    node.pass_ms(6000)
    node.send(node.login(), "x")
    assert node.given == ["x"]


def texts_of_frames(node: OneNode) -> list[str]:
    return [b"".join(item.activity for item in frame.items).decode() for frame in node.frames]


def test_activities_that_come_while_one_is_under_way_are_said_together_when_it_is_echoed() -> None:
    node = OneNode(B).ready()
    client = node.login()
    for text in "xyz":
        node.send(client, text)
    assert texts_of_frames(node) == ["x"]
    node.confirms(B, 1)
    assert texts_of_frames(node) == ["x", "yz"]


def test_activities_wait_for_an_echo_for_a_moment_only() -> None:
    node = OneNode(B).ready()
    client = node.login()
    for text in "xyz":
        node.send(client, text)
    node.pass_ms(GATHER_MS)
    assert texts_of_frames(node) == ["x", "yz"]


def test_activity_that_nobody_was_told_is_not_echoed() -> None:
    node = OneNode(B).ready()
    client = node.login()
    node.send(client, "x")
    node.send(client, "y")
    node.sees((), ())
    assert texts_of_frames(node) == ["x", "y"]


def test_activities_that_wait_have_room_in_their_frames() -> None:
    node = OneNode(B).ready()
    client = node.login()
    node.send(client, "x")
    for _ in range(5):
        node.send(client, "y" * (SAID_BYTES // 4))
    node.pass_ms(GATHER_MS)
    assert [len(frame.items) for frame in node.frames] == [1, 3, 2]


def test_activities_that_came_together_are_confirmed_together() -> None:
    node = OneNode(B).ready()
    items = tuple(SaidActivity(text.encode()) for text in "xy")
    node.hears_word(B, ActivitySaid(START, 1, items, (A,)))
    assert (node.given, node.told_by(B)) == (["x", "y"], [ActivityConfirmed(START, (1, 2))])


def test_node_that_dies_is_waited_for_no_longer() -> None:
    node = OneNode(B, C).ready()
    client = node.login()
    node.send(client, "x")
    node.confirms(B, 1)
    node.sees((B,), (B,))
    assert node.given == ["x"]


def test_node_that_confirmed_and_died_is_no_copy() -> None:
    node = OneNode(B, C, D).ready()
    client = node.login()
    node.send(client, "x")
    node.confirms(B, 1)
    node.sees((C, D), (C,))
    node.confirms(C, 1)
    assert node.given == []


def test_own_activities_are_echoed_in_the_order_of_their_numbers() -> None:
    node = OneNode(B).ready()
    client = node.login()
    node.send(client, "x")
    node.send(client, "y")
    node.confirms(B, 2)
    assert node.given == []
    node.confirms(B, 1)
    assert node.given == ["x", "y"]


def test_frame_names_neighbours_first() -> None:
    node = OneNode(B, C, D, near=(D,), copies=2).ready()
    node.send(node.login(), "x")
    assert node.frames[0].confirm == (D, B)


def test_after_half_a_second_of_silence_others_are_told_and_named() -> None:
    node = OneNode(B, C, D, near=(B,), copies=2).ready()
    node.send(node.login(), "x")
    node.confirms(B, 1)
    node.pass_ms(499)
    assert node.told_by(D) == []
    node.pass_ms(1)
    told = [word for word in node.told_by(D) if isinstance(word, ActivitySaid)]
    assert [word.confirm for word in told] == [(D,)]
    node.confirms(D, 1)
    assert node.given == ["x"]


def test_named_node_says_that_it_has_an_activity() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "x", confirm=(A, C))
    assert ActivityConfirmed(START, (1,)) in node.told_by(B)


def test_activity_that_comes_too_early_is_confirmed_too() -> None:
    node = OneNode(B).ready()
    node.says(B, 2, "y", confirm=(A,))
    assert ActivityConfirmed(START, (2,)) in node.told_by(B)
    assert node.given == []


def test_activity_for_which_there_is_no_room_is_not_confirmed() -> None:
    node = OneNode(B, held_max=1).ready()
    node.says(B, 2, "y", confirm=(A,))
    node.says(B, 3, "z", confirm=(A,))
    told = [word for word in node.told_by(B) if isinstance(word, ActivityConfirmed)]
    assert (told, node.statistic("dropped")) == ([ActivityConfirmed(START, (2,))], 1)


def test_activities_of_others_are_given_at_once_and_in_order() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "x")
    node.says(B, 3, "z")
    assert node.given == ["x"]
    node.says(C, 1, "other")
    assert node.given == ["x", "other"]
    node.says(B, 2, "y")
    assert node.given == ["x", "other", "y", "z"]


def test_activity_that_comes_twice_is_given_once() -> None:
    node = OneNode(B).ready()
    node.says(B, 1, "x")
    node.says(B, 1, "x")
    node.tells_word(B, ActivitySaid(START, 1, (SaidActivity(b"x"),)))
    assert node.given == ["x"]


def test_hole_is_asked_of_a_neighbour_that_knows_it() -> None:
    node = OneNode(B, C, D, near=(B, C)).ready()
    node.knows(C, d=2)
    node.says(D, 2, "y")
    node.pass_ms(99)
    assert node.holes() == []
    node.pass_ms(51)
    assert node.holes() == [(C, HoleAsked(origin_of(D), 1, 1))]
    node.fills(kept(D, 1, "x"), until=1)
    assert node.given == ["x", "y"]


def test_last_words_of_a_node_that_is_gone_are_asked_for() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "x")
    node.sees((B,), (B,))
    node.knows(B, c=2)
    node.pass_ms(150)
    assert node.holes() == [(B, HoleAsked(origin_of(C), 2, 2))]
    node.fills(kept(C, 2, "last words"), until=2)
    assert node.given == ["x", "last words"]


def test_numbers_of_a_node_that_began_again_begin_again() -> None:
    node = OneNode(B).ready()
    node.says(B, 1, "x")
    node.says(B, 1, "y", start=LATER_START)
    assert node.given == ["x", "y"]


def test_node_that_does_not_answer_may_have_it() -> None:
    node = OneNode(B).ready()
    node.says(B, 2, "y")
    node.pass_ms(4000)
    for _ in range(10):
        if node.holes():
            node.is_silent()
        node.pass_ms(50)
    assert node.given == []
    node.pass_ms(1000)
    assert node.given == ["gap 1-1", "y"]


def test_node_that_announces_nothing_here_is_asked_too() -> None:
    node = OneNode(B, C).ready()
    node.announces(C, None)
    node.says(B, 2, "y")
    node.pass_ms(150)
    assert node.holes() == [(B, HoleAsked(origin_of(B), 1, 1))]
    node.fills(until=1)
    node.pass_ms(50)
    assert node.holes() == [(C, HoleAsked(origin_of(B), 1, 1))]
    node.fills(kept(B, 1, "x"), until=1)
    assert node.given == ["x", "y"]


def test_node_that_announces_nothing_and_does_not_answer_has_it_not() -> None:
    node = OneNode(B, C).ready()
    node.announces(C, None)
    node.says(B, 2, "y")
    for _ in range(60):
        node.pass_ms(50)
        for asked, _ in node.holes():
            node.fills(until=1) if asked == B else node.is_silent()
    assert node.given == ["gap 1-1", "y"]


def test_hole_is_passed_over_after_five_seconds() -> None:
    node = OneNode(B).ready()
    node.says(B, 3, "z")
    node.pass_ms(4999)
    assert node.given == []
    node.pass_ms(60)
    assert (node.given, node.statistic("passed_over")) == (["gap 1-2", "z"], 2)


def test_hole_that_nobody_can_fill_is_passed_over_soon() -> None:
    node = OneNode(B).ready()
    node.says(B, 2, "y")
    for _ in range(40):
        node.pass_ms(50)
        if node.holes():
            node.fills(until=1)
    assert node.given == ["gap 1-1", "y"]


def test_hole_is_not_passed_over_in_its_first_second() -> None:
    node = OneNode(B).ready()
    node.says(B, 2, "y")
    for _ in range(19):
        node.pass_ms(50)
        if node.holes():
            node.fills(until=1)
    assert node.given == []


def test_what_was_passed_over_and_comes_late_is_not_given() -> None:
    node = OneNode(B).ready()
    node.says(B, 2, "y")
    node.pass_ms(5100)
    node.says(B, 1, "x")
    assert node.given == ["gap 1-1", "y"]


def test_next_page_of_a_hole_is_asked_for_at_once() -> None:
    node = OneNode(B).ready()
    node.knows(B, b=9)
    node.pass_ms(150)
    assert node.holes() == [(B, HoleAsked(origin_of(B), 1, 9))]
    node.fills(kept(B, 1, "x"), kept(B, 2, "y"), until=2)
    node.pass_ms(1)
    assert node.holes() == [(B, HoleAsked(origin_of(B), 3, 9))]


def test_what_came_by_asking_is_made_known_onward_at_once() -> None:
    node = OneNode(B, C, near=(B, C)).ready()
    node.pass_ms(1000)
    node.knows(B, d=1)
    node.pass_ms(150)
    node.holes()
    node.told_by(C)
    node.fills(kept(D, 1, "x"), until=1)
    assert node.told_by(C) == [OriginsKnown({origin_of(D): 1})]


def test_new_neighbour_is_told_all_that_is_known() -> None:
    node = OneNode(B, C, near=(B,)).ready()
    node.says(B, 1, "x")
    node.pass_ms(6000)
    node.told_by(C)
    node.sees((B, C), (B, C))
    assert node.told_by(C) == [OriginsKnown({origin_of(B): 1})]


def test_hearsay_is_not_made_known() -> None:
    node = OneNode(B, C, near=(B, C)).ready()
    node.knows(B, d=3)
    node.pass_ms(1100)
    assert all(origin_of(D) not in word.numbers for word in node.told_by(C) if isinstance(word, OriginsKnown))


def test_late_activity_of_an_earlier_epoch_is_dropped() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "later", sender("ann", 2))
    node.says(B, 1, "earlier", sender("ann", 1))
    node.says(B, 2, "other", sender("bob", 1))
    assert (node.given, node.statistic("late")) == (["later", "other"], 1)


def test_own_activity_of_an_earlier_epoch_is_dropped_too() -> None:
    node = OneNode(B).ready()
    first = node.login({})
    node.send(first, "earlier")
    mark = node.machine.node.clients.find(first).mark
    node.says(B, 1, "later", SenderMark(mark.sender_of("ann").hash, 2))
    node.confirms(B, 1)
    assert node.given == ["later"]


def test_sending_counts_as_giving_out() -> None:
    node = OneNode(B).ready()
    before = node.logged_in(node.login({})).client
    assert before is not None
    elsewhere = before.replace(node.origin, origin_of(B))
    client = node.login({origin_of(B): 0}, elsewhere)
    node.send(client, "later")
    mark = node.machine.node.clients.find(client).mark.sender_of("ann")
    assert mark.epoch == 2
    node.says(B, 1, "earlier", type(mark)(mark.hash, 1))
    assert node.given == []
    node.confirms(B, 1)
    assert node.given == ["later"]


def test_first_activity_after_a_move_is_held_back_until_the_node_is_as_far() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "later", sender("ann", 2), {origin_of(B): 1})
    assert node.given == []
    node.says(B, 1, "earlier", sender("ann", 1))
    assert node.given == ["earlier", "later"]


def test_what_an_activity_comes_after_is_asked_for() -> None:
    node = OneNode(B, C, near=(C,)).ready()
    node.says(C, 1, "later", sender("ann", 2), {origin_of(B): 1})
    node.pass_ms(150)
    assert node.holes() == [(C, HoleAsked(origin_of(B), 1, 1))]


def test_hole_is_filled_with_what_an_activity_comes_after() -> None:
    node = OneNode(B, C).ready()
    node.knows(B, c=1)
    node.pass_ms(150)
    node.holes()
    node.fills(kept(C, 1, "later", sender("ann", 2), {origin_of(B): 1}), until=1)
    assert node.given == []
    node.says(B, 1, "earlier", sender("ann", 1))
    assert node.given == ["earlier", "later"]


def test_first_activity_after_a_move_says_how_far_its_node_is() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "x")
    mark = node.logged_in(node.login({})).client
    client = node.login({origin_of(B): 1}, mark.replace(node.origin, origin_of(C)))
    node.send(client, "y")
    node.send(client, "z")
    node.pass_ms(GATHER_MS)
    assert [said.after for said in node.said] == [{origin_of(B): 1}, None]


def test_client_that_sends_on_its_second_connection_after_a_move_names_that_too() -> None:
    node = OneNode(B, C).ready()
    node.says(B, 1, "x")
    mark = node.logged_in(node.login({})).client
    moved = node.login({origin_of(B): 1}, mark.replace(node.origin, origin_of(C)))
    again = node.login({origin_of(B): 1}, node.logged_in(moved).client)
    node.send(again, "y")
    assert node.said[0].after == {origin_of(B): 1}


def test_text_of_a_client_of_another_user_makes_nobody_that_client() -> None:
    node = OneNode(B).ready()
    text = node.logged_in(node.login({}, user="ann")).client
    marks = list[SenderMark | None]()
    for user in ("ann", "bob"):
        client = node.login({node.origin: 0}, text, user=user)
        node.send(client, "x")
        node.pass_ms(GATHER_MS)
        marks.append(node.said[-1].sender)
    assert marks[0] is not None
    assert marks[1] is not None
    assert marks[0].hash != marks[1].hash


def test_client_that_comes_again_to_its_node_keeps_its_epoch() -> None:
    node = OneNode(B).ready()
    mark = node.logged_in(node.login({})).client
    client = node.login({node.origin: 0}, mark)
    node.send(client, "x")
    assert (node.said[0].sender.epoch, node.said[0].after) == (1, None)


def test_client_that_does_not_resume_is_not_marked() -> None:
    node = OneNode(B).ready()
    node.send(node.login(), "x")
    assert node.said[0].sender is None


def test_node_is_asked_for_what_it_gave_out_and_what_waits() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "x")
    node.says(C, 3, "z")
    answer = HOLE_ANSWERS.read(node.asks(B, HoleAsked(origin_of(C), 1, 3)))
    assert [item.number for item in answer.items] == [1, 3]


def test_node_is_asked_for_its_own_that_are_not_echoed() -> None:
    node = OneNode(B).ready()
    node.send(node.login(), "x")
    answer = HOLE_ANSWERS.read(node.asks(B, HoleAsked(node.origin, 1, 1)))
    assert [item.activity for item in answer.items] == [b"x"]


def test_window_has_all_in_the_order_in_which_it_was_given_out() -> None:
    node = OneNode(B, C).ready()
    node.says(C, 1, "x")
    node.says(B, 1, "y")
    page = WINDOW_PAGES.read(node.asks(B, WindowAsked()))
    assert [item.activity for item in page.items] == [b"x", b"y"]
    assert page.numbers == {node.origin: 0, origin_of(B): 1, origin_of(C): 1}


def test_what_is_too_old_is_not_kept() -> None:
    node = OneNode(B, keep_ms=60_000).ready()
    node.says(B, 1, "x")
    node.pass_ms(61_000)
    node.says(B, 2, "y")
    assert node.statistic("kept") == 1


def test_no_more_is_kept_than_may_be() -> None:
    node = OneNode(B, keep_count=2).ready()
    for number in range(1, 5):
        node.says(B, number, "x")
    assert node.statistic("kept") == 2


def test_broken_word_changes_nothing_and_is_counted() -> None:
    node = OneNode(B).ready()
    node.step(NodeTold(B, LIFE, ACTIVITY, b"\x91"))
    assert node.statistic("bad") == 1

