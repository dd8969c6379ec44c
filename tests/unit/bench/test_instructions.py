"""What fits several counts of instructions best."""

from __future__ import annotations

import pytest
from bench.instructions import Counted, each_of


def counted(operations: int, seconds: float, *, noise: int = 0) -> Counted:
    """With a thousand instructions for each operation, and a million for each second."""
    return Counted(operations, seconds, operations * 1_000 + round(seconds * 1_000_000) + noise)


def test_what_an_operation_costs_does_not_depend_on_how_long_it_took() -> None:
    counts = [counted(0, 4.0), counted(200, 3.0), counted(600, 31.0), counted(200, 11.0), counted(600, 8.0)]
    assert each_of(counts) == pytest.approx(1_000)


def test_what_differs_from_count_to_count_is_evened_out() -> None:
    counts = [counted(0, 4.0), counted(600, 9.0, noise=5_000), counted(0, 4.0), counted(600, 9.0, noise=-5_000)]
    assert each_of(counts) == pytest.approx(1_000)
