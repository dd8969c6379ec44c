"""How much of a topic is kept, by its own limits and by that of the node for what subscribers leave waiting.

Knows: one node that owns a topic.  Does not know others.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.topics.copy_state import MESSAGE_BYTES
from distkv.core.topics.keeping_limits import AT_ONCE
from distkv.core.topics.settings import TopicSettings
from distkv.wire.topic_errors import BacklogError
from distkv.wire.values import pack_value
from tests.service_steps import WALL
from tests.unit.core.topic_copies import NAME, given, ranges
from tests.unit.core.topic_keepers import Entry, Keeper, Keepers

VALUE = pack_value("v")
SIZE = len(VALUE) + MESSAGE_BYTES


def owner(*subscribers: str, settings: TopicSettings | None = None, entry: Entry | None = None) -> Keeper:
    """A node that owns the topic, and these are subscribed."""
    node = Keepers("a", settings=settings)["a"]
    node.entries[NAME] = entry or Entry()
    for subscriber in subscribers:
        node.topic().subscribe(subscriber, 1, None, WALL)
    node.keep()
    node.entry_changed()
    return node


def put(node: Keeper, *counters: int) -> None:
    """Messages that have the time of the node."""
    for counter in counters:
        node.topic().put("p", counter, VALUE, node.wall, None, None, 0)
    node.keep()


def pass_time(node: Keeper, seconds: int) -> None:
    for _ in range(seconds):
        node.wall += 1
        node.pass_time(1000)


def test_messages_that_are_too_old_go_and_subscribers_are_told() -> None:
    node = owner("s", entry=Entry(keep_s=60.0))
    put(node, 1)
    pass_time(node, 30)
    put(node, 2)
    pass_time(node, 29)
    assert len(node.topic()) == 2
    pass_time(node, 3)
    found = node.topic().next_messages("s", 10, 0)
    assert [message.counter for message in found.messages] == [2]
    assert found.gone == {"p": ranges(1)}
    pass_time(node, 30)
    assert len(node.topic()) == 0
    assert node.forgetting.wake_ms() is None


def test_oldest_messages_go_when_a_topic_has_more_than_it_may() -> None:
    node = owner("s", entry=Entry(keep_bytes=3 * SIZE))
    put(node, *range(1, 11))
    pass_time(node, 2)
    assert given(node.topic(), "s") == [("p", 8), ("p", 9), ("p", 10)]
    assert node.forgetting.wake_ms() is None


def test_limit_that_is_set_later_counts_at_once() -> None:
    node = owner("s")
    put(node, *range(1, 11))
    pass_time(node, 2)
    node.entries[NAME] = attrs.evolve(node.entries[NAME], keep_bytes=SIZE)
    node.entry_changed()
    pass_time(node, 1)
    assert len(node.topic()) == 1


def test_many_messages_above_a_limit_go_in_several_steps() -> None:
    node = owner("s", entry=Entry(keep_bytes=SIZE))
    put(node, *range(1, AT_ONCE + 3))
    node.now_ms += 1000
    node.step()
    assert len(node.topic()) == 2
    pass_time(node, 2)
    assert len(node.topic()) == 1


def test_clock_that_jumps_is_noticed_within_a_minute() -> None:
    node = owner("s", entry=Entry(keep_s=1e6))
    put(node, 1)
    pass_time(node, 1)
    node.wall += 2e6
    pass_time(node, 61)
    assert len(node.topic()) == 0


# -- the backlog


def test_put_is_refused_when_subscribers_are_owed_too_much() -> None:
    node = owner("s", "t", settings=TopicSettings(backlog_bytes=3 * SIZE))
    for counter in range(1, 4):
        node.forgetting.check_backlog(node.topic(), len(VALUE))
        put(node, counter)
    node.topic().add_done("s", [("p", 1), ("p", 2)])
    with pytest.raises(BacklogError, match=f"its subscriber 't' has left {3 * SIZE} bytes"):
        node.forgetting.check_backlog(node.topic(), len(VALUE))


def test_put_is_taken_again_when_the_last_subscriber_has_had_something() -> None:
    node = owner("s", "t", settings=TopicSettings(backlog_bytes=3 * SIZE))
    put(node, 1, 2, 3)
    node.topic().add_done("s", [("p", 1)])
    with pytest.raises(BacklogError):
        node.forgetting.check_backlog(node.topic(), len(VALUE))
    node.topic().add_done("t", [("p", 1)])
    node.forgetting.check_backlog(node.topic(), len(VALUE))
    put(node, 4)
    with pytest.raises(BacklogError):
        node.forgetting.check_backlog(node.topic(), len(VALUE))


def test_messages_that_nobody_is_owed_are_no_backlog() -> None:
    node = owner(settings=TopicSettings(backlog_bytes=3 * SIZE))
    for counter in range(1, 11):
        node.forgetting.check_backlog(node.topic(), len(VALUE))
        put(node, counter)


def test_message_that_two_are_owed_counts_once() -> None:
    node = owner("s", "t", settings=TopicSettings(backlog_bytes=2 * SIZE))
    put(node, 1)
    node.forgetting.check_backlog(node.topic(), len(VALUE))
