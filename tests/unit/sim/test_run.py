"""Runs: they repeat, they are rejected when they prove nothing, and what breaks in them is found and cut down.

Knows: `distkv.sim.run`, `shrink` and `campaign`. What breaks is the core, by a patch of one of its methods.
"""

from __future__ import annotations

import pytest

from distkv.core.replica import Replica
from distkv.model.ledger import Ledger
from distkv.sim import run as run_module
from distkv.sim.campaign import campaign
from distkv.sim.draft import draw
from distkv.sim.reached import NOT_LEGAL, SIGNS
from distkv.sim.run import Verdict, run
from distkv.sim.scenario import FAULT_OF, WRITES, Fault, Verb
from distkv.sim.shrink import Shrinker
from tests.seeds import shortest_with


@pytest.mark.slow
def test_scenario_runs_alike_every_time() -> None:
    assert run(draw(3)) == run(draw(3))


@pytest.mark.slow
def test_trace_has_a_line_for_each_step_and_is_written_on_demand() -> None:
    lines: list[str] = []
    outcome = run(draw(3), lines.append)
    assert len(lines) > outcome.deliveries
    assert outcome.digest == run(draw(3)).digest


@pytest.mark.slow
def test_digest_tells_runs_apart() -> None:
    scenario = draw(3)
    assert run(scenario).digest != run(scenario.only(range(100, len(scenario.actions)))).digest


def test_run_without_traffic_is_rejected() -> None:
    outcome = run(draw(3).only(()))
    assert (outcome.verdict, outcome.rule) == (Verdict.REJECTED, "too little traffic")


def test_run_without_traffic_before_the_first_fault_is_rejected() -> None:
    scenario = draw(3)
    first = next(n for n, action in enumerate(scenario.actions) if action.verb in FAULT_OF)
    outcome = run(scenario.only(range(first, len(scenario.actions))))
    assert (outcome.verdict, outcome.rule) == (Verdict.REJECTED, "too little traffic before the first fault")


def test_every_sign_that_is_counted_is_known() -> None:
    assert set(run(draw(3)).reached) - set(SIGNS) == set()


def test_network_that_does_not_come_to_rest_in_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "REST_MS", 1)
    scenario = draw(3)
    quiet = [n for n, action in enumerate(scenario.actions) if action.verb in {Verb.PARTITION, *WRITES}]
    assert run(scenario.only(quiet)).rule == "all nodes end alike"


def test_core_that_raises_fails_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Ledger, "hold_range")
    outcome = run(draw(3))
    assert (outcome.verdict, outcome.rule) == (Verdict.FAILED, "no AttributeError")
    assert "ledger.py:" in outcome.what


@pytest.mark.slow
def test_failure_is_cut_down_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "replay", lambda _replica, _record: [])  # starts forget what the log says
    seed = shortest_with(Verb.KILL)
    outcome = run(draw(seed))
    shrinker = Shrinker(seed, (), outcome.rule)
    (action,) = (action for action in shrinker.shrink().actions if action.verb is not Verb.START)  # who joins late
    assert outcome.rule == "disks keep what they said they have"
    assert action.verb in {Verb.KILL, Verb.POWER, Verb.FOREIGN, Verb.RETIRE}  # a process starts anew
    assert shrinker.off == set(Fault) - {FAULT_OF[action.verb]}


@pytest.mark.slow
def test_campaign_sums_up_its_seeds() -> None:
    heard: list[int] = []
    found = campaign([3, 4], tell=lambda found: heard.append(found.runs))
    one, other = run(draw(3)), run(draw(4))
    assert heard == [1, 2]
    assert found.deliveries == one.deliveries + other.deliveries
    assert found.reached["a ping"] == 2
    assert found.holes() == [sign for sign in SIGNS if sign not in {*one.reached, *other.reached, *NOT_LEGAL}]


def test_campaign_keeps_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Ledger, "hold_range")
    found = campaign([3])
    assert [outcome.rule for outcome in found.failed] == ["no AttributeError"]
