"""Scenarios and how they are drawn.

Knows: `distkv.sim.draft` and `distkv.sim.scenario`.
"""

from __future__ import annotations

import functools
from itertools import takewhile
from typing import get_args

import attrs
import pytest

from distkv.core.tokens.machine import TOKENS
from distkv.sim.actions import Deed, Fill, Happening, ServiceAction, ShowService, Split, StartNode, Swap, ToNode, Write
from distkv.sim.draft import draw, seeds_with
from distkv.sim.scenario import Fault, Scenario
from distkv.sim.service import sim_parts
from distkv.sim.tokens.actions import SetServers

MANY = range(40)
OF_SCRIPTS = {"Rot", "Divert", "Decide", "ResetTokens", "DropTopic", "GetOnce", "SubscribeOnce"}
"""What only scenario files do."""


@functools.cache
def _whole(seed: int) -> Scenario:
    return draw(seed)


def _with(fault: Fault) -> list[int]:
    """The seeds that draw such a fault: in no other one is there anything to leave out."""
    return [seed for seed in MANY if any(one.fault is fault for one in _whole(seed).planned)]


def _kinds(scenario: Scenario) -> set[str]:
    return {type(one.action).__name__ for one in scenario.planned}


def test_seeds_with_tokens_are_those_that_draw_some() -> None:
    found = [*takewhile(lambda seed: seed < MANY.stop, seeds_with(TOKENS, 0))]
    assert found == [seed for seed in MANY if TOKENS in _whole(seed).parts]
    assert found


def test_one_seed_in_four_has_a_tree() -> None:
    assert 0.15 < sum("trees" in _whole(seed).parts for seed in MANY) / len(MANY) < 0.35


def test_seed_without_trees_and_tokens_is_as_it_is_otherwise() -> None:
    for seed in MANY:
        whole, plain = _whole(seed), draw(seed, {TOKENS, Fault.TREES})
        assert attrs.evolve(whole, parts={}, planned=()) == attrs.evolve(plain, planned=())
        rest = [one for one in whole.planned if one in plain.planned]
        assert rest == [*plain.planned]
        assert whole.planned == plain.planned or whole.parts


def test_seed_is_drawn_alike_every_time() -> None:
    assert draw(3) == draw(3)


def test_seeds_differ() -> None:
    assert len({str(_whole(seed).planned[-1]) for seed in MANY}) > 30


def test_every_action_is_drawn_by_some_seed() -> None:
    others = [seed for part in sim_parts() if part.first_seed for seed in range(part.first_seed, part.first_seed + 20)]
    drawn = set().union(*(_kinds(_whole(seed)) for seed in [*MANY, *others]))
    verbs = [verb for part in sim_parts() for verb in part.verbs]
    of_services = {verb.makes.__name__ for verb in verbs if not issubclass(verb.makes, ShowService)}
    kinds = {kind.__name__ for kind in get_args(Happening) if kind is not ServiceAction}
    assert drawn == (kinds | of_services) - OF_SCRIPTS


def test_every_deed_is_drawn_by_some_seed() -> None:
    planned = (one.action for seed in MANY for one in _whole(seed).planned)
    drawn = {action.deed for action in planned if isinstance(action, ToNode)}
    assert drawn == set(Deed) - {Deed.DISK_FULL}


@pytest.mark.parametrize("fault", sorted({one.fault for seed in MANY for one in _whole(seed).planned if one.fault}))
def test_fault_that_is_switched_off_is_not_drawn_and_takes_nothing_else_along(fault: Fault) -> None:
    for seed in _with(fault):
        less = draw(seed, {fault})
        wanted = [one for one in _whole(seed).planned if one.fault not in (None, fault)]
        assert [one for one in less.planned if one.fault is not None] == wanted


def test_no_fault_but_those_of_the_network_comes_in_the_quiet_time() -> None:
    for seed in MANY:
        scenario = _whole(seed)
        assert all(one.at_ms >= scenario.quiet_ms for one in scenario.planned if one.fault is not None)


def test_writes_begin_in_the_quiet_time() -> None:
    for seed in MANY:
        scenario = _whole(seed)
        early = [one for one in scenario.planned if one.at_ms < scenario.quiet_ms]
        assert sum(isinstance(one.action, Write | Fill | Swap) for one in early) > 10


def test_scenario_cut_down_keeps_the_actions_that_were_named() -> None:
    scenario = draw(1)
    assert scenario.only({2, 5}).planned == (scenario.planned[2], scenario.planned[5])


def test_text_has_a_line_for_each_action() -> None:
    scenario = draw(1).only({0})
    assert str(scenario.planned[0]) in scenario.text().splitlines()


def test_other_token_servers_are_asked_for_where_there_are_tokens() -> None:
    for seed in MANY:
        scenario = _whole(seed)
        changes = [one.action for one in scenario.planned if isinstance(one.action, SetServers)]
        assert not changes or TOKENS in scenario.parts
        for change in changes:
            assert len(change.servers) in (1, 3, 5)
            assert len(set(change.servers)) == len(change.servers)


def test_sides_of_a_split_are_never_empty() -> None:
    planned = (one.action for seed in MANY for one in _whole(seed).planned)
    splits = [action for action in planned if isinstance(action, Split) and action.sides]
    assert splits
    assert all(side for split in splits for side in split.sides)


def test_what_ends_starts_again() -> None:
    for seed in MANY:
        planned = _whole(seed).planned
        for at, one in enumerate(planned):
            match one.action:
                case ToNode(node=node, deed=Deed.STOP | Deed.CRASH | Deed.WIPE | Deed.BURN | Deed.ROLL_BACK):
                    assert any(other.action == StartNode(node) for other in planned[at:])
