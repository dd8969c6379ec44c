"""Slow watchers of a simulated network: they disturb nobody, and what they are not told is noticed.

Knows: seeds that draw watchers, small fleets that are watched, and how to break what watchers are told.
"""

from __future__ import annotations

import pytest

from distkv.config import Limits
from distkv.core.client_writes import LocalSet
from distkv.engine.feeds import Feed, Feeds, SharedChange
from distkv.model.path import ROOT, Path
from distkv.sim.draft import draw
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError
from distkv.sim.run import run
from distkv.sim.watching import Habits, SlowWatchers
from distkv.sim.watching import draw as draw_watchers
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value

SEED = 6
"""It has watchers that fall behind and watchers that go on."""
QUICK = Habits(ROOT, 0, 0.0, 1000, 1.0)
SLOW = Habits(ROOT, 1000, 0.0, 1000, 1.0)
CUT_OFF = Habits(ROOT, 0, 0.0, 2, 1.0)


def _watched(habits: Habits, *names: str, limits: Limits | None = None) -> Fleet:
    """A fleet whose nodes serve, with one watcher."""
    fleet = Fleet(observers=[SlowWatchers(0, [habits], limits or Limits())])
    fleet.start(names[0], init="root")
    for name in names[1:]:
        fleet.start(name)
    fleet.run(20_000)
    return fleet


def _set(fleet: Fleet, name: str, count: int = 1) -> None:
    for number in range(count):
        fleet.step(name, LocalSet(SetValue(1, Path(["x", str(number)]), pack_value([name, fleet.now_ms]))))


def _settle(fleet: Fleet) -> None:
    for tell in fleet.observers.settled:
        tell(fleet)


def test_some_seeds_have_watchers() -> None:
    found = [len(draw_watchers(seed)[0]) for seed in range(100)]
    assert 20 <= sum(count > 0 for count in found) <= 40
    assert max(found) == 3


@pytest.mark.slow
def test_watchers_disturb_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = run(draw(SEED))
    assert watched.reached["watch_went_on"]
    assert watched.reached["watch_resync"]
    monkeypatch.setattr("distkv.sim.world.draw", lambda _seed: ([], Limits()))
    alone = run(draw(SEED))
    assert "watch_went_on" not in alone.reached
    assert (alone.digest, alone.deliveries) == (watched.digest, watched.deliveries)


@pytest.mark.parametrize("habits", [QUICK, SLOW, CUT_OFF])
def test_watcher_knows_in_the_end_what_there_is(habits: Habits) -> None:
    fleet = _watched(habits, "n0", "n1")
    for _ in range(20):
        _set(fleet, "n1", 3)
        fleet.run(1000)
    _settle(fleet)
    assert (fleet.notes["watch_went_on"] > 0) is (habits is CUT_OFF)


def test_watcher_that_falls_behind_begins_anew() -> None:
    fleet = _watched(SLOW, "n0", limits=Limits(watch_changes=4))
    _set(fleet, "n0", 20)
    _settle(fleet)
    assert fleet.notes["watch_resync"] == 1


def test_watcher_goes_on_after_a_restart_of_its_node() -> None:
    fleet = _watched(QUICK, "n0", "n1")
    _set(fleet, "n0", 3)
    _set(fleet, "n1", 3)
    for name in ("n0", "n1"):
        fleet.end(fleet.hosts[name])
        fleet.start(name)
        fleet.run(25_000)
    _settle(fleet)
    assert fleet.notes["watch_went_on"] > 0
    assert fleet.notes["watch_resync"] == 0


def test_watcher_that_is_not_told_of_a_conflict_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distkv.engine.feeds.open_losers", lambda *_: None)
    fleet = _watched(QUICK, "n0", "n1")
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n0")
    _set(fleet, "n1")
    fleet.heal()
    fleet.run(20_000)
    with pytest.raises(BrokenRuleError, match=r"at x\.0 watcher 0 .* knows None, of the conflicts n. has frozenset"):
        _settle(fleet)


def test_watcher_that_is_not_told_of_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _watched(QUICK, "n0")
    monkeypatch.setattr(Feed, "offer", lambda _feed, _seen: None)
    _set(fleet, "n0")
    with pytest.raises(BrokenRuleError, match=r"at x\.0 watcher 0 .* knows None, n0 has"):
        _settle(fleet)


def test_watcher_that_is_told_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _watched(QUICK, "n0")
    offer = Feed.offer
    first: list[SharedChange] = []

    def offer_the_first_again(feed: Feed, seen: SharedChange) -> None:
        first.append(seen)
        offer(feed, seen)
        offer(feed, first[0])

    monkeypatch.setattr(Feed, "offer", offer_the_first_again)
    _set(fleet, "n0")
    with pytest.raises(BrokenRuleError, match="after a later one"):
        _set(fleet, "n0")


def test_watcher_that_is_told_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _watched(QUICK, "n0")
    fleet.commit_ms = (100, 100)
    deliver = Feeds.deliver
    monkeypatch.setattr(Feeds, "deliver", lambda feeds, durable: deliver(feeds, durable + 10))
    with pytest.raises(BrokenRuleError, match="before it is durable"):
        _set(fleet, "n0")


def test_queue_without_bounds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(feed: Feed, _seen: SharedChange) -> None:
        feed.size += 5 << 20

    fleet = _watched(SLOW, "n0")
    monkeypatch.setattr(Feed, "offer", grow)
    _set(fleet, "n0")
    with pytest.raises(BrokenRuleError, match="bytes wait on n0"):
        fleet.run(1000)
