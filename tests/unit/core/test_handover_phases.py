"""The machine that hands over, phase by phase (docs/protocol, LIFE-8, LIFE-9)."""

from __future__ import annotations

import pytest

from distkv.core.handover import HAND_OVER_CLOCKS, TRANSITIONS, HandOver, HandoverCause, HandoverPhase
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges

CLOCK_MS = 5000
TIME_MS = HAND_OVER_CLOCKS * CLOCK_MS
A = NodeName("a")


def _reach(phase: HandoverPhase) -> HandOver:
    """A machine in that phase, at time 0."""
    machine = HandOver(CLOCK_MS)
    if phase in (HandoverPhase.OFFERED, HandoverPhase.UNWANTED):
        machine.begin(0 if phase is HandoverPhase.OFFERED else -TIME_MS)
        machine.woken(0)
    if phase is HandoverPhase.SERVED:
        machine.became_ready()
    return machine


def _apply(machine: HandOver, cause: HandoverCause) -> None:
    match cause:
        case HandoverCause.DISK_IS_OLD:
            machine.begin(0)
        case HandoverCause.DISK_IS_GOOD:
            machine.agreed()
        case HandoverCause.DOWNLOAD_BEGAN:
            machine.download_began()
        case HandoverCause.TIME_OVER:
            machine.woken(TIME_MS)
        case HandoverCause.BECAME_READY:
            machine.became_ready()


@pytest.mark.parametrize(("before", "cause"), list(TRANSITIONS), ids=lambda part: part.value)
def test_listed_transition_is_reached(before: HandoverPhase, cause: HandoverCause) -> None:
    machine = _reach(before)
    assert machine.phase is before
    _apply(machine, cause)
    assert machine.phase is TRANSITIONS[before, cause]


@pytest.mark.parametrize(
    ("before", "cause"),
    [(phase, cause) for phase in HandoverPhase for cause in HandoverCause if (phase, cause) not in TRANSITIONS],
    ids=lambda part: part.value,
)
def test_transition_that_is_not_listed_changes_nothing(before: HandoverPhase, cause: HandoverCause) -> None:
    machine = _reach(before)
    _apply(machine, cause)
    assert machine == _reach(before)


def test_disk_is_taken_over_by_who_holds_all_of_it() -> None:
    machine = HandOver(CLOCK_MS)
    machine.remember({A: Ranges([(1, 4)])})
    machine.begin(0)
    held = [Ranges([(1, 3)]), Ranges([(1, 4)]), Ranges([(1, 9)])]
    assert [machine.is_taken_over({A: ranges}) for ranges in held] == [False, True, True]


def test_disk_that_stays_is_taken_over_by_nobody() -> None:
    machine = HandOver(CLOCK_MS)
    assert not machine.is_taken_over({})


def test_time_counts_from_when_it_is_first_said() -> None:
    machine = HandOver(CLOCK_MS)
    assert [machine.begin(ms) for ms in (100, 200)] == [True, False]
    assert [machine.woken(ms) for ms in (99 + TIME_MS, 100 + TIME_MS, 101 + TIME_MS)] == [False, True, False]


def test_disk_that_was_good_for_a_while_has_all_the_time_again() -> None:
    machine = HandOver(CLOCK_MS)
    machine.begin(0)
    machine.agreed()
    machine.begin(TIME_MS)
    assert not machine.woken(TIME_MS)
