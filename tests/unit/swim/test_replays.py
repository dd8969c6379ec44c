"""Which counters of a sender are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.swim.replays import WINDOW, CounterWindow


def _taken(*counters: int) -> list[bool]:
    window = CounterWindow()
    found = [window.take(counter) for counter in counters]
    window.check()
    return found


def test_counter_is_taken_once() -> None:
    assert _taken(5, 5, 6, 5, 6) == [True, False, True, False, False]


def test_late_counter_is_taken_once() -> None:
    assert _taken(5, 3, 4, 3, 4) == [True, True, True, False, False]


@pytest.mark.parametrize(("behind", "is_taken"), [(WINDOW - 1, True), (WINDOW, False), (2 * WINDOW, False)])
def test_counter_is_taken_as_far_behind_as_the_window_is_wide(behind: int, is_taken: bool) -> None:
    assert _taken(5000, 5000 - behind) == [True, is_taken]


def test_window_follows_a_jump() -> None:
    assert _taken(1, 2**64 - 1, 1, 2**64 - 2, 2**64 - 1) == [True, True, False, True, False]


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
def test_each_counter_is_taken_once_in_any_order(counters: list[int]) -> None:
    window, taken, highest = CounterWindow(), set[int](), -1
    for counter in counters:
        assert window.take(counter) == (counter not in taken and counter > highest - WINDOW)
        window.check()
        taken.add(counter)
        highest = max(highest, counter)
