"""Seeds of the simulator that have topics, with all faults.

Knows: which seeds are played here.  A soak plays others by `distkv sim --topics`.
"""

from __future__ import annotations

import pytest

from distkv.sim.draft import draw
from distkv.sim.run import Verdict, run
from distkv.sim.topics.draft import FIRST_SEED

PLAYED = (1, 2, 3, 4, 5, 6)
"""The first ones."""


@pytest.mark.parametrize("number", PLAYED)
def test_seed_with_topics_keeps_all_rules(number: int) -> None:
    assert run(draw(FIRST_SEED + number)).verdict is Verdict.PASSED
