"""Seeds of the simulator that have the activity network, with all faults.

Knows: which seeds are played here.  A soak plays others by `distkv sim --activity`.
"""

from __future__ import annotations

import pytest

from distkv.sim.activity.draft import FIRST_SEED
from distkv.sim.draft import draw
from distkv.sim.run import Verdict, run


@pytest.mark.parametrize("number", [1, 6, 39, 42])
def test_seed_with_activity_keeps_all_rules(number: int) -> None:
    """In 1, 39 and 42 nodes that have no edge, or began a moment ago, have something to echo."""
    assert run(draw(FIRST_SEED + number)).verdict is Verdict.PASSED
