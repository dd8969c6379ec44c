"""Runs: they repeat, they are rejected when they prove nothing, and what breaks in them is found and cut down.

Knows: `distkv.sim.run`, `shrink` and `campaign`. What breaks is the core, by a patch of one of its methods.
"""

from __future__ import annotations

import functools

import pytest

from distkv.core.update import Store
from distkv.graph.trace import Moment
from distkv.model.invariant import must
from distkv.model.ledger import Ledger
from distkv.sim import scenario as scenario_module
from distkv.sim.actions import Deed, Foreign, Move, Retire, Split, StartNode, ToNode, Write
from distkv.sim.campaign import campaign
from distkv.sim.draft import draw
from distkv.sim.grammar import parse_script
from distkv.sim.player import ScriptFailedError, play
from distkv.sim.reached import NOT_LEGAL, SIGNS
from distkv.sim.recording import Recording
from distkv.sim.run import Outcome, Verdict, run
from distkv.sim.scenario import part_names
from distkv.sim.shrink import Shrinker
from tests.seeds import KILLS


@functools.cache
def _whole(seed: int) -> Outcome:
    """How a seed ends, played once for all who only look at it."""
    return run(draw(seed))


@pytest.mark.slow
def test_scenario_runs_alike_every_time() -> None:
    assert run(draw(3)) == _whole(3)


@pytest.mark.slow
def test_trace_has_a_line_for_each_step_and_is_written_on_demand() -> None:
    lines: list[str] = []
    outcome = run(draw(3), lines.append)
    assert len(lines) > outcome.deliveries
    assert outcome.digest == _whole(3).digest


@pytest.mark.slow
def test_digest_tells_runs_apart() -> None:
    scenario = draw(3)
    assert _whole(3).digest != run(scenario.only(range(100, len(scenario.planned)))).digest


def test_run_without_traffic_is_rejected() -> None:
    outcome = run(draw(3).only(()))
    assert (outcome.verdict, outcome.rule) == (Verdict.REJECTED, "too little traffic")


def test_run_without_traffic_before_the_first_fault_is_rejected() -> None:
    scenario = draw(3)
    first = next(n for n, one in enumerate(scenario.planned) if isinstance(one.action, Split))
    outcome = run(scenario.only(range(first, len(scenario.planned))))
    assert (outcome.verdict, outcome.rule) == (Verdict.REJECTED, "too little traffic before the first fault")


def test_every_sign_that_is_counted_is_known() -> None:
    assert set(_whole(3).reached) - set(SIGNS) == set()


def test_network_that_does_not_come_to_rest_in_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_module, "REST_MS", 1)
    scenario = draw(3)
    quiet = [n for n, one in enumerate(scenario.planned) if isinstance(one.action, Split | Write)]
    assert run(scenario.only(quiet)).rule == "all nodes end alike"


def test_core_that_raises_fails_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Ledger, "hold_range")
    outcome = run(draw(3))
    assert (outcome.verdict, outcome.rule) == (Verdict.FAILED, "no AttributeError")
    assert "ledger.py:" in outcome.what


def test_machine_whose_promise_does_not_hold_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "hold_range", lambda *_, **__: must(False, "ticks are held"))
    assert run(draw(3)).rule == "no BrokenInvariantError"


@pytest.mark.slow
def test_failure_is_cut_down_to_what_it_needs_and_is_a_scenario_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "replay", lambda _store, _record: [])  # starts forget what the log says
    outcome = run(draw(KILLS))
    shrinker = Shrinker(KILLS, (), outcome.rule)
    scenario = shrinker.shrink()
    (one,) = (one for one in scenario.planned if not isinstance(one.action, StartNode))  # who joins late
    assert outcome.rule == "disks keep what they said they have"
    ends = [ToNode(f"n{n}", deed) for n in range(6) for deed in (Deed.STOP, Deed.CRASH)]
    assert one.action in ends or isinstance(one.action, Foreign | Move | Retire)  # a process starts anew
    assert shrinker.off == set(part_names()) - {one.fault}
    with pytest.raises(ScriptFailedError, match=outcome.rule):
        play(parse_script(scenario.text(), "t.txt"))


@pytest.mark.parametrize("seed", [3, 17])
def test_scenario_file_of_a_seed_goes_the_same_way(seed: int) -> None:
    scenario, moments = draw(seed).only(range(150)), list[Moment]()
    outcome = run(scenario, observers=[Recording(moments.append)])
    script = parse_script(scenario.text("why it is kept"), "t.txt")
    assert list(play(script).moments) == moments
    assert outcome.verdict is not Verdict.FAILED
    assert len(moments) > 500


def test_scenario_file_of_a_seed_is_what_was_drawn() -> None:
    for seed in range(40):
        scenario = draw(seed)
        (block,) = parse_script(scenario.text(), "t.txt").blocks
        assert [command.action for command in block.commands[2:]] == list(scenario.actions())


@pytest.mark.slow
def test_campaign_sums_up_its_seeds() -> None:
    heard: list[int] = []
    found = campaign([3, 4], tell=lambda found: heard.append(found.runs))
    one, other = _whole(3), _whole(4)
    assert heard == [1, 2]
    assert found.deliveries == one.deliveries + other.deliveries
    assert found.reached["a ping"] == 2
    assert found.holes() == [sign for sign in SIGNS if sign not in {*one.reached, *other.reached, *NOT_LEGAL}]


def test_campaign_keeps_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Ledger, "hold_range")
    found = campaign([3])
    assert [outcome.rule for outcome in found.failed] == ["no AttributeError"]
