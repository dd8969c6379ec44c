"""The rule that looks whether nodes can show what they take for superseded: that it notices, and when it is quiet."""

from __future__ import annotations

import pytest

from distkv.core.ready import AskEvents, PeerAnswered, PeerDone, PeerOffered
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.covered import SupersededIsCovered
from distkv.wire.message import EventBatch, PullEnd
from tests.fleet import Fleet


def _watched() -> tuple[Fleet, SupersededIsCovered]:
    """b has not heard of two changes of one path that a made, and what b does from here on is looked at."""
    rule = SupersededIsCovered()
    fleet = Fleet(observers=[rule])
    fleet.start("a", init="root")
    fleet.run(5100)
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 20_000)
    fleet.partition(["a"], ["b"])
    fleet.set("a", "x", 1)
    fleet.set("a", "x", 2)
    return fleet, rule


def _pull(fleet: Fleet) -> tuple[int, EventBatch, PullEnd]:
    """What b asks of a, and the answer."""
    fleet.step("b", PeerOffered(fleet["a"].maps()))
    ask = fleet.asked[-1][2]
    assert isinstance(ask.what, AskEvents)
    events, end = fleet["a"].pulled(ask.what)
    return ask.id, EventBatch(tuple(events)), end


def test_word_without_what_it_rests_on_is_noticed() -> None:
    fleet, _ = _watched()
    ask, _, end = _pull(fleet)
    with pytest.raises(BrokenRuleError, match=r"b takes a:\d+ at x for superseded, and has nothing that knew it"):
        fleet.step("b", PeerAnswered(ask, end))


def test_word_with_what_it_rests_on_is_looked_at_and_right() -> None:
    fleet, rule = _watched()
    ask, batch, end = _pull(fleet)
    before = rule.count
    fleet.step("b", PeerAnswered(ask, batch))
    fleet.step("b", PeerAnswered(ask, end))
    fleet.step("b", PeerDone(ask))
    assert rule.count == before + 1


def test_download_is_looked_at_when_it_is_complete() -> None:
    fleet, rule = _watched()
    before = rule.count
    fleet.heal()
    fleet.start("c")
    assert fleet.run_until(fleet.is_converged, 60_000)
    assert rule.count > before
