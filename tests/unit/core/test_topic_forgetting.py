"""When messages of topics go: rounds of all nodes, and what is kept for those that are away.

Knows: what each node believes, which a test says.  Does not know how copies are compared, nor how entries come to be.
"""

from __future__ import annotations

from distkv.core.topics.forgetting import LOOK_MS
from distkv.core.topics.free_messages import SLICE
from distkv.core.topics.settings import TopicSettings
from distkv.model.event import NodeName
from tests.unit.core.topic_copies import NAME, copy_rows, given, put, ranges
from tests.unit.core.topic_keepers import Entry, Keepers

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
MESSAGE_BYTES = 600
"""More than a message of these tests counts."""


def fleet(*names: str, settings: TopicSettings | None = None) -> Keepers:
    """Nodes of which `a` owns the topic, and the copies are equal."""
    found = Keepers(*names, settings=settings)
    for name in names:
        found[name].topic()
    found.publish(Entry(followers=tuple(NodeName(name) for name in names if name != "a")))
    found.clean()
    found.settle()
    return found


def came(found: Keepers, *counters: int, name: str = NAME) -> None:
    """Messages come to the owner."""
    put(found["a"].topic(name), "p", *counters)
    found["a"].keep()


def left(found: Keepers) -> int:
    """How many messages the owner has."""
    return len(found["a"].topic())


# -- rounds


def test_message_that_nobody_is_owed_goes_when_all_nodes_have_said_so() -> None:
    """GONE-1."""
    found = fleet("a", "b", "c")
    came(found, 1, 2)
    found.pass_time(LOOK_MS)
    found.deliver("b")
    found.pass_time(100)
    assert left(found) == 2
    found.deliver("c")
    found.pass_time(100)
    assert left(found) == 0


def test_message_that_a_known_subscriber_is_owed_stays() -> None:
    """GONE-2."""
    found = fleet("a", "b")
    found["a"].topic().subscribe("s", 1, None, 1.0)
    came(found, 1, 2)
    found["a"].topic().add_done("s", [("p", 1)])
    found["a"].keep()
    found.settle()
    assert given(found["a"].topic(), "s") == [("p", 2)]
    assert left(found) == 1


def test_message_that_came_after_the_question_stays() -> None:
    """GONE-1."""
    found = fleet("a", "b")
    came(found, 1)
    found.pass_time(LOOK_MS)
    came(found, 2)
    found.deliver()
    found["a"].pass_time(100)
    assert left(found) == 1


def test_message_stays_while_a_node_holds_what_the_owner_may_lack() -> None:
    found = fleet("a", "b", "c")
    found["b"].clean.clear()
    came(found, 1)
    found.settle()
    assert left(found) == 1
    assert found["a"].forgetting.waits_for(NAME) == (B,)
    found.clean()
    found.settle()
    assert left(found) == 0
    assert found["a"].forgetting.waits_for(NAME) == ()


def test_message_stays_until_a_node_is_clean_towards_this_start_of_the_owner() -> None:
    found = fleet("a", "b")
    came(found, 1)
    found["a"].restart()
    found.settle()
    assert left(found) == 1


def test_subscription_that_moved_from_who_is_asked_late_to_who_was_asked_early_is_owed_its_messages() -> None:
    found = fleet("a", "b", "c")
    found["c"].topic().subscribe("s", 1, None, 1.0)  # while c was apart
    found["c"].keep()
    found["c"].clean.clear()
    came(found, 1)
    found.pass_time(LOOK_MS)
    found.deliver("b")  # it knows no subscriber
    copy_rows(found["c"].topic(), found["b"].topic())
    found["b"].keep()
    found["b"].clean.clear()
    found["c"].clean.add((NAME, B, found["b"].start))  # all that c has is with b, which was asked before
    found.deliver("c")
    found.settle()
    assert left(found) == 1
    found.clean()
    assert given(found["a"].topic(), "s") == [("p", 1)]


def test_answer_of_a_node_that_knows_other_keepers_does_not_count() -> None:
    found = fleet("a", "b")
    found["b"].known_keepers |= {C}
    came(found, 1)
    found.settle()
    assert left(found) == 1


def test_answer_of_a_node_that_knows_another_life_of_a_keeper_does_not_count() -> None:
    found = fleet("a", "b")
    found["b"].nodes.lives = {A: 8}
    came(found, 1)
    found.settle()
    assert left(found) == 1


def test_answers_do_not_count_when_a_keeper_was_found_meanwhile() -> None:
    found = fleet("a", "b")
    came(found, 1)
    found.pass_time(LOOK_MS)
    found["a"].known_keepers |= {C}
    found.deliver()
    found["a"].pass_time(100)
    assert left(found) == 1


def test_node_alone_lets_go_what_nobody_is_owed() -> None:
    found = fleet("a")
    came(found, 1)
    found.settle()
    assert left(found) == 0


def test_what_a_node_says_in_bad_bytes_counts_as_nothing() -> None:
    found = fleet("a", "b")
    came(found, 1)
    found.pass_time(LOOK_MS)
    (asked,) = found["a"].asked
    found["a"].asked.clear()
    found["a"].replied(asked, b"\x90")
    found["a"].pass_time(100)
    assert (left(found), found["a"].notes) == (1, ["topic_round_bad"])


def test_many_messages_go_in_several_steps() -> None:
    found = fleet("a")
    came(found, *range(1, SLICE + 2))
    found["a"].pass_time(0)
    assert left(found) == SLICE + 1 - SLICE
    found["a"].pass_time(100)
    assert left(found) == 0


# -- away


def test_nothing_is_asked_while_a_keeper_is_away() -> None:
    found = fleet("a", "b", "c")
    found.up.discard(C)
    found.know_each_other()
    came(found, 1)
    found.pass_time(60_000)
    assert not found["a"].asked
    assert found["a"].forgetting.waits_for(NAME) == (C,)


def test_all_are_asked_as_soon_as_the_last_keeper_is_back() -> None:
    found = fleet("a", "b", "c")
    found.up.discard(C)
    found.know_each_other()
    came(found, 1)
    found.pass_time(60_000)
    found.up.add(C)
    found.know_each_other()
    assert {asked.node for asked in found["a"].asked} == {B, C}


def test_retired_node_is_not_asked() -> None:
    found = fleet("a", "b", "c")
    found.up.discard(C)
    found.know_each_other()
    came(found, 1)
    found.settle()
    assert left(found) == 1
    del found.nodes[C]
    found.know_each_other()
    found.settle()
    assert left(found) == 0


def test_oldest_messages_go_when_too_much_is_kept_for_who_is_away() -> None:
    found = fleet("a", "b", settings=TopicSettings(away_bytes=3 * MESSAGE_BYTES))
    found.up.discard(B)
    found.know_each_other()
    came(found, *range(1, 11))
    found.settle()
    kept = [message.counter for message in found["a"].topic().oldest()]
    assert kept == [8, 9, 10]
    assert found["a"].forgetting.kept_bytes(NAME) <= 3 * MESSAGE_BYTES


def test_oldest_of_all_topics_go_first() -> None:
    found = fleet("a", "b", settings=TopicSettings(away_bytes=3 * MESSAGE_BYTES))
    other = ("00000000000000bb",)
    found["a"].topic("other", other)
    found.publish(Entry(ids=frozenset(other)), "other")
    found.up.discard(B)
    found.know_each_other()
    for counter in range(1, 4):
        found["a"].topic("other", other).put("p", counter, b"\xc0", 1.0 + counter * 100, None, None, 0)
        found["a"].topic().put("p", counter, b"\xc0", 51.0 + counter * 100, None, None, 0)
    found["a"].keep()
    found.settle()
    assert [message.counter for message in found["a"].topic().oldest()] == [2, 3]
    assert [message.counter for message in found["a"].topic("other", other).oldest()] == [3]


def test_message_that_a_known_subscriber_is_owed_stays_however_much_is_kept() -> None:
    found = fleet("a", "b", settings=TopicSettings(away_bytes=0))
    found["a"].topic().subscribe("s", 1, None, 1.0)
    found.up.discard(B)
    found.know_each_other()
    came(found, *range(1, 11))
    found["a"].topic().add_done("s", [("p", 5)])
    found["a"].keep()
    found.settle()
    assert left(found) == 9


def test_subscriber_of_the_other_side_is_told_what_was_not_kept_for_it() -> None:
    found = fleet("a", "b", settings=TopicSettings(away_bytes=MESSAGE_BYTES))
    found.up.discard(B)
    found.know_each_other()
    found["b"].topic().subscribe("s", 1, None, 1.0)
    found["b"].keep()
    found["b"].clean.clear()
    came(found, 1, 2, 3)
    found.settle()
    found.up.add(B)
    found.know_each_other()
    found.clean()
    given_now = found["a"].topic().next_messages("s", 10, 100_000)
    assert [message.counter for message in given_now.messages] == [3]
    assert given_now.gone == {"p": ranges(1, 2)}


# -- costs


def test_with_nothing_to_let_go_nobody_is_asked_and_nothing_wakes() -> None:
    found = fleet("a", "b")
    found["a"].topic().subscribe("s", 1, None, 1.0)
    came(found, *range(1, 11))
    found.settle()
    assert not found["a"].asked
    assert [node.forgetting.wake_ms() for node in found.nodes.values()] == [None, None]


def test_nobody_is_asked_more_often_than_each_second() -> None:
    found = fleet("a", "b")
    found["b"].clean.clear()
    came(found, 1)
    count = 0
    for _ in range(100):
        found.pass_time(100)
        count += found.deliver()
    assert 9 <= count <= 11


def test_topic_that_another_node_owns_now_waits_for_nothing() -> None:
    found = fleet("a", "b")
    found["b"].clean.clear()
    came(found, 1)
    found.settle()
    assert found["a"].forgetting.kept_bytes(NAME) > 0
    found.publish(Entry(owner=B, followers=(A,)))
    found["a"].pass_time(LOOK_MS)
    assert found["a"].forgetting.kept_bytes(NAME) == 0
    assert found["a"].forgetting.waits_for(NAME) == ()


def test_topics_that_come_and_go_leave_nothing_behind() -> None:
    found = fleet("a", "b")
    for number in range(300):
        name, ids = f"t{number}", (f"{number + 1000:016x}",)
        found["a"].topic(name, ids)
        found.publish(Entry(ids=frozenset(ids)), name)
        put(found["a"].topic(name, ids), "p", 1)
        found["a"].keep()
        found["a"].drop_topic(name)
        found.publish_dropped(name, frozenset(ids))
        if number % 20 == 0:
            found.settle()
    found.settle()
    assert [topic.name for topic in found["a"].disk.topics.all()] == [NAME]
    assert all(not node.gone for node in found.nodes.values())
    assert [node.forgetting.wake_ms() for node in found.nodes.values()] == [None, None]
    found["a"].forgetting.check()
