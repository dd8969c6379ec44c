"""How soon events are in a table, from when commits were seen and writes answered; and what is printed of it."""

from __future__ import annotations

import pytest
from bench.continuous import Commit, Delays, delays_of, delays_table

from distkv.model.event import NodeName, Tick
from distkv.model.ranges import Ranges

A = NodeName("a")


def test_event_counts_from_its_answer_to_the_first_commit_that_has_it() -> None:
    commits = [Commit(10.0, {A: Ranges([(1, 3)])}), Commit(15.0, {A: Ranges([(1, 5)])})]
    answered = {(A, Tick(1)): 2.0, (A, Tick(2)): 8.0, (A, Tick(3)): 9.0, (A, Tick(9)): 9.0}
    assert list(delays_of(commits, answered, 5.0)) == [2.0, 6.0]


@pytest.mark.parametrize(("max_s", "verdict"), [(10.0, "ok, aim 10 s"), (10.1, "MISSED, aim 10 s")])
def test_longest_is_held_against_the_aim(max_s: float, verdict: str) -> None:
    lines = delays_table(Delays(1000, 1999.7, 3.0, 5.0, max_s)).splitlines()
    assert lines[-2].split() == ["1,000", "2,000", "3.0", "5.0", f"{max_s:.1f}"]
    assert lines[-1].endswith(verdict)
