"""What the load generator answers, as Python reads it.

Knows: its line of JSON.  Does not run it: tests/process/test_bench_load.py does.
"""

from __future__ import annotations

import json

import attrs
import pytest
from bench.load import Load, LoadError, read_load

GOOD = Load(10, 0.5, 1, 2, 12, 0, 0, 5, 0.1, "")


def test_answer_is_read_whole() -> None:
    assert read_load(json.dumps(attrs.asdict(GOOD))) == GOOD


@pytest.mark.parametrize("line", ["", "{}", "[]", "7", '{"ops": 1}', "load: no answer"])
def test_nonsense_is_refused(line: str) -> None:
    with pytest.raises(LoadError):
        read_load(line)


def test_rate_is_per_second() -> None:
    assert GOOD.rate == 20.0


def test_good_run_has_no_failure() -> None:
    assert GOOD.failure == ""


@pytest.mark.parametrize("change", [{"errors": 1}, {"wrong": 1}, {"ops": 0}])
def test_run_is_not_used_with(change: dict[str, int]) -> None:
    assert attrs.evolve(GOOD, **change).failure
