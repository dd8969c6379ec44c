"""The machine of start-up, state by state (docs/protocol, 'Start-up')."""

from __future__ import annotations

import random

import pytest

from distkv.core.startup import TRANSITIONS, WAITS_FOR_ANSWER, Startup, StartupCause, Step
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.sim.told import core_settings
from distkv.wire.message import Start

CLOCK_MS = 5000
BEGAN_MS = 1000
OTHER = NodeName("other")
STATES = [state for state in State if state is not State.CUT_OFF]
"""Being cut off is a view of `ready`."""
GAP = {OTHER: Ranges([(1, 3)])}


def _machine(*, founding: bool = False, alone: bool = False) -> Startup:
    settings = core_settings(
        NodeName("me"), "me:1", Start(1.0, 1), clock_ms=CLOCK_MS, alone=alone, init_value=b"\x01" if founding else None
    )
    return Startup(settings, random.Random(0))


def _reach(state: State, *, founding: bool = False) -> Startup:
    """A machine in that state."""
    machine = _machine(founding=founding)
    machine.transport_changed(True, BEGAN_MS)
    machine.begin(BEGAN_MS, {}, GAP, has_data=state in (State.RECOVERING, State.READY))
    if state is State.DOWNLOADING:
        machine.download_began()
    if state is State.READY:
        machine.map_arrived({})
        machine.woken(BEGAN_MS, {})
    return machine


def _apply(machine: Startup, cause: StartupCause) -> list[Step]:
    match cause:
        case StartupCause.DATA_FOUND:
            return machine.begin(BEGAN_MS, {}, GAP, has_data=True)
        case StartupCause.NETWORK_FOUNDED:
            return machine.woken(BEGAN_MS + CLOCK_MS, GAP)
        case StartupCause.DOWNLOAD_BEGAN:
            machine.download_began()
        case StartupCause.DOWNLOAD_ENDED:
            machine.download_ended(GAP)
        case StartupCause.DOWNLOAD_FAILED:
            machine.download_failed()
        case StartupCause.NOTHING_AWAITED:
            machine.map_arrived({})
            return machine.woken(BEGAN_MS, {})
    return []


@pytest.mark.parametrize(("before", "cause"), list(TRANSITIONS), ids=lambda part: part.value)
def test_listed_transition_is_reached(before: State, cause: StartupCause) -> None:
    machine = _reach(before, founding=cause is StartupCause.NETWORK_FOUNDED)
    assert machine.state is before
    steps = _apply(machine, cause)
    assert machine.state is TRANSITIONS[before, cause]
    assert (Step.BECOME_READY in steps) == (machine.state is State.READY)


@pytest.mark.parametrize(
    ("before", "cause"),
    [(state, cause) for state in STATES for cause in StartupCause if (state, cause) not in TRANSITIONS],
    ids=lambda part: part.value,
)
def test_transition_that_is_not_listed_leaves_the_state(before: State, cause: StartupCause) -> None:
    machine = _reach(before, founding=cause is StartupCause.NETWORK_FOUNDED)
    assert machine.state is before
    steps = _apply(machine, cause)
    assert machine.state is before
    assert not {Step.BECOME_READY, Step.FOUND_NETWORK} & {*steps}


@pytest.mark.parametrize("before", STATES)
def test_no_state_is_left_for_a_question_that_failed(before: State) -> None:
    machine = _reach(before)
    machine.attempt_failed(BEGAN_MS, OTHER)
    machine.attempt_postponed(BEGAN_MS, OTHER)
    assert machine.state is before


def test_start_on_a_disk_is_told_from_a_start_without_one() -> None:
    assert [_reach(state).has_data for state in STATES] == [False, False, True, True]


@pytest.mark.parametrize(
    ("alone", "at_once", "later"),
    [
        (True, [Step.FOUND_NETWORK, Step.BECOME_READY], []),
        (False, [], [Step.FOUND_NETWORK, Step.BECOME_READY]),
    ],
)
def test_founder_is_ready_when_it_has_founded(alone: bool, at_once: list[Step], later: list[Step]) -> None:
    machine = _machine(founding=True, alone=alone)
    machine.transport_changed(True, BEGAN_MS)
    assert machine.begin(BEGAN_MS, {}, {}, has_data=False) == at_once
    assert machine.woken(BEGAN_MS + CLOCK_MS, {}) == later
    assert machine.state is State.READY


@pytest.mark.parametrize("before", [State.DOWNLOADING, State.RECOVERING, State.READY])
def test_no_state_is_left_for_what_a_founder_does(before: State) -> None:
    machine = _reach(before)
    assert Step.FOUND_NETWORK not in machine.woken(BEGAN_MS + 9 * CLOCK_MS, {})


# -- what readiness waits for -------------------------------------------------------------------------------------


def test_what_was_missing_at_the_first_map_must_come() -> None:
    machine, missing = _reach(State.RECOVERING), {OTHER: Ranges([(1, 3)])}
    machine.map_arrived(missing)
    machine.map_arrived({})  # a later one counts no more
    assert machine.woken(BEGAN_MS, {OTHER: Ranges([(2, 3)])}) == []
    assert machine.woken(BEGAN_MS, {OTHER: Ranges([(3, 9)])}) == [Step.BECOME_READY]


def test_what_a_download_left_missing_must_come() -> None:
    machine = _reach(State.DOWNLOADING)
    machine.download_ended({OTHER: Ranges([(1, 3)])})
    assert machine.woken(BEGAN_MS, {OTHER: Ranges([(1, 2)])}) == []
    assert machine.woken(BEGAN_MS, {}) == [Step.BECOME_READY]


def test_nothing_comes_before_what_others_are_asked_for() -> None:
    machine = _reach(State.RECOVERING)
    machine.map_arrived({})
    assert machine.woken(BEGAN_MS, {}, is_waiting=True) == []
    assert machine.woken(BEGAN_MS, {}) == [Step.BECOME_READY]


@pytest.mark.parametrize("before", [State.PASSIVE, State.RECOVERING])
def test_what_is_handed_over_holds_readiness_up(before: State) -> None:
    machine = _reach(before)
    machine.begin_hand_over(BEGAN_MS)
    assert "take over" in machine.waits_for
    machine.map_arrived({})
    assert Step.BECOME_READY not in machine.woken(BEGAN_MS, {})
    machine.woken(BEGAN_MS + 3 * CLOCK_MS, {})
    assert (machine.state, machine.waits_for) == (
        (State.PASSIVE, WAITS_FOR_ANSWER) if before is State.PASSIVE else (State.READY, "")
    )


def test_who_is_ready_hands_nothing_over() -> None:
    machine = _reach(State.READY)
    machine.begin_hand_over(BEGAN_MS)
    assert (machine.hands_over, machine.waits_for) == (False, "")
