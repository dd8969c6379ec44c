"""Some seeds of the simulator, so that every change of the core meets faults at once; `distkv sim` runs more.

Knows: which faults today's core survives (docs/simulation).
"""

from __future__ import annotations

import pytest

from distkv.sim.draft import draw
from distkv.sim.run import Verdict, run
from distkv.sim.scenario import OFF, Fault

SEEDS = range(16)
BURNING = [seed for seed in range(24) if draw(seed, OFF - {Fault.BURN}) != draw(seed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_passes(seed: int) -> None:
    outcome = run(draw(seed))
    assert outcome.verdict is Verdict.PASSED, f"{outcome.what}; distkv sim --seed {seed} shows more"


@pytest.mark.parametrize("seed", BURNING)
def test_after_disks_burned_all_hold_the_same_or_the_alarm_is_raised(seed: int) -> None:
    # What an overwriter burned with may have closed what others still show: only the digest can tell.
    outcome = run(draw(seed, OFF - {Fault.BURN}))
    assert outcome.verdict is Verdict.PASSED or "digest_differs" in outcome.reached, outcome.what
