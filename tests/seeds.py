"""Seeds of the simulator that are soon played: a failure is cut down in dozens of runs.

Knows: what a seed draws.  Does not run it.
"""

from __future__ import annotations

import functools

from distkv.sim.draft import draw
from distkv.sim.scenario import Verb


@functools.cache
def shortest_with(verb: Verb) -> int:
    """Of the first seeds, the one with the fewest actions of those that have such an action at all."""
    scenarios = {seed: draw(seed).actions for seed in range(20)}
    found = [seed for seed, actions in scenarios.items() if any(action.verb is verb for action in actions)]
    return min(found, key=lambda seed: len(scenarios[seed]))
