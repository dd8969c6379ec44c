"""Clients of topics in the simulator: what they put and get, and what becomes of their states.

Knows: scenario files and `distkv.sim.topics`.
"""

from __future__ import annotations

import pytest

from distkv.core.topics.settings import TOPICS
from distkv.errors import NotReadyError
from distkv.sim.draft import draw, seeds_with
from distkv.sim.grammar import parse_script
from distkv.sim.player import ScriptFailedError, play
from distkv.sim.topics.producers import is_certain
from distkv.wire.topic_errors import BacklogError

HEAD = """
settings topics=3 trees=yes seed=3
cluster a b c
show nothing
"""


def _told(commands: str) -> list[str]:
    """What clients come to."""
    script = parse_script(f"{HEAD}show note\n{commands}\n----\n", "test")
    return [line for line in play(script).outputs[-1] if line]


def _state(commands: str) -> list[str]:
    """What `state` shows of consumers after these commands."""
    script = parse_script(f"{HEAD}{commands}\nstate\n----\n", "test")
    return [line for line in play(script).outputs[-1] if "messages" in line]


def test_subscriber_gets_what_is_put() -> None:
    lines = _told("subscribe a t s\nrun 2s\nput b t hello\nrun 2s\nget c t s\nrun 2s")
    assert lines[-1].endswith("s gets hello from t, 0 left")


def test_what_was_put_before_is_not_got() -> None:
    lines = _told("put b t hello\nrun 2s\nsubscribe a t s\nrun 2s\nget c t s\nrun 2s")
    assert lines[-1].endswith("s gets nothing from t, 0 left")


def test_consumer_records_what_a_producer_sends() -> None:
    assert _state("consume a c1 t\nrun 2s\nproduce b p1 t\nsend p1 5\nrun 5s") == ["c1: has 5 messages"]


def test_consumer_that_crashes_has_each_message_once() -> None:
    crashes = "crash-client c1 1s waits 3\nrun 3s\n" * 3
    assert _state(f"consume a c1 t\nrun 2s\nproduce b p1 t\nsend p1 5\n{crashes}run 5s") == ["c1: has 5 messages"]


def test_producer_that_crashes_puts_each_message() -> None:
    crash = "send p1 5\ncrash-client p1 1s waits 9\nrun 5s\n"
    assert _state(f"consume a c1 t\nrun 2s\nproduce b p1 t\nrun 1s\n{crash * 2}") == ["c1: has 10 messages"]


def test_producer_without_its_state_takes_another_name() -> None:
    lost = "send p1 2\nrun 2s\ncrash-client p1 1s state none\nrun 2s\nsend p1 2\nrun 5s"
    assert _state(f"consume a c1 t\nrun 2s\nproduce b p1 t\nrun 1s\n{lost}") == ["c1: has 4 messages"]


def test_producer_with_an_old_state_puts_under_another_name() -> None:
    old = "send p1 2\nrun 2s\ncrash-client p1 1s state old\nrun 2s\nsend p1 2\nrun 5s"
    lines = _told(f"produce b p1 t\nsend p1 1\nrun 2s\nsave p1\n{old}")
    assert any("p1 was p1~" in line for line in lines)


def test_consumer_with_an_old_state_gets_nothing_twice() -> None:
    old = "save c1\nsend p1 3\nrun 5s\ncrash-client c1 1s state old\nrun 5s"
    assert _state(f"consume a c1 t\nrun 2s\nproduce b p1 t\nsend p1 2\nrun 5s\n{old}") == ["c1: has 2 messages"]


def test_clients_need_topic_servers() -> None:
    with pytest.raises(ScriptFailedError, match="settings topics=3"):
        play(parse_script("cluster a b\nput a t hello\nstate\n----\n", "test"))


def test_topics_are_shown_with_their_copies() -> None:
    script = parse_script(f"{HEAD}put a t hello\nrun 5s\ntopics\n----\n", "test")
    (line,) = play(script).outputs[-1]
    assert line.startswith("t: ")
    assert "owns it" in line


def test_seeds_with_topics_have_some() -> None:
    seed = next(seeds_with(TOPICS, 0))
    assert TOPICS in draw(seed).parts


def test_put_that_a_node_refuses_because_it_is_not_ready_may_have_happened() -> None:
    assert not is_certain(NotReadyError("b is leaving"))
    assert is_certain(BacklogError("too much waits"))
