"""Clocks of hosts: rates, and what a moment is called on each.

Knows: `distkv.sim.clock`.
"""

from __future__ import annotations

import pytest

from distkv.sim.clock import WALL, HostClock


@pytest.mark.parametrize("rate", [0.95, 0.98, 1.0, 1.001, 1.05])
@pytest.mark.parametrize("shown_ms", [1, 999, 5000, 123_457])
def test_clock_shows_what_it_was_asked_to_wait_for_and_not_a_moment_sooner(rate: float, shown_ms: int) -> None:
    clock = HostClock(rate)
    at_ms = clock.when(shown_ms, 0)
    assert clock.monotonic_ms(at_ms) >= shown_ms > clock.monotonic_ms(at_ms - 1)


def test_time_that_has_come_already_is_now() -> None:
    assert HostClock(0.98).when(10, 5000) == 5000


def test_clock_that_changes_its_rate_does_not_jump() -> None:
    clock = HostClock(1.05)
    before = clock.monotonic_ms(60_000)
    clock.drift(0.95, 60_000)
    assert (clock.monotonic_ms(60_000), clock.monotonic_ms(61_000)) == (before, before + 950)


def test_wall_clock_is_off_by_what_it_was_told() -> None:
    assert HostClock(wall_off_s=-3600.0).wall(1500) == WALL + 1.5 - 3600.0
