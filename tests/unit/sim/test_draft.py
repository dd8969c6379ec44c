"""Scenarios and how they are drawn.

Knows: `distkv.sim.draft` and `distkv.sim.scenario`.
"""

from __future__ import annotations

import pytest

from distkv.sim.draft import draw
from distkv.sim.scenario import FAULT_OF, WRITES, Fault, Scenario, Verb

MANY = range(40)


def _verbs(scenario: Scenario) -> set[Verb]:
    return {action.verb for action in scenario.actions}


def test_seed_is_drawn_alike_every_time() -> None:
    assert draw(3) == draw(3)


def test_seeds_differ() -> None:
    assert len({draw(seed).text()[-1] for seed in MANY}) > 30


def test_every_verb_is_drawn_by_some_seed() -> None:
    assert set().union(*(_verbs(draw(seed, frozenset())) for seed in MANY)) == set(Verb)


@pytest.mark.parametrize("fault", sorted(Fault))
def test_fault_that_is_off_is_not_drawn(fault: Fault) -> None:
    verbs = set().union(*(_verbs(draw(seed, {fault})) for seed in MANY))
    assert fault not in {FAULT_OF.get(verb) for verb in verbs}


@pytest.mark.parametrize("fault", sorted(set(FAULT_OF.values())))
def test_fault_that_is_switched_off_takes_nothing_else_along(fault: Fault) -> None:
    for seed in MANY:
        whole, less = draw(seed, frozenset()), draw(seed, {fault})
        gone = set(whole.actions) - set(less.actions)
        assert {FAULT_OF.get(action.verb, fault) for action in gone} <= {fault}


def test_no_fault_but_those_of_the_network_comes_in_the_quiet_time() -> None:
    for seed in MANY:
        scenario = draw(seed)
        assert all(a.at_ms >= scenario.quiet_ms for a in scenario.actions if a.verb in FAULT_OF)


def test_writes_begin_in_the_quiet_time() -> None:
    for seed in MANY:
        scenario = draw(seed)
        assert sum(a.verb in WRITES and a.at_ms < scenario.quiet_ms for a in scenario.actions) > 10


def test_scenario_cut_down_keeps_the_actions_that_were_named() -> None:
    scenario = draw(1)
    assert scenario.only({2, 5}).actions == (scenario.actions[2], scenario.actions[5])


def test_text_has_a_line_for_each_action() -> None:
    scenario = draw(1).only({0})
    assert scenario.text()[-1] == str(scenario.actions[0])
