"""The tables of what tests cost."""

from __future__ import annotations

from testing.times import Cost, FileCost, lines_of_parts

COSTS = [
    Cost("lint", "ruff check .", 1.4, 2.0, []),
    Cost("fast", "pytest a", 100.0, 190.0, [FileCost("a.py", 1000, 90.0, 180.0)]),
    Cost("fast", "pytest b", 50.6, 90.0, [FileCost("b.py", 234, 40.0, 80.0)]),
]


def test_commands_of_a_part_are_one_row_and_the_last_row_is_the_sum() -> None:
    assert list(lines_of_parts(COSTS, None)) == [
        "====  =====  =======  ============",
        "part  tests  seconds  of processor",
        "====  =====  =======  ============",
        "lint  0      1        2",
        "fast  1,234  151      280",
        "all   1,234  152      282",
        "====  =====  =======  ============",
    ]


def test_parts_that_ran_at_once_took_less_than_their_sum() -> None:
    assert list(lines_of_parts(COSTS, 110.4))[-2] == "all   1,234  110      282"
