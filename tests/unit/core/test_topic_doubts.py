"""What other nodes may know of subscribers whom the owner of a topic does not know."""

from __future__ import annotations

from distkv.core.topics.forgetting import DOUBT_MS, LOOK_MS
from distkv.core.topics.subscriber_doubts import ASKED_MAX, OPEN_MAX, SubscriberDoubts
from distkv.model.event import NodeName
from tests.unit.core.topic_copies import NAME
from tests.unit.core.topic_keepers import Entry, Keepers

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def fleet(*names: str) -> Keepers:
    """Nodes of which `a` owns the topic, and the copies are equal."""
    found = Keepers(*names)
    for name in names:
        found[name].topic()
    found.publish(Entry(followers=tuple(NodeName(name) for name in names if name != "a")))
    found.clean()
    found.settle()
    return found


def asked(found: Keepers) -> int:
    """A get came to the owner, of a subscriber that is not known, and all nodes are asked. When it came."""
    since_ms = found["a"].now_ms
    assert found["a"].who_may_know(since_ms) in {None, (B,), (C,)}
    found.pass_time(LOOK_MS)
    return since_ms


def test_nobody_knows_a_subscriber_when_all_nodes_have_said_so() -> None:
    """ANSWER-3."""
    found = fleet("a", "b", "c")
    since_ms = asked(found)
    found.deliver("b")
    assert found["a"].who_may_know(since_ms) == (C,)
    found.deliver("c")
    assert found["a"].who_may_know(since_ms) == ()
    assert [*found["a"].forgetting.take_known()] == [NAME]
    assert [*found["a"].forgetting.take_known()] == []


def test_client_does_not_wait_for_the_next_look_at_all_topics() -> None:
    found = fleet("a", "b")
    asked(found)
    found.deliver()
    since_ms = found["a"].now_ms
    assert found["a"].who_may_know(since_ms) is None
    found.pass_time(DOUBT_MS)
    found.deliver()
    assert found["a"].who_may_know(since_ms) == ()


def test_node_that_holds_what_the_owner_may_lack_may_know_a_subscriber() -> None:
    """ANSWER-3."""
    found = fleet("a", "b", "c")
    found["b"].clean.clear()
    since_ms = asked(found)
    found.deliver()
    assert found["a"].who_may_know(since_ms) == (B,)
    found.clean()
    found.settle()
    assert found["a"].who_may_know(since_ms) == ()


def test_node_that_is_away_may_know_a_subscriber() -> None:
    """ANSWER-3."""
    found = fleet("a", "b", "c")
    found.up.discard(C)
    found.know_each_other()
    since_ms = asked(found)
    found.settle()
    assert found["a"].who_may_know(since_ms) == (C,)


def test_what_was_said_to_an_earlier_question_does_not_count() -> None:
    """ANSWER-3."""
    found = fleet("a", "b")
    asked(found)
    found.deliver()
    assert found["a"].who_may_know(found["a"].now_ms) is None


def test_answers_of_nodes_that_know_other_keepers_do_not_say_that_nobody_knows_a_subscriber() -> None:
    found = fleet("a", "b")
    found["b"].known_keepers |= {C}
    since_ms = asked(found)
    found.settle()
    assert found["a"].who_may_know(since_ms) != ()


def test_node_that_may_have_begun_to_keep_topics_is_asked() -> None:
    """ANSWER-3, GONE-1."""
    found = fleet("a", "b")
    found["a"].known_keepers -= {B}
    found["a"].others |= {B}
    since_ms = asked(found)
    assert found["a"].who_may_know(since_ms) == (B,)


def test_node_that_is_away_and_may_have_begun_to_keep_topics_may_know_a_subscriber() -> None:
    """ANSWER-3, GONE-1."""
    found = fleet("a", "b")
    found.up.discard(B)
    found.know_each_other()
    found["a"].known_keepers -= {B}
    found["a"].others |= {B}
    assert found["a"].who_may_know(asked(found)) == (B,)


def test_node_alone_knows_all_subscribers() -> None:
    assert fleet("a")["a"].who_may_know(1_000_000) == ()


def test_all_nodes_are_asked_about_few_topics_at_once() -> None:
    doubts = SubscriberDoubts()
    for number in range(OPEN_MAX + 1):
        doubts.want(f"t{number}", 1)
    assert (len(doubts), len(doubts.asks(2))) == (OPEN_MAX, ASKED_MAX)
    doubts.answered({"t0": B})
    assert (len(doubts), doubts.said("t0", 1), doubts.said("t1", 1)) == (OPEN_MAX - ASKED_MAX, (B,), ())
    doubts.check()


def test_topic_that_was_wanted_again_meanwhile_is_asked_about_again() -> None:
    doubts = SubscriberDoubts()
    doubts.want(NAME, 1)
    doubts.asks(2)
    doubts.want(NAME, 2)
    doubts.answered({})
    assert (doubts.said(NAME, 1), doubts.said(NAME, 2), len(doubts)) == ((), None, 1)
