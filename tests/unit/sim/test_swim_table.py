"""Figures of small fleets of bare membership machines.

Knows: that each figure is taken, and is in its range.  Does not judge what is good enough.
"""

from __future__ import annotations

import pytest

from distkv.sim.swim import figures
from distkv.sim.swim.figures import deaths_ms, false_deaths, formed, heal_ms, hearings_ms, rest_bytes_per_s
from distkv.sim.swim.table import COLUMNS, Extent, quantile, rows


def test_table_has_a_line_for_each_figure() -> None:
    found = [*rows(5, 0.01, Extent(3, 1, 2, 2_000, 60_000, 20_000), 1)]
    assert {len(row) for row in found} == {len(COLUMNS)}
    assert [row[2] for row in found] == [
        "sent by a node at rest",
        "a node has heard a message",
        "all know of a death",
        "all know of three deaths at once",
        "all know who came back",
        "live nodes told dead",
        "whole after a cut into halves",
    ]


def test_what_is_not_asked_for_is_not_measured() -> None:
    assert [*rows(3, 0.0, Extent(0, 0, 0, 0, 0), 1)] == []


def test_figures_of_a_fleet_are_in_their_ranges() -> None:
    fleet = formed(6, 0.0, 1)
    assert 100 < rest_bytes_per_s(fleet, 10_000) < 1024
    assert len(hearings_ms(fleet, 2)) == 10
    assert all(2_000 < took_ms < 10_000 for took_ms in deaths_ms(fleet, 3))
    assert false_deaths(fleet, 60_000) == 0
    assert fleet.views.deaths_told == 0
    assert heal_ms(fleet, 30_000) < 15_000
    assert fleet.views.deaths_told > 0


def test_the_same_seed_gives_the_same_figures() -> None:
    assert [*rows(4, 0.1, Extent(1, 1, 1, 1_000, 0), 3)] == [*rows(4, 0.1, Extent(1, 1, 1, 1_000, 0), 3)]


def test_quantile_is_one_of_the_times() -> None:
    assert [quantile([3_000, 1_000, 2_000], part) for part in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]


def test_fleet_that_does_not_form_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "WHOLE_MS_MAX", 10)
    with pytest.raises(TimeoutError, match="40 nodes do not find each other"):
        formed(40, 0.0, 1)
