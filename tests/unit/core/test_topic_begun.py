"""A topic whose rows are here before its entry is: who is asked for it, and what becomes of the rows.

Knows: `Owners`, and `core.topics.begun_topics`.
"""

from __future__ import annotations

import pytest

from distkv.core.topics import begun_topics
from distkv.core.topics.begun_topics import ENTRY_MS, BegunTopics
from tests.topic_nodes import A, B, C, TopicNode, fleet, met

ID = "00" * 8


def sent(node: TopicNode, ms: int = 0) -> None:
    """Node `b` has sent rows of the topic, so long ago."""
    node.do(lambda owners, turn: owners.came("t", B, [ID], turn.boot_ms))
    node.copies.ids.add(ID)
    node.pass_ms(ms)


@pytest.mark.parametrize(("ms", "expected"), [(0, B), (ENTRY_MS, A)])
def test_who_sent_rows_of_a_topic_is_asked_until_the_entry_has_had_its_time(ms: int, expected: str) -> None:
    """TOPIC-3."""
    a, *_ = fleet(A, B, C)
    sent(a, ms)
    assert a.owners.server_for("t") == expected
    assert a.owners.may_begin("t") is (expected == A)


def test_who_sent_rows_and_is_away_is_not_waited_for() -> None:
    """TOPIC-3: what it has is joined when it is back."""
    a, *_ = fleet(A, B, C)
    sent(a)
    a.alive(C)
    assert a.owners.may_begin("t")
    assert (a.put().ids, a.view().lacking) == ({ID}, (B,))


def test_entry_says_who_is_asked() -> None:
    a, b, c = fleet(A, B, C)
    sent(a)
    c.put()
    met(a, b, c)
    assert a.owners.server_for("t") == C


def test_rows_of_a_topic_that_is_dropped_begin_none() -> None:
    a, b, c = fleet(A, B, C)
    b.put()
    met(a, b, c)
    ids = b.view().ids
    b.do(lambda owners, turn: owners.drop(turn, "t"))
    met(a, b, c)
    a.do(lambda owners, turn: owners.came("t", B, ids, turn.boot_ms))
    assert a.put().ids.isdisjoint(ids)


def test_rows_of_many_topics_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begun_topics, "BEGUN_MAX", 2)
    begun = BegunTopics()
    for name in ("t", "u", "v"):
        begun.came(name, B, [ID], 0)
    begun.check()
    assert [begun.node_of(name, 0) for name in ("t", "u", "v")] == [None, B, B]
