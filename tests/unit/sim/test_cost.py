"""What fleets cost: the course that is measured, on small ones.

Knows: `distkv.sim.cost`. The sizes that the docs show are too large for a test; the course is the same.
"""

from __future__ import annotations

import pytest

from distkv.sim import cost
from distkv.sim.cost import CLOCK_MS, FIGURES, CostCounts, Course
from distkv.sim.rule import BrokenRuleError


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    return Course(8).figures()


def test_every_figure_is_measured(figures: dict[str, float]) -> None:
    assert list(figures) == list(FIGURES)


def test_same_size_gives_the_same_figures(figures: dict[str, float]) -> None:
    assert Course(8).figures() == figures


@pytest.mark.parametrize("key", ["rest_pings", "split_pings", "split_pings_other"])
def test_about_one_ping_is_sent_for_each_clock_and_partition(figures: dict[str, float], key: str) -> None:
    assert 0.5 <= figures[key] <= 1.2


def test_halves_that_meet_are_alike_within_three_clocks_and_fetch_little_twice(figures: dict[str, float]) -> None:
    assert 0 < figures["heal_clocks"] <= 3
    assert figures["heal_again_percent"] <= 5


def test_each_write_goes_once_to_each_node_by_links(figures: dict[str, float]) -> None:
    assert figures["writes_frames"] <= 8
    assert figures["writes_steps"] == figures["writes_steps_max"] == 1
    assert figures["writes_again_percent"] == 0
    assert figures["writes_in_vain_percent"] <= 2
    assert figures["rest_follows"] == figures["rest_followers"] == 7


def test_node_begins_few_follows(figures: dict[str, float]) -> None:
    assert 0 < figures["start_follows"] <= 7
    assert 1 <= figures["join_follows"] <= 7  # the start is not over when the newcomer comes


def test_bytes_of_links_are_counted(figures: dict[str, float]) -> None:
    assert figures["rest_links_bytes"] > 0
    assert 10 <= figures["writes_links_kib"] <= 40  # 100 bytes a hundred times, and what goes with them
    assert figures["writes_kib"] < figures["writes_links_kib"]
    assert 0 < figures["heal_linked_percent"] <= 100


def test_gossip_is_counted_with_the_repeats_of_serf(figures: dict[str, float]) -> None:
    assert figures["rest_sent_bytes"] == 4 * figures["rest_heard_bytes"] > 0


def test_silence_is_the_longest_time_between_two_pings() -> None:
    assert CostCounts(pings=[(0, "a"), (CLOCK_MS, "b"), (3 * CLOCK_MS, "a")]).silence_ms() == 2 * CLOCK_MS
    assert CostCounts().silence_ms() == 0


def test_fleet_that_does_not_agree_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "PATIENCE_MS", -1)
    with pytest.raises(BrokenRuleError, match="n0 is recovering"):
        Course(2).figures()
