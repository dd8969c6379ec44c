"""The ping sequence in a fleet: somebody always pings, a healed network agrees, and no split is seen where none was.

Knows: what is sent, and when.  Does not look into the machines.
"""

from __future__ import annotations

import itertools
import random

import pytest

from distkv.sim.network import NetworkFaults
from distkv.wire.message import Ping
from tests.fleet import Fleet, grown
from tests.profiles import seeds

pytestmark = pytest.mark.slow

CLOCK_MS = 5000
NAMES = [f"n{number}" for number in range(8)]


def _some_sides(rng: random.Random, names: list[str]) -> list[list[str]]:
    sides: list[list[str]] = [[] for _ in range(rng.randint(1, 3))]
    for name in names:
        rng.choice(sides).append(name)
    return [side for side in sides if side]


def _longest_silence_ms(fleet: Fleet, side: list[str], since_ms: int) -> int:
    times = [since_ms, *(at for at, name, _ in fleet.pings(since_ms=since_ms) if name in side), fleet.now_ms]
    return max(b - a for a, b in itertools.pairwise(times))


@pytest.mark.parametrize("seed", seeds(8))
def test_every_partition_sees_a_ping_in_every_three_clocks(seed: int) -> None:
    rng = random.Random(seed)
    names = NAMES[: rng.randint(1, 8)]
    faults = NetworkFaults(rng.choice([0.0, 0.1, 0.3]), duplication=0.1, delay_ms=(1, 900))
    fleet = grown(*names, seed=seed, faults=faults)
    sides = _some_sides(rng, names)
    fleet.partition(*sides)
    began_ms = fleet.now_ms
    fleet.run(12 * CLOCK_MS)
    assert max(_longest_silence_ms(fleet, side, began_ms) for side in sides) <= 3 * CLOCK_MS


@pytest.mark.parametrize("seed", seeds(4))
def test_after_a_heal_there_is_one_chain_within_three_clocks(seed: int) -> None:
    rng = random.Random(seed)
    names = NAMES[: rng.randint(2, 8)]
    fleet = grown(*names, seed=seed)
    fleet.partition(*_some_sides(rng, names))
    fleet.run(12 * CLOCK_MS)
    fleet.heal()
    fleet.run(3 * CLOCK_MS)
    healed_ms, alarms = fleet.now_ms, fleet.notes["split_healed"]
    fleet.run(12 * CLOCK_MS)
    chains = [ping.chain for _, _, ping in fleet.pings(since_ms=healed_ms)]
    assert all(set(one) & set(other) for one, other in itertools.pairwise(chains))
    assert fleet.notes["split_healed"] == alarms


def test_heal_of_a_long_partition_is_noticed() -> None:
    fleet = grown("a", "b", "c", "d")
    fleet.partition(["a", "b"], ["c", "d"])
    fleet.run(20 * CLOCK_MS)
    fleet.heal()
    fleet.run(3 * CLOCK_MS)
    assert fleet.notes["split_healed"] > 0


@pytest.mark.parametrize("seed", seeds(2))
def test_hours_without_a_partition_raise_no_alarm_however_late_and_often_pings_come(seed: int) -> None:
    fleet = grown(*NAMES[: 2 + seed], seed=seed, faults=NetworkFaults(duplication=0.2, delay_ms=(1, 2000)))
    fleet.run(2 * 3_600_000)
    assert fleet.notes["split_healed"] == 0


def test_hours_with_some_loss_raise_hardly_an_alarm() -> None:
    # Who misses four pings in a row has no link in common with the next and cannot know better: at 2 % loss, and two
    # or three nodes that are not in the chain, once in weeks.
    fleet = grown(*NAMES[:5], faults=NetworkFaults(0.02, delay_ms=(1, 200)))
    fleet.run(6 * 3_600_000)
    assert fleet.notes["split_healed"] == 0


def test_whole_network_sends_about_one_ping_per_round() -> None:
    fleet = grown(*NAMES)
    fleet.run(60_000)
    began_ms = fleet.now_ms
    fleet.run(100 * CLOCK_MS)
    assert 50 <= len(fleet.pings(since_ms=began_ms)) <= 100


def test_chain_varies_so_that_every_node_is_in_it_at_times() -> None:
    fleet = grown(*NAMES)
    fleet.run(2 * 3_600_000)
    assert {name for _, name, _ in fleet.pings()} == set(NAMES)


def test_node_without_data_sends_only_initial_pings() -> None:
    fleet = Fleet()
    for name in NAMES[:3]:
        fleet.start(name)
    fleet.run(20 * CLOCK_MS)
    pings = [message for _, _, message in fleet.sent]
    assert pings
    assert all(isinstance(ping, Ping) and len(ping.chain) == 1 and ping.chain[0].tick is None for ping in pings)


def test_node_without_transport_sends_nothing() -> None:
    fleet = grown("a", "b")
    fleet.transport("a", up=False)
    began_ms = fleet.now_ms
    fleet.run(20 * CLOCK_MS)
    assert {name for _, name, _ in fleet.pings(since_ms=began_ms)} == {"b"}
