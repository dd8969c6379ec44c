"""Who speaks after a split, when, and who takes over (docs/protocol, REC-1, REC-2, REC-6 to REC-8)."""

from __future__ import annotations

import random

from distkv.core.reconcile import Reconciliation, Speech, Visit
from distkv.model.event import NodeName, Tick, Tock
from distkv.wire.message import PingChain, PingLink

CLOCK_MS = 5000
NOW_MS = 100_000


def _chain(text: str) -> PingChain:
    """`b:7 a:6`: the nodes and their tocks."""
    pairs = (link.split(":") for link in text.split())
    return tuple(PingLink(NodeName(node), Tick(1), Tock(int(tock))) for node, tock in pairs)


OURS = _chain("a:9 b:8 c:7 a:6")
THEIRS = _chain("x:19 y:18 x:17 y:16")
REACHABLE = [NodeName("x"), NodeName("y")]


def _met(me: str, *, has_lost: bool = True) -> Reconciliation:
    reconciliation = Reconciliation(NodeName(me), CLOCK_MS, random.Random(0))
    reconciliation.met(OURS, THEIRS, REACHABLE, NOW_MS, has_lost=has_lost)
    return reconciliation


def test_first_of_the_chain_speaks_at_once() -> None:
    assert _met("a").take_due(NOW_MS) == Speech(OURS, has_taken_over=False)


def test_winning_side_gives_no_reason() -> None:
    assert _met("a", has_lost=False).take_due(NOW_MS) == Speech(None, has_taken_over=False)


def test_second_of_the_chain_waits_half_a_clock() -> None:
    second = _met("b")
    assert second.take_due(NOW_MS + CLOCK_MS // 2 - 1) is None
    assert second.take_due(NOW_MS + CLOCK_MS // 2) == Speech(OURS, has_taken_over=True)


def test_third_of_the_chain_waits_a_quarter_longer() -> None:
    third = _met("c")
    assert third.take_due(NOW_MS + 3 * CLOCK_MS // 4 - 1) is None
    assert third.take_due(NOW_MS + 3 * CLOCK_MS // 4) == Speech(OURS, has_taken_over=True)


def test_node_of_no_chain_says_nothing() -> None:
    assert _met("d").wake_ms() is None


def test_word_of_the_own_chain_suppresses() -> None:
    second = _met("b")
    second.heard(NodeName("a"), NOW_MS)
    assert second.wake_ms() is None


def test_word_of_the_other_chain_suppresses_nothing() -> None:
    second = _met("b")
    second.heard(NodeName("x"), NOW_MS)
    assert second.take_due(NOW_MS + CLOCK_MS) == Speech(OURS, has_taken_over=True)


def test_word_of_a_node_of_no_chain_suppresses_nothing() -> None:
    second = _met("b")
    second.heard(NodeName("d"), NOW_MS)
    assert second.take_due(NOW_MS + CLOCK_MS) == Speech(OURS, has_taken_over=True)


def test_node_speaks_once_for_one_meeting() -> None:
    first = _met("a")
    first.take_due(NOW_MS)
    assert first.take_due(NOW_MS + CLOCK_MS) is None


def test_chain_that_was_met_is_not_met_again() -> None:
    first = _met("a")
    first.take_due(NOW_MS)
    again = first.met(OURS, _chain("y:20 x:19"), REACHABLE, NOW_MS + 1, has_lost=True)
    assert (again, first.wake_ms()) == (None, None)


def test_each_of_the_chain_compares_with_another_one() -> None:
    visits = [
        Reconciliation(NodeName(me), CLOCK_MS, random.Random(0)).met(OURS, THEIRS, REACHABLE, NOW_MS, has_lost=True)
        for me in "abc"
    ]
    assert visits == [Visit(NodeName(name), NOW_MS) for name in "xyx"]


def test_others_compare_within_half_a_clock_at_moments_of_their_own() -> None:
    times = []
    for seed in range(40):
        other = Reconciliation(NodeName("d"), CLOCK_MS, random.Random(seed))
        visit = other.met(OURS, THEIRS, REACHABLE, NOW_MS, has_lost=True)
        assert visit is not None
        times.append(visit.at_ms - NOW_MS)
    assert 0 <= min(times) < CLOCK_MS // 8
    assert 3 * CLOCK_MS // 8 < max(times) <= CLOCK_MS // 2


def test_word_that_overtook_the_ping_suppresses_too() -> None:
    second = Reconciliation(NodeName("b"), CLOCK_MS, random.Random(0))
    second.heard(NodeName("a"), NOW_MS - 20)
    second.met(OURS, THEIRS, REACHABLE, NOW_MS, has_lost=True)
    assert second.wake_ms() is None


def test_word_of_an_earlier_meeting_suppresses_nothing() -> None:
    second = Reconciliation(NodeName("b"), CLOCK_MS, random.Random(0))
    second.heard(NodeName("a"), NOW_MS - CLOCK_MS)
    second.met(OURS, THEIRS, REACHABLE, NOW_MS, has_lost=True)
    assert second.take_due(NOW_MS + CLOCK_MS // 2) == Speech(OURS, has_taken_over=True)
