"""Gets that wait on the owner of a topic."""

from __future__ import annotations

import pytest

from distkv.core.topics import getting
from distkv.core.topics.asked import TopicAsked
from distkv.core.topics.getting import Getting
from distkv.errors import BusyError
from distkv.wire.topic_requests import TopicGet


def a_get(number: int) -> TopicAsked:
    return TopicAsked(number, TopicGet(0, "t", "s"), 0)


def test_get_waits_until_something_of_its_topic_changes() -> None:
    """ANSWER-1."""
    waiting, first, second = Getting(), a_get(1), a_get(2)
    waiting.wait("t", first, 100)
    waiting.wait("u", second, 100)
    assert waiting.take("t") == [first]
    assert (waiting.take("t"), list(waiting.topics())) == ([], ["u"])
    waiting.check()


def test_get_is_taken_when_its_time_is_over() -> None:
    """ANSWER-1."""
    waiting, first, second = Getting(), a_get(1), a_get(2)
    waiting.wait("t", first, 100)
    waiting.wait("t", second, 50)
    assert waiting.wake_ms() == 50
    assert waiting.take_due(99) == [("t", second)]
    assert waiting.wake_ms() == 100
    waiting.check()


def test_get_that_nobody_waits_for_is_forgotten() -> None:
    waiting = Getting()
    waiting.wait("t", a_get(1), 100)
    waiting.gone(1)
    assert (len(waiting), waiting.take("t"), waiting.take_due(100)) == (0, [], [])
    waiting.check()


def test_too_many_gets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getting, "WAITING_MAX", 1)
    waiting = Getting()
    waiting.wait("t", a_get(1), 100)
    with pytest.raises(BusyError, match="1 gets wait on this node"):
        waiting.wait("t", a_get(2), 100)
    waiting.wait("t", a_get(1), 200)
