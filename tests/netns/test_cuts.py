"""Four nodes whose network is cut while all of them are written to, and healed: nothing is lost and all are equal.

Knows: which packets are dropped, and for how long.  Does not know how nodes find out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.netns.cuts import Record, assert_deaf, cut_and_healed
from tests.netns.lab import NAMES, STOCK, SUITED, open_lab
from tests.netns.promises import Written, assert_kept

SHORT_S = 3.0
"""Two agents that lost two call them failed after some 11 s."""
ATTEMPTS = 5
"""So often that cut is played, if an agent notices it."""


@pytest.mark.parametrize(
    ("sides", "config"), [(("ab", "cd"), STOCK), (("abc", "d"), SUITED)], ids=["2|2-stock", "3|1"]
)
def test_both_sides_of_a_cut_keep_what_they_wrote(
    tmp_path: Path, record_property: Record, sides: tuple[str, str], config: Mapping[str, object]
) -> None:
    written = Written()
    with open_lab(tmp_path, config=config) as lab:
        with cut_and_healed(lab, written, sides, record_property):
            pass
        assert_kept(lab, written)


def test_side_that_is_heard_and_hears_nothing_keeps_what_it_wrote(tmp_path: Path, record_property: Record) -> None:
    written = Written()
    with open_lab(tmp_path) as lab:
        with cut_and_healed(lab, written, ("ab", "cd"), record_property, deaf=("ab",)):
            pass
        assert_kept(lab, written)


def test_cut_that_no_agent_notices_costs_nothing(tmp_path: Path, record_property: Record) -> None:
    """No agent tells of it, so nobody learns from the members that there was one.

    On a busy machine what is done during the cut takes longer, and an agent notices: the case of the tests above.
    """
    for attempt in range(ATTEMPTS):
        if not _is_cut_noticed(tmp_path / str(attempt), record_property):
            return
    pytest.fail(f"an agent noticed each of {ATTEMPTS} cuts of {SHORT_S:g} s")


def _is_cut_noticed(directory: Path, record_property: Record) -> bool:
    """Play a short cut, which costs nothing either way; whether an agent called another one failed."""
    written = Written()
    with open_lab(directory) as lab:
        with written.everywhere(lab, NAMES):
            began_s = time.monotonic()
            lab.network.cut("ab", "cd")
            written.contest(lab, "ac")
            lab.wait(lambda: time.monotonic() - began_s > SHORT_S, "the cut is long enough", 10)
            assert_deaf(lab, written, "ab")
            assert_deaf(lab, written, "cd")
            lab.network.heal()
            healed_s = time.monotonic()
        lab.wait_equal(60)
        record_property("equal after", f"{time.monotonic() - healed_s:.1f} s")
        assert_kept(lab, written)
        return any(lab.failures_seen(name) for name in NAMES)
