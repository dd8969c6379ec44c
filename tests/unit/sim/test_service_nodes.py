"""A service of the tests in the simulator: it is mounted on a fleet, and its rule sees what it does.

Knows: a small fleet with the echo.  Does not know what a scenario says of services.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.ready import Answer, Input, Ready, ServiceAsked
from distkv.errors import BadValueError, InternalError
from distkv.sim.fleet import Fleet
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import BrokenRuleError
from tests.profiles import seeds
from tests.proof.core.echo.machine import ECHO, sealed
from tests.proof.sim.echo import EchoIsTrue, EchoNodes
from tests.proof.wire.echo import EchoAsk, EchoHeard, EchoSeal

NAMES = ("a", "b", "c")


def fleet_of(rule: EchoIsTrue, seed: int = 0) -> Fleet:
    fleet = Fleet(seed, observers=[rule])
    fleet.services[ECHO] = EchoNodes()
    for name in NAMES:
        fleet.start(name, init="root" if name == "a" else None)
    assert fleet.run_until(lambda: all(host.live.is_serving for host in fleet.running()), 60_000)
    fleet.run(30_000)
    return fleet


def ask(fleet: Fleet, name: str, id: int, to: str, text: str) -> None:
    fleet.step(name, ServiceAsked(ECHO, id, EchoAsk(1, to, text)))


@pytest.mark.parametrize("seed", seeds(3))
def test_echoes_come_back_whatever_the_network_does(seed: int) -> None:
    rule, rng = EchoIsTrue(), random.Random(seed)
    fleet = fleet_of(rule, seed)
    fleet.network.faults = NetworkFaults(delay_ms=(5, 900), answer_ms=(5, 50), loss=0.2)
    for id in range(1, 40):
        ask(fleet, rng.choice(NAMES), id, rng.choice(NAMES), f"text {id}")
        fleet.run(rng.randrange(700))
    fleet.run(30_000)
    rule.settled(fleet)
    assert rule.heard_count > 20


def test_work_takes_its_time_here_too() -> None:
    fleet = fleet_of(EchoIsTrue())
    answers: list[object] = []
    process = fleet.hosts["a"].process
    assert process is not None
    for id, text in enumerate(("abc", "refused", "fault"), 1):
        process.asked[id] = lambda answer: answers.append(answer.result)
        fleet.step("a", ServiceAsked(ECHO, id, EchoSeal(1, text)))
    assert answers == []
    assert fleet.run_until(lambda: len(answers) == 3, 10_000)
    assert answers[0] == EchoHeard(sealed("abc").decode())
    assert [type(answer) for answer in answers[1:]] == [BadValueError, InternalError]


def test_answer_that_is_not_true_breaks_the_rule() -> None:
    rule = EchoIsTrue()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    what: Input = ServiceAsked(ECHO, 1, EchoAsk(1, "b", "abc"))
    rule.stepped(process, what, Ready())
    with pytest.raises(BrokenRuleError, match="heard abc of abc"):
        rule.stepped(process, None, Ready(answers=[Answer(1, EchoHeard("abc"))]))


def test_question_that_stays_open_breaks_the_rule() -> None:
    rule = EchoIsTrue()
    fleet = fleet_of(rule)
    process = fleet.hosts["a"].process
    assert process is not None
    rule.stepped(process, ServiceAsked(ECHO, 1, EchoAsk(1, "b", "abc")), Ready())
    with pytest.raises(BrokenRuleError, match="nobody answered"):
        rule.settled(fleet)
