"""When a node thinks of pinging: the machine alone, chance and time handed in.

Knows: the sentences of 'Ping sequence' about time.  Does not know what a ping carries.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.election import TRANSITIONS, Election, ElectionCause, ElectionPhase
from distkv.core.turns import delay_band
from distkv.model.event import NodeName, Tick, Tock
from distkv.wire.message import PingChain, PingLink

CLOCK_MS = 5000
NAMES = ("a", "b", "c", "d")


@attrs.frozen
class Always:
    """Chance that always says the same."""

    value: float

    def random(self) -> float:
        return self.value


def link(node: str, tock: int, tick: int | None = 1) -> PingLink:
    return PingLink(NodeName(node), None if tick is None else Tick(tick), Tock(tock))


def chain(*nodes: str, tock: int = 100) -> PingChain:
    """A chain of these nodes, newest first."""
    return tuple(link(node, tock - place) for place, node in enumerate(nodes))


def election(me: str, draw: float = 0.5, *, basis: PingChain = (), now_ms: int = 0) -> Election:
    """A machine that was woken and, when `basis` is given, heard that ping at `now_ms`."""
    machine = Election(NodeName(me), CLOCK_MS, 4, Always(draw))
    machine.wake(now_ms)
    if basis:
        machine.heard(basis, now_ms)
    return machine


def sends_at(machine: Election, node_count: int = 4) -> int:
    """When the machine wants a ping sent, woken as it asks to be."""
    for _ in range(20):
        now_ms = machine.wake_ms()
        assert now_ms is not None
        if machine.advance(now_ms, node_count):
            return now_ms
    raise AssertionError("it never sends")


# -- the first clock


@pytest.mark.parametrize("name", [*NAMES, "off"])
@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_within_the_first_clock_nobody_sends(name: str, draw: float) -> None:
    assert sends_at(election(name, draw, basis=chain(*NAMES))) >= CLOCK_MS


def test_ping_that_follows_begins_the_interval_anew() -> None:
    machine = election("d", 0.0, basis=chain(*NAMES))
    machine.heard((link("b", 120), *chain(*NAMES)[:3]), 4000)
    assert sends_at(machine) >= 4000 + CLOCK_MS


# -- the second clock: by position


@pytest.mark.parametrize(("draw", "delay_ms"), [(0.0, 0), (0.5, 375), (0.999, 749)])
def test_last_node_of_the_chain_sends_in_the_first_15_percent(draw: float, delay_ms: int) -> None:
    assert sends_at(election("d", draw, basis=chain(*NAMES))) == CLOCK_MS + delay_ms


@pytest.mark.parametrize(("draw", "delay_ms"), [(0.0, 4500), (0.999, 4999)])
def test_sender_of_the_previous_ping_sends_in_the_last_10_percent(draw: float, delay_ms: int) -> None:
    assert sends_at(election("a", draw, basis=chain(*NAMES))) == CLOCK_MS + delay_ms


@pytest.mark.parametrize(
    ("name", "draw", "delay_ms"), [("c", 0.0, 750), ("c", 0.999, 2623), ("b", 0.0, 2625), ("b", 0.999, 4498)]
)
def test_nodes_between_send_evenly_between(name: str, draw: float, delay_ms: int) -> None:
    assert sends_at(election(name, draw, basis=chain(*NAMES))) == CLOCK_MS + delay_ms


@pytest.mark.parametrize("count", range(3, 9))
def test_bands_of_a_chain_touch_and_fill_the_interval(count: int) -> None:
    bands = [delay_band(place, count) for place in reversed(range(count))]
    edges = [0.0, *(high for _, high in bands)]
    assert [low for low, _ in bands] == pytest.approx(edges[:-1])
    assert edges[-1] == 1.0


def test_only_node_of_the_chain_sends_at_the_end() -> None:
    assert sends_at(election("a", 0.0, basis=chain("a"))) == CLOCK_MS + 4500


def test_position_is_the_first_occurrence() -> None:
    machine = election("a", 0.0, basis=chain("b", "a", "b", "a"))
    assert (machine.position(NodeName("b")), machine.position(NodeName("a"))) == (0, 1)


def test_last_is_the_last_distinct_node() -> None:
    assert sends_at(election("a", 0.0, basis=chain("b", "a", "b", "b"))) == CLOCK_MS


# -- off the chain


@pytest.mark.parametrize("node_count", [1, 4, 30])
def test_node_off_the_chain_sends_at_once_when_chance_has_it(node_count: int) -> None:
    draw = 1 / (10 * node_count) - 1e-9
    assert sends_at(election("z", draw, basis=chain(*NAMES)), node_count) == CLOCK_MS


@pytest.mark.parametrize("node_count", [1, 4, 30])
def test_node_off_the_chain_else_leaves_it_to_the_others(node_count: int) -> None:
    draw = 1 / (10 * node_count) + 1e-9
    assert sends_at(election("z", draw, basis=chain(*NAMES)), node_count) >= 2.5 * CLOCK_MS


# -- overdue


@pytest.mark.parametrize(("draw", "at_ms"), [(0.2, 13_000), (0.999, 14_997)])
def test_when_no_ping_came_each_node_sends_in_the_next_half_clock(draw: float, at_ms: int) -> None:
    assert sends_at(election("z", draw, basis=chain(*NAMES))) == at_ms


def test_node_that_was_paused_for_long_sends_once_it_goes_on() -> None:
    machine = election("a", basis=chain(*NAMES))
    assert machine.advance(10 * CLOCK_MS, 4)


def test_node_that_was_asked_for_its_ping_and_did_not_send_it_is_asked_again() -> None:
    machine = election("a", basis=chain(*NAMES))
    machine.advance(10 * CLOCK_MS, 4)
    assert machine.advance(10 * CLOCK_MS + 1, 4)


def test_node_whose_own_overdue_ping_went_out_rests() -> None:
    machine = election("a", basis=chain(*NAMES))
    machine.advance(10 * CLOCK_MS, 4)
    machine.sent(machine.next_chain(link("a", 200)), 10 * CLOCK_MS)
    assert machine.wake_ms() == 11 * CLOCK_MS


def test_sleeping_node_asks_for_nothing() -> None:
    machine = Election(NodeName("a"), CLOCK_MS, 4, Always(0.5))
    assert (machine.wake_ms(), machine.advance(99_999, 4)) == (None, False)


def test_node_put_to_sleep_forgets_the_chain() -> None:
    machine = election("a", basis=chain(*NAMES))
    machine.sleep(100)
    assert (machine.basis, machine.wake_ms()) == ((), None)


def test_own_ping_heads_the_next_chain_which_keeps_its_length() -> None:
    machine = election("z", basis=chain(*NAMES))
    assert [part.node for part in machine.next_chain(link("z", 120))] == ["z", "a", "b", "c"]


# -- the table


def _reach(phase: ElectionPhase) -> tuple[Election, int]:
    """A machine in that phase, and the time in it."""
    machine = Election(NodeName("z"), CLOCK_MS, 4, Always(0.999))
    if phase is ElectionPhase.ASLEEP:
        return machine, 0
    machine.wake(0)
    machine.heard(chain(*NAMES), 0)
    begins_ms = {ElectionPhase.WAITING: 0, ElectionPhase.THINKING: CLOCK_MS, ElectionPhase.OVERDUE: int(2.5 * CLOCK_MS)}
    now_ms = begins_ms[phase]
    machine.advance(now_ms, 4)
    return machine, now_ms


def _apply(machine: Election, cause: ElectionCause, now_ms: int) -> None:
    match cause:
        case ElectionCause.WOKEN:
            machine.wake(now_ms)
        case ElectionCause.PUT_TO_SLEEP:
            machine.sleep(now_ms)
        case ElectionCause.BASIS_CHANGED:
            machine.heard((link("b", 120), *chain(*NAMES)[:3]), now_ms)
        case ElectionCause.INTERVAL_OVER:
            machine.advance(machine.wake_ms() or 0, 4)


@pytest.mark.parametrize(("before", "cause"), list(TRANSITIONS), ids=lambda part: part.value)
def test_listed_transition_is_reached(before: ElectionPhase, cause: ElectionCause) -> None:
    machine, now_ms = _reach(before)
    assert machine.phase is before
    _apply(machine, cause, now_ms)
    assert machine.phase is TRANSITIONS[before, cause]


UNLISTED = [(phase, cause) for phase in ElectionPhase for cause in ElectionCause if (phase, cause) not in TRANSITIONS]


@pytest.mark.parametrize(
    ("before", "cause"),
    [pair for pair in UNLISTED if pair[1] is not ElectionCause.INTERVAL_OVER],
    ids=lambda part: part.value,
)
def test_transition_that_is_not_listed_changes_nothing(before: ElectionPhase, cause: ElectionCause) -> None:
    machine, now_ms = _reach(before)
    wake_ms = machine.wake_ms()
    _apply(machine, cause, now_ms)
    assert (machine.phase, machine.wake_ms()) == (before, wake_ms)
