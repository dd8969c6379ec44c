"""What is shown of tokens that are kept, from figures that are made up.

Knows: what is aimed at.  Starts nothing.
"""

from __future__ import annotations

import attrs
import pytest
from bench.keeping import AIM_SESSIONS, Keeping, keeping_table

FOUND = Keeping(AIM_SESSIONS, 40_000_000, 0.01, 100_000_000, 0.11, 399.5, 8.25)


def test_table_has_what_tokens_cost_beside_what_there_was_before() -> None:
    assert keeping_table(FOUND).splitlines() == [
        "                MB  of a processor  keep-alives/s",
        "-----------  -----  --------------  -------------",
        "idle          40.0           1.0 %",
        "with tokens  100.0          11.0 %            400",
        "more          60.0          10.0 %",
        "all were granted in 8.2 s",
        "resident <= 60 MB more: met; keep-alives <= 10.0 % of a processor: met",
    ]


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        ({"held_bytes": 100_000_001}, ["missed", "met"]),
        ({"busy": 0.111}, ["met", "missed"]),
        ({"idle_bytes": 39_999_999, "idle_busy": 0.0}, ["missed", "missed"]),
    ],
)
def test_more_than_is_aimed_at_is_missed(change: dict[str, float], verdicts: list[str]) -> None:
    last = keeping_table(attrs.evolve(FOUND, **change)).splitlines()[-1]
    assert [part.rpartition(": ")[2] for part in last.split(";")] == verdicts


def test_fewer_sessions_have_no_aim() -> None:
    text = keeping_table(attrs.evolve(FOUND, sessions=AIM_SESSIONS - 1))
    assert "met" not in text
    assert "missed" not in text
