"""Seeds of the simulator on whole servers: what holds of simulated ones holds of these.

Knows: how many seeds there is time for.  Does not know what is done to servers (`seeds_on_engine`).
"""

from __future__ import annotations

import pytest
import trio

from distkv.sim.draft import draw
from tests.node.nodes import run
from tests.scenarios.seeds_on_engine import SeedServers, Seen

GROUPS = 30
EACH = 4
WRITES_MIN = 20


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


@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, GROUPS))])
def test_seeds_pass_on_whole_servers(group: int) -> None:
    seen = [play(seed) for seed in range(group * EACH, (group + 1) * EACH)]
    assert sum(one.writes for one in seen) >= WRITES_MIN * EACH


@pytest.mark.slow
def test_outboxes_run_over_in_some_seeds() -> None:
    assert sum(play(seed).dropped for seed in (17, 19)) > 0
