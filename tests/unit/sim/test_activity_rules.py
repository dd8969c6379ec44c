"""The rules about the activity network notice what must never be.

Knows: `distkv.sim.activity.rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import pytest

from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityHeard,
    ActivityWritten,
    ChatBegun,
    ChatMoment,
    ClientArrived,
    ClientSentOn,
    GapHeard,
)
from distkv.sim.activity.nodes import ActivityNodes
from distkv.sim.activity.rules import ActivityTroubles, EchoedIsHeard, SeldomSentOn
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError, Observer

SENT_ON = ClientSentOn("u")
BEFORE_GAP: tuple[tuple[int, ChatMoment], ...] = (
    (0, ChatBegun("v")),
    (1000, ActivityWritten("u", "u-1")),
    (1020, ActivityHeard("u", "u-1", "a.1", 1)),
    (1020, ActivityEchoed("u", "u-1")),
)


class Ended:
    """A process that ended, as far as rules look at it."""

    now_ms = 2000

    class host:  # noqa: N801
        name = "a"


def at(node: str) -> ClientArrived:
    return ClientArrived("u", node)


def tell(rule: Observer, moments: Iterable[tuple[int, ChatMoment]]) -> None:
    for at_ms, moment in moments:
        rule.moment(at_ms, moment)


def judged(*, is_broken: bool) -> AbstractContextManager[object]:
    return pytest.raises(BrokenRuleError) if is_broken else nullcontext()


@pytest.mark.parametrize(
    ("moments", "is_broken"),
    [
        pytest.param([(0, at("a")), (1, SENT_ON)], False, id="its first node sends it on"),
        pytest.param([(0, at("a")), (1, SENT_ON), (5, at("b")), (50_000, SENT_ON)], True, id="so does the next"),
        pytest.param([(0, at("a")), (5, at("b")), (60_010, SENT_ON)], False, id="a minute later"),
        pytest.param([(0, at("a")), (5, at("b")), (50_000, at("b")), (60_010, SENT_ON)], False, id="it was away"),
    ],
)
def test_client_that_is_sent_on_soon_after_it_came_is_noticed(
    moments: list[tuple[int, ChatMoment]], *, is_broken: bool
) -> None:
    with judged(is_broken=is_broken):
        tell(SeldomSentOn(), moments)


def test_client_of_a_node_that_began_again_has_come() -> None:
    rule = SeldomSentOn()
    tell(rule, [(0, at("a"))])
    rule.ended(Ended)  # type: ignore[arg-type]  # it has what a rule looks at
    with judged(is_broken=True):
        tell(rule, [(3000, at("a")), (4000, SENT_ON)])


@pytest.mark.parametrize(("befell", "is_broken"), [("wall clock jumps 3600 s", False), ("clock runs at 1.02", True)])
def test_only_a_wall_clock_that_jumped_excuses_who_is_sent_on(befell: str, *, is_broken: bool) -> None:
    rule = SeldomSentOn()
    rule.befell(0, "a", befell)
    with judged(is_broken=is_broken):
        tell(rule, [(0, at("a")), (5, at("b")), (10, SENT_ON)])


@pytest.mark.parametrize(
    ("gap_ms", "has_ended", "is_broken"),
    [(50_000, False, True), (50_000, True, False), (61_000, False, False)],
    ids=["kept", "a node ended", "older than kept"],
)
def test_gap_excuses_only_what_may_be_gone(gap_ms: int, *, has_ended: bool, is_broken: bool) -> None:
    fleet, troubles = Fleet(), ActivityTroubles()
    fleet.services[ACTIVITY] = ActivityNodes(fleet.hosts, 0, ActivitySettings())
    rule = EchoedIsHeard(troubles)
    tell(rule, (*BEFORE_GAP, (gap_ms, GapHeard("v", "a.1", 1, 1))))
    if has_ended:
        troubles.ended(Ended)  # type: ignore[arg-type]  # it has what a rule looks at
    with judged(is_broken=is_broken):
        rule.settled(fleet)
