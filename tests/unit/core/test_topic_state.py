"""One copy of a topic: puts, subscriptions, what is given, and what is forgotten.

Knows: the state alone.  Does not know owners, copies on other nodes, nor clients.
"""

from __future__ import annotations

import pytest

from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.settings import TopicSettings
from distkv.errors import NotFoundError, TooLargeError
from distkv.wire.topic_errors import StaleOpError, TakenError
from distkv.wire.topic_fields import COUNTER_MAX, OP_MAX, RANGES_MAX
from distkv.wire.topic_rows import message_key
from distkv.wire.values import pack_value
from tests.unit.core.topic_copies import (
    NAME,
    SERVICE,
    Disk,
    copy_rows,
    given,
    named,
    op_of,
    put,
    ranges,
    value_of,
)


def test_message_is_given_until_it_is_done() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 1, 2, 3)
    assert given(topic, "c", limit=2) == [("p", 1), ("p", 2)]
    topic.add_done("c", [("p", 1)])
    assert given(topic, "c") == [("p", 2), ("p", 3)]
    topic.add_done("c", [("p", 3)])
    assert given(topic, "c") == [("p", 2)]
    topic.check()


def test_what_came_before_a_subscription_is_not_given() -> None:
    """STATE-4."""
    topic = Disk().topic()
    put(topic, "p", 1)
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 2)
    assert given(topic, "c") == [("p", 2)]


def test_message_is_given_within_the_step_that_brought_it() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", None, None, 1.0)
    disk.keep()
    put(topic, "p", 1)
    assert given(topic, "c") == [("p", 1)]
    disk.keep()
    assert topic.next_messages("c", 1, 0).messages[0].value == value_of("p", 1)


def test_message_is_given_between_what_is_kept_and_the_end_of_the_step() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 1)
    disk.topics.keep(ServiceTurn(SERVICE, 0, 0.0, disk.data))
    assert given(topic, "c") == [("p", 1)]


def test_two_copies_of_one_name_that_change_in_one_step_are_both_told() -> None:
    """The followers are sent the rows of each."""
    disk = Disk()
    topics = [disk.topic(), disk.topics.create(NAME, ("00000000000000bb",))]
    for topic in topics:
        put(topic, "p", 1)
    found = disk.topics.keep(ServiceTurn(SERVICE, 0, 0.0, disk.data))
    assert [topic for topic, _ in found] == topics
    assert all(message_key("p", 1) in rows for _, rows in found)


def test_put_that_is_repeated_is_a_duplicate() -> None:
    """STATE-1."""
    topic = Disk().topic()
    assert topic.put("p", 1, pack_value("v"), 1.0, None, b"t" * 8, 0) is True
    assert topic.put("p", 1, pack_value("v"), 2.0, None, b"t" * 8, 0) is False
    assert topic.put("p", 1, pack_value("v"), 2.0, None, None, 0) is False
    assert len(topic) == 1


@pytest.mark.parametrize(("value", "tag"), [("v", b"u" * 8), ("w", None)])
def test_put_of_a_counter_that_is_another_messages_is_refused(value: str, tag: bytes | None) -> None:
    """STATE-2."""
    topic = Disk().topic()
    topic.put("p", 1, pack_value("v"), 1.0, None, b"t" * 8, 0)
    with pytest.raises(TakenError):
        topic.put("p", 1, pack_value(value), 1.0, None, tag, 0)


def test_put_whose_tag_is_too_old_to_be_known_is_refused() -> None:
    """STATE-2."""
    topic = Disk().topic()
    for counter in range(1, 66):
        topic.put("p", counter, pack_value("v"), 1.0, None, counter.to_bytes(8, "big"), 0)
    assert topic.put("p", 2, pack_value("v"), 1.0, None, (2).to_bytes(8, "big"), 0) is False
    with pytest.raises(TakenError):
        topic.put("p", 1, pack_value("v"), 1.0, None, (1).to_bytes(8, "big"), 0)


def test_message_waits_for_a_lower_counter_above_its_floor() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 1, 3, 4, floor=1)
    found = topic.next_messages("c", 10, 50)
    assert ([message.counter for message in found.messages], found.wake_ms) == ([1], 10_000)
    put(topic, "p", 2, floor=1)
    assert given(topic, "c") == [("p", 1), ("p", 2), ("p", 3), ("p", 4)]


def test_message_waits_for_ten_seconds_at_the_most() -> None:
    """STATE-7."""
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 2, 4, floor=1, now_ms=500)
    put(topic, "p", 6, floor=1, now_ms=5000)
    assert given(topic, "c", now_ms=10_499) == []
    assert given(topic, "c", now_ms=10_500) == [("p", 2), ("p", 4)]
    assert given(topic, "c", now_ms=15_000) == [("p", 2), ("p", 4), ("p", 6)]


def test_nothing_below_the_floor_is_waited_for() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 5)
    put(topic, "p", 9, floor=8)
    assert given(topic, "c") == [("p", 5)]
    put(topic, "p", 10, floor=9)
    assert given(topic, "c") == [("p", 5), ("p", 9), ("p", 10)]


def test_producers_are_given_in_the_order_of_arrival_each_in_that_of_counters() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    for producer, counter in [("p", 2), ("q", 1), ("p", 1), ("q", 2)]:
        put(topic, producer, counter)
    assert given(topic, "c") == [("p", 1), ("q", 1), ("p", 2), ("q", 2)]


def test_bytes_of_what_is_given_are_bounded_but_one_message_goes() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", 1, 2, 3)
    assert len(topic.next_messages("c", 10, 0, bytes_max=1).messages) == 1
    assert len(topic.next_messages("c", 10, 0, bytes_max=6).messages) == 2


def test_subscribe_again_changes_nothing() -> None:
    topic = Disk().topic()
    assert topic.subscribe("c", None, None, 1.0) == (1000, True)
    put(topic, "p", 1)
    assert topic.subscribe("c", None, None, 2.0) == (1000, False)
    assert topic.subscribe("c", 1000, None, 2.0) == (1000, False)
    assert given(topic, "c") == [("p", 1)]


def test_higher_op_replaces_everything() -> None:
    """STATE-4."""
    topic = Disk().topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1, 2)
    topic.add_done("c", [("p", 2)])
    assert topic.subscribe("c", 3, None, 1.0) == (3, True)
    assert given(topic, "c") == []
    put(topic, "p", 3)
    assert given(topic, "c") == [("p", 3)]


def test_lower_op_is_refused_with_the_known_one() -> None:
    """STATE-6."""
    topic = Disk().topic()
    topic.subscribe("c", 5, None, 1.0)
    with pytest.raises(StaleOpError) as caught:
        topic.unsubscribe("c", 4, 1.0)
    assert caught.value.known_op == 5
    assert topic.is_subscribed("c")


def test_subscribe_with_the_op_of_an_unsubscribe_is_refused() -> None:
    topic = Disk().topic()
    topic.unsubscribe("c", 5, 1.0)
    with pytest.raises(StaleOpError):
        topic.subscribe("c", 5, None, 1.0)


def test_op_above_which_a_client_may_say_none_leaves_room_for_those_of_nodes() -> None:
    topic, disk = Disk().topic(), Disk()
    topic.subscribe("c", OP_MAX, None, 1.0)
    assert topic.unsubscribe("c", None, 1.0) == (OP_MAX + 1, True)
    other = disk.topic()
    other.subscribe("c", COUNTER_MAX, None, 1.0)
    with pytest.raises(TooLargeError, match="drop the subscriber"):
        other.unsubscribe("c", None, 1.0)
    assert other.is_subscribed("c")


def test_op_that_is_left_out_is_the_time_but_above_the_known_one() -> None:
    """STATE-6."""
    topic = Disk().topic()
    assert topic.subscribe("c", 7_000, None, 1.0) == (7000, True)
    assert topic.unsubscribe("c", None, 2.0) == (7001, True)
    assert topic.unsubscribe("c", None, 3.0) == (7001, False)
    assert topic.subscribe("c", None, None, 9.0) == (9000, True)


def test_who_is_not_subscribed_gets_nothing() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    topic.unsubscribe("c", None, 2.0)
    for asked in (lambda: given(topic, "c"), lambda: topic.add_done("c", []), lambda: topic.owed("other")):
        with pytest.raises(NotFoundError):
            asked()


def test_what_a_client_had_elsewhere_is_not_given_when_it_comes() -> None:
    topic = Disk().topic()
    topic.subscribe("c", 1, {"p": ranges(2, 3)}, 1.0)
    put(topic, "p", 1, 2, 3, 4)
    assert given(topic, "c") == [("p", 1), ("p", 4)]
    topic.check()


def test_unknown_is_what_is_done_here_and_not_in_its_state() -> None:
    topic = Disk().topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1, 2, 3)
    topic.add_done("c", [("p", 1), ("p", 2)])
    assert topic.unknown("c", {"p": ranges(1)}) == {"p": ranges(2)}
    assert topic.unknown("c", {"p": ranges(1, 2)}) == {}


def test_done_of_what_never_came_is_counted_and_changes_nothing() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1)
    topic.add_done("c", [("p", 2), ("q", 1)])
    disk.keep()
    assert disk.notes == ["topic_done_ignored"]
    put(topic, "p", 2)
    assert given(topic, "c") == [("p", 1), ("p", 2)]


def test_message_that_all_had_can_be_forgotten_and_its_counter_stays_known() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    topic.subscribe("d", 1, None, 1.0)
    put(topic, "p", 1, 2)
    topic.add_done("c", [("p", 1), ("p", 2)])
    assert [*topic.free(topic.arrived())] == []
    topic.add_done("d", [("p", 2)])
    assert [*topic.free(1)] == []
    assert [(one.producer, one.counter) for one in topic.free(topic.arrived())] == [("p", 2)]
    topic.forget("p", [2])
    assert (len(topic), given(topic, "d")) == (1, [("p", 1)])
    again = disk.restart()
    assert again.put("p", 2, value_of("p", 2), 1.0, None, None, 0) is False


def test_message_that_is_owed_and_goes_is_told_to_be_gone_until_that_is_done() -> None:
    """STATE-8."""
    topic = Disk().topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1, 2, 3)
    topic.forget("p", [1, 2])
    found = topic.next_messages("c", 10, 0)
    assert (found.gone, [message.counter for message in found.messages]) == ({"p": ranges(1, 2)}, [3])
    topic.add_done("c", [("p", 1)])
    assert topic.next_messages("c", 10, 0).gone == {"p": ranges(2)}
    topic.add_done("c", [("p", 2)])
    assert topic.next_messages("c", 10, 0).gone == {}


def test_message_that_comes_back_is_not_gone_any_more() -> None:
    disk, other = Disk(), Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1)
    copy_rows(topic, other.topic())
    topic.forget("p", [1])
    assert topic.next_messages("c", 10, 0).gone == {"p": ranges(1)}
    copy_rows(other.topic(), topic)
    found = topic.next_messages("c", 10, 0)
    assert (found.gone, named(found)) == ({}, [("p", 1)])


def test_what_is_gone_is_told_after_a_start_too() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 1, 2)
    topic.forget("p", [1])
    again = disk.restart(now_ms=1000)
    found = again.next_messages("c", 10, 1000)
    assert (found.gone, found.wake_ms) == ({}, 11_000)
    assert again.next_messages("c", 10, 11_000).gone == {"p": ranges(1)}


def test_start_gives_the_same_copy() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 1, {"q": ranges(1)}, 1.0)
    topic.subscribe("e", 1, None, 1.0)
    topic.unsubscribe("e", 2, 1.0)
    put(topic, "p", 1, 2, 4, 3, floor=1)
    topic.add_done("c", [("p", 2)])
    topic.take_here("c", 0)
    before = (topic.digest, given(topic, "c"), topic.owed("c"), topic.held_bytes, op_of(topic, "e"))
    again = disk.restart()
    assert again is not topic
    assert (again.digest, given(again, "c"), again.owed("c"), again.held_bytes, op_of(again, "e")) == before
    assert again.is_taken_here("c")
    disk.topics.check()


def test_gap_above_the_bound_closes_the_lowest_one() -> None:
    topic = Disk(TopicSettings(gaps_max=2)).topic()
    put(topic, "p", 1, 3, 5)
    put(topic, "p", 2)
    put(topic, "p", 7, 9)
    with pytest.raises(TakenError):
        put(topic, "p", 4)
    put(topic, "p", 6)
    assert topic.put("p", 3, value_of("p", 3), 1.0, None, None, 0) is False


def test_limits_of_a_topic_are_refused_with_what_to_do() -> None:
    topic = Disk(TopicSettings(producers_max=1, subscribers_max=1, message_bytes=9)).topic()
    put(topic, "p", 1)
    topic.subscribe("c", 1, None, 1.0)
    refused = [
        lambda: put(topic, "q", 1),
        lambda: topic.subscribe("d", 1, None, 1.0),
        lambda: topic.put("p", 2, bytes(10), 1.0, None, None, 0),
    ]
    for ask in refused:
        with pytest.raises(TooLargeError, match="or allow more"):
            ask()
    put(topic, "~node.1", 1)
    topic.subscribe("c", 2, None, 1.0)
    topic.unsubscribe("c", None, 1.0)
    topic.subscribe("d", 1, None, 1.0)


def test_marks_of_those_who_unsubscribed_are_bounded() -> None:
    disk = Disk(TopicSettings(subscribers_max=2))
    topic = disk.topic()
    for op in range(1, 5):
        topic.subscribe(f"c{op}", op, None, 1.0)
        topic.unsubscribe(f"c{op}", op + 10, 1.0)
    assert [op_of(topic, f"c{op}") for op in range(1, 5)] == [None, None, 13, 14]
    disk.keep()
    assert disk.notes == ["topic_mark_dropped"] * 2


def test_producer_that_is_dropped_may_begin_again() -> None:
    disk = Disk()
    topic = disk.topic()
    put(topic, "p", 1)
    topic.subscribe("c", 1, None, 1.0)
    put(topic, "p", 2, 3)
    topic.add_done("c", [("p", 3)])
    topic.drop_producer("p")
    assert (len(topic), given(topic, "c"), [*topic.producers()]) == (0, [], [])
    put(topic, "p", 1)
    assert given(topic, "c") == [("p", 1)]
    again = disk.restart()
    assert given(again, "c") == [("p", 1)]
    assert again.digest == topic.digest


def test_subscriber_that_is_dropped_is_not_known() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 5, None, 1.0)
    put(topic, "p", 1)
    topic.add_done("c", [("p", 1)])
    topic.drop_subscriber("c")
    assert op_of(topic, "c") is None
    assert op_of(disk.restart(), "c") is None


def test_put_is_one_row() -> None:
    disk = Disk()
    topic = disk.topic()
    topic.subscribe("c", 5, None, 1.0)
    disk.keep()
    put(topic, "p", 1)
    assert [*disk.keep()] == ["m\x1fp\x1f0000000000000001"]


def test_drop_of_who_is_not_known_changes_nothing() -> None:
    disk = Disk()
    topic = disk.topic()
    put(topic, "p", 1)
    disk.keep()
    topic.drop_subscriber("nobody")
    topic.drop_producer("nobody")
    assert topic.changes == {}


def test_subscription_that_is_taken_again_is_not_held_longer() -> None:
    """ANSWER-5: 10 seconds from when it was taken first."""
    topic = Disk().topic()
    topic.subscribe("c", 1, None, 1.0)
    assert topic.held_until("c") is None
    topic.take_here("c", 500)
    topic.take_here("c", 900)
    assert topic.held_until("c") == 10_500


def test_dropped_subscriber_is_not_marked_as_taken_here_any_more() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    topic.take_here("c", 0)
    topic.drop_subscriber("c")
    assert not topic.is_taken_here("c")
    topic.check()


def test_subscriber_that_leaves_out_too_many_messages_is_refused() -> None:
    topic = Disk().topic()
    topic.subscribe("c", None, None, 1.0)
    put(topic, "p", *range(1, 2 * RANGES_MAX + 3))
    with pytest.raises(TooLargeError, match="has left out more than"):
        topic.add_done("c", [("p", counter) for counter in range(1, 2 * RANGES_MAX + 3, 2)])
    assert topic.left("c") == 2 * RANGES_MAX + 2


def test_what_a_large_base_has_no_room_for_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distkv.core.topics.topic.BASE_BYTES_MAX", 40)
    topic = Disk().topic()
    put(topic, "p", 1)
    put(topic, "q", 1)
    topic.subscribe("c", None, None, 1.0)
    assert given(topic, "c") == [("q", 1)]
