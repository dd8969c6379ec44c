"""Seeds of the simulator that are soon played: a failure is cut down in dozens of runs.

Knows: what a seed draws.  Does not run it.
"""

from __future__ import annotations

import functools

from distkv.sim.draft import draw
from distkv.sim.scenario import Fault


@functools.cache
def shortest_with(fault: Fault) -> int:
    """Of the first seeds, the one with the fewest actions of those that have such a fault at all."""
    drawn = {seed: draw(seed).planned for seed in range(20)}
    found = [seed for seed, planned in drawn.items() if any(one.fault is fault for one in planned)]
    return min(found, key=lambda seed: len(drawn[seed]))
