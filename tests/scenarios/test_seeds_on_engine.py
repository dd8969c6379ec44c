"""Seeds of the simulator on whole servers: what holds of simulated ones holds of these.

Knows: how many seeds there is time for.  Does not know what is done to servers (`seeds_on_engine`).
"""

from __future__ import annotations

import pytest
import trio

from distkv.sim.draft import draw
from tests.node.nodes import run
from tests.profiles import seeds
from tests.scenarios.seeds_on_engine import SeedServers, Seen

COUNT = 24
EACH = 4
WRITES_MIN = 20
SEEDS = seeds(COUNT)
GROUPS = [SEEDS[at : at + EACH] for at in range(0, len(SEEDS), EACH)]
"""The seeds of each test."""


def play(seed: int) -> Seen:
    """Play one seed; what it saw."""
    found: list[Seen] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            servers = SeedServers(nursery, draw(seed))
            await servers.run()
            found.append(servers.seen)
            nursery.cancel_scope.cancel()

    run(main)
    return found[0]


@pytest.mark.parametrize(
    "group",
    [pytest.param(group, marks=pytest.mark.slow if at else (), id=str(group[0])) for at, group in enumerate(GROUPS)],
)
def test_seeds_pass_on_whole_servers(group: list[int]) -> None:
    seen = [play(seed) for seed in group]
    assert sum(one.writes for one in seen) >= WRITES_MIN * EACH


@pytest.mark.slow
def test_outboxes_run_over_in_some_seeds() -> None:
    assert sum(play(seed).dropped for seed in (17, 19)) > 0
