"""The simulator's rules about time notice when they are broken.

Knows: `distkv.sim.rules.timing`; what happens is told to a rule directly, or the core is kept from doing it.
"""

from __future__ import annotations

import pytest

from distkv.core.election import Election
from distkv.core.ready import PeerOffered, Ready
from distkv.core.recovery import Recovery
from distkv.model.event import NodeName, Tick
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.rules.alike import is_at_rest
from distkv.sim.rules.timing import GapsArePulled, PingsCome, ReadyInTime, TakesTurns


def _fleet(*rules: Observer) -> Fleet:
    """Two nodes at rest."""
    fleet = Fleet(observers=rules)
    fleet.start("n0", init="root")
    fleet.start("n1")
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)
    return fleet


def _process(fleet: Fleet, name: str = "n0") -> Process:
    process = fleet.hosts[name].process
    assert process is not None
    return process


def _ready(*ids: str) -> Ready:
    ready = Ready()
    for id in ids:
        ready.note(id)
    return ready


def test_node_that_is_ready_before_it_heard_anybody_is_noticed() -> None:
    process, rule = _process(_fleet()), ReadyInTime()
    rule.started(process, [])
    with pytest.raises(BrokenRuleError, match="n0 is ready 0 ms after its start, and compared with nobody"):
        rule.stepped(process, None, _ready("ready"))


def test_node_that_listened_for_a_clock_may_be_ready() -> None:
    fleet, rule = _fleet(), ReadyInTime()
    rule.started(_process(fleet), [])
    fleet.run(5000)
    rule.stepped(_process(fleet), None, _ready("ready"))


def test_node_that_is_ready_before_what_was_missing_came_is_noticed() -> None:
    fleet, rule = _fleet(), ReadyInTime()
    process = _process(fleet)
    rule.started(process, [])
    process.replica.tree.ledger.hear((NodeName("n1"), Tick(50)))
    rule.stepped(process, PeerOffered(fleet.hosts["n1"].live.maps()), _ready())
    with pytest.raises(BrokenRuleError, match="n0 is ready, and still misses"):
        rule.stepped(process, None, _ready("ready"))


def test_turn_that_is_taken_over_at_once_is_noticed_and_half_a_clock_later_is_not() -> None:
    fleet, rule = _fleet(), TakesTurns()
    rule.stepped(_process(fleet), None, _ready("split_healed"))
    fleet.run(2500)
    rule.stepped(_process(fleet), None, _ready("split_took_over"))
    rule.stepped(_process(fleet), None, _ready("split_healed"))
    with pytest.raises(BrokenRuleError, match="n0 takes over 0 ms after it met the other side"):
        rule.stepped(_process(fleet), None, _ready("split_took_over"))


def test_gap_that_nobody_asks_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet(GapsArePulled())
    monkeypatch.setattr(Recovery, "gap_seen", lambda *_: None)
    fleet.hosts["n0"].live.tree.ledger.hear((NodeName("n1"), Tick(50)))
    with pytest.raises(BrokenRuleError, match=r"n0 misses .* and asks nobody"):
        fleet.run(60_000)


def test_gap_that_is_asked_for_is_not_noticed_though_nobody_has_it() -> None:
    fleet = _fleet(GapsArePulled())
    fleet.hosts["n0"].live.tree.ledger.hear((NodeName("n1"), Tick(50)))
    fleet.run(60_000)


def test_silence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet(PingsCome())
    monkeypatch.setattr(Election, "advance", lambda *_: False)
    monkeypatch.setattr(Election, "wake_ms", lambda _: None)
    with pytest.raises(BrokenRuleError, match="n0 has followed no other ping for 17000 ms"):
        fleet.run(60_000)


def test_transport_that_was_down_for_a_moment_begins_a_round_anew(monkeypatch: pytest.MonkeyPatch) -> None:  # seed 130
    fleet = _fleet(PingsCome())
    monkeypatch.setattr(Election, "advance", lambda *_: False)
    monkeypatch.setattr(Election, "wake_ms", lambda _: None)
    for _ in range(4):
        fleet.run(12_000)
        for name in ("n0", "n1"):
            fleet.transport(name, up=False)
            fleet.transport(name, up=True)
