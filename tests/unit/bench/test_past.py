"""What is printed of the past of a fleet."""

from __future__ import annotations

import pytest
from bench.past import Moment, Past, past_table


@pytest.mark.parametrize(("seconds", "verdict"), [(39.0, "ok, aim 20"), (41.0, "MISSED, aim 20")])
def test_moments_are_shown_and_the_last_one_is_held_against_the_aim(seconds: float, verdict: str) -> None:
    first = Moment("one network", {}, "aa", 1_000_000, 20_000, 5, 30.0)
    last = Moment("after a lost disk", {}, "bb", 2_000_000, 21_000, 7, seconds)
    lines = past_table(Past(1_999_000, 2_000_000, 12, 300.0, [10.0, 20.4], [first, last])).splitlines()
    assert lines[0] == "1,999,000 changes acknowledged by three nodes in 300 s, pauses included"
    assert lines[1] == "archived: 2,000,000 rows and 12 gaps, in 10 + 20 s"
    assert "after a lost disk 2,000,000 21,000 7 equal" in " ".join(lines[-2].split())
    assert lines[-1] == f"as of the last moment, with digest: {seconds / 2:.1f} s for a million: {verdict}"
