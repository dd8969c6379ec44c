"""What `distkv doctor` says of topics.

Knows: facts and findings.  Does not ask any node.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.doctor import topics
from distkv.doctor.facts import NodeFacts
from distkv.doctor.topics import TopicFacts
from distkv.errors import DecodeError
from tests.unit.doctor.test_checks import OK, WARN, A, B, judged, said


def keeping(node: NodeFacts, facts: TopicFacts) -> NodeFacts:
    return attrs.evolve(node, services={topics.TOPICS: facts})


def test_state_without_topics_is_one_of_none() -> None:
    assert topics.read({}) == TopicFacts()


def test_state_is_read() -> None:
    shown = {"topics": 3, "owned": 2, "messages": 7, "bytes": 900, "few_copies": ["log"], "waits_for": ["c"]}
    shown |= {"backlogged": ["bills"], "crowded": ["news"]}
    assert topics.read(shown) == TopicFacts(3, 2, 7, ("log",), ("c",), ("bills",), ("news",))


@pytest.mark.parametrize("shown", [{"topics": "3"}, {"owned": -1}, {"messages": None}, {"few_copies": 1}])
def test_state_that_cannot_be_meant_is_refused(shown: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        topics.read(shown)


def test_nodes_without_topics_are_not_judged_for_them() -> None:
    assert [*topics.check([A, keeping(B, TopicFacts())])] == []


def test_topics_with_all_their_copies_are_well() -> None:
    (found,) = topics.check([keeping(A, TopicFacts(2, 1, 5)), keeping(B, TopicFacts(2, 1, 5))])
    assert (found.level, found.says) == (OK, "2 topics, each with all its copies; 10 messages in them")


def test_topics_with_too_few_copies_are_named() -> None:
    found = [*topics.check([keeping(A, TopicFacts(2, 2, 5, few_copies=("bills", "log")))])]
    assert judged(found) == [("topics", WARN)]
    assert "bills, log" in said(found)


def test_topics_near_a_limit_are_named_with_what_to_do() -> None:
    found = [*topics.check([keeping(A, TopicFacts(2, 2, 5, backlogged=("bills",), crowded=("log",)))])]
    assert judged(found) == [("topics", WARN), ("topics", WARN)]
    assert "as they may: bills" in said(found)
    assert "as limits allow: log" in said(found)


def test_node_that_several_wait_for_is_named_once() -> None:
    waiting = TopicFacts(2, 2, 5, waits_for=("c",))
    found = [*topics.check([keeping(A, waiting), keeping(B, waiting)])]
    assert judged(found) == [("topics", WARN)]
    assert said(found).count("again: c;") == 1
