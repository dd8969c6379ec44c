"""How soon, and with how much traffic, two halves that wrote much hold the same after a cut.

Knows: what the nodes count.  Does not judge the time, which the machine may spoil: it is printed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.netns.cuts import Record
from tests.netns.lab import ASK_S, NAMES, Lab, open_lab
from tests.process.load import set_many

SIDES = ("ab", "cd")
WRITES = 5_000
"""Of each half."""
AGAIN_MAX = 0.05
PINGS = 3
"""Each makes nodes compare, if they have anything to compare."""


@pytest.mark.alone  # a link waits three seconds for a pull that stands still: beside other tests one may do so
def test_events_move_once_after_a_heal(tmp_path: Path, record_property: Record) -> None:
    with open_lab(tmp_path) as lab:
        lab.network.cut(*SIDES)
        for side in SIDES:
            for name in side:
                set_many(lab[name], {f"{name}.n{number}": "x" * 100 for number in range(WRITES // len(side))})
        lab.wait_apart(SIDES)
        for side in SIDES:
            lab.wait_equal(30, side)
        before = _counters(lab)
        healed_s = time.monotonic()
        lab.network.heal()
        lab.wait_together()
        record_property("agents together after", f"{time.monotonic() - healed_s:.1f} s")
        lab.wait_equal(60)
        record_property("equal after", f"{time.monotonic() - healed_s:.1f} s, 3 clocks being {3 * lab.clock_s:g} s")
        _wait_pings(lab)
        came = {key: _counters(lab)[key] - before[key] for key in before}
        ways = ("gossiped", "linked", "pulled")
        moved, again = (sum(came[f"events_{way}{word}"] for way in ways) for word in ("", "_again"))
        record_property("events moved", f"{moved}, of which twice {again} ({again / moved:.2%}): {came}")
        needed = len(NAMES) * WRITES
        assert needed <= moved <= (1 + AGAIN_MAX) * needed


def _counters(lab: Lab) -> Mapping[str, int]:
    """The sums over all nodes."""
    counters = [server.state()["counters"] for server in lab]
    return {key: sum(some[key] for some in counters) for key in counters[0] if key.startswith("events_")}


def _wait_pings(lab: Lab) -> None:
    """Until each node has heard some more pings."""
    end = {server.name: _heard(lab, server.name) + PINGS for server in lab}
    lab.wait(lambda: all(_heard(lab, name) >= end[name] for name in end), "nodes hear pings", 60, pause_s=ASK_S)


def _heard(lab: Lab, name: str) -> int:
    found = lab.transport(name)["heard_ping"]
    assert isinstance(found, int)
    return found
